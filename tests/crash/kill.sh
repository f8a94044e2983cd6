#!/usr/bin/env bash
# kill.sh [KILLS]: kill -9 of one of two ranks at random moments, KILLS times (50), started again each time.
# After every kill the newest checkpoint must open, and when the run is over its weights must equal those of an
# undisturbed run to the bit.  CTRAIN, CT_MPIEXEC, CT_SRC, CT_BUILD as in tests/env.sh (default: build/).
set -u
kills=${1:-50}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${CT_SRC:=$here}" "${CT_BUILD:=$here/build}" "${CT_MPIEXEC:=mpiexec}"
: "${CTRAIN:=$CT_BUILD/ctrain-hpc}"
export OMP_NUM_THREADS=1
same=$CT_BUILD/tests/tools/same_ckpt
work=$(mktemp -d "${TMPDIR:-/tmp}/ctrain-kill.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
die() { echo "kill.sh: $*" >&2; tail -n 5 "$work/err" >&2; exit 1; }

# long enough for KILLS kills: each run lasts a random part of half a second beyond its start
train() {
  exec $CT_MPIEXEC -n 2 "$CTRAIN" train "$CT_SRC/examples/digits/train.yaml" --set run.dir="$work/$1" \
    --set checkpoint.every_steps=40 --set checkpoint.keep=2 --set train.epochs=$((kills * 3 + 10)) --set run.log_every=1000
}

(train whole) >"$work/out" 2>"$work/err" || die "the undisturbed run failed"
done_kills=0 finished_early=0
while [ $done_kills -lt "$kills" ]; do
  (train cut) >"$work/out" 2>"$work/err" &
  job=$!
  # at any moment from the start of MPI on
  sleep "$(awk -v r=$RANDOM 'BEGIN { printf "%.3f", 0.05 + 0.35 * r / 32768 }')"
  victim=$(pgrep -f "^$CTRAIN train .*$work/cut" | shuf -n 1)
  if [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null; then done_kills=$((done_kills + 1)); fi
  wait $job && finished_early=$((finished_early + 1))
  [ $finished_early -gt 3 ] && die "the run was over after $done_kills kills: too short for $kills"
  if [ -s "$work/cut/checkpoints/latest" ]; then
    latest=$work/cut/checkpoints/$(cat "$work/cut/checkpoints/latest")
    "$same" "$latest" "$latest" >/dev/null || die "unreadable after kill $done_kills: $latest"
  fi
done
(train cut) >"$work/out" 2>"$work/err" || die "the last run failed"
last=$(cat "$work/whole/checkpoints/latest")
[ "$(cat "$work/cut/checkpoints/latest")" = "$last" ] || die "the runs ended at different steps"
"$same" "$work/whole/checkpoints/$last" "$work/cut/checkpoints/$last" || die "the weights differ"
warnings=$(grep -c ' W ' "$work/err")
echo "$done_kills kills, $last: the weights equal those of the undisturbed run ($warnings warnings in the last run)"
