#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# slurm-sweep.sh - one sweep over the tasks of a job array.
#
#   sbatch --array=0-7 examples/slurm-sweep.sh FOLDER SWEEP.json
#   sbatch --array=0-7 examples/slurm-sweep.sh FOLDER TOPOLOGY WORKLOAD --vary plan.tp=1:8:x2 --vary plan.pp=1:16:x2 ...
#   stepcast merge FOLDER/*.jsonl -o FOLDER.jsonl
#
# Task I of N does every N-th point, in as many threads as it has processors, and writes FOLDER/I-of-N.jsonl.  Ask for few tasks that do much: a
# point takes milliseconds, SLURM about a second for each task.  Submitted again it goes on where it stopped, and what is complete is done at once; so does a
# task that SLURM kills and puts back into the queue.  Repeat all tasks, not some: their number is part of who does what.
#
#SBATCH --job-name=stepcast-sweep
#SBATCH --ntasks=1
#SBATCH --time=01:00:00
#SBATCH --requeue
#SBATCH --signal=TERM@30
#SBATCH --open-mode=append
#SBATCH --output=stepcast-sweep-%A_%a.log
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: sbatch --array=0-7 $0 FOLDER SWEEP.json | TOPOLOGY WORKLOAD --vary KEY=VALUES..." >&2
  exit 2
fi
folder=$1
shift
mkdir -p "$folder"

# Status 75, 130 or 143: there was no time for all of it.
exec stepcast sweep "$@" --shard auto --resume "$folder/%i-of-%n.jsonl" --jobs "${SLURM_CPUS_PER_TASK:-0}" --max-time "${STEPCAST_BUDGET:-58m}"
