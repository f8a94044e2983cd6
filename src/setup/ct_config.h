/** \file ct_config.h  The whole configuration of a run.  Layer 5.
 *
 * Each section is an option table of the module that it configures. config.c lists the tables;
 * parsing, defaults, ranges, help, dump and hash follow from the list.  All functions are local and
 * do not use MPI. */
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

/** Words of the key `device`, in the order of its choices. */
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
  int tf32;     /**< 1: float32 matrix products may round their operands to TF32 */
  int autotune; /**< cudnn.benchmark */
  char *cache;  /**< directory for autotune results; "": $XDG_CACHE_HOME or ~/.cache, "off": none */
  int graph;    /**< steps are replayed as CUDA graphs */
  double timeout_s; /**< timeout of waits for the GPU */
} ct_cuda_opts_t;

/** Section `sim`. */
typedef struct ct_sim_opts {
  char *times;           /**< file with recorded times of ops; "": none */
  double gflops, gbytes; /**< rates for other ops, in 10^9 per second; 0: from the file */
  double noise;          /**< standard deviation of the logarithm of an op's time */
  int64_t slow_rank;     /**< rank with slower ops; -1: none */
  double slow;           /**< factor on the times of that rank's ops */
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
  ct_loss_opts_t loss;
  ct_ckpt_opts_t checkpoint;
  ct_log_opts_t log;
  ct_job_opts_t job;
  ct_cpu_opts_t cpu;
  ct_cuda_opts_t cuda;
  ct_sim_opts_t sim;
  char where[CT_PATH_MAX]; /**< name of the file, for messages */
} ct_config_t;

/** Reads YAML text into *c, which is zeroed first; \a where names the file. set[sets]: KEY=VALUE
 * texts from the command line, which override the file.  CT_ERR_USAGE with file, line, key and the
 * nearest valid key. */
int ct_config_parse(ct_config_t *c, const char *text, size_t bytes, const char *where,
                    const char *const *set, int sets);
/** The same from a file, or from config.yaml in a run's directory.  Values of the file override
 * those of the files that it includes (`include: base.yaml`, or a list in which later files
 * override earlier ones); maps are merged key by key.  Relative paths are relative to the file that
 * contains them.  Also CT_ERR_IO. */
int ct_config_read(ct_config_t *c, const char *path, const char *const *set, int sets);
/** Frees the contents of *c, which may be zeroed. */
void ct_config_clear(ct_config_t *c);

/** Resolves values so that the dump has the same meaning everywhere: paths that are still relative,
 * since they come from no file, become relative to \a cwd, and the global batch is computed from
 * data.batch_per_rank and \a ranks. */
int ct_config_resolve(ct_config_t *c, const char *cwd, int ranks);
/** Checks constraints between keys.  with_loss 0: for commands that only read samples, which then
 * need no labels.  CT_ERR_USAGE. */
int ct_config_check(const ct_config_t *c, int ranks, int with_loss);

/** Checks that the data and the loss have the scores that the keys name.  CT_ERR_USAGE. */
int ct_config_check_scores(const ct_config_t *c, int has_targets);

/** The values as a tree, to be freed with ct_yaml_free(). */
int ct_config_tree(const ct_config_t *c, ct_yaml_t **out);
/** The subset of values that can change the result of a run; freed in the same way. */
int ct_config_settings(const ct_config_t *c, ct_yaml_t **out);
/** Appends every key as YAML, which parses to the same values. */
int ct_config_dump(const ct_config_t *c, ct_str_t *out);
/** Hash of the keys that can change the result of a run: not of names, paths, threads and similar
 * ones. */
int ct_config_hash(const ct_config_t *c, uint64_t *out);
/** Appends the keys that can change the result and have another value in \a old (a dump):
 * "data.batch was 64 and is 128; …".  Appends nothing if there are none. */
int ct_config_differences(const ct_config_t *c, const char *old, ct_str_t *out);
/** The key for a word given as an option: "optim.lr" for lr, learning-rate or optim.lr.  Several
 * keys are joined by " or ".  Returns 0, and "" in buf, if there is none. */
int ct_config_key(const char *word, char *buf, size_t cap);
/** The word of the key `device` for a ct_device_choice_t. */
const char *ct_config_device(int choice);
/** Appends the help: every section with its keys, defaults and ranges; transforms, families, layer
 * kinds. */
int ct_config_help(ct_str_t *out);

#endif
