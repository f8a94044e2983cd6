/** \file ct_job.h  The job that this process is part of, as its batch system tells it.  Layer 1, no
 * MPI.
 *
 * This folder alone knows the variables of batch systems (job.c) and of launchers (launch.c).  What
 * a system does not say in the environment stays unknown. */
#ifndef CT_JOB_H
#define CT_JOB_H

/** Looks up a variable: getenv(), or a test's table. */
typedef char *(*ct_env_t)(const char *name);

/** A batch system, and what its users can be told to type; NULL: nothing that is known. */
typedef struct ct_job_system {
  char name[16];          /**< "Slurm"; "": there is none */
  const char *say_end;    /**< in the job script: lets the program know the job's end */
  const char *all_memory; /**< asks for all memory of the nodes */
  const char *exclude;    /**< asks for other nodes than those named right behind it */
} ct_job_system_t;

typedef struct ct_job {
  ct_job_system_t system;
  char id[64];            /**< as people write it, "1234", "1234_5" in an array; "": not told */
  int requeues;           /**< how often it was begun anew; 0: never, or not told */
  int tasks, nodes;       /**< it was given; 0: not told */
  int cpus;               /**< of each of its nodes, of the least if they differ; 0: not told */
  const char *end_source; /**< the variable that tells its end; NULL: not told … */
  const char *end;        /**< … its text, borrowed from the environment */
  char scratch[1024];     /**< a directory of its own on the node's disk; "": not told */
} ct_job_t;

/** Local, pure.  A value that makes no sense, or is too long, is as good as none. */
void ct_job_read(ct_env_t env, ct_job_t *out);

#endif
