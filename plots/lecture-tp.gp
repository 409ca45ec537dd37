# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-tp.gp - tokens a second and GPU against tensor parallelism, measured and forecast, with the change at each doubling.
# Data: plots/lecture-tp.sh >plots/lecture-tp.tsv
set terminal svg size 760,380 font "sans,12" background "white"
set output "lecture-tp.svg"
set datafile separator "\t"
set title "Tensor parallelism of a 3B Llama on H100: inside a node of 8, and beyond it (nanotron)"
set xlabel "tensor parallel ranks"
set ylabel "tokens a second and GPU"
set yrange [0:18000]
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9 border rgb "white"
set boxwidth 0.95
set grid ytics lc rgb "#dddddd"
set border 3
set tics nomirror
set xtics scale 0
set key top right
plot "lecture-tp.tsv" using 3:xtic(1) title "measured" lc rgb "#999999", \
     "" using 4 title "forecast" lc rgb "#0072b2", \
     "" using ($0-0.17):($3+500):5 with labels font "sans,10" tc rgb "#666666" notitle, \
     "" using ($0+0.17):($4+1200):6 with labels font "sans,10" tc rgb "#0072b2" notitle
