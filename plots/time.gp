# SPDX-License-Identifier: GPL-3.0-or-later
# time.gp - where the time of one step goes, a bar for each of ten shipped plans.
# Data: plots/time.sh >plots/time.tsv
set terminal svg size 720,400 font "sans,12" background "white"
set output "time.svg"
set datafile separator "\t"
file = "time.tsv"
parts = '"forward" "backward" "recompute" "optimizer" "exposed TP" "exposed CP, EP" "exposed PP" "exposed DP" "bubble" "other"'
colours = "#0072b2 #56b4e9 #cceaf9 #000000 #d55e00 #e69f00 #f0e442 #cc79a7 #b8b8b8 #009e73"
set border 1
set tics nomirror out
set ytics scale 0
set xlabel "% of the step" offset 0,0.6
set lmargin at screen 0.265
set rmargin at screen 0.80
set tmargin at screen 0.815
set bmargin at screen 0.135
unset key
do for [k = 1:10] {
  x = 0.03 + 0.195 * ((k - 1) % 5)
  y = 0.965 - 0.06 * ((k - 1) / 5)
  set object k rect from screen x,y - 0.016 to screen x + 0.02,y + 0.016 fc rgb word(colours, k) fs solid noborder
  set label k word(parts, k) at screen x + 0.028,y font "sans,11"
}
set label 21 "GPUs" at screen 0.872,0.835 right font "sans,10" tc rgb "#444444"
set label 22 "step, s" at screen 0.935,0.835 right font "sans,10" tc rgb "#444444"
set label 23 "MFU" at screen 0.988,0.835 right font "sans,10" tc rgb "#444444"
upto(k) = k == 0 ? 0 : sum [i = 6:5 + k] column(i)
# numbers at the right of each bar
do for [i = 0:9] {
  stats file every ::i::i using 3 name "gpus" nooutput
  stats file every ::i::i using 4 name "step" nooutput
  stats file every ::i::i using 5 name "mfu" nooutput
  set label 30 + i sprintf("%.0f", gpus_min) at screen 0.872,first i right font "sans,11"
  set label 50 + i sprintf("%.1f", step_min) at screen 0.935,first i right font "sans,11"
  set label 70 + i sprintf("%.0f %%", mfu_min) at screen 0.988,first i right font "sans,11"
}
set xrange [0:100]
set yrange [9.6:-0.6]
set style fill solid 1.0 noborder
plot for [k = 1:10] file using (0):0:(upto(k - 1)):(upto(k)):($0 - 0.34):($0 + 0.34):ytic(2) with boxxyerror lc rgb word(colours, k)
