#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# sweep-kills.sh - a sweep that is killed at any moment and gone on with ends as one that nobody disturbed, byte by byte; SIGTERM and SIGINT
# leave whole lines and say so in their status.  Five kills; with STEPCAST_LONG a hundred.
set -eu
if [ -n "${RUN-}" ]; then
  echo "skipped: runs $STEPCAST itself"
  exit 77
fi
kills=5
[ -z "${STEPCAST_LONG-}" ] || kills=100
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-kills-XXXXXX")
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
failed=0

complain ()
{
  echo "FAIL: $*"
  failed=1
}

# sweep ARGUMENT...: one process, whose id is that of the shell that runs it
sweep ()
{
  exec "$STEPCAST" sweep dgx-h100-8 llama3-8b --set plan.gpus=16 --set plan.global_batch=64 --vary plan.tp=2:8:x2 --vary plan.micro_batch=1:4 \
    --vary seq=2048,4096,8192,16384 --vary plan.recompute=none,full --quiet "$@"
}

# whole_lines PART ALL: PART is a beginning of ALL, but for a torn last line
whole_lines ()
{
  size=$(grep -c '' "$1" || true)
  [ -z "$(tail -c 1 "$1")" ] || size=$((size - 1))
  head -n "$size" "$1" >part
  head -n "$size" "$2" | cmp -s - part || complain "$1: not a beginning of $2"
}

# A pause of up to 0.4 s, the same in every run.
pause ()
{
  sleep "$(awk -v seed="$1" 'BEGIN { srand (seed); printf "%.3f", 0.4 * rand () }')"
}

for format in jsonl csv; do
  (sweep --output "all.$format")
done
n=$(wc -l <all.jsonl)
[ "$n" -eq 96 ] || complain "$n lines of 96 points"

# Every other kill hits a shard of a sharded sweep.
kill=0
while [ "$kill" -lt "$kills" ]; do
  kill=$((kill + 1))
  case $((kill % 4)) in
    0) file=all-again.csv all=all.csv && set -- ;;
    1) file=all-again.jsonl all=all.jsonl && set -- ;;
    2) file=0-of-2.jsonl all= && set -- --shard 0/2 ;;
    *) file=1-of-2.jsonl all= && set -- --shard 1/2 ;;
  esac
  (sweep --resume "$file" "$@") &
  pid=$!
  pause "$kill"
  # The shell says that its child was killed.
  {
    kill -9 "$pid" || true
    wait "$pid" || true
  } 2>kill.log
  if [ -n "$all" ] && [ -s "$file" ]; then
    whole_lines "$file" "$all"
  fi
  # Done before the last kill: once more from the beginning.
  if [ -s "$file" ] && [ "$(wc -l <"$file")" -ge 48 ] && [ $((kill + 8)) -lt "$kills" ]; then
    rm "$file"
  fi
done
for format in jsonl csv; do
  (sweep --resume "all-again.$format") || complain "going on: status $?"
  cmp "all-again.$format" "all.$format" || complain "$format: another result after the kills"
done
for shard in 0 1; do
  (sweep --resume '%i-of-%n.jsonl' --shard "$shard/2") || complain "going on: status $?"
done
"$STEPCAST" merge 1-of-2.jsonl 0-of-2.jsonl >merged.jsonl || complain "merge: status $?"
cmp merged.jsonl all.jsonl || complain 'another result after the kills, merged'

# asked SIGNAL NAME STATUS: the signal ends it cleanly.  It is timeout that sends it: in a script, what runs in the background ignores SIGINT.
asked ()
{
  rm -f stopped.jsonl
  status=0
  timeout --preserve-status --signal="$1" 0.3 "$STEPCAST" sweep dgx-h100-8 llama3-8b --vary seq=128:12800:+128 --vary plan.global_batch=64:6400:+64 --quiet \
    --detail kernel --resume stopped.jsonl 2>stopped.err || status=$?
  [ "$status" -eq "$3" ] || complain "$1: status $status, expected $3"
  [ -z "$(tail -c 1 stopped.jsonl)" ] || complain "$1: a torn line"
  grep -q "^stepcast: sweep: $2 with [0-9]* of 10000 points left; --resume stopped.jsonl goes on\$" stopped.err || complain "$1: said $(cat stopped.err)"
}
asked TERM Terminated 143
asked INT Interrupt 130
exit "$failed"
