/** \file doctor.h  How this job was started: facts, findings with cures, a verdict.  Layer 5.
 *
 * Facts of all ranks are gathered on rank 0 (doctor_facts.c, and doctor_config.c of the run to come); a
 * judge without effects makes findings of them (doctor_judge.c, with doctor_cores.c, doctor_memory.c and
 * doctor_job.c); doctor_report.c tells them to people, doctor_json.c to programs.  `doctor` prints all,
 * and every start of a run says one line and what is bad (doctor_start.c). */
#ifndef CT_DOCTOR_H
#define CT_DOCTOR_H
#include "app/needs.h"
#include "app/setup.h"
#include "base/ct_machine.h"
#include "job/ct_launch.h"

/** Where the number of a rank's threads comes from. */
typedef enum {
  CT_THREADS_SHARE, /**< of the cores that it may use */
  CT_THREADS_OMP,   /**< OMP_NUM_THREADS */
  CT_THREADS_CONFIG /**< cpu.threads or parallel.shards */
} ct_threads_from_t;

/** What is known of one rank; plain data, sent as bytes. */
typedef struct ct_facts {
  ct_machine_t machine;
  int rank, node;      /**< nodes are numbered by their lowest rank */
  int threads;         /**< that it computes with */
  int threads_from;    /**< ct_threads_from_t */
  double clock_s;      /**< since 1970, read at the same moment on all ranks */
  uint64_t mpi;        /**< hash of the MPI library's name */
  int on_gpu;          /**< 1: it computes on a GPU */
  int gpus;            /**< GPUs that it sees; 0: none, or not looked for */
  ct_dev_id_t gpu;     /**< the one that it uses */
  char no_device[200]; /**< why it has no device; "" if it has one */
  int cpus_of_the_job; /**< cores of this node that the batch system gave to the job; 0: not known */
} ct_facts_t;

/** How the samples of data.train lie in their files, and who gets how many. */
typedef struct ct_data_facts {
  char error[CT_ERR_TEXT]; /**< what is wrong with data or model; "" if they could be opened */
  char sample[80];         /**< "uint8 1x8x8 to float32 1x8x8" */
  int64_t samples, classes, targets, val_samples, batch;
  int files; /**< 0: synthetic */
  int64_t blocks, block_rows;
  size_t block_bytes;
  int compressed, cached, shuffled;
} ct_data_facts_t;

/** What is known of the job as a whole; rank 0 alone. */
typedef struct ct_job_facts {
  ct_launch_t launch;
  int ranks, nodes, equal_nodes;
  char mpi[128], thread_level[16];
  char batch_system[16], id[64]; /**< "Slurm", "1234_5"; "" outside of one */
  int job_nodes, job_tasks;      /**< what the batch system says; 0: not known */
  double left_s;                 /**< until the time limit; < 0: nobody says; INFINITY: not asked */
  char dir[CT_PATH_MAX];         /**< run.dir, or the working directory */
  ct_volume_t volume;            /**< type "": not looked at */
  char file_locking[16];         /**< HDF5_USE_FILE_LOCKING; "" if not set */
  int share_gpu;                 /**< parallel.share_gpu */
  int wants_gpu;                 /**< device is auto or cuda */
  int has_config;                /**< 1: what follows is known */
  ct_data_facts_t data;
  ct_needs_t needs;        /**< all 0: not known */
  size_t checkpoint_bytes; /**< of one checkpoint, about */
} ct_job_facts_t;

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
int ct_doctor_judge(const ct_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out);
/** How many have a level. */
int ct_doctor_count(const ct_findings_t *f, int level);

/** The ranks of one node, and what they have together. */
typedef struct ct_doctor_node {
  int index, n;
  const ct_facts_t **rank; /**< [n] */
  const ct_job_facts_t *job;
  int cores;   /**< that any of them may use */
  int allowed; /**< that the job may use on this node */
  int threads; /**< that want a core, together */
  int sharing; /**< 1: cores are in the masks of several ranks */
  int alike;   /**< 1: all masks are the same */
  /* the ranks that share cores and are worst off */
  int group_ranks, group_threads, group_cores;
} ct_doctor_node_t;

/** Sorts the ranks by nodes: nodes[job->nodes], and order[job->ranks] that they point into. */
void ct_doctor_nodes(const ct_facts_t *f, const ct_job_facts_t *job, const ct_facts_t **order,
                     ct_doctor_node_t *nodes);

/* ---- the kinds of findings: internal ---- */

/** About a node; NULL: about the job.  \a cure may be "". */
void ct__doctor_add(ct_findings_t *out, int level, const char *key, const ct_doctor_node_t *node,
                    const char *cure, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void ct__doctor_cores(const ct_doctor_node_t *node, ct_findings_t *out);
void ct__doctor_memory(const ct_doctor_node_t *node, ct_findings_t *out);
void ct__doctor_gpus(const ct_doctor_node_t *node, ct_findings_t *out);
void ct__doctor_launch(const ct_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_files(const ct_job_facts_t *job, ct_findings_t *out);
void ct__doctor_data(const ct_job_facts_t *job, ct_findings_t *out);
/** "srun --cpus-per-task=8 --cpu-bind=cores": \a cores for each rank, none of them shared. */
void ct__doctor_bind(const ct_job_facts_t *job, int cores, char *buf, size_t cap);
/** "srun --ntasks-per-node=4": at most \a ranks on a node. */
void ct__doctor_fewer(const ct_job_facts_t *job, int ranks, char *buf, size_t cap);

/* ---- facts ---- */

/** Collective.  Facts of this rank go to rank 0, which gets *all (an array of topo->size, to be freed with
 * ct_mem_free(); NULL elsewhere).  Device and threads are those of \a s; without a device in it
 * s->be may be NULL and \a why says the reason.  \a thorough: as ct_machine_read(). */
int ct_doctor_gather(const ct_setup_t *s, int threads, const char *why, int thorough,
                     ct_facts_t **all);
/** Local; rank 0.  What the environment tells of the job, but for its end. */
void ct_doctor_job(const ct_topo_t *topo, const ct_config_t *c, ct_job_facts_t *job);

/** Collective.  Opens data and model of s->cfg as a run would; what goes wrong is a fact.  job: rank 0's, NULL
 * on the others. */
int ct_doctor_config(ct_setup_t *s, ct_job_facts_t *job);

/* ---- telling ---- */

/** "2 nodes x 2 ranks x 1 thread on 2 cores each, launched by srun (pmi2)".  Appended. */
int ct_doctor_line(const ct_doctor_node_t *nodes, const ct_job_facts_t *job, ct_str_t *out);
/** The whole report for people, and as JSON.  Appended. */
int ct_doctor_report(const ct_facts_t *f, const ct_job_facts_t *job, const ct_findings_t *findings,
                     ct_str_t *out);
int ct_doctor_json(const ct_facts_t *f, const ct_job_facts_t *job, const ct_findings_t *findings,
                   ct_str_t *out);
/** "node3 and 2 more nodes: …"; the finding in a sentence.  Appended. */
int ct_doctor_sentence(const ct_finding_t *finding, ct_str_t *out);
/** Collective.  The binding line of a start with its device to the log, and at most three warnings. */
int ct_doctor_start(const ct_setup_t *s, int threads);

#endif
