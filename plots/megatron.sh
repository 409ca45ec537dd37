#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# megatron.sh - the eight step times of arXiv 2205.05198, table 5, beside what stepcast forecasts: the data of megatron.gp.
#
# usage: plots/megatron.sh [STEPCAST] >plots/megatron.tsv && (cd plots && gnuplot megatron.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

printf '# model\trecompute\tmeasured_s\tforecast_s\terror_percent\n'
while read -r model recompute measured; do
  "$stepcast" run dgx-a100-superpod "megatron-$model-$recompute" --format json |
    awk -v model="$model" -v recompute="$recompute" -v measured="$measured" '
      /^\t"step_time_s":/ {
        sub (/.*:\t/, "")
        sub (/,.*/, "")
        printf "%s\t%s\t%.2f\t%.2f\t%+.1f\n", toupper (model), recompute, measured, $0, 100 * ($0 / measured - 1)
      }'
done <<END
22b full 1.42
22b seqsel 1.10
175b full 18.13
175b seqsel 13.75
530b full 49.05
530b seqsel 37.83
1t full 94.42
1t seqsel 71.49
END
