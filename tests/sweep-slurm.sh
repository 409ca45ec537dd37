#!/bin/bash
# SPDX-License-Identifier: GPL-3.0-or-later
# sweep-slurm.sh - a job array of a real SLURM does a sweep by examples/slurm-sweep.sh, a task is cancelled in between and submitted again, and
# what merge makes of it is what one process writes.  Starts munged, slurmctld and slurmd of its own on this machine (Debian: slurm-wlm, munge), as plain processes.
# Only with STEPCAST_LONG; skipped where they are not installed, do not start, or a SLURM is running already.
# shellcheck disable=SC2317 # a trap and wait_for call these functions
[ -n "${BASH_VERSION-}" ] || exec bash "$0" "$@"
set -u

skip ()
{
  echo "skipped: $*"
  exit 77
}

[ -n "${STEPCAST_LONG-}" ] || skip 'only with STEPCAST_LONG'
for program in munged slurmctld slurmd sbatch squeue scancel scontrol; do
  PATH=$PATH:/usr/sbin command -v "$program" >/dev/null || skip "$program is not installed"
done
[ "$(id -u)" -eq 0 ] || skip 'slurmd needs root'
id munge >/dev/null 2>&1 || skip 'there is no user munge'
PATH=$PATH:/usr/sbin
source_folder=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/stepcast-slurm-XXXXXX")
failed=0
munged_pid=

complain ()
{
  echo "FAIL: $*"
  failed=1
}

# end_daemon PID-FILE: asks it to end, and waits a little
end_daemon ()
{
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 50); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null
}

# The daemons that were started here, by their own pid files.
finish ()
{
  end_daemon "$scratch/slurmd.pid"
  end_daemon "$scratch/slurmctld.pid"
  [ -z "$munged_pid" ] || end_daemon "$scratch/munge/munged.pid"
  rm -rf "$scratch"
}
trap finish EXIT

# A port that nobody listens on.
free_port ()
{
  local port
  for port in $(seq "$1" "$(($1 + 200))"); do
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port" && return; }
  done
}

# munged with a key and a socket of its own.
start_munge ()
{
  mkdir "$scratch/munge"
  head -c 128 /dev/urandom >"$scratch/munge/key"
  chmod 711 "$scratch"
  chmod 755 "$scratch/munge"
  chmod 600 "$scratch/munge/key"
  chown -R munge "$scratch/munge"
  setpriv --reuid=munge --regid=munge --clear-groups munged --key-file="$scratch/munge/key" --socket="$scratch/munge/socket" \
    --pid-file="$scratch/munge/munged.pid" --log-file="$scratch/munge/log" --seed-file="$scratch/munge/seed" --force >"$scratch/munge.err" 2>&1 ||
    skip "munged does not start: $(tail -n 1 "$scratch/munge.err")"
  munged_pid=yes
}

host=$(hostname -s)
write_conf ()
{
  mkdir "$scratch/state" "$scratch/spool"
  cat >"$scratch/slurm.conf" <<END
ClusterName=stepcast
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port 16817)
SlurmdPort=$(free_port 17818)
AuthType=auth/munge
AuthInfo=socket=$scratch/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
SlurmctldLogFile=$scratch/slurmctld.log
SlurmdLogFile=$scratch/slurmd.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=200000,batch_sched_delay=1
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
KillWait=5
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
  export SLURM_CONF=$scratch/slurm.conf
}

# wait_for SECONDS COMMAND...: until it succeeds
wait_for ()
{
  local tries=$(($1 * 5))
  shift
  while [ "$tries" -gt 0 ]; do
    "$@" >/dev/null 2>&1 && return
    sleep 0.2
    tries=$((tries - 1))
  done
  return 1
}

node_is_up () { [ "$(sinfo --noheader --format=%t)" = idle ]; }
none_left () { [ -z "$(squeue --noheader)" ]; }
has_lines () { [ "$(cat out/*.jsonl 2>/dev/null | wc -l)" -ge "$1" ]; }

start_munge
write_conf
slurmctld -f "$SLURM_CONF" >"$scratch/start.err" 2>&1 || skip "slurmctld does not start: $(tail -n 1 "$scratch/start.err")"
slurmd -f "$SLURM_CONF" >"$scratch/start.err" 2>&1 || skip "slurmd does not start: $(tail -n 1 "$scratch/start.err")"
wait_for 20 node_is_up || skip "SLURM's node does not come up: $(tail -n 1 "$scratch/slurmctld.log")"

# What the job script finds as stepcast.
mkdir "$scratch/bin" "$scratch/work"
cat >"$scratch/bin/stepcast" <<END
#!/bin/sh
exec ${RUN-} "$STEPCAST" "\$@"
END
chmod +x "$scratch/bin/stepcast"
export PATH=$scratch/bin:$PATH
cd "$scratch/work" || exit 1

cat >grid.json <<'END'
{
  "topology": "dgx-h100-8",
  "workload": "llama3-8b",
  "set": { "plan.gpus": 16, "plan.global_batch": 64 },
  "vary": [ { "plan.tp": "2:8:x2" }, { "plan.micro_batch": "1:4" }, { "seq": "1024:16384:+1024" }, { "plan.recompute": ["none", "full"] } ]
}
END
stepcast sweep grid.json --quiet >all.jsonl || complain "sweep: status $?"

# submit: the same line each time, as a user would
submit ()
{
  sbatch --array=0-3 --time=5 --output=log-%a "$source_folder/examples/slurm-sweep.sh" out grid.json >sbatch.log || complain "sbatch: $(cat sbatch.log)"
}

submit
wait_for 60 has_lines 20 || complain "no lines after a minute: $(squeue); $(cat log-*)"
scancel --full --signal=KILL --state=RUNNING --user=root
scancel --user=root
wait_for 60 none_left || complain "not cancelled: $(squeue)"
stepcast merge out/*.jsonl --partial >part.jsonl 2>merge.err || complain "merge --partial: status $?"
echo "cancelled with $(wc -l <part.jsonl) of $(wc -l <all.jsonl) points"
submit
wait_for 120 none_left || complain "not done: $(squeue)"
for shard in 0 1 2 3; do
  [ -s "out/$shard-of-4.jsonl" ] || complain "shard $shard: no file: $(cat "log-$shard")"
done
stepcast merge out/*.jsonl >merged.jsonl || complain "merge: status $?: $(cat log-*)"
cmp merged.jsonl all.jsonl || complain 'another result than that of one process'

# Tasks of one step are shards too.
sbatch --wait --ntasks=2 --output=log-step --wrap="srun --ntasks=2 stepcast sweep grid.json --shard auto --quiet --jobs 1 --output 'step-%i-of-%n.jsonl'" >sbatch.log ||
  complain "srun: $(cat log-step)"
stepcast merge step-?-of-2.jsonl | cmp - all.jsonl || complain 'another result of srun'
exit "$failed"
