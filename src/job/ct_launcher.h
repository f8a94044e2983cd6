/** \file ct_launcher.h  Who started the ranks; did the launcher and MPI understand each other?
 * Layer 1, no MPI. */
#ifndef CT_JOB_LAUNCH_H
#define CT_JOB_LAUNCH_H

#include "job/ct_job.h"

/** Local, pure.  CT_ERR_USAGE with the cure if the launcher started more tasks than MPI's world
 * has: then each of them is a singleton that would train, and write its files, alone.  \a
 * library is MPI's own name, for the text.  *speaker: 1 for exactly one of those tasks, the one
 * that should print it. */
int ct_launch_check(ct_env_t env, int world, const char *library, int *speaker);

/** Whose options bind ranks to cores. */
typedef enum {
  CT_LAUNCH_NONE, /**< started by hand */
  CT_LAUNCH_HYDRA,
  CT_LAUNCH_OPENMPI,
  CT_LAUNCH_SRUN,
  CT_LAUNCH_FLUX,
  CT_LAUNCH_OTHER
} ct_launch_kind_t;

typedef struct ct_launch {
  ct_launch_kind_t kind;
  char name[48]; /**< "srun (pmi2)"; "" by hand */
} ct_launch_t;

/** Local, pure.  The launcher that started this rank, and how it told it so. */
void ct_launch_read(ct_env_t env, ct_launch_t *out);

/** Local, pure.  The ranks of this node, as the launcher says it before MPI starts; 1 if it does
 * not. */
int ct_launch_local_ranks(ct_env_t env);

#endif
