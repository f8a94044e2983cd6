#!/bin/bash
# A run that is longer than the time limit, where jobs may not go back into the queue: several jobs,
# each of which begins when the one before it has ended, and goes on with its run.
#
#   jobs/chain.sh COUNT [options of sbatch] jobs/train.slurm [CONFIG [options of train]]
#
# The chain goes on after a job that stopped in time, that its limit or a lost node ended, and ends
# with a job that finished the run, failed or was cancelled: that one cancels the others.  If COUNT
# was too small, start another chain with the same command.
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
    echo "chain.sh: error: the dependencies are its own business: no $argument" >&2
    exit 2
    ;;
  *.slurm) break ;;
  esac
done

set +u # modules are not made for it
# shellcheck source=jobs/env.sh
. "${CTRAIN_ENV:-${BASH_SOURCE[0]%/*}/env.sh}"
set -u

export CTRAIN_CHAIN=1
after=()
for ((i = 1; i <= count; i++)); do
  id=$(sbatch --parsable --no-requeue "${after[@]}" "$@") || {
    echo "chain.sh: error: sbatch took only $((i - 1)) of $count jobs; those stay" >&2
    exit 1
  }
  id=${id%%;*}
  echo "$id"
  after=(--dependency="afterany:$id")
done
