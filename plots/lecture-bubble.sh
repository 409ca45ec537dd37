#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-bubble.sh - bubbles of an 18B GPT in four stages as micro-batches grow, beside (p - 1) / (v m): the data of lecture-bubble.gp.
#
# usage: plots/lecture-bubble.sh [STEPCAST] >plots/lecture-bubble.tsv && (cd plots && gnuplot lecture-bubble.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

# bubble SCHEDULE CHUNKS MICROBATCHES: bubble over the rest of the step, in percent.
bubble ()
{
  "$stepcast" run dgx-a100-superpod sc21-18b --set plan.tp=1 --set plan.pp=4 --set plan.dp=1 --set plan.micro_batch=1 \
    --set "plan.global_batch=$3" --set "plan.schedule=$1" --set "plan.vpp=$2" |
    sed -n 's|^  bubble / (step - bubble) *\([0-9.]*\) %.*|\1|p'
}

printf '# microbatches\tgpipe\t1f1b\tinterleaved_5\tideal_1\tideal_5\n'
for m in 4 8 16 32 64 128; do
  printf '%d\t%s\t%s\t%s\t' "$m" "$(bubble gpipe 1 "$m")" "$(bubble 1f1b 1 "$m")" "$(bubble interleaved 5 "$m")"
  awk -v m="$m" 'BEGIN { printf "%.2f\t%.2f\n", 300 / m, 300 / (5 * m) }'
done
