# shellcheck shell=bash
# What .ci/run and .ci/full share: stages, whose counts add up.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. .ci/packages
passed=0 failed=0 skipped=0
failures=$(mktemp)
times=$(mktemp)

# stage NAME COMMAND...: adds the counts of its last line; a stage without counts is one test.
stage() {
  local name=$1 begin=$SECONDS out status before
  shift
  printf '\n==== %s\n' "$name"
  out=$(mktemp)
  count_cpu
  before=$cpu
  "$@" 2>&1 | tee "$out"
  status=${PIPESTATUS[0]}
  if [[ $(tail -n 1 "$out") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    skipped=$((skipped + BASH_REMATCH[3]))
    if [ "$status" != 0 ] && [ "${BASH_REMATCH[2]}" = 0 ]; then failed=$((failed + 1)); fi
  elif [ "$status" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
  if [ "$status" != 0 ]; then
    printf '\n==== failed in %s\n' "$name"
    # what quickstart says of the failed cases; of a stage that is no test its last words
    grep -E '^(not ok|Bail out|# |ERROR|FAIL)' "$out" || tail -n 20 "$out"
  fi >>"$failures"
  rm -f "$out"
  count_cpu
  printf '==== %s: %d s, %d s of CPU time\n' "$name" $((SECONDS - begin)) $((cpu - before)) |
    tee -a "$times"
}

# In $cpu: the CPU time of all processes that have ended, without those of `ahead` that run on.
count_cpu() {
  times >"$times.cpu"
  cpu=$(awk 'function seconds(t) { split(t, part, "m"); return 60 * part[1] + part[2] }
    NR == 2 { printf "%d", seconds($1) + seconds($2) }' "$times.cpu")
}

# ahead COMMAND...: in the background, at the lowest priority, what a later stage needs; the stage
# does again what fails here, and says why. No part of it outlives this script.
aheads=()
ahead() {
  set -m # a process group of its own
  nice -n 19 "$@" </dev/null >/dev/null 2>&1 &
  set +m
  aheads+=("-$!")
}
trap '[ ${#aheads[@]} = 0 ] || kill -- "${aheads[@]}" 2>/dev/null' EXIT

# slowest BUILD: the tests of the last make check there that took longest, and the CPU time of
# scripts: a test that takes long without it waits. A log is made when its test begins, and its .trs
# when the test has ended.
slowest() {
  find "$1/tests" -name '*.trs' -printf '%T@ %p\n' | while read -r end trs; do
    begin=$(stat -c %W "${trs%.trs}.log") || continue
    [ "$begin" -gt 0 ] || continue
    cpu=$(sed -n 's/^# CPU time: \(.*\)/ (CPU time \1)/p' "${trs%.trs}.log")
    trs=${trs#"$1"/tests/}
    printf '%5d s %s%s\n' $((${end%.*} - begin)) "${trs%.trs}" "$cpu"
  done | sort -rn | head -n 15
}

# The last words; the exit status tells whether anything failed.
finish() {
  printf '\n'
  cat "$times" "$failures"
  rm -f "$times" "$times.cpu" "$failures"
  printf '\n%d passed, %d failed, %d skipped\n' $passed $failed $skipped
  [ $failed = 0 ]
}
