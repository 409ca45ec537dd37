#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-tp.sh - a 3B Llama in nanotron on H100, tensor parallel 2 to 32, measured and forecast: the data of lecture-tp.gp.
#
# usage: plots/lecture-tp.sh [STEPCAST] >plots/lecture-tp.tsv && (cd plots && gnuplot lecture-tp.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

# Tokens a second and GPU: micro-batches of the rows (the largest that fit), 4,096 tokens, one step.
printf '# tp\tmicro_batch\tmeasured_tokens_per_s_per_gpu\tforecast\tmeasured_change\tforecast_change\n'
"$stepcast" validate runs --filter nanotron-tpsp- --format csv |
  awk -F, '
    BEGIN { split ("2 3 4 9 8 18 16 40 32 90", pairs, " "); for (i = 1; i < 10; i += 2) batch[pairs[i]] = pairs[i + 1] }
    FNR > 1 {
      tp = $2
      sub (/.*-/, "", tp)
      m = batch[tp] * 4096 / tp / $6
      f = batch[tp] * 4096 / tp / $7
      printf "%d\t%d\t%.0f\t%.0f\t%s\t%s\n", tp, batch[tp], m, f, was ? sprintf ("%+.1f %%", 100 * (m / was - 1)) : "-",
             was ? sprintf ("%+.1f %%", 100 * (f / was_f - 1)) : "-"
      was = m
      was_f = f
    }'
