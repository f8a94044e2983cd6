/** \file ct_doctor.h  Checks how this job was started: facts, findings with cures, a verdict.
 * Layer 5.
 *
 * Facts of all ranks are gathered on rank 0.  A pure function derives findings from them, and
 * reports print both as text or JSON.  The command `doctor` prints everything; every start of a run
 * logs one line and the findings that are bad.  The caller passes facts about the configuration as
 * plain data. */
#ifndef CT_DOCTOR_H
#define CT_DOCTOR_H
#include "backend/ct_backend.h"
#include "base/ct_err.h"
#include "host/ct_machine.h"
#include "base/ct_text.h"
#include "comm/ct_topo.h"
#include "doctor/ct_survey.h"
#include "job/ct_launcher.h"

/** This rank, its device, and the settings that concern them. */
typedef struct ct_doctor_env {
  const ct_topo_t *topo;
  const ct_backend_t *be;
  ct_dev_t *dev;         /**< NULL: it has none, and be may be NULL */
  const char *no_device; /**< why it has no device; "" if it has one */
  int threads;           /**< of this rank */
  int threads_set;       /**< 1: the configuration sets the number of threads */
  int share_gpu;         /**< parallel.share_gpu */
  int wants_gpu;         /**< 1: device is auto or cuda */
  const char *locking;   /**< HDF5_USE_FILE_LOCKING; "" if not set */
} ct_doctor_env_t;

/* ---- facts ---- */

/** Origin of a rank's number of threads. */
typedef enum {
  CT_THREADS_SHARE, /**< its share of the cores that it may use */
  CT_THREADS_OMP,   /**< OMP_NUM_THREADS */
  CT_THREADS_CONFIG /**< cpu.threads or parallel.shards */
} ct_threads_from_t;

/** Facts about one rank; plain data, sent as bytes. */
typedef struct ct_rank_facts {
  ct_machine_t machine;
  int rank, node;   /**< nodes are numbered in the order of their lowest ranks */
  int threads;      /**< compute threads */
  int threads_from; /**< ct_threads_from_t */
  /** The cores to which OpenMP binds these threads; empty: it binds none. */
  unsigned char bound[CT_MASK_BYTES];
  double clock_s;      /**< seconds since 1970, read at the same moment on all ranks */
  uint64_t mpi;        /**< hash of the MPI library's name */
  int on_gpu;          /**< 1: it computes on a GPU */
  int gpus;            /**< number of visible GPUs; 0: none, or not queried */
  ct_dev_id_t gpu;     /**< the GPU in use */
  char no_device[200]; /**< why it has no device; "" if it has one */
  int others;          /**< other users with processes on its node; 0: none, or not queried */
  char other[40];      /**< one of them: "user anna" */
  int cpus_of_the_job; /**< cores of this node that the batch system allocated; 0: not known */
} ct_rank_facts_t;

/** Facts about data.train, its layout in files and its distribution to ranks, and about the memory
 * that training needs. */
typedef struct ct_data_facts {
  char error[CT_ERR_TEXT];     /**< why data or model could not be opened; "": they could be */
  char seen[200], packed[200]; /**< as in ct_reader_info_t */
  int doubtful;                /**< 1: the file may also store channels last */
  char sample[400];            /**< "uint8 1x8x8 to float32 1x8x8; input.meta 1x16" */
  int64_t samples, classes, targets, val_samples, batch;
  int files;                       /**< 0: synthetic */
  int stripes_least, stripes_most; /**< Lustre stripe counts of some of the files; 0: not Lustre */
  int large_on_one;                /**< how many of these files have a GiB or more and one stripe */
  int64_t blocks, block_rows;      /**< chunks; samples of a chunk */
  size_t block_bytes;              /**< of a chunk */
  int compressed, cached, shuffled;
  char repack[300];      /**< a command that rewrites the first file in chunks of few whole samples;
                              "": of no use, or not known */
  int64_t steps;         /**< training steps that were tried; 0: none */
  double step_s, wait_s; /**< their mean duration; the part of it spent waiting for samples */
  int64_t workers;       /**< reader threads of a rank */
  int by_hdf5;           /**< files that the HDF5 library reads, one thread at a time */
  size_t rank_bytes;     /**< estimated memory of a rank; 0: not known */
  size_t gradient_bytes; /**< the part of it that holds gradients */
  size_t checkpoint_bytes; /**< estimated size of one checkpoint */
} ct_data_facts_t;

/** Facts about the whole job; on rank 0 only. */
typedef struct ct_job_facts {
  ct_launcher_t launch;
  int ranks, nodes, equal_nodes;
  char mpi[128], thread_level[16];
  ct_job_t batch;           /**< from the batch system */
  double left_s;            /**< until the time limit; < 0: unknown; INFINITY: not queried */
  char dir[CT_PATH_MAX];    /**< run.dir, or the working directory */
  ct_volume_t volume;       /**< of dir; type "": not queried */
  char file_locking[16];    /**< HDF5_USE_FILE_LOCKING; "" if not set */
  int share_gpu, wants_gpu; /**< as in ct_doctor_env_t */
  /** The environment variable that makes MPI run a polling thread in each rank; NULL: none set. */
  const char *async_progress;
  int has_config; /**< 1: there is a configuration, and data is filled in */
  ct_data_facts_t data;
  const ct_surveys_t *surveys; /**< borrowed; of the samples; NULL: none was made */
} ct_job_facts_t;

/** Collective.  Sends the facts of each rank to rank 0, where *all is an array of topo->size, to
 * be freed with ct_mem_free(); NULL on other ranks.  \a thorough: as in ct_machine_read(). */
int ct_doctor_gather(const ct_doctor_env_t *env, int thorough, ct_rank_facts_t **all);
/** Local; rank 0.  Fills in what the environment determines; the caller fills in left_s, dir,
 * volume, data and surveys. */
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
  char host[64];          /**< the first of them */
  char what[CT_ERR_TEXT]; /**< the problem, or what is in order */
  char cure[300];         /**< the remedy, if possible as a command to paste; "": none */
} ct_finding_t;

typedef struct ct_findings {
  int n;
  ct_finding_t list[CT_FINDINGS_MAX];
} ct_findings_t;

/** Local, pure.  \a f: the facts of all ranks, in order of ranks.  CT_ERR_NOMEM. */
int ct_doctor_judge(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out);
/** The number of findings with a level. */
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
/** Collective; at the start of a run.  Logs one line about ranks, threads, cores and device, and at
 * most three warnings. */
int ct_doctor_start(const ct_doctor_env_t *env);

#endif
