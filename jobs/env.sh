# shellcheck shell=bash
# What differs from one cluster to another, in one place.  Every job template reads this file on the first
# node of its job; chain.sh also reads it where you submit.  A copy elsewhere is used with
# CTRAIN_ENV=/path/to/it in the environment of sbatch.
#
# Go through it once from top to bottom and uncomment what your cluster needs.  Nothing here is
# needed where one MPICH, one partition and one network are all there is.

# ---- 1. Where jobs run and who pays.  sbatch takes these from the environment it is called in: do
# `. jobs/env.sh` before it (chain.sh does), or write them as #SBATCH lines into the templates.
#export SBATCH_ACCOUNT=my_project      # yours: sacctmgr show associations user=$USER format=account
#export SBATCH_PARTITION=my_partition  # sinfo -s
#export SBATCH_QOS=normal
#export SBATCH_CONSTRAINT=my_feature   # sinfo -o '%P %f %G' lists features and GPUs

# ---- 2. Software: the modules that ctrain-hpc was built with, and the program if it is not on the
# PATH.
#module purge
#module load gcc mpich hdf5
#module load cuda nccl
#export CTRAIN=${CTRAIN:-$HOME/ctrain-hpc/build/ctrain-hpc}

# ---- 3. How ranks are started.  `srun --mpi=list` shows what Slurm has; the summary of configure
# says what fits.  MPICH and its relatives: pmi2.  Open MPI: pmix.  An MPI of the machine's vendor:
# see its manual.  Empty: what Slurm's own configuration says (MpiDefault).
CTRAIN_MPI=${CTRAIN_MPI-pmi2}
# Another launcher than that of the batch system, with its options; it gets the ranks as -n.
#CTRAIN_LAUNCH=${CTRAIN_LAUNCH:-mpiexec}
# More options of srun, separated by blanks.
CTRAIN_SRUN=${CTRAIN_SRUN:-}
#CTRAIN_SRUN="--cpu-bind=cores --distribution=block:cyclic"

# How often a job may put itself back into the queue (0: never).
CTRAIN_REQUEUES=${CTRAIN_REQUEUES:-100}

# ---- 4. Threads: as many as the job has CPUs for each rank (#SBATCH --cpus-per-task).  Where that
# is not given, the program takes the CPUs that it is bound to.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
  export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
  export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun does not take it over by itself
fi
# Threads on cores of their own.  Only where ranks are bound, by Slurm's configuration or by
# --cpu-bind=cores above: else the ranks of a node bind their threads to the same cores.
#export OMP_PLACES=cores OMP_PROC_BIND=close

# ---- 5. The network of MPI.  `ip -br address` and `ibv_devices` list what a node has.
#export UCX_NET_DEVICES=mlx5_0:1       # MPICH or Open MPI over UCX: which adapter
#export UCX_TLS=rc,sm,self             #   and how; tcp,sm,self where there is Ethernet only
#export FI_PROVIDER=verbs              # MPI over libfabric: verbs, cxi, efa, psm3, tcp
#export FI_TCP_IFACE=eth0

# ---- 6. The network of NCCL, with GPUs on several nodes.  NCCL_DEBUG=INFO shows what it chose.
#export NCCL_SOCKET_IFNAME=ib0         # must be the same on all nodes; ^lo,docker0: all but these
#export NCCL_IB_HCA=mlx5
#export NCCL_NET_GDR_LEVEL=PHB
#export NCCL_DEBUG=WARN

# ---- 7. Files.
#export TMPDIR=/local/scratch/$SLURM_JOB_ID # disk of the node, for `--set 'data.stage=$TMPDIR'`
#export HDF5_USE_FILE_LOCKING=FALSE    # where opening HDF5 files fails with "unable to lock file"
