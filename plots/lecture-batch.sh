#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# lecture-batch.sh - a 175B GPT on more and more GPUs, with one global batch and with one that grows: the data of lecture-batch.gp.
#
# usage: plots/lecture-batch.sh [STEPCAST] >plots/lecture-batch.tsv && (cd plots && gnuplot lecture-batch.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

# mfu REPLICAS BATCH: in percent, causal attention counted half.
mfu ()
{
  "$stepcast" run dgx-a100-superpod megatron-175b-seqsel --detail stage --set "plan.dp=$1" --set "plan.global_batch=$2" |
    sed -n 's|^  MFU *\([0-9.]*\) %.*causal attention counted half; HFU.*|\1|p'
}

printf '# gpus\tmfu_batch_512\tmfu_batch_64_a_replica\n'
for replicas in 1 2 4 8 16 32; do
  printf '%d\t%s\t%s\n' $((replicas * 64)) "$(mfu "$replicas" 512)" "$(mfu "$replicas" $((replicas * 64)))"
done
