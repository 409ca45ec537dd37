#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-activations.sh - memory of the 22B GPT of arXiv 2205.05198 on 8 A100 by recompute and sequence parallelism: the data of
# lecture-activations.gp.
#
# usage: plots/lecture-activations.sh [STEPCAST] >plots/lecture-activations.tsv && (cd plots && gnuplot lecture-activations.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

printf '# recompute\tsequence_parallel\tweights_gib\tgradients_gib\toptimizer_gib\tactivations_gib\tother_gib\tformula_gib\n'
for recompute in none selective full; do
  for parallel in false true; do
    "$stepcast" fit dgx-a100 megatron-22b-full --quick --set "plan.recompute=$recompute" --set "plan.sequence_parallel=$parallel" |
      awk -v recompute="$recompute" -v parallel="$parallel" '
        /^  0 / {
          # arXiv 2205.05198, equations 2 to 6 and section 5: s 2048, b 4, h 6144, a 64, t 8, 48 layers
          sbh = 2048 * 4 * 6144 * 48 / 2^30
          per = parallel == "true" ? 34 / 8 : 10 + 24 / 8
          if (recompute == "none")
            per += 5 * 64 * 2048 / 6144 / 8
          if (recompute == "full")
            per = parallel == "true" ? 2 / 8 : 2
          printf "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.2f\n", recompute, parallel, $3, $4, $5, $6, $7, per * sbh
        }'
  done
done
