#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-scoreboard.sh - no source's mean error over the shipped published runs is more than half a point above the recorded one.
# UPDATE=1 records what is now.
set -eu
LC_ALL=C
export LC_ALL
cd "${abs_srcdir:-$(dirname "$0")/..}"
stepcast=${STEPCAST:-./stepcast}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-scoreboard-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
recorded=validation/scoreboard.tsv

# One line for each source: name, mean error of time, of memory in percent, - where nothing is judged.
# shellcheck disable=SC2086 # RUN is a command with its arguments
${RUN:-} "$stepcast" validate runs --format json | awk '
  function value () { gsub (/[",]/, "", $2); return $2 == "null" ? "-" : sprintf ("%.2f", 100 * $2) }
  /"sources":/ { on = 1 }
  on && $1 == "\"source\":" { gsub (/[",]/, "", $2); name = $2 }
  on && $1 == "\"time_mean_abs_error\":" { time = value () }
  on && $1 == "\"memory_mean_abs_error\":" { print name "\t" time "\t" value () }' >"$scratch/now"

if [ -n "${UPDATE:-}" ]; then
  cp "$scratch/now" "$recorded"
  exit 0
fi
[ -s "$scratch/now" ] || {
  echo "validate runs names no source"
  exit 1
}
awk -F '\t' '
  function grew (what, was, is) {
    if (was == "-" && is == "-")
      return
    if (is == "-" || (was != "-" && is > was + 0.5)) {
      printf "%s: mean error of %s was %s %%, is %s %%\n", $1, what, was, is
      bad = 1
    }
  }
  NR == FNR { time[$1] = $2; memory[$1] = $3; n++; next }
  !($1 in time) { print $1 ": not recorded (UPDATE=1 does)"; bad = 1; next }
  { grew ("time", time[$1], $2); grew ("memory", memory[$1], $3); seen++ }
  END {
    if (seen < n) {
      print n - seen " recorded sources are gone"
      bad = 1
    }
    exit bad
  }' "$recorded" "$scratch/now"
