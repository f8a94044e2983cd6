/** \file ct_setup.h  Assembles a trainer from a configuration, for train, eval and bench.  Layer 5.
 *
 * The sections below stand in the order in which a command calls them.  Functions are collective
 * unless they are marked "Local". ct_setup_close() closes all open parts in reverse order. */
#ifndef CT_SETUP_H
#define CT_SETUP_H
#include "setup/ct_command.h"
#include "comm/ct_comm_probe.h"
#include "setup/ct_config.h"
#include "data/local/ct_cache.h"
#include "data/readers/ct_tiles.h"
#include "doctor/ct_doctor.h"
#include "model/ct_fold.h"
#include "model/ct_observe.h"
#include "eval/ct_eval.h"
#include "run/ct_steps.h"
#include "train/ct_trainer.h"

/** Settings of the gradient all-reduce that are measured if the configuration says `auto`. */
typedef struct ct_messages {
  double bucket_mb;      /**< size of a bucket in MiB; set when the trainer is created */
  int flat;              /**< 1: flat all-reduce, 0: hierarchical (ct_comm_opts_t.flat) */
  int recalled;          /**< 1: the settings are those of the checkpoint that the run resumes
                              from */
  char by[16];           /**< communicator of the recalled settings */
  ct_comm_probe_t probe; /**< measured all-reduce times; sizes 0: none */
} ct_messages_t;

typedef struct ct_setup {
  const ct_topo_t *topo; /**< borrowed */
  int without_loss;      /**< in: 1: the command needs no labels */
  const ct_tile_t *tile; /**< in: how the samples of data.val are cut; borrowed; NULL: not at all */
  int without_gradients; /**< in: 1: no training, so no all-reduce settings are chosen */
  ct_config_t cfg;
  const ct_backend_t *be;
  ct_dev_t *dev;
  const ct_backend_t *host; /**< optim.place host: the CPU as a device of its own; else NULL */
  ct_dev_t *host_dev;
  const ct_comm_ops_t *comm_ops;
  ct_comm_t *comm;
  ct_messages_t messages;
  ct_dataset_t data, val; /**< training and validation data; samples 0: not open */
  ct_dataset_t *set;      /**< eval.sets in their order; owned; NULL: none */
  int with_sets;          /**< in: 1: eval.sets are opened along with data.val */
  ct_blocks_t *blocks;    /**< chunks of the training data, for data.shuffle: blocks; owned, or
                               NULL */
  ct_cache_t *cache;      /**< node-local cache of the data files; owned, or NULL */
  ct_graph_t *graph;
  ct_fold_t
      fold; /**< graph with folded batchnorms, used by the trainer; fold.graph NULL: not folded */
  ct_graph_t *whole; /**< the model without fake-quantization if train.qat is on (then `graph` is
                          observed.graph); else NULL */
  ct_observed_t observed;
  struct ct_quantized *quantized; /**< owned; the int8 model that the trainer uses, or NULL
                                       (ct_quantized.h) */
  ct_step_opts_t step_opts;
  float *class_weight; /**< owned; class weights of the losses, or NULL */
  float *place_weight; /**< owned; place weights of the losses, one after another, or NULL */
  ct_str_t loss_name[CT_OUTPUTS]; /**< names of further losses of an output */
  size_t memory;                  /**< budget of this rank in bytes; 0: none */
  size_t used; /**< with a budget: what of it the process used before the trainer */
  ct_trainer_t *trainer;
  double config_s; /**< seconds to read the configuration */
  double data_s;   /**< seconds to open the data sets */
  double plan_s;   /**< seconds to compile the execution plan */
} ct_setup_t;

/* ---- configuration ---- */

/** Rank 0 reads the file and the command-line options and broadcasts the resolved configuration. */
int ct_setup_config(ct_setup_t *s, const char *path, const ct_args_t *a);
/** Broadcasts a configuration that rank 0 already has.  On rank 0, \a text is its dump and \a rc
 * the result of reading it; \a where is the file name for messages. */
int ct_setup_share_config(ct_setup_t *s, const char *where, int rc, const ct_str_t *text);
/** Local.  Reads a configuration from a file and --set. */
int ct_setup_parse(ct_config_t *c, const char *path, const ct_args_t *a);
/** Local.  Resolves and checks a configuration for the given number of ranks. */
int ct_setup_resolve(ct_config_t *c, int ranks, int with_loss);
/** Local.  Calls ct_setup_parse() and ct_setup_resolve(). */
int ct_setup_read_config(ct_config_t *c, const char *path, const ct_args_t *a, int ranks,
                         int with_loss);

/* ---- device and communicator ---- */

/** Opens device and communicator.  Logs the placement of the ranks and warns of problems. */
int ct_setup_device(ct_setup_t *s);
/** Local.  Opens the device of this rank only. */
int ct_setup_open_device(ct_setup_t *s);
/** Local.  If a training has optim.place: host, opens the CPU beside the device and sets env->host.
 * CT_ERR_USAGE: there is no other memory than that of the host. */
int ct_setup_host(ct_setup_t *s, int threads, ct_trainer_env_t *env);
/** Chooses the parallel strategy and opens the communicator.  Every rank has a device open. */
int ct_setup_comm(ct_setup_t *s);
/** Local.  Returns the number of threads of a rank: cpu.threads, or \a share, its share of the
 * cores. */
int ct_setup_threads(const ct_config_t *c, int share);
/** Local.  Returns the facts about this rank for the doctor's checks.  \a no_device: reason why no
 * device is open, or "". */
ct_doctor_env_t ct_setup_doctor(const ct_setup_t *s, const char *no_device);

/* ---- without a device ---- */

/** Local.  Opens configuration, data sets and graph for rank 0 of a job of s->topo->size ranks, but
 * no device, so that a training that this machine cannot run can be looked at. */
int ct_setup_without_device(ct_setup_t *s, const char *path, const ct_args_t *a);
/** Local.  Opens a GPU model such as "h100" as the device; it can only make plans.  CT_ERR_USAGE:
 * an unknown model; CT_ERR_UNSUP: a build without CUDA. */
int ct_setup_describe_device(ct_setup_t *s, const char *card);
/** Local.  Makes the plan of the first training step. */
int ct_setup_plan(ct_setup_t *s, ct_plan_t **out);

/* ---- settings of the gradient all-reduce ---- */

/** Local.  Returns 1 if parallel.bucket_mb or parallel.allreduce is `auto` and the job has
 * gradients to reduce between ranks. */
int ct_setup_leaves_messages(const ct_setup_t *s);
/** Local.  Appends the chosen all-reduce settings as JSON, for checkpoints. */
int ct_setup_note_messages(const ct_setup_t *s, ct_str_t *out);
/** Local.  Restores the all-reduce settings from a checkpoint (\a text is the JSON of
 * ct_setup_note_messages()) if the numbers of ranks and nodes are the same.  Call it on all ranks,
 * before ct_setup_comm(). */
void ct_setup_recall_messages(ct_setup_t *s, const char *text);
/** Times all-reduces if the configuration asks for it and the settings are not restored from a
 * checkpoint.  Sets o->flat. */
int ct_setup_messages(ct_setup_t *s, ct_comm_opts_t *o);
/** Local.  Chooses the bucket size, stores it in s->messages, and returns it in MiB. */
double ct_setup_bucket_mb(ct_setup_t *s);
/** Local.  Logs the bucket size if parallel.bucket_mb is `auto`. */
void ct_setup_log_messages(const ct_setup_t *s);

/* ---- data ---- */

/** Opens the requested data sets.  Fails if ranks see different data.  Sets model.classes if the
 * configuration does not: from the file, or by counting the labels. */
int ct_setup_data(ct_setup_t *s, int want_train, int want_val);
/** Local.  Opens one data set without agreement between ranks, for commands with one process. */
int ct_setup_open_data(const ct_config_t *c, const ct_opt_texts_t *files, ct_dataset_t *out);
/** Local.  Checks that model.classes covers the labels of \a d; sets it from the data if it is 0.
 */
int ct_setup_classes(ct_config_t *c, ct_dataset_t *d);
/** Local, rank 0.  Takes the class names from \a d.  If the configuration already has class names,
 * warns where they differ.  \a what names the data in messages. */
int ct_setup_take_names(ct_config_t *c, const ct_dataset_t *d, const char *what);
/** Local, rank 0.  Logs how samples of the open data sets are read. */
void ct_setup_log_reading(const ct_setup_t *s, int want_train, int want_val);
/** Local, rank 0.  Copies the tokenizer in the first file of the training data, if there is one, to
 * tokenizer.blob in the run directory. */
int ct_setup_copy_tokenizer(const ct_setup_t *s);
/** Sets up copies on the local disks of the nodes.  With data.stage, the ranks of each node copy
 * the open data sets to the local disk and read the copies.  With data.cache_dir, data is kept on
 * the local disk as it is read. */
int ct_setup_cache(ct_setup_t *s);
/** Local.  Call after the data sets are closed.  With data.cache_dir, logs how much data the cache
 * supplied. */
void ct_setup_cache_close(ct_setup_t *s);
/** Creates the sampler of the training data, which borrows from \a s.  With data.shuffle: blocks,
 * logs the size and number of the blocks. */
int ct_setup_order(ct_setup_t *s, ct_sampler_t *out);
/** Local.  Returns a hash of the inputs of the sampler's order that are not in the configuration;
 * 0: the configuration determines the order.  Checkpoints store this hash. */
int64_t ct_setup_order_hash(const ct_sampler_t *s);

/* ---- model ---- */

/** Local; on rank 0, before the configuration is sent to the others.  Replaces `model.from` by the
 * layers of that file.  CT_ERR_USAGE: the file cannot be read or translated; the message lists the
 * ops that are not supported. */
int ct_setup_import(ct_config_t *c);
/** Local.  Sets the keys of the section `model` that are at their defaults to the numbers of the
 * model in init.from, if that is of another program and of the family.  CT_ERR_USAGE. */
int ct_setup_numbers(ct_config_t *c);
/** Local, after ct_config_resolve().  Replaces `from` of normalize in the transforms by the mean
 * and std of each channel.  A file of statistics is relative to \a cwd.  CT_ERR_USAGE, CT_ERR_IO,
 * CT_ERR_FORMAT name the line, the file and the array. */
int ct_setup_normalize(ct_config_t *c, const char *cwd);
/** Local.  Gives each extra input of the data the shape that the model has noted for it, if it has
 * as many elements: arrays of N x A x B are read as images of one channel. */
int ct_setup_fit_extra(const ct_model_opts_t *o, ct_dataset_t *d);
/** Takes the values of a constant of s->graph. */
typedef int (*ct_constant_take_t)(void *ctx, int param, const float *values);
/** Local.  Reads the constants of an imported model from `model.from`; does nothing if the model
 * has none. */
int ct_setup_read_constants(ct_setup_t *s, ct_constant_take_t take, void *ctx);
/** Rank 0 reads the constants of an imported model from `model.from`; all ranks load them. */
int ct_setup_constants(ct_setup_t *s);
/** Builds the graph for the shapes of the open data set, then freezes parameters and adds observers
 * as the configuration says.  Fails if ranks have different models. */
int ct_setup_model(ct_setup_t *s);
/** Local.  Freezes the parameters that `train.freeze` selects.  Warns of batchnorms in the frozen
 * part that still update running statistics. */
int ct_setup_freeze(const ct_config_t *c, ct_graph_t *g);

/* ---- the losses (losses.c) ---- */

/** Local.  Sets the targets of a reader.  *targets must outlive the opening of the reader. */
int ct_setup_targets(const ct_config_t *c, ct_loss_targets_t *targets, ct_reader_spec_t *spec);
/** Local.  Notes in an opened data set how the losses read its targets.  CT_ERR_USAGE: real numbers
 * for cross_entropy. */
int ct_setup_note_targets(const ct_config_t *c, ct_dataset_t *d);
/** Local.  Checks the losses against the outputs of the model and the targets of the data, and sets
 * the ranges of labels.  CT_ERR_USAGE names the loss. */
int ct_setup_check_losses(const ct_config_t *c, const ct_graph_t *g, ct_dataset_t *d);
/** Local.  Freezes the parameters of layers that no loss needs, and warns of them. */
int ct_setup_freeze_unused(const ct_config_t *c, ct_graph_t *g);
/** Collective.  Makes the place weights of the losses, which rank 0 computes or reads.
 * CT_ERR_USAGE names the key and what does not fit the output. */
int ct_setup_place_weights(ct_setup_t *s);
/** Local.  Sets env->heads. */
int ct_setup_heads(ct_setup_t *s, ct_trainer_env_t *env);
/** Local.  With train.qat, replaces s->graph by the graph with fake-quantization observers. */
int ct_setup_observe(ct_setup_t *s);

/* ---- the memory budget (memory.c, budget.c) ---- */

/** Local.  Sets s->memory and s->used. */
void ct_setup_measure(ct_setup_t *s);
/** Local, after ct_setup_measure().  Chooses the batch of data.batch_per_rank: auto, and a smaller
 * data.eval_batch if evaluations do not fit; logs both.  *out: the budget, if there is one.
 * CT_ERR_NOMEM: not even the smallest batch fits. */
int ct_setup_choose(ct_setup_t *s, ct_budget_t *out);
/** Local.  Sets the budget of the trainer, and what the caller of the trainer uses of it. */
void ct_setup_spend(const ct_setup_t *s, ct_trainer_env_t *env);

/* ---- trainer ---- */

/** Creates the trainer; \a training 0: for evaluation only.  With a budget it chooses the batch as
 * ct_setup_choose() does, the same on all ranks. */
int ct_setup_trainer(ct_setup_t *s, int training);
/** Local.  Fills in the environment of ct_setup_trainer()'s trainer; it borrows from \a s. */
int ct_setup_describe_trainer(ct_setup_t *s, int training, ct_trainer_env_t *env);
/** Rank 0 reads the weights of `init.from`; all ranks load them into the trainer. */
int ct_setup_init(ct_setup_t *s);
/** Opens the training steps in the sampler's order, from the first sample of epoch 0.  \a s has a
 * trainer and must outlive \a out. */
int ct_setup_steps(ct_setup_t *s, ct_steps_t *out);
/** Local.  Computes the memory that this rank's trainer will allocate; no communicator is needed.
 * If \a residency is not NULL, also describes where it resides: residency[CT_RESIDENCIES], of which
 * *residencies are set. */
int ct_setup_memory(ct_setup_t *s, ct_memory_t *out, ct_residency_t *residency, int *residencies);
/** Local.  Determines the metrics of an evaluation of s->val.  If \a counts is 1 and a key needs
 * the confusion matrix or the number of classes is small, opens *confusion, which the caller
 * closes.  CT_ERR_USAGE: a metric cannot be computed for this data. */
int ct_setup_eval(const ct_setup_t *s, int counts, ct_confusion_t *confusion, ct_eval_want_t *out);
/** Closes everything in reverse order; *s may be all zero: nothing to close. */
void ct_setup_close(ct_setup_t *s);

#endif
