#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-figures.sh - the data beside each figure is what its script prints now, every caption names its picture, and every picture is there; the slower
# scripts with STEPCAST_LONG=1 alone.  make figures draws all of them again.
set -eu
LC_ALL=C
export LC_ALL
plots=$(cd "$(dirname "$0")/../plots" && pwd)
now=$(mktemp "${TMPDIR:-/tmp}/stepcast-figures-XXXXXX")
trap 'rm -f "$now"' EXIT
# under valgrind a sweep takes minutes, and says nothing that the tests of it do not
if [ -n "${RUN-}" ]; then
  echo 'not under another program'
  exit 77
fi
failed=0
for caption in "$plots"/*.md; do
  name=$(basename "$caption" .md)
  if [ "$name" = results ]; then
    continue
  fi
  for word in "($name.svg)" "plots/$name.sh" '    stepcast '; do
    grep -qF -- "$word" "$caption" || {
      echo "plots/$name.md: no $word" >&2
      failed=1
    }
  done
  grep -q '</svg>' "$plots/$name.svg" || {
    echo "plots/$name.svg: not a whole picture" >&2
    failed=1
  }
  case $name in
    scaling | time) [ -n "${STEPCAST_LONG-}" ] || continue ;;
  esac
  sh "$plots/$name.sh" "$STEPCAST" >"$now"
  diff "$plots/$name.tsv" "$now" || {
    echo "plots/$name.tsv: this is not what plots/$name.sh prints; make figures draws it again" >&2
    failed=1
  }
done
exit $failed
