# Functions of the shell tests.  A test is a list of cases; each prints one TAP line.
work=$(mktemp -d "${TMPDIR:-/tmp}/ctrain-test.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cases=0

# ok NAME COMMAND...: passes if the command succeeds; prints its output otherwise.
ok() {
  local name=$1
  shift
  cases=$((cases + 1))
  if "$@" >"$work/.case" 2>&1; then
    echo "ok $cases - $name"
  else
    echo "# failed: $*"
    sed 's/^/#   /' "$work/.case" | tail -n 25
    [ -f "$work/err" ] && sed 's/^/# stderr: /' "$work/err" | tail -n 15
    echo "not ok $cases - $name"
  fi
}

skip() { # NAME REASON
  cases=$((cases + 1))
  echo "ok $cases - $1 # SKIP $2"
}

# again NAME COMMAND...: as ok, for cases repeated with another instruction set.  With sanitizers, which
# take four times as long, they run only if CT_FULL is set.
again() {
  if [ -n "$CT_SAN" ] && [ -z "${CT_FULL-}" ]; then
    skip "$1" "sanitizers, but where CT_FULL is set"
  else
    ok "$@"
  fi
}

# fewer N MANY: how many random cases: MANY, but N with sanitizers where CT_FULL is not set.
fewer() {
  if [ -n "$CT_SAN" ] && [ -z "${CT_FULL-}" ]; then echo "$1"; else echo "$2"; fi
}

# With the CPU time of the programs that the test has started, user and system.
finish() {
  times >"$work/.times"
  sed -n '2s/^/# CPU time: /p' "$work/.times"
  echo "1..$cases"
}

skip_all() { # REASON
  echo "1..0 # SKIP $1"
  exit 0
}

# ctrain RANKS ARGUMENTS...: runs the program; stdout in $work/out, stderr in $work/err, exit status in
# $status.  Ends it after 610 s at the latest.
ctrain() {
  local ranks=$1
  shift
  status=0
  if [ "$ranks" = 1 ]; then
    timeout -k 10 600 "$CTRAIN" "$@" >"$work/out" 2>"$work/err" || status=$?
  else
    timeout -k 10 600 $CT_MPIEXEC -n "$ranks" "$CTRAIN" "$@" >"$work/out" 2>"$work/err" || status=$?
  fi
  return 0
}

# killed RUN_DIRECTORY: succeeds if the last ctrain ended because ranks were killed.  Hydra of MPICH 4.1
# and later sometimes returns exit status 0 then; but metrics.jsonl has no line "end".
killed() {
  [ $status != 124 ] || return
  [ $status != 0 ] || {
    $CT_MPIEXEC --version 2>/dev/null | grep -q 'Version: *4\.[1-9]' &&
      ! tail -n 1 "$1/metrics.jsonl" | grep -q '"event": *"end"'
  }
}

# pick WORDS...: one of them, by $RANDOM, in $picked.
pick() {
  shift $((RANDOM % $#))
  picked=$1
}

# metric EVENT FIELD [FILE]: prints a field of all lines of an event in metrics.jsonl.
metric() {
  sed -n "s/^{\"event\": *\"$1\".*\"$2\": *\"\{0,1\}\([^,}\"]*\).*/\1/p" \
    "${3:-$work/run/metrics.jsonl}"
}

# A value that is not a number, including NaN and null, is near nothing.
near_in_awk='function near(a, b, t, d) {
  d = a < b ? b - a : a - b
  return a ~ number && b ~ number && d <= t
}
BEGIN { number = "^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$" }'

# near A B TOLERANCE: succeeds if the numbers differ by at most TOLERANCE.
near() { awk -v a="$1" -v b="$2" -v t="$3" "$near_in_awk"' BEGIN { exit !near(a, b, t) }'; }

# columns_near FILE-A FILE-B TOLERANCE: the same for all numbers of two columns of equal length.
columns_near() {
  [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] && [ -s "$1" ] &&
    paste "$1" "$2" | awk -v t="$3" \
    "$near_in_awk"' !near($1, $2, t) { print "line " NR ": " $0; bad = 1 } END { exit bad }'
}
