# SPDX-License-Identifier: GPL-3.0-or-later
# scaling.gp - tokens a second and GPU, of those on the fewest GPUs: strong scaling on the left, weak scaling on the right.
# Data: plots/scaling.sh >plots/scaling.tsv
set terminal svg size 720,310 font "sans,12" background "white"
set output "scaling.svg"
set datafile separator "\t"
file = "scaling.tsv"
stats file index 0 every ::0::0 using 3 name "strong" nooutput
stats file index 2 every ::0::0 using 3 name "weak" nooutput
set border 3
set tics nomirror out
set grid lc rgb "#e4e4e4"
set logscale x 2
set yrange [0:110]
set ytics 20
set xlabel "GPUs" offset 0,0.4
set key bottom left reverse Left samplen 2 spacing 1.15
set tmargin at screen 0.88
set bmargin at screen 0.17
set multiplot
set lmargin at screen 0.105
set rmargin at screen 0.495
set title "strong: 70B, 1024 sequences in all"
set ylabel "tokens/s a GPU, % of the first" offset 1
set xrange [48:11000]
set xtics (64, 256, "1k" 1024, "4k" 4096, 128 1, 512 1, "2k" 2048 1, "8k" 8192 1)
# the step itself above every other point
plot file index 0 using 1:(100 * $3 / strong_min) with linespoints lw 2 pt 7 ps 0.6 lc rgb "#0072b2" title "full network", \
     "" index 1 using 1:(100 * $3 / strong_min) with linespoints lw 2 pt 5 ps 0.6 lc rgb "#d55e00" title "one in 8 of a leaf's uplinks", \
     "" index 0 using 1:(int($0) % 2 == 0 ? 100 * $3 / strong_min + 6 : NaN):(sprintf($2 < 10 ? "%.1f s" : "%.0f s", $2)) \
       with labels font "sans,10" tc rgb "#444444" notitle
unset ylabel
set lmargin at screen 0.575
set rmargin at screen 0.975
set title "weak: 8B, 4 sequences a GPU"
set xrange [6:11000]
set xtics (8, 32, 128, 512, "2k" 2048, "8k" 8192)
plot file index 2 using 1:(100 * $3 / weak_min) with linespoints lw 2 pt 7 ps 0.6 lc rgb "#0072b2" title "FSDP over all GPUs", \
     "" index 3 using 1:(100 * $3 / weak_min) with linespoints lw 2 pt 5 ps 0.6 lc rgb "#009e73" title "HSDP, one copy in each node", \
     "" index 2 using 1:(int($0) % 2 == 0 ? 100 * $3 / weak_min - 7 : NaN):(sprintf("%.1f s", $2)) with labels font "sans,10" tc rgb "#444444" notitle
unset multiplot
