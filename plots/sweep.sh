#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# sweep.sh - a 70B Llama on 128 H100 by tensor and pipeline parallelism, without and with recompute: the data of sweep.gp.
#
# usage: plots/sweep.sh [STEPCAST] >plots/sweep.tsv && (cd plots && gnuplot sweep.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

printf '# recompute\ttp\tpp\tstatus\tmfu_percent\tdevice_gib\n'
"$stepcast" sweep dgx-h100-superpod llama3-70b --set plan.gpus=128 --set plan.global_batch=256 --set plan.schedule=1f1b --set plan.vpp=1 \
  --set plan.overlap_p2p=false --vary plan.recompute=none,full --vary plan.tp,plan.sequence_parallel=1,false/2,true/4,true/8,true \
  --vary plan.pp=1:16:x2 --format csv --quiet | awk -F, '
    FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    {
      printf "%s\t%s\t%s\t%s\t%.1f\t%.1f\n", $at["plan.recompute"], $at["tp"], $at["pp"], $at["status"], 100 * $at["mfu_half_causal"],
        $at["peak_device_bytes"] / 2^30
    }'
