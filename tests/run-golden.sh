#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# run-golden.sh - runs one command line and compares all that a user sees of it with what it printed before.
#
# usage: run-golden.sh NAME.cmd    (make check does this; UPDATE=1 make check writes NAME.out anew)
#
# NAME.cmd is a shell command line: `stepcast` is the program under test, $srcdir the source tree, the current folder an
# empty one.  NAME.out has its stdout, its stderr with "stderr: " before each line, and "exit: N".  The path of the
# source tree reads $srcdir there.  From the environment: STEPCAST, the program; RUN, a command to put before it.
set -eu
LC_ALL=C
export LC_ALL
unset COLUMNS COLORTERM CLICOLOR CLICOLOR_FORCE
TERM=dumb
export TERM

cmd=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
out=${cmd%.cmd}.out
srcdir=$(cd "$(dirname "$0")/.." && pwd)
export srcdir

scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-golden-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
mkdir "$scratch/bin" "$scratch/empty"
cat >"$scratch/bin/stepcast" <<'END'
#!/bin/sh
exec $RUN "$STEPCAST" "$@"
END
chmod +x "$scratch/bin/stepcast"
PATH=$scratch/bin:$PATH
RUN=${RUN-}
export PATH RUN STEPCAST

status=0
(cd "$scratch/empty" && sh "$cmd") >"$scratch/stdout" 2>"$scratch/stderr" </dev/null || status=$?

# Literally, not as a pattern: replaces the path of the source tree and puts $1 before each line.
tidy ()
{
  prefix=$1 awk '{
    rest = $0
    line = ENVIRON["prefix"]
    while ((at = index (rest, ENVIRON["srcdir"])) > 0)
      {
        line = line substr (rest, 1, at - 1) "$srcdir"
        rest = substr (rest, at + length (ENVIRON["srcdir"]))
      }
    print line rest
  }'
}

{
  tidy '' <"$scratch/stdout"
  if [ -s "$scratch/stdout" ] && [ -n "$(tail -c 1 "$scratch/stdout")" ]; then
    echo '\ no newline at the end of stdout'
  fi
  tidy 'stderr: ' <"$scratch/stderr"
  echo "exit: $status"
} >"$scratch/out"

if [ -n "${UPDATE-}" ]; then
  cmp -s "$scratch/out" "$out" || cp "$scratch/out" "$out"
  exit 0
fi
if [ ! -f "$out" ]; then
  echo "$out: not there; UPDATE=1 make check writes it"
  cat "$scratch/out"
  exit 1
fi
diff -u "$out" "$scratch/out"
