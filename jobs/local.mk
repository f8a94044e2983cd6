# Templates of batch jobs: they work from here and from where they are installed.
nobase_dist_pkgdata_DATA += %D%/README.md %D%/env.sh %D%/lib.sh %D%/train.slurm %D%/array.slurm %D%/scaling.slurm %D%/sweep.slurm \
  %D%/train.pbs %D%/train.flux
nobase_dist_pkgdata_SCRIPTS = %D%/chain.sh
