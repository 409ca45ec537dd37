#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# memory.sh - memory over a step of a 70B Llama in four stages, by kind, of the first and the last stage: the data of memory.gp.
#
# usage: plots/memory.sh [STEPCAST] >plots/memory.tsv && (cd plots && gnuplot memory.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

printf '# stage\ttime_s\tweights\tgradients\toptimizer\tactivations\tlogits\ttransient_and_buffers\treserved: GiB\n'
"$stepcast" run dgx-h100-8 llama3-70b --set plan.global_batch=32 --set plan.schedule=1f1b --set plan.vpp=1 --set plan.overlap_p2p=false \
  --memory --format json | awk '
    function numbers (kind,  v, n, i) {
      gsub (/^.*\[|\].*$/, "")
      n = split ($0, v, ", *")
      for (i = 1; i <= n; i++)
        bytes[kind, i] += v[i]
      return n
    }
    /"memory":/ { on = 1 }
    /"stage":/ { stage = $2 + 0 }
    /"curve":/ { curve = 1; split ("", bytes) }
    curve && /"bin_s":/ { bin = $2 + 0 }
    curve && /"weights":/ { numbers (1) }
    curve && /"grads":/ { numbers (2) }
    curve && /"optimizer":/ { numbers (3) }
    curve && /"activations":/ { numbers (4) }
    curve && /"logits":/ { numbers (5) }
    curve && /"(transient|comm)":/ { numbers (6) }
    curve && /"reserved":/ {
      n = numbers (7)
      curve = 0
      if (stage != 0 && stage != 3)
        next
      if (stage > 0)
        printf "\n\n"
      for (i = 1; i <= n; i++) {
        printf "%d\t%.4f", stage, (i - 0.5) * bin
        for (k = 1; k <= 7; k++)
          printf "\t%.3f", bytes[k, i] / 2^30
        printf "\n"
      }
    }'
