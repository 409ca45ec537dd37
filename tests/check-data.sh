#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# check-data.sh - every shipped workload passes the checks on the cluster it is meant for; no shipped file is left out.
set -eu
LC_ALL=C
export LC_ALL
cd "${abs_srcdir:-$(dirname "$0")/..}"
stepcast=${STEPCAST:-./stepcast}
failed=0

# home WORKLOAD: the topology on which it was run, or would be.
home ()
{
  case $1 in
    megatron-* | sc21-* | gpt3-175b-3d | zero-bubble-* | vocab-* | gpt-7.5b-zero* | olmo-7b-fsdp) echo dgx-a100-superpod ;;
    bloom-176b) echo jean-zay-a100 ;;
    llama3-8b | llama3-8b-128k | llama3-8b-fsdp2 | llama3-70b | mixtral-8x7b) echo dgx-h100-8 ;;
    qwen3-235b) echo azure-nd-h100-v5 ;;
    deepseek-v3) echo deepseek-h800 ;;
    llama3-405b* | deepseek-67b) echo dgx-h100-superpod ;;
    *) echo "$1 has no topology: add it to tests/check-data.sh" >&2; return 1 ;;
  esac
}

# check TOPOLOGY WORKLOAD [OPTION...]
check ()
{
  # shellcheck disable=SC2086 # RUN is a command with its arguments
  if ! ${RUN:-} "$stepcast" check "$@" >/dev/null; then
    echo "failed: stepcast check $*"
    failed=1
  fi
}

# is_large WORKLOAD: its kernels take seconds to simulate, so it only runs with --long.
is_large ()
{
  case $1 in
    *-1t* | *-530b* | *-310b | *-405b*) return 0 ;;
    *) return 1 ;;
  esac
}

# step_time TOPOLOGY WORKLOAD DETAIL: in seconds
step_time ()
{
  "$stepcast" run "$1" "$2" --detail "$3" --format json | sed -n 's/^[[:space:]]*"step_time_s":[[:space:]]*\([0-9.e+-]*\),$/\1/p'
}

# agree TOPOLOGY WORKLOAD: it runs, and all levels of detail say the same within 0.5 %.
agree ()
{
  kernel=$(step_time "$1" "$2" kernel)
  for detail in layer stage; do
    merged=$(step_time "$1" "$2" "$detail")
    if ! awk -v a="$kernel" -v b="$merged" 'BEGIN { exit !(a > 0 && b > 0 && b / a - 1 < 0.005 && b / a - 1 > -0.005) }'; then
      echo "failed: stepcast run $1 $2: kernel $kernel s, $detail $merged s"
      failed=1
    fi
  done
}

for file in workloads/*.json; do
  workload=${file#workloads/}
  workload=${workload%.json}
  if ! topology=$(home "$workload"); then
    failed=1
    continue
  fi
  check "topologies/$topology.json" "$file"
  if [ -n "${STEPCAST_LONG-}" ] || ! is_large "$workload"; then
    agree "topologies/$topology.json" "$file"
  fi
done
for file in topologies/*.json; do
  check "$file" workloads/megatron-22b-full.json
done
for file in topologies/devices/*.json; do
  check topologies/dgx-a100-superpod.json workloads/megatron-22b-full.json --device "$file"
done
exit $failed
