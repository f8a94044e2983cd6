# shellcheck shell=bash
# ctrain-hpc: shared functions of the job templates, which recognize this file by this line and
# source it.  From top to bottom: finding settings and program; running the ranks and forwarding
# signals; what happens to the job after the exit status of the ranks.

# The job ID for Slurm's commands.  (SLURM_JOB_ID of the last task of an array equals the ID of the
# whole array.)
jobid=${SLURM_JOB_ID:-}
[ -z "${SLURM_ARRAY_TASK_ID:-}" ] || jobid=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID

say() { printf '%s: %s\n' "job ${jobid:-script}" "$*" >&2; }

die() {
  say "error: $*"
  exit 2
}

# ---- Settings and program.

# Reads the site settings; JOBS is the directory of the templates.
settings() { # JOBS
  local file=${CTRAIN_ENV:-$1/env.sh}
  [ -r "$file" ] || die "cannot read the settings $file${CTRAIN_ENV:+, which CTRAIN_ENV names}"
  bash -n "$file" || die "the settings $file are no shell script"
  # shellcheck source=jobs/env.sh
  . "$file"
  settings_file=$file
  # defaults, in case the settings file does not set them
  CTRAIN_MPI=${CTRAIN_MPI-pmi2} CTRAIN_REQUEUES=${CTRAIN_REQUEUES:-100}
  [ -z "${SLURM_CPUS_PER_TASK:-}" ] || export \
    SRUN_CPUS_PER_TASK="${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}"
}

# Sets $program.
find_program() { # JOBS
  local beside installed
  beside=$(cd "$1/../build" 2>/dev/null && pwd)/ctrain-hpc        # a source tree
  installed=$(cd "$1/../../../bin" 2>/dev/null && pwd)/ctrain-hpc # an installation
  if [ -n "${CTRAIN:-}" ]; then
    program=$(command -v "$CTRAIN") ||
      die "CTRAIN=$CTRAIN is no program on $(hostname); it is set in the environment of sbatch or in $settings_file"
  elif ! program=$(command -v ctrain-hpc) &&
    ! program=$(command -v "$beside") && ! program=$(command -v "$installed"); then
    die "no ctrain-hpc on the PATH of $(hostname), and no $beside: load its module in $settings_file, or set CTRAIN=/path/to/ctrain-hpc there"
  fi
}

# Refuses a CONFIG that does not exist or is empty (probably an unset variable).
check_config() { # CONFIG
  [ -n "$1" ] || die "CONFIG is empty: a variable that is not set?"
  case $1 in -*) return ;; esac # an option: the program prints the error
  [ -e "$1" ] || die "there is no $1 in $PWD"
}

# Sets $command, the command and its arguments, from the arguments of a template.
# shellcheck disable=SC2034
choose_training() { # [CONFIG [options of train]]
  if [ $# = 0 ]; then
    say "no CONFIG: the built-in example, handwritten digits"
    command=(demo)
  else
    check_config "$1"
    command=(train "$@")
  fi
}

# Prints a field of Slurm's record of this job, such as JobState.
fact() { # NAME
  SLURM_TIME_FORMAT=standard scontrol -o show job "$jobid" 2>/dev/null |
    tr ' ' '\n' | sed -n "s/^$1=//p" | head -n 1
}

# Exports the end time of the job as a Unix timestamp, so that the program stops before it.  Newer
# versions of Slurm set SLURM_JOB_END_TIME.
tell_end_time() {
  local end
  unset CTRAIN_END_TIME # may be inherited from the job that submitted this one
  [ -z "${SLURM_JOB_END_TIME:-}" ] && [ "$(fact TimeLimit)" != UNLIMITED ] || return 0
  end=$(fact EndTime)
  [ -n "$end" ] && end=$(date -d "$end" +%s 2>/dev/null) && export CTRAIN_END_TIME="$end"
}

# Finds settings, program and end time of a Slurm job, and logs one line about them.
prepare() { # JOBS
  [ -n "$jobid" ] || die "this is for Slurm: sbatch $0"
  export SLURM_EXPORT_ENV=ALL # the ranks inherit these variables even after `sbatch --export=…`
  settings "$1"
  find_program "$1"
  tell_end_time
  local parts=${SLURM_HET_SIZE:-${SLURM_PACK_SIZE:-1}}
  [ "$parts" = 1 ] || say "heterogeneous job of $parts components: ranks run only on the first component, $SLURM_JOB_NODELIST; the others are idle"
  say "$program, $SLURM_NTASKS rank$([ "$SLURM_NTASKS" = 1 ] || echo s) on $SLURM_JOB_NODELIST, settings of $settings_file${SLURM_RESTART_COUNT:+, restart $SLURM_RESTART_COUNT}"
}

# ---- Running the ranks.

# Runs a launcher and returns its exit status.  Signals to this shell are forwarded to the ranks as
# USR1, which all launchers forward; the ranks then write a checkpoint after the current step and
# stop. $signals counts them.  bash runs a trap only between commands, hence `wait` in a loop.
signals=0
launch() { # COMMAND...
  local child='' seen status
  trap 'signals=$((signals + 1)); [ -z "$child" ] || kill -USR1 "$child" 2>/dev/null' TERM USR1 USR2
  seen=$signals
  "$@" &
  child=$!
  [ "$seen" = "$signals" ] || kill -USR1 "$child" 2>/dev/null # a signal arrived before the child existed
  while :; do
    seen=$signals
    wait "$child"
    status=$?
    [ "$seen" != "$signals" ] || break
  done
  trap - TERM USR1 USR2
  return $status
}

# Sets $launcher to the words of $CTRAIN_LAUNCH, or of the default launcher if it is empty.
choose_launcher() { # USUAL
  read -ra launcher <<<"${CTRAIN_LAUNCH:-$1}"
  command -v "${launcher[0]}" >/dev/null ||
    die "CTRAIN_LAUNCH=${launcher[*]}: there is no ${launcher[0]} on $(hostname); it is set in the environment of the job or in $settings_file"
}

# Prints the MPI plugins of Slurm on one line: the names after "MPI plugin types are...".
mpi_plugins() {
  srun --mpi=list 2>&1 | sed 's/^srun: //;/types are/d;s/.*versions available: *//' |
    tr ',' ' ' | xargs
}

# Checks $CTRAIN_MPI.  For a missing plugin, srun says neither who requested it nor which ones
# exist.
check_plugin() {
  local plugins
  [ -n "$CTRAIN_MPI" ] || return 0
  plugins=$(mpi_plugins)
  case " $plugins " in
  *" $CTRAIN_MPI "*) ;;
  *" none "*)
    die "CTRAIN_MPI=$CTRAIN_MPI (in the environment of sbatch or in $settings_file) is no plugin of this Slurm; srun --mpi=list has: $plugins; empty it is Slurm's default, and CTRAIN_LAUNCH=mpiexec does without"
    ;;
  esac
}

# Starts the ranks of a Slurm job in one MPI_COMM_WORLD.  A rank that fails ends all of them.
launch_ranks() { # PROGRAM...
  choose_launcher srun
  if [ "${launcher[0]##*/}" != srun ]; then
    launch_tasks "$SLURM_NTASKS" srun "$@"
    return
  fi
  check_plugin
  # shellcheck disable=SC2086
  launch "${launcher[@]}" ${CTRAIN_MPI:+--mpi="$CTRAIN_MPI"} --kill-on-bad-exit=1 $CTRAIN_SRUN "$@"
}

# Starts RANKS ranks with a launcher that takes their number as -n, such as mpiexec or mpirun.
# MPICH's mpiexec sometimes returns 0 although ranks failed: rank 0, on this node, writes its
# status to a file.
launch_tasks() { # RANKS USUAL PROGRAM...
  local ranks=$1 status told
  choose_launcher "$2"
  shift 2
  unset SRUN_CPUS_PER_TASK # would apply to the single task per node with which mpiexec starts the ranks
  CTRAIN_STATUS_FILE=$(mktemp) && export CTRAIN_STATUS_FILE
  launch "${launcher[@]}" -n "$ranks" "$@"
  status=$?
  told=$(cat "$CTRAIN_STATUS_FILE")
  rm -f "$CTRAIN_STATUS_FILE"
  unset CTRAIN_STATUS_FILE
  [ $status != 0 ] || status=${told:-0}
  return "$status"
}

# ---- After the run.

# Ends, requeues or continues a Slurm job whose ranks ended with STATUS; does not return.
finish() { # STATUS
  case $1 in
  0) end_chain "the run is finished" ;;
  75) go_on ;;
  *)
    say "failed with exit status $1"
    # Slurm itself requeues a preempted job
    case $(fact PreemptTime) in '' | None) end_chain "the run has failed" ;; esac
    ;;
  esac
  exit "$1"
}

# The run has stopped with a checkpoint: requeues the job unless it was cancelled.
go_on() {
  local state reason preempted restarts=${SLURM_RESTART_COUNT:-0}
  state=$(fact JobState) reason=$(fact Reason) preempted=$(fact PreemptTime)
  if [ -z "$state" ]; then
    say "not requeued: Slurm does not answer.  Submit it again to resume the run"
  elif [ "$state" != RUNNING ] && [ "$reason" != TimeLimit ]; then
    # Slurm would also requeue a cancelled job.
    say "ended by Slurm: it was cancelled, or Slurm puts it back into the queue by itself"
    case $preempted in '' | None) end_chain "it was cancelled" ;; esac
  elif [ "$(fact Requeue)" != 1 ]; then
    say "not requeued: the job was submitted with --no-requeue.  The next job resumes the run"
  elif [ "$restarts" -ge "$CTRAIN_REQUEUES" ]; then
    say "not requeued: it was requeued $restarts times, and CTRAIN_REQUEUES is $CTRAIN_REQUEUES.  Submit it again to resume the run"
  else
    say "stopped with a checkpoint: back into the queue"
    scontrol requeue "$jobid" || say "not requeued: scontrol failed"
  fi
}

# In a chain (chain.sh): cancels the jobs after this one, the last first, because each job starts
# when the one before it is gone.
end_chain() { # REASON
  [ -n "${CTRAIN_CHAIN:-}" ] || return 0
  local waiting next last=$jobid behind=
  waiting=$(squeue -h --me -t PENDING -n "$SLURM_JOB_NAME" -o '%i %E')
  while next=$(awk -v after="afterany:$last" '$2 "(" ~ "^" after "\\(" { print $1 }' \
    <<<"$waiting") && [ -n "$next" ]; do
    behind="$next $behind"
    last=$next
  done
  [ -n "$behind" ] || return 0
  say "$1: cancels the rest of the chain, $behind"
  # shellcheck disable=SC2086
  scancel $behind
}
