/** \file ct_launcher.h  Detects the launcher of the ranks, and whether it works with this MPI
 * library. Layer 1, no MPI. */
#ifndef CT_JOB_LAUNCH_H
#define CT_JOB_LAUNCH_H

#include "job/ct_job.h"

/** Local, pure. CT_ERR_USAGE with the remedy if the launcher started more tasks than MPI's world
 * has: each task would then train alone and write the same files. \a library: name of the MPI
 * library, for the message. *speaker: 1 for exactly one of those tasks, which shall print the
 * message. */
int ct_launch_check(ct_env_t env, int world, const char *library, int *speaker);

/** The launcher whose options bind ranks to cores. */
typedef enum {
  CT_LAUNCH_NONE, /**< started without a launcher */
  CT_LAUNCH_HYDRA,
  CT_LAUNCH_OPENMPI,
  CT_LAUNCH_SRUN,
  CT_LAUNCH_FLUX,
  CT_LAUNCH_OTHER
} ct_launch_kind_t;

typedef struct ct_launch {
  ct_launch_kind_t kind;
  char name[48]; /**< "srun (pmi2)"; "" without a launcher */
} ct_launch_t;

/** Local, pure. The launcher of this rank and its process management interface. */
void ct_launch_read(ct_env_t env, ct_launch_t *out);

/** Local, pure. Ranks on this node according to the launcher, before MPI_Init; 1 if unknown. */
int ct_launch_local_ranks(ct_env_t env);

#endif
