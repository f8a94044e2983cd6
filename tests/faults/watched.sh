# What the tests of hanging and dying ranks share, beside common.sh: runs in the background, whose
# ranks get signals.
. "${CT_SRC:?see tests/env.sh}/tests/faults/common.sh" || exit 99
[ -n "$CT_MPIEXEC" ] || skip_all "no MPI launcher"

# Each rank goes through this script, which notes the rank's process and its exit status.  Hydra sends
# SIGUSR1 to the process groups of the others when a rank has died; if the script died of it, Hydra
# would kill a rank before it has told the others that it has reported the death.
cat >"$work/rank" <<'E1'
#!/bin/sh
trap : USR1
rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
"$program" "$@" &
echo $! >"$work/pid.$rank.new" && mv "$work/pid.$rank.new" "$work/pid.$rank"
code=138
while [ $code = 138 ]; do
  wait $!
  code=$?
done
echo $code >>"$work/codes"
exit $code
E1

pid() { cat "$work/pid.$1"; }

# begin ARGUMENTS...: a run of three ranks that would go on for days, in the background
begin() {
  rm -rf "$work/run" "$work/codes" "$work"/pid.*
  : >"$work/codes"
  timeout 600 $launcher -n 3 "$work/rank" train "$digits" --set run.dir="$work/run" \
    --set data.batch=256 --set train.epochs=100000000 \
    --set job.watchdog_s=3 "$@" >"$work/out" 2>"$work/err" &
  job=$!
}

# under_way: waits for the first step
under_way() {
  for _ in $(seq 6000); do
    [ -n "$(metric first_step step 2>/dev/null)" ] && return
    sleep 0.1
  done
}

# signal SIGNAL RANK...
signal() {
  local name=$1 rank
  shift
  for rank; do kill "-$name" "$(pid "$rank")"; done
}

# over: the job has ended, not well, and no process of it is left
over() {
  status=0
  wait "$job" || status=$?
  local rank ranks=
  for _ in $(seq 6000); do
    ranks=
    for rank in 0 1 2; do
      kill -0 "$(pid $rank)" 2>/dev/null && ranks="$ranks $rank"
    done
    [ -z "$ranks" ] && break
    sleep 0.1
  done
  echo "mpiexec: $status; left: $ranks; exit statuses: $(tr '\n' ' ' <"$work/codes")"
  [ $status != 0 ] && [ $status != 124 ] && [ -z "$ranks" ] && ! grep -qx 0 "$work/codes"
}

says() { grep -qE -- "$1" "$work/err"; }
launcher=$CT_MPIEXEC
