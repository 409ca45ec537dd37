# SPDX-License-Identifier: GPL-3.0-or-later
# gantt.gp - passes of eight micro-batches through four stages, by schedule, on one axis of time.
# Data: plots/gantt.sh >plots/gantt.tsv
set terminal svg size 720,780 font "sans,12" background "white"
set output "gantt.svg"
set datafile separator "\t"
file = "gantt.tsv"
names = '"GPipe" "1F1B" "interleaved 1F1B, 2 chunks" "ZB-H1" "ZB-H2" "ZB-V" "DualPipe"'
array step[7]
array bubble[7]
array peak[7]
do for [i = 1:7] {
  stats file index 0 every ::(i - 1)::(i - 1) using 2 name "row" nooutput
  step[i] = row_min
  stats file index 0 every ::(i - 1)::(i - 1) using 3 name "row" nooutput
  bubble[i] = row_min
  stats file index 0 every ::(i - 1)::(i - 1) using 4 name "row" nooutput
  peak[i] = row_min
}

set xrange [0:4100]
set yrange [3.5:-0.5]
unset key
set border 0
set tics scale 0
set ytics ("0" 0, "1" 1, "2" 2, "3" 3) font "sans,10" offset 0.5
set format x ""
set style fill solid 1.0 border rgb "white"

# Okabe and Ito's colours; the second chunk lighter, and dark on light numbers.
first(p) = p eq "F" ? 0x0072b2 : p eq "B" ? 0xd55e00 : 0x009e73
second(p) = p eq "F" ? 0x9cc9e6 : p eq "B" ? 0xf3b98c : 0x93d6c0
colour(p, c) = c == 0 ? first(p) : second(p)
ink(c) = c == 0 ? 0xffffff : 0x000000

set multiplot layout 7,1 margins 0.055,0.985,0.068,0.925 spacing 0.032
# the legend, above all
xs = "0.055 0.205 0.370"
do for [i = 1:3] {
  at = real(word(xs, i))
  set object i rect from screen at,0.966 to screen at + 0.020,0.982 fc rgb (word("0x0072b2 0xd55e00 0x009e73", i) + 0) fs solid noborder
  set label i word('"forward" "backward" "weight gradient"', i) at screen at + 0.028,0.974
}
set object 4 rect from screen 0.58,0.966 to screen 0.593,0.982 fc rgb 0x9cc9e6 fs solid noborder
set object 5 rect from screen 0.593,0.966 to screen 0.606,0.982 fc rgb 0xf3b98c fs solid noborder
set object 6 rect from screen 0.606,0.966 to screen 0.619,0.982 fc rgb 0x93d6c0 fs solid noborder
set label 4 "the same, second chunk or direction" at screen 0.627,0.974
set label 5 "pipeline stage" at screen 0.014,0.5 rotate by 90 center
do for [i = 1:7] {
  set label 10 word(names, i) at graph 0,1.10 font "sans,12"
  set label 11 sprintf("%.2f s, bubble %.1f %%, peak %.0f GiB", step[i] / 1000, bubble[i], peak[i]) at graph 1,1.10 right font "sans,11" tc rgb "#444444"
  set object 10 rect from 0,-0.46 to step[i],3.46 fc rgb "#ececec" fs solid noborder behind
  if (i == 7) {
    set format x "%g"
    set xtics 0,500 scale 0.6 out nomirror font "sans,11" offset 0,0.3
    set xlabel "time, in ms" offset 0,0.7
  }
  plot file index i using (($5 + $6) / 2):1:5:6:($1 - 0.44):($1 + 0.44):(colour(strcol(2), $4)) with boxxyerror lc rgb variable, \
       "" index i using (($5 + $6) / 2):1:3:(ink($4)) with labels font (i == 3 || i == 6 ? "sans,8" : "sans,9") tc rgb variable
  if (i == 1) {
    do for [k = 1:6] { unset object k }
    do for [k = 1:5] { unset label k }
  }
}
unset multiplot
