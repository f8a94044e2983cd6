#!/bin/bash
# For runs longer than the time limit on systems where jobs cannot be requeued: submits several
# jobs. Each starts when the one before it has ended, and resumes its run.
#
#   jobs/chain.sh COUNT [options of sbatch] jobs/train.slurm [CONFIG [options of train]]
#
# The chain continues after a job that stopped before its time limit, reached it, or lost a node.
# A job that finishes the run, fails or is cancelled cancels the remaining jobs.  If COUNT was too
# small, start another chain with the same command.
set -euo pipefail

usage() {
  sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

[[ $# -ge 2 && $1 =~ ^[1-9][0-9]*$ ]] || usage
count=$1
shift
for argument; do
  case $argument in
  -d* | --dependency*)
    echo "chain.sh: error: chain.sh sets the dependencies itself: remove $argument" >&2
    exit 2
    ;;
  *.slurm) break ;;
  esac
done

set +u # the scripts of environment modules use unset variables
# shellcheck source=jobs/env.sh
. "${CTRAIN_ENV:-${BASH_SOURCE[0]%/*}/env.sh}"
set -u

export CTRAIN_CHAIN=1
after=()
for ((i = 1; i <= count; i++)); do
  id=$(sbatch --parsable --no-requeue "${after[@]}" "$@") || {
    echo "chain.sh: error: sbatch accepted only $((i - 1)) of $count jobs; these remain in the queue" >&2
    exit 1
  }
  id=${id%%;*}
  echo "$id"
  after=(--dependency="afterany:$id")
done
