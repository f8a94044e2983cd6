/** \file ct_job.h  The batch job of this process, read from the environment. Layer 1, no MPI.
 *
 * Only this module knows the environment variables of batch systems (job.c) and launchers
 * (launch.c). Whatever the environment does not contain stays unknown. */
#ifndef CT_JOB_H
#define CT_JOB_H

/** Looks up a variable: getenv(), or a test's table. */
typedef char *(*ct_env_t)(const char *name);

/** A batch system and hints for its users; NULL: no hint known. */
typedef struct ct_job_system {
  char name[16];          /**< "Slurm"; "": none */
  const char *launch;     /**< command that starts the ranks inside the job; options follow */
  const char *say_end;    /**< job script line that passes the job's end time to the program */
  const char *all_memory; /**< option that requests all memory of the nodes */
  const char *energy;     /**< shell command that prints the joules of this job step so far */
  const char *exclude;    /**< option that excludes the nodes listed after it */
} ct_job_system_t;

/** An environment variable with the job's end: its name and raw value, borrowed from the
 * environment. */
typedef struct ct_job_end {
  const char *source; /**< name of the variable */
  const char *text;   /**< its value */
} ct_job_end_t;

enum { CT_JOB_ENDS = 4 };

typedef struct ct_job {
  ct_job_system_t system;
  char id[64];  /**< as users write it: "1234", "1234_5" in an array; "": unknown */
  int requeues; /**< number of requeues; 0: none, or unknown */
  int tasks;    /**< allocated to the job; 0: unknown */
  int nodes;    /**< allocated to the job; 0: unknown */
  int cpus;     /**< per node, the minimum if nodes differ; 0: unknown */
  ct_job_end_t end[CT_JOB_ENDS]; /**< variables that are set, outermost first; the rest is NULL */
  char scratch[1024];            /**< directory for temporary files; "": unknown */
} ct_job_t;

/** Local, pure. Reads the batch job's variables. Invalid or too long values count as not set. End
 * times are not checked here; ct_walltime_open() checks them and warns. */
void ct_job_read(ct_env_t env, ct_job_t *out);

#endif
