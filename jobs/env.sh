# shellcheck shell=bash
# Site settings.  Every job template reads this file on the first node of its job; chain.sh also
# reads it at submission.  To use a copy of this file, set CTRAIN_ENV=/path/to/copy in the
# environment of sbatch.
#
# Read it once from top to bottom and uncomment what your cluster needs.  A cluster with one MPICH,
# one partition and one network needs no changes.

# ---- 1. Account and partition.  sbatch reads these variables from its environment: run
# `. jobs/env.sh` before sbatch (chain.sh does), or use #SBATCH lines in the templates instead.
#export SBATCH_ACCOUNT=my_project      # list: sacctmgr show associations user=$USER format=account
#export SBATCH_PARTITION=my_partition  # list: sinfo -s
#export SBATCH_QOS=normal
#export SBATCH_CONSTRAINT=my_feature   # sinfo -o '%P %f %G' lists features and GPUs

# ---- 2. Software: the modules that ctrain-hpc was built with, and the path of the program if it is
# not on the PATH.
#module purge
#module load gcc mpich hdf5
#module load cuda nccl
#export CTRAIN=${CTRAIN:-$HOME/ctrain-hpc/build/ctrain-hpc}

# ---- 3. Launcher.  `srun --mpi=list` lists the MPI plugins of Slurm; the summary of configure says
# which of them fit the MPI.  MPICH and compatible MPIs: pmi2.  Open MPI: pmix.  MPI of the vendor
# of the machine: see its manual.  Empty: Slurm's default (MpiDefault).
CTRAIN_MPI=${CTRAIN_MPI-pmi2}
# A launcher other than that of the batch system, with its options; it gets the number of ranks as
# -n.
#CTRAIN_LAUNCH=${CTRAIN_LAUNCH:-mpiexec}
# Additional options of srun, separated by blanks.
CTRAIN_SRUN=${CTRAIN_SRUN:-}
# For nodes with several NUMA nodes (lscpu), as many ranks as these or a multiple (--ntasks-per-node),
# bound to cores:
#CTRAIN_SRUN="--cpu-bind=cores --distribution=block:cyclic"

# How often a job may requeue itself (0: never).
CTRAIN_REQUEUES=${CTRAIN_REQUEUES:-100}

# ---- 4. Threads.  Each rank uses as many threads as the job has CPUs per task (#SBATCH
# --cpus-per-task).  Without that option, it uses the CPUs that it is bound to.
if [ -n "${SLURM_CPUS_PER_TASK:-}" ]; then
  export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
  export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # srun does not inherit --cpus-per-task
fi
# Bind threads to cores.  Use this only if ranks are bound, by Slurm's configuration or by
# --cpu-bind=cores above; otherwise all ranks of a node bind their threads to the same cores.
#export OMP_PLACES=cores OMP_PROC_BIND=close

# ---- 5. The network of MPI.  `ip -br address` and `ibv_devices` list the adapters of a node.
#export UCX_NET_DEVICES=mlx5_0:1       # MPICH or Open MPI over UCX: which adapter
#export UCX_TLS=rc,sm,self             #   and which transports; with Ethernet only: tcp,sm,self
#export FI_PROVIDER=verbs              # MPI over libfabric: verbs, cxi, efa, psm3, tcp
#export FI_TCP_IFACE=eth0

# ---- 6. The network of NCCL, for GPUs on several nodes.  NCCL_DEBUG=INFO logs its choices.
#export NCCL_SOCKET_IFNAME=ib0         # must be the same on all nodes; ^lo,docker0: all but these
#export NCCL_IB_HCA=mlx5
#export NCCL_NET_GDR_LEVEL=PHB
#export NCCL_DEBUG=WARN

# ---- 7. Files.
#export TMPDIR=/local/scratch/$SLURM_JOB_ID # node-local disk, for `--set 'data.stage=$TMPDIR'`
#export HDF5_USE_FILE_LOCKING=FALSE    # if opening HDF5 files fails with "unable to lock file"
