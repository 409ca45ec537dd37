#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# gantt.sh - when each pass of an 18B GPT in four stages runs, eight micro-batches, by schedule: the data of gantt.gp.
#
# usage: plots/gantt.sh [STEPCAST] >plots/gantt.tsv && (cd plots && gnuplot gantt.gp)
set -eu
LC_ALL=C
export LC_ALL
stepcast=${1:-build/stepcast}

scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-gantt-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# Blocks of two empty lines: first the schedules, then the passes of each.
printf '# schedule\tstep_ms\tbubble_percent\tpeak_gib\n'
for schedule in gpipe 1f1b interleaved zb-h1 zb-h2 zb-v dualpipe; do
  case $schedule in
    interleaved | zb-v) chunks=2 ;;
    *) chunks=1 ;;
  esac
  "$stepcast" run dgx-a100-superpod sc21-18b --set plan.tp=1 --set plan.pp=4 --set plan.dp=1 --set plan.recompute=selective \
    --set plan.micro_batch=1 --set plan.global_batch=8 --set "plan.schedule=$schedule" --set "plan.vpp=$chunks" \
    --trace-passes --trace "$scratch/$schedule.json" |
    awk -v schedule="$schedule" '
      /^  Step / { step = $2 * ($3 == "s" ? 1000 : 1) }
      /^  Memory / { for (i = 2; i < NF; i++) if ($(i + 1) == "GiB") { memory = $i; break } }
      /^  bubble \/ step / { printf "%s\t%.0f\t%s\t%s\n", schedule, step, $4, memory }'
  printf '\n\n# %s\n# stage\tpass\tmicrobatch\tchunk\tstart_ms\tend_ms\n' "$schedule" >>"$scratch/passes"
  # one event a line; numbers of the thread "micro-batches"
  grep '"cat":"user_annotation","ph":"X","pid":[0-9]*,"tid":0,' "$scratch/$schedule.json" | tr -d '"{}' |
    awk -F '[,:]' '{
      for (i = 1; i < NF; i++)
        at[$i] = $(i + 1)
      printf "%d\t%s\t%d\t%d\t%.2f\t%.2f\n", at["pid"], at["name"], at["microbatch"], at["chunk"], at["ts"] / 1000, (at["ts"] + at["dur"]) / 1000
    }' >>"$scratch/passes"
done
cat "$scratch/passes"
