# SPDX-License-Identifier: GPL-3.0-or-later
# megatron.gp - measured and forecast step times side by side, the signed error above each pair.
# Data: plots/megatron.sh >plots/megatron.tsv
set terminal svg size 760,380 font "sans,12" background "white"
set output "megatron.svg"
set datafile separator "\t"
set title "Step time of Megatron on A100: measured (arXiv 2205.05198, table 5) and forecast, one set of A100 numbers"
set ylabel "seconds a step"
set logscale y
set yrange [0.8:300]
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border rgb "white"
set boxwidth 0.95
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set xtics scale 0
set key top left
plot "megatron.tsv" using 3:xtic(sprintf("%s %s", strcol(1), strcol(2))) title "measured" lc rgb "#999999", \
     "" using 4 title "forecast" lc rgb "#0072b2", \
     "" using 0:($3 > $4 ? $3*1.25 : $4*1.25):(sprintf("%s %%", strcol(5))) with labels notitle
