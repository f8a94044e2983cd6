#!/bin/bash
# train.slurm for Flux.  Tested with stand-ins for its commands only, not on a Flux.
#
#   flux batch [options of flux batch] jobs/train.flux [CONFIG [options of train]]
#
# Without arguments: the built-in example.
#
# The run stops in time with a checkpoint, and the job ends with 75.  Whoever submits it again goes on;
# or several at once, of which the last ones are dropped when the run is finished:
#
#   id=$(flux batch jobs/train.flux)
#   for i in 2 3 4; do id=$(flux batch --dependency=afternotok:$id jobs/train.flux); done
#flux: --nodes=2
#flux: --nslots=4
#flux: --cores-per-slot=1
#flux: --time-limit=60m
#flux: --job-name=ctrain
#flux: --output=ctrain-{{id}}.out

cores_per_rank=${CTRAIN_CORES_PER_RANK:-1} # as --cores-per-slot

# Flux runs a copy of this file.
places=("${CTRAIN_JOBS:-$PWD/jobs}" "$PWD" "${0%/*}")
for jobs in "${places[@]}"; do [ ! -r "$jobs/lib.sh" ] || break; done
[ -r "$jobs/lib.sh" ] || {
  echo "error: no lib.sh of the job templates in: ${places[*]}.  CTRAIN_JOBS=DIR names their directory" >&2
  exit 2
}
# shellcheck source=jobs/lib.sh
. "$jobs/lib.sh"
settings "$jobs"
find_program "$jobs"

choose_training "$@"
left=$(flux job timeleft 2>/dev/null) # a huge number where there is no limit
[[ ! $left =~ ^[0-9]+$ ]] || export CTRAIN_END_TIME=$(($(date +%s) + left))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cores_per_rank}
cores=$(flux resource list -s free -no '{ncores}')
launch flux run --ntasks=$((cores / cores_per_rank)) --cores-per-task="$cores_per_rank" "$program" "${command[@]}"
