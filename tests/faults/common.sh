# What the fault tests share, beside tests/lib.sh.
. "$CT_SRC/tests/lib.sh"
digits=$CT_SRC/examples/digits/train.yaml

# Each rank goes through this script, which notes its exit status: what mpiexec returns is that of some rank.
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
    timeout 120 "$work/rank" "$@" >"$work/out" 2>"$work/err" &
  else
    timeout 120 $CT_MPIEXEC -n "$launched" "$work/rank" "$@" >"$work/out" 2>"$work/err" &
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
    grep -F 'ctrain-hpc: error: ' "$work/err" | grep -qF -- "$word" || { echo "does not say '$word'"; return 1; }
  done
}

# nothing_half_written DIRECTORY: no temporary file in it, and the checkpoint that `latest` names is there
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

ended_well() { every_rank 0 && [ "$(metric end reason | tail -n 1)" = done ] && nothing_half_written "$work/run"; }
