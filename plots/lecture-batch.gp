# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-batch.gp - share of peak against GPUs for a fixed and a growing global batch.
# Data: plots/lecture-batch.sh >plots/lecture-batch.tsv
set terminal svg size 760,380 font "sans,12" background "white"
set output "lecture-batch.svg"
set datafile separator "\t"
set title "A 175B GPT on A100 (TP 8, PP 8, 3 chunks): what a fixed batch leaves to each replica"
set xlabel "GPUs"
set ylabel "MFU, %"
set logscale x 2
set xrange [56:2300]
set xtics (64, 128, 256, 512, 1024, 2048)
set yrange [0:60]
set grid lc rgb "#dddddd"
set border 3
set tics nomirror
set key bottom left
plot "lecture-batch.tsv" using 1:3 with linespoints lw 2 pt 7 ps 0.7 lc rgb "#0072b2" title "64 sequences a replica", \
     "" using 1:2 with linespoints lw 2 pt 5 ps 0.7 lc rgb "#d55e00" title "512 sequences in all"
