# What the Slurm tests share, beside tests/lib.sh and tests/faults/common.sh: a cluster of their
# own, tests/slurm/cluster, which goes down with the test, however it ends.
. "${CT_SRC:?see tests/env.sh}/tests/faults/common.sh" || exit 99

# Nothing that a test asks of it takes longer than three minutes.
cluster() { timeout -k 10 180 "$CT_SRC/tests/slurm/cluster" "$@"; }

# Why there can be no cluster here; nothing if there can.
no_cluster() {
  local tool mount='mount -t sysfs sysfs /sys && ip link add br0 type bridge'
  [ -z "$CT_SAN" ] || { echo "not under sanitizers: there are more ranks than cores"; return; }
  [ "$(uname -s)" = Linux ] || { echo "namespaces are Linux's"; return; }
  [ "$(id -u)" = 0 ] || { echo "not root, so no namespaces"; return; }
  for tool in slurmctld slurmd srun munged unshare nsenter setpriv setsid ip; do
    PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || { echo "no $tool"; return; }
  done
  [ -n "$CT_MPIEXEC" ] && $CT_MPIEXEC --version 2>&1 | grep -qi hydra ||
    { echo "no MPICH"; return; }
  PATH=$PATH:/usr/sbin:/sbin unshare --net --uts --ipc --mount --pid --fork --kill-child \
    --mount-proc sh -c "$mount" 2>/dev/null || echo "namespaces are not permitted here"
}

# cluster_up NODES CPUS: skips the whole test where that is not possible.
cluster_up() {
  local reason
  reason=$(no_cluster)
  [ -z "$reason" ] || skip_all "$reason"
  CLUSTER_DIR=$(CLUSTER_OWNER=$$ cluster up "$@") || { echo "Bail out! no cluster"; exit 99; }
  export CLUSTER_DIR
  trap 'cluster down; rm -rf "${work:?}"' EXIT
}

# on_head SECONDS COMMAND...: stdout in $work/out, stderr in $work/err, exit status in $status, as
# ctrain has them; the exit statuses of ranks that are started as $work/rank are in $work/codes.
on_head() {
  : >"$work/codes"
  status=0
  cluster run -- timeout -k 10 "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
}

# sruns NODES RANKS_PER_NODE ARGUMENTS...: the program, on so many, as a user should start it
sruns() {
  launched=$(($1 * $2))
  on_head 120 srun -N"$1" --ntasks-per-node="$2" --mpi=pmi2 \
    --kill-on-bad-exit=1 "$work/rank" "${@:3}"
}

# mpiexecs NODES RANKS_PER_NODE ARGUMENTS...: the same without Slurm
mpiexecs() {
  : >"$work/codes"
  status=0 launched=$(($1 * $2))
  cluster mpiexec -hosts "$(seq -s , -f node%g "$1")" -n $launched -ppn "$2" "$work/rank" "${@:3}" \
    >"$work/out" 2>"$work/err" </dev/null || status=$?
}

# wait_for SECONDS COMMAND...: until the command succeeds
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "# waited in vain: $*"; return 1; }
    sleep 0.1
  done
}

# wait_for_metric EVENT [LINES [FILE]]: until metrics.jsonl has so many (1) lines of that kind
wait_for_metric() { wait_for 180 has_metrics "$@"; }
has_metrics() {
  [ "$(grep -c "^{\"event\": *\"$1\"" "${3:-$work/run/metrics.jsonl}")" -ge "${2:-1}" ]
}

# ranks_of NODE: the process ids, inside the node, of the program's ranks there, in the order of
# their birth
ranks_of() { cluster on "$1" -- pgrep -f "^$program train"; }

# begin COMMAND...: sruns or mpiexecs of a training in the background, until it is under way
begin() {
  rm -rf "${work:?}/run"
  ("$@"; exit $status) &
  job=$!
  wait_for_metric first_step
}

# ended RANKS: waits for that, and sets $status and $launched as they do
ended() {
  launched=$1 status=0
  wait $job || status=$?
}

# the job is over, with an error, and not by its time limit
failed() { [ $status != 0 ] && [ $status != 124 ]; }

# no rank is left on the nodes
nobody_on() {
  local node
  for node; do [ -z "$(ranks_of "$node")" ] || return 1; done
}

# crossed NODE: bytes that have gone through the cable of the node so far, both ways
crossed() {
  cluster run -- cat "/sys/class/net/$1/statistics/tx_bytes" \
    "/sys/class/net/$1/statistics/rx_bytes" |
    awk '{ n += $1 } END { print n }'
}
