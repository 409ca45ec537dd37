# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-activations.gp - allocated memory stacked by kind for three modes of recompute, without and with sequence parallelism.
# Data: plots/lecture-activations.sh >plots/lecture-activations.tsv
set terminal svg size 760,400 font "sans,12" background "white"
set output "lecture-activations.svg"
set datafile separator "\t"
set title "Peak of allocated memory of a 22B GPT on 8 A100, TP 8, micro-batch 4"
set ylabel "GiB a GPU"
set yrange [0:140]
set style data histograms
set style histogram rowstacked
set style fill solid 0.9 border rgb "white"
set boxwidth 0.7
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set xtics scale 0
set bmargin 3.5
set key top right horizontal
set arrow 1 from -0.6,79.25 to 5.6,79.25 nohead dt 2 lc rgb "#444444"
set label 1 "A100 80 GB" at 5.6,83.5 right font "sans,10" tc rgb "#444444"
kind(r, s) = sprintf("%s%s", r, s eq "true" ? "\n+ SP" : "")
plot "lecture-activations.tsv" using 3:xtic(kind(strcol(1), strcol(2))) title "weights" lc rgb "#0072b2", \
     "" using 4 title "gradients" lc rgb "#56b4e9", \
     "" using 5 title "optimizer" lc rgb "#009e73", \
     "" using 6 title "activations" lc rgb "#e69f00", \
     "" using 7 title "other" lc rgb "#999999"
