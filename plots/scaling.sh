#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# scaling.sh - one batch on more and more GPUs (strong), and a batch that grows with them (weak), over a full and a narrow network: the data of
# scaling.gp.
#
# usage: plots/scaling.sh [STEPCAST] >plots/scaling.tsv && (cd plots && gnuplot scaling.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

# points NAME WORKLOAD OPTION...: GPUs, step and tokens a second and GPU of each point.
points ()
{
  printf '\n\n# %s\n# gpus\tstep_s\ttokens_per_s_per_gpu\n' "$1"
  workload=$2
  shift 2
  "$stepcast" sweep dgx-h100-superpod "$workload" "$@" --format csv --quiet | awk -F, '
    FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["step_time_s"] != "" { printf "%s\t%.4f\t%.1f\n", $at["gpus"], $at["step_time_s"], $at["tokens_per_s_per_gpu"] }'
}

batches=8,32/16,64/32,128/64,256/128,512/256,1024/512,2048/1024,4096/2048,8192/4096,16384/8192,32768
for narrow in 1 8; do
  points "strong: Llama 3 70B, TP 8, PP 4, 1024 sequences in all; one in $narrow of a leaf's uplinks" llama3-70b --vary plan.dp=2:256:x2 \
    --set plan.global_batch=1024 --set "topology.fabric.tiers.0.oversubscription=$narrow"
done
points 'weak: Llama 3 8B, FSDP2 over all GPUs, 4 sequences each' llama3-8b-fsdp2 --vary "plan.dp,plan.global_batch=$batches"
points 'weak: Llama 3 8B, HSDP, weights shared out in each node, 4 sequences a GPU' llama3-8b-fsdp2 --set plan.sharding=hsdp \
  --set plan.shard_group=8 --vary "plan.dp,plan.global_batch=$batches"
