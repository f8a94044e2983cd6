/** \file ct_config.h  The whole configuration of a run.  Layer 5.
 *
 * Every section is one option table of the module it configures; config.c lists the tables, and
 * parsing, defaults, ranges, help, dump and hash follow from the list.  Everything is local and
 * free of MPI. */
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
  int64_t threads; /**< of a rank; 0: its share of the cores */
} ct_cpu_opts_t;

/** Section `cuda`. */
typedef struct ct_cuda_opts {
  int tf32;     /**< products of float32 may round their factors */
  int autotune; /**< cudnn.benchmark */
  char
      *cache; /**< directory of what autotune found; "": $XDG_CACHE_HOME or ~/.cache, "off": none */
  int graph;  /**< a step is started as a whole */
  double timeout_s; /**< of waits for the GPU */
} ct_cuda_opts_t;

/** Section `sim`. */
typedef struct ct_sim_opts {
  char *times;           /**< file of recorded ops; "": none */
  double gflops, gbytes; /**< rates of other ops, 10^9 a second; 0: as the file says */
  double noise;          /**< of an op's time: standard deviation of its logarithm */
  int64_t slow_rank;     /**< -1: none */
  double slow;           /**< how many times as long that rank's ops take */
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
  char where[CT_PATH_MAX]; /**< the file's name, for messages */
} ct_config_t;

/** Reads YAML text into *c, which is zeroed first; \a where names the file.  set[sets]: KEY=VALUE
 * texts from the command line, which win.  CT_ERR_USAGE with file, line, key and the nearest valid
 * key. */
int ct_config_parse(ct_config_t *c, const char *text, size_t bytes, const char *where,
                    const char *const *set, int sets);
/** The same from a file, under which the files lie that it includes (`include: base.yaml`, or a
 * list of which the last one counts most): maps are joined key by key, all else is the upper
 * file's.  Relative paths are then below the directory of the file in which they stand.  A run's
 * directory stands for config.yaml in it.  CT_ERR_IO as well. */
int ct_config_read(ct_config_t *c, const char *path, const char *const *set, int sets);
/** Frees what *c owns; a zeroed one is fine. */
void ct_config_clear(ct_config_t *c);

/** Fills in what the text left open, so that the dump means the same everywhere: paths that are
 * still relative, since they stood in no file, are those of \a cwd; the global batch follows from
 * data.batch_per_rank and \a ranks. */
int ct_config_resolve(ct_config_t *c, const char *cwd, int ranks);
/** What the range of a single key cannot say.  with_loss 0: for who only looks at samples, which
 * need no labels then.  CT_ERR_USAGE. */
int ct_config_check(const ct_config_t *c, int ranks, int with_loss);

/** Whether the scores that the keys name are such as the data and the loss have.  CT_ERR_USAGE. */
int ct_config_check_scores(const ct_config_t *c, int has_targets);

/** The values as a tree, to be freed with ct_yaml_free(). */
int ct_config_tree(const ct_config_t *c, ct_yaml_t **out);
/** Those of them that can change the result of a run, to be freed likewise. */
int ct_config_settings(const ct_config_t *c, ct_yaml_t **out);
/** As YAML, every key: parses back to the same values.  Appended. */
int ct_config_dump(const ct_config_t *c, ct_str_t *out);
/** Hash of the keys that can change the result of a run: not of names, places, threads and such. */
int ct_config_hash(const ct_config_t *c, uint64_t *out);
/** Lists the keys that can change the result and have another value in \a old (a dump): "data.batch
 * was 64 and is 128; …".  Empty if there are none.  Appended. */
int ct_config_differences(const ct_config_t *c, const char *old, ct_str_t *out);
/** The key that a word means which was given as an option, such as lr, learning-rate or optim.lr:
 * "optim.lr"; several are joined by " or ".  Returns 0, and "" in buf, if there is none. */
int ct_config_key(const char *word, char *buf, size_t cap);
/** The word of the key `device` for a ct_device_choice_t. */
const char *ct_config_device(int choice);
/** Every section with its keys, defaults, ranges; transforms, families, layer kinds.  Appended. */
int ct_config_help(ct_str_t *out);

#endif
