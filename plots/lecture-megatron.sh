#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-megatron.sh - share of the peak that the ten models of arXiv 2104.04473, table 1, reach, measured and forecast: the data of
# lecture-megatron.gp.
#
# usage: plots/lecture-megatron.sh [STEPCAST] >plots/lecture-megatron.tsv && (cd plots && gnuplot lecture-megatron.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

# Its FLOPs count what is executed, recompute too; 312 TFLOP/s is the peak of an A100.
printf '# model\tgpus\tmeasured_percent_of_peak\tforecast_percent_of_peak\n'
for model in 1.7b 3.6b 7.5b 18b 39b 76b 145b 310b 530b 1t; do
  "$stepcast" run dgx-a100-superpod "sc21-$model" --detail stage --format json |
    awk -v model="$model" '
      BEGIN {
        n = split ("1.7b 137 3.6b 138 7.5b 142 18b 135 39b 138 76b 140 145b 148 310b 155 530b 163 1t 163", pairs, " ")
        for (i = 1; i < n; i += 2)
          measured[pairs[i]] = pairs[i + 1]
      }
      /^\t"hfu":/ { sub (/.*:\t/, ""); sub (/,.*/, ""); hfu = $0 }
      /"gpus_used":/ && !gpus { sub (/.*:\t/, ""); sub (/,.*/, ""); gpus = $0 }
      END { printf "%s\t%d\t%.1f\t%.1f\n", toupper (model), gpus, measured[model] / 3.12, 100 * hfu }'
done
