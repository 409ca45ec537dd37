# SPDX-License-Identifier: GPL-3.0-or-later
# kernels.gp - predicted over measured time of published kernels, by measured time: median, and where eight of ten lie.
# Data: plots/kernels.sh >plots/kernels.tsv
set terminal svg size 860,560 font "sans,12" background "white"
set output "kernels.svg"
set datafile separator "\t"
set logscale x
set logscale y
set xrange [0.4:3e5]
set yrange [0.78:1.28]
set ytics ("-20 %%" 0.8, "-10 %%" 0.9, "0" 1, "+10 %%" 1.1, "+20 %%" 1.2)
set grid ytics lc rgb "#e4e4e4"
set border 3
set tics nomirror
unset key
set multiplot layout 3,1 margins 0.10,0.97,0.10,0.89 spacing 0.035
set label 1 "Published kernels on 14 GPUs, each predicted without its own shape: median, and where eight of ten lie" at screen 0.015,0.962 font "sans,13"
set format x ""
classes = "gemm attention_forward memory"
titles = '"matrix products" "attention, forward" "memory-bound"'
colours = "#0072b2 #d55e00 #009e73"
do for [i=1:3] {
  class = word(classes, i)
  is(c, y) = strcol(c) eq class ? column(y) : NaN
  set label 2 word(titles, i) at graph 0.012,0.90 textcolor rgb word(colours, i)
  if (i == 2) { set ylabel "predicted too short          predicted too long" offset 0.5 } else { set ylabel " " offset 0.5 }
  if (i == 3) { set format x "10^{%L}"; set xlabel "measured time, in microseconds" }
  plot 1 with lines lc rgb "#555555", \
       "kernels.tsv" using 2:(is(1, 3)):(is(1, 5)) with filledcurves fs transparent solid 0.22 noborder lc rgb word(colours, i), \
       "" using 2:(is(1, 4)) with linespoints pt 7 ps 0.45 lw 1.6 lc rgb word(colours, i)
  unset label 1
}
unset multiplot
