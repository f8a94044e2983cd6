#!/bin/sh
# run_np.sh PROGRAM RANKS...   one TAP stream from a test program at several rank counts
#
# RANKS is a number of ranks, or ranks/k: ranks of which each k count as a node (CTRAIN_NODE_SIZE),
# each with or without @order: when the reference backend does its work (CTRAIN_REF_ORDER).  Every
# launch has 180 s (CT_NP_TIMEOUT); its exit status is a case of its own.  MPIEXEC is the launcher
# with its options; without one everything is skipped.

program=$1
shift
launcher=${MPIEXEC-mpiexec}
if [ -z "$launcher" ] || ! command -v "${launcher%% *}" >/dev/null 2>&1; then
  echo "1..0 # SKIP no MPI launcher"
  exit 0
fi

done_cases=0
failed=0
log=$(mktemp "${TMPDIR:-/tmp}/ct-np-XXXXXX") || exit 99
trap 'rm -f "$log"' EXIT

# There are more ranks than cores: those that wait in MPICH's blocking calls yield theirs
# (yield_shim.c). With CT_FULL MPICH is as it is; sanitizers must be the first library.
shim=${CT_BUILD-.}/tests/tools/yield_shim.so
[ -z "${CT_FULL-}${CT_SAN-}" ] && [ -e "$shim" ] || shim=

for spec in "$@"; do
  nodes=${spec%@*}
  ranks=${nodes%/*}
  unset CTRAIN_NODE_SIZE CTRAIN_REF_ORDER
  case $nodes in */*) export CTRAIN_NODE_SIZE="${nodes#*/}" ;; esac
  case $spec in *@*) export CTRAIN_REF_ORDER="${spec#*@}" ;; esac
  # shellcheck disable=SC2086
  LD_PRELOAD=$shim timeout -k 5 "${CT_NP_TIMEOUT:-180}" $launcher -n "$ranks" "$program" >"$log"
  status=$?

  # Lines of the launch get running numbers and the rank count; its plan is checked here.
  awk -v base="$done_cases" -v spec="$spec" '
    /^1\.\.[0-9]+/ { next }
    /^(not )?ok / {
      sub(/ok [0-9]* ?-? ?/, "ok " (++n + base) " - np=" spec " ")
      print; next }
    { print }' "$log"
  cases=$(grep -c -E '^(not )?ok ' "$log")
  bad=$(grep -c '^not ok ' "$log")
  planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log" | head -n 1)
  done_cases=$((done_cases + cases + 1))
  failed=$((failed + bad))
  if [ "$status" -eq 0 ] && [ "$cases" -eq "${planned:--1}" ]; then
    echo "ok $done_cases - np=$spec exit status"
  else
    echo "not ok $done_cases - np=$spec exit status $status, $cases of ${planned:-?} cases (124: time is up)"
    failed=$((failed + 1))
  fi
done
echo "1..$done_cases"
[ "$failed" -eq 0 ]
