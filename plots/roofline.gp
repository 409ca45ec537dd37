# SPDX-License-Identifier: GPL-3.0-or-later
# roofline.gp - kernels of one layer under the roofs of their GPU.
# Data: plots/roofline.sh >plots/roofline.tsv
set terminal svg size 460,360 font "sans,12" background "white"
set output "roofline.svg"
set datafile separator "\t"
peak = real(system("awk '$2 == \"peak_tflops\" { print $3 }' roofline.tsv"))
memory = real(system("awk '$2 == \"memory_tb_per_s\" { print $3 }' roofline.tsv"))
set border 3
set tics nomirror out
set grid lc rgb "#e4e4e4"
set logscale xy
set xrange [0.1:10000]
set yrange [0.2:2000]
set format xy "10^{%L}"
set xlabel "FLOPs a byte of memory traffic"
set ylabel "TFLOP/s" offset 1
set samples 500
set key bottom right reverse Left samplen 1 spacing 1.15
roof(x) = x * memory < peak ? x * memory : peak
of(class, pass) = strcol(2) eq class && strcol(3) eq pass ? $6 : NaN
set label 1 sprintf("peak %.0f TFLOP/s", peak) at 240,1350 right font "sans,11"
set label 2 sprintf("memory %.2f TB/s", memory) at 2.2,14 rotate by 39 center font "sans,11"
file = "roofline.tsv"
plot roof(x) with lines lw 2 lc rgb "black" notitle, \
     file using 5:(of("product", "forward")) with points pt 7 ps 0.75 lc rgb "#0072b2" title "products, forward", \
     file using 5:(of("product", "backward")) with points pt 6 ps 0.75 lw 1.5 lc rgb "#0072b2" title "products, backward", \
     file using 5:(of("attention", "forward")) with points pt 5 ps 0.75 lc rgb "#d55e00" title "attention, forward", \
     file using 5:(of("attention", "backward")) with points pt 4 ps 0.75 lw 1.5 lc rgb "#d55e00" title "attention, backward", \
     file using 5:(of("memory", "forward")) with points pt 9 ps 0.9 lc rgb "#009e73" title "memory-bound, forward", \
     file using 5:(of("memory", "backward")) with points pt 8 ps 0.9 lw 1.5 lc rgb "#009e73" title "memory-bound, backward"
