# SPDX-License-Identifier: GPL-3.0-or-later
# results.gp - forecast against measured, and errors by source and by what the plan does.
# Data: plots/results.sh >plots/results.tsv
set terminal svg size 760,480 font "sans,12" background "white"
set datafile separator "\t"
set border 3
set tics nomirror
set grid lc rgb "#dddddd"

set output "results-scatter.svg"
set title "Published step times, forecast and measured"
set xlabel "measured, s"
set ylabel "forecast, s"
set logscale xy
set xrange [0.1:1000]
set yrange [0.1:1000]
set key top left
plot x with lines lw 1 lc rgb "#444444" title "as measured", \
     1.1 * x with lines lw 1 dt 2 lc rgb "#999999" title "10 % off", x / 1.1 with lines lw 1 dt 2 lc rgb "#999999" notitle, \
     "results.tsv" using 3:4 with points pt 7 ps 0.25 lc rgb "#0072b2" title "a row"

set rmargin 6
set bmargin 6
unset logscale
unset key
set xlabel ""
set ylabel "forecast / measured - 1, %"
set xrange [*:*]
set yrange [-60:40]
set style data boxplot
set style boxplot outliers pointtype 7 fraction 0.9
set pointsize 0.25
set style fill solid 0.35 border rgb "#0072b2"
set xtics rotate by -45 scale 0
set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lw 1 lc rgb "#444444"

set output "results-sources.svg"
set title "Errors by source: the middle half, nine tenths, and what is beyond"
plot "results.tsv" using (1.0):5:(0.6):1 lc rgb "#0072b2"

set output "results-mechanisms.svg"
set title "Errors by what a plan does; each row once, where it fits first from the left"
list = "experts|fp8|long sequences|ZeRO-3 and FSDP|TP over nodes|TP and PP|PP|TP|DP"
what(i) = substr(list, start(i), stop(i))
start(i) = i == 1 ? 1 : stop(i - 1) + 2
stop(i) = i == 9 ? strlen(list) : start(i) - 1 + strstrt(substr(list, start(i), strlen(list)) , "|") - 1
set xtics ()
do for [i = 1:9] { set xtics add (what(i) i) }
set xrange [0.3:9.7]
plot for [i = 1:9] "results.tsv" using (i):(strcol(6) eq what(i) ? $5 : NaN):(0.6) lc rgb "#0072b2"
