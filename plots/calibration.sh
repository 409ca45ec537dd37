#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# calibration.sh - measured kernels beside what the formula and their neighbours say of them: the data of calibration.gp.
#
# usage: plots/calibration.sh [STEPCAST [ARGUMENT...]] >plots/calibration.tsv && (cd plots && gnuplot calibration.gp)
#
# ARGUMENT: what stepcast calibrate takes, files above all; without any, the made-up samples of the tests.
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}
if [ $# -gt 0 ]; then
  shift
fi
if [ $# -eq 0 ]; then
  set -- "$(dirname "$0")/../tests/data/calibrate/h200.jsonl"
  printf '# Made-up samples of an H200, as the tests have them\n'
else
  # which GPU, and who measured it
  "$stepcast" calibrate "$@" --samples-only --format json -o /dev/null |
    awk -F "\t" '/^\t"device":/ { device = $3 } /^\t"source":/ { printf "# %s: %s\n", device, $3; exit }' | tr -d '",'
fi
"$stepcast" calibrate "$@" --format tsv -o /dev/null
