#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# time.sh - where the time of one step goes for shipped plans, mean over pipeline stages: the data of time.gp.
#
# usage: plots/time.sh [STEPCAST] >plots/time.tsv && (cd plots && gnuplot time.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

printf '# topology\tworkload\tgpus\tstep_s\tmfu_percent\tforward\tbackward\trecompute\toptimizer\ttp\tcp_and_ep\tpp\tdp\tbubble\tother: percent of the step\n'
while read -r topology workload; do
  "$stepcast" run "$topology" "$workload" --detail stage --format json | awk -v topology="$topology" -v workload="$workload" '
    { key = $1; gsub (/[":]/, "", key); value = $2 + 0 }
    key == "step_time_s" { step = value }
    key == "gpus_used" { gpus = value }
    key == "mfu_half_causal" { mfu = value }
    key == "time_s" { stages++; on = 1 }
    on && /}/ { on = 0 }
    on { sum[key] += value }
    function part (seconds) { seconds = 100 * seconds / stages / step; rest -= seconds; return sprintf ("\t%.2f", seconds) }
    END {
      rest = 100
      line = part(sum["forward"]) part(sum["backward"] + sum["weight_gradients"]) part(sum["recompute"]) part(sum["optimizer"])
      line = line part(sum["exposed_tp"]) part(sum["exposed_cp"] + sum["exposed_ep"]) part(sum["exposed_pp"]) part(sum["exposed_dp"])
      line = line part(sum["bubble"])
      printf "%s\t%s\t%d\t%.3f\t%.1f%s\t%.2f\n", topology, workload, gpus, step, 100 * mfu, line, rest
    }'
done <<END
dgx-h100-8 llama3-70b
llama3-24k llama3-405b
llama3-24k llama3-405b-128k
dgx-h100-superpod llama3-8b-128k
dgx-h100-superpod mixtral-8x7b
deepseek-h800 deepseek-v3
dgx-a100-superpod megatron-175b-seqsel
jean-zay-a100 bloom-176b
dgx-h100-8 llama3-8b-fsdp2
dgx-a100-superpod gpt-7.5b-zero3
END
