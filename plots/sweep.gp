# SPDX-License-Identifier: GPL-3.0-or-later
# sweep.gp - MFU by tensor and pipeline parallelism, without and with recompute; what does not fit is grey and says how much it asks for.
# Data: plots/sweep.sh >plots/sweep.tsv
set terminal svg size 720,330 font "sans,12" background "white"
set output "sweep.svg"
set datafile separator "\t"
file = "sweep.tsv"
unset key
set border 0
set tics scale 0
at(v) = log(v) / log(2)
set xrange [-0.5:4.5]
set yrange [-0.5:3.5]
set xtics ("1" 0, "2" 1, "4" 2, "8" 3, "16" 4)
set ytics ("1" 0, "2" 1, "4" 2, "8" 3)
set xlabel "pipeline parallel ranks" offset 0,0.4
# one hue from light to dark: ordered in print, too
set palette defined (0 "#e6f2fa", 0.5 "#56b4e9", 1 "#00527f")
set cbrange [25:47]
set style fill solid 1.0 border rgb "white"
fits(mode) = strcol(1) eq mode && strcol(4) ne "does_not_fit"
misses(mode) = strcol(1) eq mode && strcol(4) eq "does_not_fit"
set multiplot
set tmargin at screen 0.88
set bmargin at screen 0.165
do for [i = 1:2] {
  mode = word("none full", i)
  set lmargin at screen (i == 1 ? 0.085 : 0.525)
  set rmargin at screen (i == 1 ? 0.455 : 0.905)
  set title word('"no recompute" "full recompute"', i)
  if (i == 1) { set ylabel "tensor parallel ranks" offset 0.5; unset colorbox } else {
    unset ylabel
    set colorbox user origin screen 0.925,0.165 size screen 0.018,0.715 noborder
    set cbtics 5 offset -0.7,0
    set label 1 "MFU, %" at screen 0.985,0.93 right
  }
  plot file using (misses(mode) ? at($3) : NaN):(at($2)):(at($3) - 0.5):(at($3) + 0.5):(at($2) - 0.5):(at($2) + 0.5) with boxxyerror lc rgb "#e2e2e2", \
       file using (fits(mode) ? at($3) : NaN):(at($2)):(at($3) - 0.5):(at($3) + 0.5):(at($2) - 0.5):(at($2) + 0.5):5 with boxxyerror lc palette, \
       file using (fits(mode) ? at($3) : NaN):(at($2) + 0.12):(sprintf("%.1f", $5)):($5 > 38 ? 0xffffff : 0) with labels tc rgb variable, \
       file using (fits(mode) ? at($3) : NaN):(at($2) - 0.2):(sprintf("%.0f GiB%s", $6, strcol(4) eq "at_risk" ? "!" : "")):($5 > 38 ? 0xffffff : 0) with labels font "sans,9" tc rgb variable, \
       file using (misses(mode) ? at($3) : NaN):(at($2)):(sprintf("%.0f GiB", $6)) with labels font "sans,9" tc rgb "#666666"
}
unset multiplot
