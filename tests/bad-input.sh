#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# bad-input.sh - whatever is wrong is said in one line, with the right exit status, and leaves no file behind.
#
# usage: bad-input.sh    (make check does this; UPDATE=1 writes data/bad/expected anew)
#
# data/bad/cases says what its lines mean.  From the environment: STEPCAST, the program; RUN, a command to put before
# it.
set -eu
LC_ALL=C
export LC_ALL
data=$(cd "$(dirname "$0")" && pwd)/data/bad

scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-bad-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM
mkdir "$scratch/bin" "$scratch/case"
cat >"$scratch/bin/stepcast" <<'END'
#!/bin/sh
exec $RUN "$STEPCAST" "$@"
END
chmod +x "$scratch/bin/stepcast"
PATH=$scratch/bin:$PATH
RUN=${RUN-}
STEPCAST_DATA_PATH=
export PATH RUN STEPCAST STEPCAST_DATA_PATH

failed=0

# complain TEXT: about the current case
complain ()
{
  echo "$line: $1"
  failed=1
}

# run_case KIND REST: in an empty folder with the three files
run_case ()
{
  cp "$data/workload.json" w.json
  cp "$data/topology.json" t.json
  cp "$data/device.json" d.json
  case $1 in
    w | t | d)
      sed "$2" "$1.json" >changed
      if [ -n "$2" ] && cmp -s changed "$1.json"; then
        complain 'changes nothing'
      fi
      mv changed "$1.json"
      ;;
    r)
      sh -c "${2#? }" >"${2%% *}.json"
      ;;
  esac
  ls >"$scratch/before"
  case $1 in
    d) set -- stepcast check t.json w.json --device d.json ;;
    s) set -- sh -c "stepcast check t.json w.json $2" ;;
    c) set -- sh -c "$2" ;;
    *) set -- stepcast check t.json w.json ;;
  esac
  status=0
  "$@" >"$scratch/stdout" 2>"$scratch/stderr" </dev/null || status=$?
  rm -f big.json
  ls >"$scratch/after"
}

cd "$scratch/case"
while IFS= read -r line; do
  case $line in
    '' | '#'*)
      continue
      ;;
  esac
  rest=${line#?}
  run_case "${line%"$rest"}" "${rest# }"

  {
    printf '%s\n' "$line"
    cat "$scratch/stdout" "$scratch/stderr"
    printf 'exit: %s\n\n' "$status"
  } >>"$scratch/out"

  if [ "$status" -ne 0 ]; then
    if [ -s "$scratch/stdout" ]; then
      complain 'failed, but wrote to standard output'
    fi
    if [ "$(wc -l <"$scratch/stderr")" -ne 1 ]; then
      complain "failed with $(wc -l <"$scratch/stderr") lines on stderr, expected one"
    fi
    if ! cmp -s "$scratch/before" "$scratch/after"; then
      complain 'failed, but left a file behind'
    fi
  fi
  rm -f ./*
done <"$data/cases"

if [ -n "${UPDATE-}" ]; then
  cmp -s "$scratch/out" "$data/expected" || cp "$scratch/out" "$data/expected"
elif ! diff -u "$data/expected" "$scratch/out"; then
  failed=1
fi
exit "$failed"
