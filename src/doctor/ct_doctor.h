/** \file ct_doctor.h  How this job was started: facts, findings with cures, a verdict.  Layer 5.
 *
 * Facts of all ranks are gathered on rank 0; a judge without effects makes findings of them, and
 * reports tell them to people and to programs.  `doctor` prints all, and every start of a run says
 * one line and what is bad.  What a configuration says comes in as plain data. */
#ifndef CT_DOCTOR_H
#define CT_DOCTOR_H
#include "backend/ct_backend.h"
#include "base/ct_err.h"
#include "host/ct_machine.h"
#include "base/ct_text.h"
#include "comm/ct_topo.h"
#include "doctor/ct_survey.h"
#include "job/ct_launcher.h"

/** This rank, its device, and what the configuration says of them. */
typedef struct ct_doctor_env {
  const ct_topo_t *topo;
  const ct_backend_t *be;
  ct_dev_t *dev;         /**< NULL: it has none, and be may be NULL */
  const char *no_device; /**< why; "" if it has one */
  int threads;           /**< of this rank */
  int threads_set;       /**< 1: the configuration says how many */
  int share_gpu;         /**< parallel.share_gpu */
  int wants_gpu;         /**< device is auto or cuda */
  const char *locking;   /**< of HDF5's files: HDF5_USE_FILE_LOCKING; "" if not set */
} ct_doctor_env_t;

/* ---- facts ---- */

/** Where the number of a rank's threads comes from. */
typedef enum {
  CT_THREADS_SHARE, /**< of the cores that it may use */
  CT_THREADS_OMP,   /**< OMP_NUM_THREADS */
  CT_THREADS_CONFIG /**< cpu.threads or parallel.shards */
} ct_threads_from_t;

/** What is known of one rank; plain data, sent as bytes. */
typedef struct ct_rank_facts {
  ct_machine_t machine;
  int rank, node;   /**< nodes are numbered by their lowest rank */
  int threads;      /**< that it computes with */
  int threads_from; /**< ct_threads_from_t */
  /** The cores that OpenMP binds these threads to; none: it binds none. */
  unsigned char bound[CT_MASK_BYTES];
  double clock_s;      /**< since 1970, read at the same moment on all ranks */
  uint64_t mpi;        /**< hash of the MPI library's name */
  int on_gpu;          /**< 1: it computes on a GPU */
  int gpus;            /**< GPUs that it sees; 0: none, or not looked for */
  ct_dev_id_t gpu;     /**< the one that it uses */
  char no_device[200]; /**< why it has no device; "" if it has one */
  int others;          /**< other users with processes on its node; 0: none, or not looked for */
  char other[40];      /**< one of them: "user anna" */
  int cpus_of_the_job; /**< cores of this node that the batch system gave to the job; 0: not known
                        */
} ct_rank_facts_t;

/** How the samples of data.train lie in their files, and who gets how many; what that takes. */
typedef struct ct_data_facts {
  char error[CT_ERR_TEXT];     /**< what is wrong with data or model; "" if they could be opened */
  char seen[200], packed[200]; /**< as in ct_reader_info_t */
  int doubtful;
  char sample[400]; /**< "uint8 1x8x8 to float32 1x8x8; input.meta 1x16" */
  int64_t samples, classes, targets, val_samples, batch;
  int files;                       /**< 0: synthetic */
  int stripes_least, stripes_most; /**< of Lustre, over some of the files; 0: they lie elsewhere */
  int large_on_one;                /**< of these, files of a GiB and more with one stripe */
  int64_t blocks, block_rows;
  size_t block_bytes;
  int compressed, cached, shuffled;
  char repack[300]; /**< a command that makes chunks of whole samples, few in each, of the first
                              file; "": of no use, or it is not known */
  int64_t steps;    /**< that were tried; 0: none */
  double step_s, wait_s;   /**< mean of these; of it, waiting for samples */
  int64_t workers;         /**< threads of a rank that read */
  int by_hdf5;             /**< files that HDF5 itself reads, one thread at a time */
  size_t rank_bytes;       /**< memory that a rank needs, about; 0: not known */
  size_t gradient_bytes;   /**< those of it that are sent */
  size_t checkpoint_bytes; /**< of one checkpoint, about */
} ct_data_facts_t;

/** What is known of the job as a whole; rank 0 alone. */
typedef struct ct_job_facts {
  ct_launch_t launch;
  int ranks, nodes, equal_nodes;
  char mpi[128], thread_level[16];
  ct_job_t batch;           /**< what the batch system says */
  double left_s;            /**< until the time limit; < 0: nobody says; INFINITY: not asked */
  char dir[CT_PATH_MAX];    /**< run.dir, or the working directory */
  ct_volume_t volume;       /**< type "": not looked at */
  char file_locking[16];    /**< HDF5_USE_FILE_LOCKING; "" if not set */
  int share_gpu, wants_gpu; /**< as in ct_doctor_env_t */
  /** The variable by which MPI has a thread of each rank that polls all the time; NULL: not set. */
  const char *async_progress;
  int has_config; /**< 1: data is known */
  ct_data_facts_t data;
  const ct_surveys_t *surveys; /**< what the samples are like; borrowed; NULL: not looked at */
} ct_job_facts_t;

/** Collective.  Facts of this rank go to rank 0, which gets *all (an array of topo->size, to be
 * freed with ct_mem_free(); NULL elsewhere).  \a thorough: as ct_machine_read(). */
int ct_doctor_gather(const ct_doctor_env_t *env, int thorough, ct_rank_facts_t **all);
/** Local; rank 0.  What the environment tells of the job; its end, its directory and its data are
 * the caller's to fill in. */
void ct_doctor_job(const ct_doctor_env_t *env, ct_job_facts_t *job);

/* ---- findings ---- */

typedef enum { CT_FINDING_OK, CT_FINDING_NOTE, CT_FINDING_BAD } ct_finding_level_t;

enum { CT_FINDINGS_MAX = 48 };

/** One judgement.  What is alike on several nodes is one finding, in the words of the first. */
typedef struct ct_finding {
  int level;              /**< ct_finding_level_t */
  const char *key;        /**< for programs: "oversubscribed" */
  int node;               /**< where it was found last; -1: it is about the job */
  int nodes;              /**< on how many */
  char host[64];          /**< the first of them */
  char what[CT_ERR_TEXT]; /**< what is so */
  char cure[300];         /**< what to do, to be pasted where that can be; "" if nothing */
} ct_finding_t;

typedef struct ct_findings {
  int n;
  ct_finding_t list[CT_FINDINGS_MAX];
} ct_findings_t;

/** Local, pure.  Facts of all ranks, in their order.  CT_ERR_NOMEM. */
int ct_doctor_judge(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out);
/** How many have a level. */
int ct_doctor_count(const ct_findings_t *f, int level);

/* ---- telling ---- */

/** Local.  The whole report for people.  \a versions appends those of the program and its
 * libraries, with a separator between them.  Appended. */
int ct_doctor_report(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                     const ct_findings_t *findings,
                     int (*versions)(const char *separator, ct_str_t *out), ct_str_t *out);
/** Local.  The same as JSON.  Appended. */
int ct_doctor_json(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                   const ct_findings_t *findings, ct_str_t *out);
/** Collective.  The binding line of a start with its device to the log, and at most three
 * warnings. */
int ct_doctor_start(const ct_doctor_env_t *env);

#endif
