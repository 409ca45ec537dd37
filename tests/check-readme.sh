#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-readme.sh - what README.md shows is what the program prints: its first block, a report, and every block that begins
# with "$ stepcast ..." and runs, one after the other, in a folder that has tests/.
set -eu
srcdir=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-readme-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
awk -v folder="$scratch" '
  /^```/ { on = !on; n += on; next }
  on { print > sprintf ("%s/block-%03d", folder, n) }' "$srcdir/README.md"
mkdir "$scratch/bin"
cat >"$scratch/bin/stepcast" <<'END'
#!/bin/sh
exec $RUN "$STEPCAST" "$@"
END
chmod +x "$scratch/bin/stepcast"
PATH=$scratch/bin:$PATH
RUN=${RUN-}
export PATH RUN STEPCAST

mkdir "$scratch/here"
ln -s "$srcdir/tests" "$scratch/here/tests"
cd "$scratch/here"
failed=0
for block in "$scratch"/block-*; do
  first=$(head -n 1 "$block")
  case $first in
    '$ stepcast '*)
      command=${first#"$ "}
      sed 1d "$block" >"$scratch/shown"
      ;;
    *)
      if [ "$block" != "$scratch/block-001" ]; then
        continue
      fi
      command='stepcast run'
      cp "$block" "$scratch/shown"
      ;;
  esac
  sh -c "$command" >"$scratch/now" || [ $? -eq 1 ] # the answer may be no
  diff "$scratch/shown" "$scratch/now" || {
    echo "README.md: this is not what \"$command\" prints; put the new report there" >&2
    failed=1
  }
done
exit "$failed"
