# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-megatron.gp - share of peak from 1.7B on 32 GPUs to 1T on 3,072, measured and forecast.
# Data: plots/lecture-megatron.sh >plots/lecture-megatron.tsv
set terminal svg size 760,380 font "sans,12" background "white"
set output "lecture-megatron.svg"
set datafile separator "\t"
set title "Megatron on A100, 1.7B to 1T (arXiv 2104.04473, table 1): share of peak, recompute counted"
set xlabel "model, GPUs" offset 0,-0.5
set bmargin 5
set ylabel "% of 312 TFLOP/s"
set yrange [0:65]
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border rgb "white"
set boxwidth 0.95
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set xtics scale 0
set key top left
plot "lecture-megatron.tsv" using 3:xtic(sprintf("%s\n%s", strcol(1), strcol(2))) title "measured" lc rgb "#999999", \
     "" using 4 title "forecast" lc rgb "#0072b2"
