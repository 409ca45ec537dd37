# SPDX-License-Identifier: GPL-3.0-or-later
# calibration.gp - how far measured kernels are from the formula, and from what their neighbours predict (each held out).
# Data: plots/calibration.sh >plots/calibration.tsv
set terminal svg size 860,640 font "sans,12" background "white"
set output "calibration.svg"
set datafile separator "\t"
what = system("sed -n '1s/^# //p' calibration.tsv | cut -c1-100")
set xlabel "measured time, in microseconds"
set logscale x
set logscale y 2
set xrange [1:1e5]
set yrange [0.47:2.13]
set ytics ("1/2" 0.5, "0.7" 0.7, "0.85" 0.85, "1" 1, "1.2" 1.2, "1.5" 1.5, "2" 2)
set format x "10^{%L}"
set grid ytics lc rgb "#e4e4e4"
set border 3
set tics nomirror
set key at graph 1.03, graph 0.9 left top reverse Left samplen 1 spacing 1.2

# What lies off the picture stands at its edge.
edge(y) = y < 0.5 ? 0.5 : y > 2 ? 2 : y
of(name, at) = strcol(1) eq name ? edge(column(at) / column(6)) : NaN
file = "calibration.tsv"
form = 7
held_out = 8

set multiplot layout 3,1 margins 0.09,0.82,0.08,0.90 spacing 0.035
set label 1 "Predicted over measured time of kernels: dots from their neighbours, themselves held out; rings by the formula alone" \
  at screen 0.015,0.972 font "sans,13"
set label 2 what at screen 0.015,0.935 noenhanced textcolor rgb "#555555"
unset xlabel
set format x ""
set ylabel "products" offset 1
plot file skip 2 using 6:(of("gemm", form)) with points pt 6 ps 0.55 lc rgb "#9dbfd9" title "formula", \
     "" skip 2 using 6:(of("batched-gemm", form)) with points pt 6 ps 0.55 lc rgb "#e0b79b" notitle, \
     "" skip 2 using 6:(of("grouped-gemm", form)) with points pt 6 ps 0.55 lc rgb "#9ccbbb" notitle, \
     1 with lines lc rgb "#555555" notitle, \
     "" skip 2 using 6:(of("gemm", held_out)) with points pt 7 ps 0.4 lc rgb "#0072b2" title "plain", \
     "" skip 2 using 6:(of("batched-gemm", held_out)) with points pt 7 ps 0.4 lc rgb "#d55e00" title "batched", \
     "" skip 2 using 6:(of("grouped-gemm", held_out)) with points pt 7 ps 0.4 lc rgb "#009e73" title "grouped"
unset label
set ylabel "attention"
plot file skip 2 using 6:(of("attention-forward", form)) with points pt 6 ps 0.55 lc rgb "#9dbfd9" title "formula", \
     "" skip 2 using 6:(of("attention-backward", form)) with points pt 6 ps 0.55 lc rgb "#e0b79b" notitle, \
     1 with lines lc rgb "#555555" notitle, \
     "" skip 2 using 6:(of("attention-forward", held_out)) with points pt 7 ps 0.4 lc rgb "#0072b2" title "forward", \
     "" skip 2 using 6:(of("attention-backward", held_out)) with points pt 7 ps 0.4 lc rgb "#d55e00" title "backward"
set ylabel "memory-bound"
set xlabel "measured time, in microseconds"
set format x "10^{%L}"
plot file skip 2 using 6:(of("elementwise", form)) with points pt 6 ps 0.55 lc rgb "#9dbfd9" title "formula", \
     "" skip 2 using 6:(of("reduction", form)) with points pt 6 ps 0.55 lc rgb "#e0b79b" notitle, \
     "" skip 2 using 6:(of("optimizer", form)) with points pt 6 ps 0.55 lc rgb "#9ccbbb" notitle, \
     1 with lines lc rgb "#555555" notitle, \
     "" skip 2 using 6:(of("elementwise", held_out)) with points pt 7 ps 0.4 lc rgb "#0072b2" title "elementwise", \
     "" skip 2 using 6:(of("reduction", held_out)) with points pt 7 ps 0.4 lc rgb "#d55e00" title "norms, softmax", \
     "" skip 2 using 6:(of("optimizer", held_out)) with points pt 7 ps 0.4 lc rgb "#009e73" title "optimizer"
unset multiplot
