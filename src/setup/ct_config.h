/** \file ct_config.h  The whole configuration of a run.  Layer 5.
 *
 * Each section is an option table that belongs to the module it configures. config.c lists the
 * tables; parsing, defaults, range checks, help, dump and hash follow from the list.  All functions
 * are local and do not use MPI. */
#ifndef CT_CONFIG_H
#define CT_CONFIG_H
#include "ckpt/ct_ckpt.h"
#include "data/ct_dataset.h"
#include "model/ct_graph.h"
#include "optim/ct_optim.h"
#include "plan/ct_loss.h"
#include "run/ct_run_opts.h"
#include "train/ct_train_opts.h"
#include "weights/ct_init.h"

/** Values of the key `device`, in the order of its choices. */
typedef enum {
  CT_DEVICE_AUTO,
  CT_DEVICE_CPU,
  CT_DEVICE_CUDA,
  CT_DEVICE_REF,
  CT_DEVICE_SIM
} ct_device_choice_t;

/** Section `cpu`. */
typedef struct ct_cpu_opts {
  int conv_algo;   /**< auto|direct */
  int64_t threads; /**< threads per rank; 0: the rank's share of the cores */
} ct_cpu_opts_t;

/** Section `cuda`. */
typedef struct ct_cuda_opts {
  int autotune; /**< 1: the fastest algorithms are found by timing, as with cudnn.benchmark */
  char *cache;  /**< directory for autotune results; "": $XDG_CACHE_HOME or ~/.cache, "off": none */
  int64_t workspace_mb; /**< limit of the workspace of an op; 0: a share of the memory */
  int graph;            /**< 1: steps are replayed as CUDA graphs */
  double timeout_s; /**< seconds to wait for the GPU or a peer before the run aborts; 0: forever */
} ct_cuda_opts_t;

/** Section `sim`. */
typedef struct ct_sim_opts {
  char *times;       /**< file with recorded times of ops; "": none */
  double gflops;     /**< GFLOP/s of ops without a recorded time; 0: the value in the file */
  double gbytes;     /**< GB/s of ops without a recorded time; 0: the value in the file */
  double noise;      /**< standard deviation of the logarithm of an op's time */
  int64_t slow_rank; /**< rank with slower ops; -1: none */
  double slow;       /**< factor on the times of that rank's ops */
} ct_sim_opts_t;

typedef struct ct_config {
  ct_run_opts_t run;
  int device;                /**< ct_device_choice_t */
  ct_yaml_t *transforms;     /**< owned; NULL: none */
  ct_yaml_t *val_transforms; /**< owned; NULL: transforms without the random ones */
  ct_parallel_opts_t parallel;
  ct_data_opts_t data;
  ct_model_opts_t model;
  ct_init_opts_t init;
  ct_train_opts_t train;
  ct_eval_opts_t eval;
  ct_optim_opts_t optim;
  ct_schedule_opts_t schedule;
  ct_loss_opts_t loss; /**< the section as it is written; what it means is in losses */
  ct_losses_t losses;
  ct_ckpt_opts_t checkpoint;
  ct_log_opts_t log;
  ct_job_opts_t job;
  ct_cpu_opts_t cpu;
  ct_cuda_opts_t cuda;
  ct_sim_opts_t sim;
  int eval_follows;        /**< 1: data.eval_batch is data.batch, which is not chosen yet */
  char where[CT_PATH_MAX]; /**< name of the configuration file, for messages */
} ct_config_t;

/** Reads YAML text into *c, which is zeroed first.  \a where is the file name for messages.
 * set[sets] are KEY=VALUE texts from the command line; they override the file.  CT_ERR_USAGE with
 * file, line, key and the most similar valid key. */
int ct_config_parse(ct_config_t *c, const char *text, size_t bytes, const char *where,
                    const char *const *set, int sets);
/** Reads a configuration from a file, or from config.yaml if \a path is a run directory; otherwise
 * as ct_config_parse().  A file overrides the files that it includes (`include: base.yaml`, or a
 * list in which later files override earlier ones); maps are merged key by key.  Relative paths are
 * relative to the file that contains them.  Also returns CT_ERR_IO. */
int ct_config_read(ct_config_t *c, const char *path, const char *const *set, int sets);
/** Frees the contents of *c, which may be all zero: nothing to free. */
void ct_config_clear(ct_config_t *c);

/** Makes the values independent of the working directory and the number of ranks: relative paths,
 * which come from the command line, are prefixed with \a cwd, and the global batch is computed from
 * data.batch_per_rank and \a ranks. */
int ct_config_resolve(ct_config_t *c, const char *cwd, int ranks);
/** After data.batch_per_rank: auto: sets the global batch and what is computed from it.
 * CT_ERR_USAGE */
int ct_config_take_batch(ct_config_t *c, int64_t batch);
/** Checks constraints between keys.  \a with_loss 0: the command reads samples without labels.
 * CT_ERR_USAGE. */
int ct_config_check(const ct_config_t *c, int ranks, int with_loss);

/** Returns the number of the loss of whose output scores are: the only loss, that of eval.output,
 * or the first of several losses of one output; -1: none. */
int ct_config_scored_loss(const ct_config_t *c);
/** Returns the bit CT_SCORE_OF_… of what the output of loss \a k is compared with. */
int ct_config_scored(const ct_config_t *c, const ct_dataset_t *d, int k);
/** Checks that every score that the configuration names can be computed for this data and loss.
 * CT_ERR_USAGE. */
int ct_config_check_scores(const ct_config_t *c, const ct_dataset_t *d);

/** Returns all values as a tree, which the caller frees with ct_yaml_free(). */
int ct_config_tree(const ct_config_t *c, ct_yaml_t **out);
/** Returns only the values that can change the result of a run; the caller frees the tree. */
int ct_config_settings(const ct_config_t *c, ct_yaml_t **out);
/** Appends all keys as YAML text, which parses to the same values. */
int ct_config_dump(const ct_config_t *c, ct_str_t *out);
/** Computes a hash of the keys that can change the result of a run; names, paths, thread counts and
 * similar keys are left out. */
int ct_config_hash(const ct_config_t *c, uint64_t *out);
/** Appends the keys that can change the result of a run and differ from \a old (a dump):
 * "data.batch was 64 and is 128; …".  Appends nothing if none differ. */
int ct_config_differences(const ct_config_t *c, const char *old, ct_str_t *out);
/** Finds the configuration key for an option name: optim.lr for "lr", "learning-rate" or
 * "optim.lr".  Several matches are joined by " or ".  Returns 0, with buf "", if no key matches. */
int ct_config_key(const char *word, char *buf, size_t cap);
/** Returns the value of the key `device` for a ct_device_choice_t. */
const char *ct_config_device(int choice);
/** Appends the help: all sections with their keys, defaults and ranges; transforms, model families,
 * layer kinds. */
int ct_config_help(ct_str_t *out);

#endif
