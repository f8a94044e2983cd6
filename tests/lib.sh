# What the shell tests share.  A test is a list of cases; each prints one TAP line.
work=$(mktemp -d "${TMPDIR:-/tmp}/ctrain-test.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
cases=0

# ok NAME COMMAND...: the case passes if the command does; what it printed is shown if it does not.
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

# again NAME COMMAND...: as ok, for what repeats cases on other vectors; sanitizers take four times
# as long, and have CT_FULL for it.
again() {
  if [ -n "$CT_SAN" ] && [ -z "${CT_FULL-}" ]; then
    skip "$1" "sanitizers, but where CT_FULL is set"
  else
    ok "$@"
  fi
}

finish() { echo "1..$cases"; }

skip_all() { # REASON
  echo "1..0 # SKIP $1"
  exit 0
}

# ctrain RANKS ARGUMENTS...: stdout in $work/out, stderr in $work/err, exit status in $status.  It
# never takes longer than 610 s.
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

# killed RUN_DIRECTORY: after ctrain, ranks were killed and the job ended.  Hydra of MPICH 4.1 and
# later now and then has exit status 0 then; the run has no end all the same.
killed() {
  [ $status != 124 ] || return
  [ $status != 0 ] || {
    $CT_MPIEXEC --version 2>/dev/null | grep -q 'Version: *4\.[1-9]' &&
      ! tail -n 1 "$1/metrics.jsonl" | grep -q '"event": *"end"'
  }
}

# metric EVENT FIELD [FILE]: that field of all such lines of metrics.jsonl, a line each.
metric() {
  sed -n "s/^{\"event\": *\"$1\".*\"$2\": *\"\{0,1\}\([^,}\"]*\).*/\1/p" \
    "${3:-$work/run/metrics.jsonl}"
}

# What is not a number, NaN and null too, is near nothing.
near_in_awk='function near(a, b, t, d) {
  d = a < b ? b - a : a - b
  return a ~ number && b ~ number && d <= t
}
BEGIN { number = "^[-+]?[0-9.]+([eE][-+]?[0-9]+)?$" }'

# near A B TOLERANCE
near() { awk -v a="$1" -v b="$2" -v t="$3" "$near_in_awk"' BEGIN { exit !near(a, b, t) }'; }

# columns_near FILE-A FILE-B TOLERANCE: as many numbers, each as near.
columns_near() {
  [ "$(wc -l <"$1")" = "$(wc -l <"$2")" ] && [ -s "$1" ] &&
    paste "$1" "$2" | awk -v t="$3" \
    "$near_in_awk"' !near($1, $2, t) { print "line " NR ": " $0; bad = 1 } END { exit bad }'
}
