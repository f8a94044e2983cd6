# What the fault tests share, beside tests/lib.sh.
. "${CT_SRC:?see tests/env.sh}/tests/lib.sh" || exit 99
digits=$CT_SRC/examples/digits/train.yaml

# Each rank goes through this script, which notes its exit status: what mpiexec returns is that of
# some rank.
program=$CTRAIN
export program work
cat >"$work/rank" <<'E1'
#!/bin/sh
trap : TERM USR1 USR2 # a launcher's signal is for the rank too, and its status is still to come
"$program" "$@"
code=$?
echo $code >>"$work/codes"
exit $code
E1
chmod +x "$work/rank"

# launch RANKS ARGUMENTS...: as ctrain, with the exit status of every rank
launch() {
  : >"$work/codes"
  CTRAIN=$work/rank ctrain "$@"
  launched=$1
}

# begin RANKS ARGUMENTS...: the same in the background; $job
begin() {
  : >"$work/codes"
  launched=$1
  shift
  if [ "$launched" = 1 ]; then
    timeout 600 "$work/rank" "$@" >"$work/out" 2>"$work/err" &
  else
    timeout 600 $CT_MPIEXEC -n "$launched" "$work/rank" "$@" >"$work/out" 2>"$work/err" &
  fi
  job=$!
}

# await COMMAND...: until it succeeds, or what was begun is over
await() {
  while kill -0 "$job" 2>/dev/null; do
    "$@" >"$work/.await" 2>&1 && return 0
    sleep 0.05
  done
  return 1
}

# a_rank: process id of one rank of what was begun in $work
a_rank() { pgrep -f "^$program train .*$work" | head -n 1; }

# catches_usr1 PID: that process handles SIGUSR1, be it that MPI starts
catches_usr1() {
  local mask
  mask=$(sed -n 's/^SigCgt:[[:blank:]]*//p' "/proc/$1/status") && [ $((0x${mask:-0} & 0x200)) != 0 ]
}

# over [SIGNAL]: what was begun has come to its end, if need be by a signal to a rank
over() {
  [ -z "${1-}" ] || kill "-$1" "$(a_rank)"
  status=0
  wait "$job" || status=$?
}

# every_rank STATUS: each rank of the last launch ended with it, and so did mpiexec
every_rank() {
  echo "mpiexec: $status; ranks: $(tr '\n' ' ' <"$work/codes")"
  [ $status = "$1" ] && [ "$(grep -cx -- "$1" "$work/codes")" = "$launched" ]
}

# one_message WORDS...: one error, with each of the words in it
one_message() {
  local word
  [ "$(grep -c 'ctrain-hpc: error: ' "$work/err")" = 1 ] || return 1
  for word; do
    grep -F 'ctrain-hpc: error: ' "$work/err" | grep -qF -- "$word" ||
      { echo "does not say '$word'"; return 1; }
  done
}

# nothing_half_written DIRECTORY: no temporary file in it, and the checkpoint that `latest` names is
# there
nothing_half_written() {
  local latest=$1/checkpoints/latest
  find "$1" -name '*.tmp' | grep . && return 1
  [ ! -e "$latest" ] || [ -f "$1/checkpoints/$(cat "$latest")" ]
}

# refused NAME STATUS WORDS...: what the last launch must have come to
refused() {
  local name=$1 want=$2
  shift 2
  ok "$name: exit $want on all ranks" every_rank "$want"
  ok "$name: one message, which says what is wrong" one_message "$@"
}

ended_well() {
  every_rank 0 && [ "$(metric end reason | tail -n 1)" = done ] && nothing_half_written "$work/run"
}

# begin RANKS ARGUMENTS...: as launch, but this returns; `finished` waits for the end
begin() {
  local ranks=$1
  shift
  : >"$work/codes"
  launched=$ranks
  timeout 600 $CT_MPIEXEC -n "$ranks" "$work/rank" "$@" >"$work/out" 2>"$work/err" &
  job=$!
}

# seen COMMAND...: waits until it succeeds, or the launch is over
seen() {
  for _ in $(seq 6000); do
    "$@" 2>/dev/null && return
    kill -0 $job 2>/dev/null || return
    sleep 0.05
  done
}

# ranks: process ids of the launch's ranks, a line each; pid_of RANK: that of one
ranks() { pgrep -f "^$program train .*$work/run"; }
pid_of() {
  local pid
  for pid in $(ranks); do
    tr '\0' '\n' <"/proc/$pid/environ" | grep -qxE "(PMI_RANK|PMIX_RANK|OMPI_COMM_WORLD_RANK)=$1" &&
      echo "$pid"
  done
}

finished() {
  status=0
  wait $job || status=$?
}

# stopped REASON: on all ranks with 75, and a checkpoint of the very step that the run ended with
stopped() {
  local step
  step=$(metric end step | tail -n 1)
  every_rank 75 && nothing_half_written "$work/run" &&
    [ "$(metric end reason | tail -n 1)" = "$1" ] &&
    [ "$(cat "$work/run/checkpoints/latest")" = "$(printf 'step-%08d.h5' "$step")" ] &&
    grep -q ": stopping after step $step" "$work/err" && ! grep error: "$work/err"
}

# same_end DIRECTORY: the run's last checkpoint holds what that of the run in DIRECTORY does
same_end() {
  "$CT_BUILD/tests/tools/same_ckpt" "$1/checkpoints/$(cat "$1/checkpoints/latest")" \
    "$work/run/checkpoints/$(cat "$work/run/checkpoints/latest")"
}
