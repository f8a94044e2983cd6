/** \file ct_launcher.h  Detects the launcher of the ranks, and whether it works with this MPI
 * library. Layer 1, no MPI. */
#ifndef CT_LAUNCHER_H
#define CT_LAUNCHER_H

#include "job/ct_job.h"

/** Local, pure. CT_ERR_USAGE with the remedy if the launcher started more tasks than MPI's world
 * has: each task would then train alone and write the same files. \a library: name of the MPI
 * library, for the message. *speaker: 1 for exactly one of those tasks, which shall print the
 * message. */
int ct_launcher_check(ct_env_t env, int world, const char *library, int *speaker);

/** The launcher whose options bind ranks to cores. */
typedef enum {
  CT_LAUNCHER_NONE, /**< started without a launcher */
  CT_LAUNCHER_HYDRA,
  CT_LAUNCHER_OPENMPI,
  CT_LAUNCHER_SRUN,
  CT_LAUNCHER_FLUX,
  CT_LAUNCHER_OTHER
} ct_launcher_kind_t;

typedef struct ct_launcher {
  ct_launcher_kind_t kind;
  char name[48]; /**< "srun (pmi2)"; "" without a launcher */
} ct_launcher_t;

/** Local, pure. Determines the launcher of this rank and its process management interface. */
void ct_launcher_read(ct_env_t env, ct_launcher_t *out);

/** Local, pure. Returns the number of ranks on this node according to the launcher, before
 * MPI_Init; 1 if unknown. */
int ct_launcher_local_ranks(ct_env_t env);

#endif
