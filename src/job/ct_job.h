/** \file ct_job.h  The job that this process is part of, as its batch system tells it.  Layer 1, no
 * MPI.
 *
 * This folder alone knows the variables of batch systems (job.c) and of launchers (launcher.c).
 * What a system does not say in the environment stays unknown. */
#ifndef CT_JOB_H
#define CT_JOB_H

/** Looks up a variable: getenv(), or a test's table. */
typedef char *(*ct_env_t)(const char *name);

/** A batch system, and what its users can be told to type; NULL: nothing that is known. */
typedef struct ct_job_system {
  char name[16];          /**< "Slurm"; "": there is none */
  const char *launch;     /**< in the job: starts the ranks; its options follow */
  const char *say_end;    /**< in the job script: lets the program know the job's end */
  const char *all_memory; /**< asks for all memory of the nodes */
  const char *energy;     /**< a shell's command: prints the joules of this job step so far */
  const char *exclude;    /**< asks for other nodes than those named right behind it */
} ct_job_system_t;

/** A variable that tells the job's end: its name, and its text as it is, borrowed from the
 * environment. */
typedef struct ct_job_end {
  const char *source, *text;
} ct_job_end_t;

enum { CT_JOB_ENDS = 4 };

typedef struct ct_job {
  ct_job_system_t system;
  char id[64];      /**< as people write it, "1234", "1234_5" in an array; "": not told */
  int requeues;     /**< how often it was begun anew; 0: never, or not told */
  int tasks, nodes; /**< it was given; 0: not told */
  int cpus;         /**< of each of its nodes, of the least if they differ; 0: not told */
  ct_job_end_t end[CT_JOB_ENDS]; /**< those that are set, outermost first; the rest is NULL */
  char scratch[1024];            /**< where the system has it put temporary files; "": not told */
} ct_job_t;

/** Local, pure.  A value that makes no sense, or is too long, is as good as none; only of ends that
 * is left to ct_walltime_open(), which tells of it. */
void ct_job_read(ct_env_t env, ct_job_t *out);

#endif
