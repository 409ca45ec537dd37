#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# measure.sh - stepcast-measure on any machine: help, the list, bad command lines, and what it says without a GPU.  Skipped where
# it was not built.
set -eu
if [ -z "${STEPCAST_MEASURE-}" ]; then
  echo "stepcast-measure was not built"
  exit 77
fi
RUN=${RUN-}
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-measure-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
failed=0

complain ()
{
  echo "FAIL: $*"
  failed=1
}

# run STATUS ARGUMENT...: leaves out and err; complains about another status.
run ()
{
  expected=$1
  shift
  status=0
  # shellcheck disable=SC2086 # RUN is a command with arguments
  $RUN "$STEPCAST_MEASURE" "$@" >out 2>err || status=$?
  [ "$status" -eq "$expected" ] || complain "stepcast-measure $*: status $status, expected $expected: $(cat err)"
}

# one_line ARGUMENT...: the error was one line, and said by the program.
one_line ()
{
  [ "$(wc -l <err)" -eq 1 ] || complain "stepcast-measure $*: not one line: $(cat err)"
  grep -q '^stepcast-measure: ' err || complain "stepcast-measure $*: who says so? $(cat err)"
  [ ! -s out ] || complain "stepcast-measure $*: something on standard output"
}

classes='gemm grouped_gemm attention memory launch copy collective slowdown power'

run 0 --help
for word in --output --budget --only --gpu --list --verbose --version STEPCAST_LIBRARY_PATH 'Exit status' $classes; do
  grep -q -e "$word" out || complain "--help does not mention $word"
done
run 0 --version
head -n 1 out | grep -Eq '^stepcast-measure [0-9]' || complain "--version: $(head -n 1 out)"

run 0 --list
for class in $classes; do
  grep -Eq "^[0-9]+  $class " out || complain "--list has no $class"
done
[ "$(grep -v '^#' out | sort | uniq -d | wc -l)" -eq 0 ] || complain "--list repeats itself"
awk '!/^#/ { if ($1 < last) exit 1; last = $1 }' out || complain "--list is not in order of value"
run 0 --list --only launch,power
[ "$(awk '!/^#/ { print $2 }' out | sort -u | tr '\n' ' ')" = 'launch power ' ] || complain "--only: $(cat out)"

for arguments in --frobnicate -x --only=gemms --only= '--only=gemm,' --budget=soon --budget=-5m --budget=0 --gpu=one --gpu=-1 \
  '--list=yes' '--gpu' '-o' extra --output=; do
  run 2 "$arguments"
  one_line "$arguments"
done

run 73 -o no/such/folder/raw.jsonl
one_line -o no/such/folder/raw.jsonl
mkdir folder
run 73 -o folder
one_line -o folder

# Without a GPU: a clear line, and no file.  CUDA_VISIBLE_DEVICES hides one that is there.
CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES
run 69 -o raw.jsonl
one_line -o raw.jsonl
grep -q 'no usable GPU' err || complain "without a GPU: $(cat err)"
[ ! -e raw.jsonl ] || complain "without a GPU it left a file"
echo '{"class":"session"' >raw.jsonl
run 69 -o raw.jsonl
[ "$(cat raw.jsonl)" = '{"class":"session"' ] || complain "without a GPU it changed a file"

# It starts wherever a C library is: no library of CUDA is linked.
if command -v ldd >/dev/null; then
  linked=$(ldd "$STEPCAST_MEASURE" | awk '{ print $1 }' | grep -E 'libcuda|libcublas|libcudnn|libnccl|libnvidia|libglib|libcjson') || true
  [ -z "$linked" ] || complain "it is linked with $linked"
fi

exit "$failed"
