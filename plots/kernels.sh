#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# kernels.sh - predicted over measured time of the shipped measurements by measured time, each without its own shape: the 10th, 50th and
# 90th percentile of each half decade with 20 kernels and more.  The data of kernels.gp.
#
# usage: plots/kernels.sh [STEPCAST] >plots/kernels.tsv && (cd plots && gnuplot kernels.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

"$stepcast" validate kernels --format csv |
  awk -F, '
    NR == 1 { next }
    {
      # the last five cells are numbers or words without commas, but for why a row was skipped: those have no ratio
      class = $2
      sub (/_small$/, "", class)
      ratio = $(NF - 1)
      measured = $(NF - 3)
      if (class !~ /^(gemm|attention_forward|memory)$/ || ratio + 0 <= 0)
        next
      printf "%s %d %s\n", class, int (2 * log (measured) / log (10) + 100) - 100, ratio
    }' | sort -k1,1 -k2,2n -k3,3n |
  awk '
    function flush (  i) {
      if (n >= 20)
        printf "%s\t%.4g\t%s\t%s\t%s\t%d\n", class, 10 ^ ((bin + 0.5) / 2), v[int (n * 0.1) + 1], v[int (n * 0.5) + 1], v[int (n * 0.9) + 1], n
      n = 0
    }
    BEGIN { print "# class\tmeasured_us\tp10\tmedian\tp90\tkernels" }
    $1 != class || $2 != bin {
      flush ()
      if (class != "" && $1 != class)
        printf "\n\n"
      class = $1
      bin = $2
    }
    { v[++n] = $3 }
    END { flush () }'
