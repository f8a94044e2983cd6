#!/bin/bash
# train.slurm for Flux.  Tested only with stand-ins for the commands of Flux.
#
#   flux batch [options of flux batch] jobs/train.flux [CONFIG [options of train]]
#
# Without arguments it trains the built-in example.
#
# Before the time limit the run writes a checkpoint and stops, and the job ends with status 75.
# Submit it again to resume.  Or submit several dependent jobs; those that remain when the run is
# finished are dropped:
#
#   id=$(flux batch jobs/train.flux)
#   for i in 2 3 4; do id=$(flux batch --dependency=afternotok:$id jobs/train.flux); done
#flux: --nodes=2
#flux: --nslots=4
#flux: --cores-per-slot=1
#flux: --time-limit=60m
#flux: --job-name=ctrain
#flux: --output=ctrain-{{id}}.out

cores_per_rank=${CTRAIN_CORES_PER_RANK:-1} # the same as --cores-per-slot

# Flux runs a copy of this file and does not say where the original is.  The directory of the
# templates is CTRAIN_JOBS, or jobs/ in the directory of submission, or that directory, if it has
# ctrain-hpc's files.
for jobs in "${CTRAIN_JOBS:-$PWD/jobs}" "${CTRAIN_JOBS:-$PWD}" "${CTRAIN_JOBS:-${0%/*}}"; do
  ! grep -qs '^# ctrain-hpc:' "$jobs/lib.sh" || [ ! -f "$jobs/train.flux" ] || break
  jobs=
done
[ -n "$jobs" ] || {
  echo "error: no lib.sh of ctrain-hpc's job templates in ${CTRAIN_JOBS:-$PWD/jobs, $PWD}: set CTRAIN_JOBS=DIR to their directory" >&2
  exit 2
}
# shellcheck source=jobs/lib.sh
. "$jobs/lib.sh"
settings "$jobs"
find_program "$jobs"

choose_training "$@"
left=$(flux job timeleft 2>/dev/null) # a huge number if there is no limit
[[ ! $left =~ ^[0-9]+$ ]] || export CTRAIN_END_TIME=$(($(date +%s) + left))
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cores_per_rank}
cores=$(flux resource list -s free -no '{ncores}')
ranks=$((cores / cores_per_rank))
if [ -n "${CTRAIN_LAUNCH:-}" ]; then
  launch_tasks "$ranks" '' "$program" "${command[@]}"
else
  launch flux run --ntasks="$ranks" --cores-per-task="$cores_per_rank" "$program" "${command[@]}"
fi
