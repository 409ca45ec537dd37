#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-readme.sh - what README.md shows is what the program prints.
set -eu
srcdir=$(cd "$(dirname "$0")/.." && pwd)
now=$(mktemp "${TMPDIR:-/tmp}/stepcast-readme-XXXXXX")
trap 'rm -f "$now"' EXIT
sh "$srcdir/scripts/shown.sh" "$STEPCAST" "$srcdir/README.md" >"$now"
diff "$srcdir/README.md" "$now" || {
  echo 'README.md: this is not what its commands print; make shown puts the new output there' >&2
  exit 1
}
