#!/usr/bin/env bash
# kill.sh [ROUNDS]: trains on two ranks and kills one of them or both with SIGKILL, ROUNDS times
# (50), starting again each time.  After each kill every checkpoint must be whole and the next start
# must succeed, and when a run is over its weights must equal those of an undisturbed one to the
# bit; then the next run begins.  CTRAIN, CT_MPIEXEC, CT_SRC, CT_BUILD as in tests/env.sh (default:
# build/).
set -u
rounds=${1:-50}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
: "${CT_SRC:=$here}" "${CT_BUILD:=$here/build}" "${CT_MPIEXEC:=mpiexec}"
: "${CTRAIN:=$CT_BUILD/ctrain-hpc}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
same=$CT_BUILD/tests/tools/same_ckpt
work=$(mktemp -d "${TMPDIR:-/tmp}/ctrain-kill.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
kept=$work/cut/checkpoints
epochs=12
[ -z "${CT_SAN-}" ] || epochs=4 # these are slow
kills=0 of_all=0 halves=0 starts=0 runs=0 onward=0

die() {
  echo "kill.sh: $* (kill $kills, start $starts)" >&2
  ls -l "$kept" >&2
  tail -n 5 "$work/err" >&2
  exit 1
}

train() { # DIRECTORY
  exec timeout 900 $CT_MPIEXEC -n 2 "$CTRAIN" train "$CT_SRC/examples/digits/train.yaml" \
    --set run.dir="$work/$1" --set checkpoint.every_steps=20 --set checkpoint.keep=2 \
    --set train.epochs="$epochs" --set run.log_every=1000 --set model.family=mlp \
    --set 'model.hidden=[800,800]' # whose checkpoints take a moment to write
}

newest() { cat "$kept/latest" 2>/dev/null; }
# What the program says, since Hydra of MPICH 4.2 may say 0 of ranks that were killed.
over() { grep -q ': done$' "$work/out"; }

pause() { sleep "$(awk -v r=$RANDOM -v most="$1" 'BEGIN { printf "%.3f", most * r / 32768 }')"; } \
  # up to so many seconds
running() { kill -0 "$1" 2>/dev/null; }
half_written() { compgen -G "$kept/*.tmp" >/dev/null; }

# A third of the kills hits at any moment from the start of MPI on, a third in the steps behind a
# new checkpoint, a third while one is being written.
wait_a_moment() { # JOB
  local before
  case $((RANDOM % 3)) in
  0) pause 1 ;;
  1)
    before=$(newest)
    while running "$1" && [ "$(newest)" = "$before" ]; do sleep 0.02; done
    pause 0.1
    ;;
  2)
    while running "$1" && ! half_written; do sleep 0.002; done
    [ $((RANDOM % 2)) = 0 ] || pause 0.05
    ;;
  esac
}

# The process ids of both ranks, once they are there.
find_ranks() { # JOB
  ranks=
  while running "$1" && [ "$(wc -w <<<"$ranks")" -lt 2 ]; do
    ranks=$(pgrep -f "^$CTRAIN train .*$work/cut" | shuf | tr '\n' ' ')
  done
}

# One rank or both.  1: there was none left.
kill_some() {
  case $((RANDOM % 2)) in
  0) kill -9 $ranks 2>/dev/null && of_all=$((of_all + 1)) ;;
  1) kill -9 "${ranks%% *}" 2>/dev/null ;;
  esac && kills=$((kills + 1))
}

check_checkpoints() {
  local file latest
  for file in "$kept"/step-*.h5; do
    [ -e "$file" ] || continue
    "$same" "$file" "$file" >&2 || die "not whole: $file"
  done
  latest=$(newest)
  [ -z "$latest" ] || [ -f "$kept/$latest" ] || die "'latest' names $latest, which is not there"
}

# The run is over: the very weights, and the next one begins.
check_end() {
  local last
  last=$(cat "$work/whole/checkpoints/latest")
  [ "$(newest)" = "$last" ] || die "ended with $(newest), the undisturbed run with $last"
  "$same" "$work/whole/checkpoints/$last" "$kept/$last" >&2 || die "the weights differ"
  ! find "$work/cut" -name '*.tmp' | grep . >&2 || die "a temporary file is left"
  runs=$((runs + 1))
  rm -rf "$work/cut"
}

# One start, which some rank does not survive, unless it is over before.
one_start() {
  local job before status=0 killed=0
  before=$(newest)
  (train cut) >"$work/out" 2>"$work/err" &
  job=$!
  starts=$((starts + 1))
  if [ $kills -lt "$rounds" ]; then
    find_ranks $job
    wait_a_moment $job
    kill_some && killed=1
  fi
  wait $job || status=$?
  [ $status != 124 ] || die "a rank was killed and the other one hangs"
  [ $killed = 1 ] || { [ $status = 0 ] && over; } || die "a start failed, though nobody was killed"
  ! half_written || halves=$((halves + 1))
  check_checkpoints
  [ "$(newest)" = "$before" ] || onward=$((onward + 1))
  ! { [ $status = 0 ] && over; } || check_end
}

(train whole) >"$work/out" 2>"$work/err" || die "the undisturbed run failed"
while [ $kills -lt "$rounds" ] || [ -d "$work/cut" ] || [ $runs = 0 ]; do
  [ $starts -lt $((rounds * 4 + 10)) ] || die \
    "too many starts: no run comes to its end, or each before the kill"
  one_start
done
echo "$kills kills ($of_all of all ranks, $halves left a half-written file), $starts starts, $onward of them with new" \
  "checkpoints, $runs runs came to their end:" \
  "no checkpoint was damaged, and the weights equal those of the undisturbed run"
