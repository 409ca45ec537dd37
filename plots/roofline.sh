#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# roofline.sh - kernels of one layer of an 8B Llama on one H100: arithmetic intensity, and the rate that the forecast gives them: the data of
# roofline.gp.
#
# usage: plots/roofline.sh [STEPCAST] >plots/roofline.tsv && (cd plots && gnuplot roofline.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-roofline-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

"$stepcast" run dgx-h100-8 llama3-8b --set topology.nodes=1 --set plan.gpus=1 --set plan.tp=1 --set plan.sequence_parallel=false \
  --set plan.sharding=none --set plan.overlap_param=false --set plan.global_batch=1 --trace "$scratch/trace.json" -o /dev/null

# The roofs, as the device has them.
"$stepcast" show device h100-sxm-80gb | awk '
  /^  peak bf16 / { printf "# peak_tflops\t%s\n", $3 }
  /^  memory bandwidth / { printf "# memory_tb_per_s\t%s\n", $3 }'

# Work and traffic from the shape: 8192 tokens, hidden 4096, 32 heads (8 KV) of 128, ffn 14336, bf16.  Every operand moves once, products write their
# result once; causal attention is counted half; its backward makes five products where forward makes two; weight gradients are added to in fp32.
printf '# kernel\tclass\tpass\ttime_us\tflop_per_byte\ttflops\n'
grep '"cat":"kernel"' "$scratch/trace.json" | grep '"layer":5[,}]' | tr -d '"{}' | awk -F '[,:]' '
  function product (n, k) {
    flops = 2 * t * n * k
    bytes = 2 * (t * n + t * k + n * k)
    if (name ~ / wgrad$/)
      bytes += (8 - 2) * n * k
    class = "product"
  }
  function streamed (per, elements) {
    flops = per * t * h
    bytes = 2 * t * elements
    class = "memory"
  }
  BEGIN { t = 8192; h = 4096; kv = 1024; f = 14336 }
  {
    for (i = 1; i < NF; i++)
      at[$i] = $(i + 1)
    name = at["name"]
    flops = 0
    if (name ~ /^qkv( [dw]grad)?$/) product(h + 2 * kv, h)
    else if (name ~ /^projection( [dw]grad)?$/) product(h, h)
    else if (name ~ /^fc1( [dw]grad)?$/) product(2 * f, h)
    else if (name ~ /^fc2( [dw]grad)?$/) product(h, f)
    else if (name == "attention") { flops = 2 * t * t * h; bytes = 2 * t * (2 * h + 2 * kv); class = "attention" }
    else if (name == "attention backward") { flops = 5 * t * t * h; bytes = 2 * t * (4 * h + 4 * kv); class = "attention" }
    else if (name ~ /^norm . backward$/) streamed(8, 3 * h)
    else if (name ~ /^norm .$/) streamed(4, 2 * h)
    else if (name ~ /residual/) streamed(1, 3 * h)
    else if (name == "rotary") { streamed(3 * (h + kv) / h, 2 * (h + kv)) }
    else if (name == "swiglu") streamed(5 * f / h, 3 * f)
    else if (name == "swiglu backward") streamed(10 * f / h, 5 * f)
    if (flops > 0)
      printf "%s\t%s\t%s\t%.2f\t%.4g\t%.4g\n", name, class, at["category"], at["dur"], flops / bytes, flops / at["dur"] / 1e6
  }'
