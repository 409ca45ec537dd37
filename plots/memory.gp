# SPDX-License-Identifier: GPL-3.0-or-later
# memory.gp - memory over a step, stacked by kind, of the first and the last of four stages.
# Data: plots/memory.sh >plots/memory.tsv
set terminal svg size 460,440 font "sans,12" background "white"
set output "memory.svg"
set datafile separator "\t"
file = "memory.tsv"
set border 3
set tics nomirror out
set xrange [0:5]
set yrange [0:60]
set ytics 20
set grid ytics lc rgb "#dddddd" front
kinds = '"weights" "gradients" "optimizer" "activations" "logits" "buffers" "reserved"'
colours = "#0072b2 #56b4e9 #009e73 #e69f00 #cc79a7 #999999"
# the upper edge of kind k, the lower one of k + 1
upto(k) = sum [i = 3:2 + k] column(i)
set multiplot layout 2,1 margins 0.115,0.975,0.13,0.86 spacing 0.07
set label 1 "GiB a GPU" at screen 0.025,0.5 rotate by 90 center
unset key
do for [k = 1:7] {
  x = 0.10 + 0.225 * ((k - 1) % 4)
  y = 0.955 - 0.05 * ((k - 1) / 4)
  if (k < 7) {
    set object k rect from screen x,y - 0.014 to screen x + 0.03,y + 0.014 fc rgb word(colours, k) fs solid noborder
  } else {
    set arrow 1 from screen x,y to screen x + 0.03,y nohead lw 1.5 lc rgb "black"
  }
  set label 10 + k word(kinds, k) at screen x + 0.04,y font "sans,11"
}
set format x ""
set label 2 "stage 0" at graph 0.985,0.92 right
plot for [k = 6:1:-1] file index 0 using 2:(upto(k)) with filledcurves x1 lc rgb word(colours, k), \
     file index 0 using 2:9 with steps lw 1.5 lc rgb "black"
unset label 1
unset arrow 1
do for [k = 1:7] { unset label 10 + k; unset object k }
set format x "%g"
set xlabel "time, in s" offset 0,0.5
set label 2 "stage 3"
plot for [k = 6:1:-1] file index 1 using 2:(upto(k)) with filledcurves x1 lc rgb word(colours, k), \
     file index 1 using 2:9 with steps lw 1.5 lc rgb "black"
unset multiplot
