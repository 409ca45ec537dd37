# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-bubble.gp - bubble over the rest of the step against micro-batches, three schedules and their ideal lines.
# Data: plots/lecture-bubble.sh >plots/lecture-bubble.tsv
set terminal svg size 760,380 font "sans,12" background "white"
set output "lecture-bubble.svg"
set datafile separator "\t"
set title "Pipeline bubble of an 18B GPT on 4 A100, one stage each"
set xlabel "micro-batches in a step"
set ylabel "bubble over the rest of the step, %"
set logscale x 2
set logscale y
set xrange [3.5:150]
set yrange [0.3:150]
set grid lc rgb "#dddddd"
set border 3
set tics nomirror
set key top right
plot "lecture-bubble.tsv" using 1:5 with lines lw 2 dt 2 lc rgb "#999999" title "(p - 1) / m", \
     "" using 1:6 with lines lw 2 dt 3 lc rgb "#999999" title "(p - 1) / (5 m)", \
     "" using 1:2 with linespoints lw 4 pt 7 ps 1.0 lc rgb "#d55e00" title "GPipe", \
     "" using 1:3 with linespoints lw 1.5 pt 5 ps 0.5 lc rgb "#0072b2" title "1F1B", \
     "" using 1:4 with linespoints lw 2 pt 9 ps 0.8 lc rgb "#009e73" title "interleaved, 5 chunks"
