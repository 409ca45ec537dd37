#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# results.sh - every judged step time of validation/runs.jsonl, measured and forecast, by source and by what its plan does: the data of
# results.gp.
#
# usage: plots/results.sh [STEPCAST] >plots/results.tsv && (cd plots && gnuplot results.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

# A row counts where it belongs first; texts in quotes are not read.
"$stepcast" validate runs --format csv | awk -F, '
  BEGIN {
    print "# source\tid\tmeasured_s\tforecast_s\terror_percent\tmechanism"
    OFS = "\t"
  }
  { gsub (/"[^"]*"/, "text") }
  FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
  $at["time_error"] == "" { next }
  {
    if ($at["experts"] > 0) what = "experts"
    else if ($at["dtype"] ~ /fp8/) what = "fp8"
    else if ($at["cp"] > 1 || $at["seq"] >= 16384) what = "long sequences"
    else if ($at["sharding"] ~ /zero3|fsdp/) what = "ZeRO-3 and FSDP"
    else if ($at["tp"] > 8) what = "TP over nodes"
    else if ($at["pp"] > 1 && $at["tp"] > 1) what = "TP and PP"
    else if ($at["pp"] > 1) what = "PP"
    else if ($at["tp"] > 1) what = "TP"
    else what = "DP"
    print $at["source"], $at["id"], $at["measured_step_s"], $at["predicted_step_s"], sprintf ("%.2f", 100 * $at["time_error"]), what
  }'
