#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-readme.sh - the report that README.md shows is the one that the program prints.
set -eu
srcdir=$(cd "$(dirname "$0")/.." && pwd)
shown=$(mktemp "${TMPDIR:-/tmp}/stepcast-readme-XXXXXX")
trap 'rm -f "$shown" "$shown.now"' EXIT
awk '/^```/ { if (on) exit; on = 1; next } on' "$srcdir/README.md" >"$shown"
# shellcheck disable=SC2086
${RUN-} "$STEPCAST" run >"$shown.now"
diff "$shown" "$shown.now" || {
  echo 'README.md: its first block is not what "stepcast run" prints; put the new report there' >&2
  exit 1
}
