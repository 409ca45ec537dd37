#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# slurm-calibrate.sh - measures one whole node of a partition and makes a device file of it.
#
#   sbatch --partition=PARTITION examples/slurm-calibrate.sh [FOLDER]
#
# FOLDER (default: calibration) then holds TYPE.jsonl, the raw samples, and TYPE.json, the device for stepcast run --device, where
# TYPE is the node's GPU and their number, such as nvidia-h200-x8.  Submitted again it goes on where it stopped: partitions with a
# short time limit need several jobs.
#
#SBATCH --job-name=stepcast-calibrate
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --gpus-per-node=8
#SBATCH --time=00:40:00
#SBATCH --signal=TERM@60
#SBATCH --output=stepcast-calibrate-%j.log
set -euo pipefail

folder=${1:-calibration}
budget=${STEPCAST_BUDGET:-35m}
mkdir -p "$folder"

# The node's type names the files, so that nodes of one kind share a calibration.
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)
count=$(nvidia-smi --query-gpu=name --format=csv,noheader | wc -l)
type=$(printf '%s-x%s' "$gpu" "$count" | tr '[:upper:] ' '[:lower:]-' | tr -cd '[:alnum:]-')

# Exclusive use matters: other jobs on the node show in copies and collectives, and in the power that is left.
nvidia-smi --query-gpu=index,clocks.sm,clocks.mem,power.limit,temperature.gpu --format=csv

status=0
stepcast-measure --budget "$budget" --output "$folder/$type.jsonl" || status=$?
case $status in
  0 | 130 | 143) ;; # all of it, or what there was time for
  *) exit "$status" ;;
esac

stepcast calibrate "$folder/$type.jsonl" -o "$folder/$type.json"
echo "$folder/$type.json is the device of this node"
