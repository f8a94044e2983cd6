/** \file ct_doctor.h  Checks how this job was started: facts, findings with cures, a verdict.
 * Layer 5.
 *
 * Facts about all ranks are gathered on rank 0.  A pure function derives findings from the facts,
 * and reports print facts and findings as text or JSON.  The command `doctor` prints everything;
 * each session of a run logs one line and the bad findings when it begins.  The caller passes facts
 * about the configuration as plain data. */
#ifndef CT_DOCTOR_H
#define CT_DOCTOR_H
#include "backend/ct_backend.h"
#include "base/ct_err.h"
#include "host/ct_machine.h"
#include "host/ct_numa.h"
#include "base/ct_text.h"
#include "comm/ct_topo.h"
#include "doctor/ct_survey.h"
#include "job/ct_launcher.h"

/** This rank, its device, and their settings. */
typedef struct ct_doctor_env {
  const ct_topo_t *topo;
  const ct_backend_t *be;
  ct_dev_t *dev;         /**< NULL: this rank has no open device; then be may be NULL, too */
  const char *no_device; /**< why this rank has no device; "" if it has one */
  int threads;           /**< number of compute threads of this rank */
  int threads_set;       /**< 1: the configuration sets the number of threads */
  int share_gpu;         /**< parallel.share_gpu */
  int wants_gpu;         /**< 1: device is auto or cuda */
  const char *locking;   /**< HDF5_USE_FILE_LOCKING; "" if not set */
} ct_doctor_env_t;

/* ---- facts ---- */

/** Origin of a rank's number of threads. */
typedef enum {
  CT_THREADS_SHARE, /**< the rank's share of the cores that it may use */
  CT_THREADS_OMP,   /**< OMP_NUM_THREADS */
  CT_THREADS_CONFIG /**< cpu.threads or parallel.shards */
} ct_threads_from_t;

/** Facts about one rank; plain data, sent as bytes. */
typedef struct ct_rank_facts {
  ct_machine_t machine;
  int rank, node;   /**< nodes are numbered in the order of their lowest ranks */
  int threads;      /**< compute threads */
  int threads_from; /**< ct_threads_from_t */
  /** The cores to which OpenMP binds the compute threads; empty: it does not bind them. */
  unsigned char bound[CT_MASK_BYTES];
  ct_numa_t memory;    /**< where new pages of the rank are; only if there are several NUMA nodes */
  double clock_s;      /**< seconds since 1970, read at the same moment on all ranks */
  uint64_t mpi;        /**< hash of the MPI library's name */
  int on_gpu;          /**< 1: the rank computes on a GPU */
  int gpus;            /**< number of visible GPUs; 0: none, or not queried */
  ct_dev_id_t gpu;     /**< the GPU in use */
  char no_device[200]; /**< why the rank has no device; "" if it has one */
  int others;          /**< number of other users with processes on the node of the rank; 0: none,
                            or not queried */
  char other[40];      /**< one of these users: "user anna" */
  int cpus_of_the_job; /**< cores of this node that the batch system allocated; 0: not known */
} ct_rank_facts_t;

/** Facts about data.train, its layout in files and its distribution to ranks, and about the memory
 * that training needs. */
typedef struct ct_data_facts {
  char error[CT_ERR_TEXT];     /**< why data or model could not be opened; "": both are open */
  char seen[200], packed[200]; /**< as in ct_reader_info_t */
  int doubtful;                /**< 1: the file may also store channels last */
  char sample[400];            /**< "uint8 1x8x8 to float32 1x8x8; input.meta 1x16" */
  int64_t samples, classes, targets, val_samples, batch;
  int files;          /**< number of files; 0: synthetic data */
  int stripes_least;  /**< smallest Lustre stripe count of the checked files; 0: not on Lustre */
  int stripes_most;   /**< largest Lustre stripe count of the checked files */
  int large_on_one;   /**< number of checked files that have a GiB or more and one stripe */
  int64_t blocks;     /**< number of chunks */
  int64_t block_rows; /**< samples in a chunk */
  size_t block_bytes; /**< bytes of a chunk */
  int compressed, cached, shuffled;
  char repack[300];      /**< a command that rewrites the first file in chunks of few whole samples;
                              "": it would not help, or is not known */
  int64_t steps;         /**< number of training steps that were tried; 0: none */
  double step_s;         /**< mean duration of these steps */
  double wait_s;         /**< the part of step_s spent waiting for samples */
  int64_t workers;       /**< reader threads of a rank */
  int by_hdf5;           /**< number of files that the HDF5 library reads, one thread at a time */
  size_t rank_bytes;     /**< estimated memory of a rank; 0: not known */
  char budget[200];      /**< what train.memory does (ct_budget_text()); "": off */
  size_t least_bytes;    /**< the least train.memory, if it cannot be met; else 0 */
  size_t gradient_bytes; /**< the part of rank_bytes that holds gradients */
  size_t checkpoint_bytes; /**< estimated size of one checkpoint */
} ct_data_facts_t;

/** Facts about the whole job; on rank 0 only. */
typedef struct ct_job_facts {
  ct_launcher_t launch;
  int ranks, nodes, equal_nodes;
  char mpi[128], thread_level[16];
  ct_job_t batch;        /**< from the batch system */
  double left_s;         /**< seconds until the time limit; < 0: unknown; INFINITY: not queried */
  char dir[CT_PATH_MAX]; /**< run.dir, or the working directory */
  ct_volume_t volume;    /**< file system of dir; type "": not queried */
  char file_locking[16]; /**< HDF5_USE_FILE_LOCKING; "" if not set */
  int share_gpu, wants_gpu; /**< as in ct_doctor_env_t */
  /** The environment variable that makes MPI run a polling thread in each rank; NULL: none set. */
  const char *async_progress;
  int has_config; /**< 1: a configuration was given, and `data` is filled in */
  ct_data_facts_t data;
  const ct_surveys_t *surveys; /**< borrowed; statistics of the samples; NULL: not made */
} ct_job_facts_t;

/** Collective.  Sends the facts of each rank to rank 0, where *all is an array of topo->size, to
 * be freed with ct_mem_free(); NULL on other ranks.  \a thorough: as in ct_machine_read(). */
int ct_doctor_gather(const ct_doctor_env_t *env, int thorough, ct_rank_facts_t **all);
/** Local; rank 0.  Fills in the facts that the environment determines; the caller fills in left_s,
 * dir, volume, data and surveys. */
void ct_doctor_job(const ct_doctor_env_t *env, ct_job_facts_t *job);

/* ---- findings ---- */

typedef enum { CT_FINDING_OK, CT_FINDING_NOTE, CT_FINDING_BAD } ct_finding_level_t;

enum { CT_FINDINGS_MAX = 48 };

/** One finding.  The same finding on several nodes is listed once, with the text of the first. */
typedef struct ct_finding {
  int level;              /**< ct_finding_level_t */
  const char *key;        /**< for programs: "oversubscribed" */
  int node;               /**< the last node with this finding; -1: it is about the job */
  int nodes;              /**< number of nodes with this finding */
  char host[64];          /**< host of the first of these nodes */
  char what[CT_ERR_TEXT]; /**< the problem, or what is in order */
  char cure[300];         /**< the remedy, if possible as a command to paste; "": none */
} ct_finding_t;

typedef struct ct_findings {
  int n;
  ct_finding_t list[CT_FINDINGS_MAX];
} ct_findings_t;

/** Local, pure.  Derives the findings.  \a f: the facts about all ranks, in the order of ranks.
 * CT_ERR_NOMEM. */
int ct_doctor_judge(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out);
/** Returns the number of findings with a level. */
int ct_doctor_count(const ct_findings_t *f, int level);

/* ---- reports ---- */

/** Local.  Appends the whole report as text.  \a versions appends the versions of the program and
 * its libraries, with a separator between them. */
int ct_doctor_report(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                     const ct_findings_t *findings,
                     int (*versions)(const char *separator, ct_str_t *out), ct_str_t *out);
/** Local.  Appends the report as JSON. */
int ct_doctor_json(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                   const ct_findings_t *findings, ct_str_t *out);
/** Collective.  Call before training begins.  Logs one line about ranks, threads, cores and device,
 * and at most three warnings. */
int ct_doctor_start(const ct_doctor_env_t *env);

#endif
