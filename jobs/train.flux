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

# Flux runs a copy of this file, and does not say of which: the directory of the templates is the one
# that CTRAIN_JOBS names, else that of submission or jobs/ in it, if what is there is ctrain-hpc's.
for jobs in "${CTRAIN_JOBS:-$PWD/jobs}" "${CTRAIN_JOBS:-$PWD}" "${CTRAIN_JOBS:-${0%/*}}"; do
  ! grep -qs '^# ctrain-hpc:' "$jobs/lib.sh" || [ ! -f "$jobs/train.flux" ] || break
  jobs=
done
[ -n "$jobs" ] || {
  echo "error: no lib.sh of ctrain-hpc's job templates in ${CTRAIN_JOBS:-$PWD/jobs, $PWD}: CTRAIN_JOBS=DIR names their directory" >&2
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
ranks=$((cores / cores_per_rank))
if [ -n "${CTRAIN_LAUNCH:-}" ]; then
  launch_tasks "$ranks" '' "$program" "${command[@]}"
else
  launch flux run --ntasks="$ranks" --cores-per-task="$cores_per_rank" "$program" "${command[@]}"
fi
