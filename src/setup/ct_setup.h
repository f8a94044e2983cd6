/** \file ct_setup.h  What train, eval and bench have in common, up to a trainer.  Layer 5.
 *
 * Each function opens one part, in the order in which they stand here; all are collective.
 * ct_setup_close() closes what was opened, in reverse order. */
#ifndef CT_SETUP_H
#define CT_SETUP_H
#include "setup/ct_command.h"
#include "comm/ct_comm_probe.h"
#include "setup/ct_config.h"
#include "data/local/ct_cache.h"
#include "doctor/ct_doctor.h"
#include "model/ct_fold.h"
#include "model/ct_observe.h"
#include "eval/ct_eval.h"
#include "run/ct_steps.h"
#include "train/ct_trainer.h"

/** How gradients travel, as far as it is chosen. */
typedef struct ct_messages {
  double bucket_mb;      /**< of a bucket; set when the trainer is described */
  int flat;              /**< ct_comm_opts_t.flat */
  int recalled;          /**< 1: as the checkpoint says that the run goes on from */
  char by[16];           /**< recalled: of which communicator */
  ct_comm_probe_t probe; /**< sizes 0: nothing was timed */
} ct_messages_t;

typedef struct ct_setup {
  const ct_topo_t *topo; /**< borrowed */
  int without_loss;      /**< in: the command only looks at samples, which need no labels */
  int without_gradients; /**< in: nothing is trained, so no messages of gradients are chosen */
  ct_config_t cfg;
  const ct_backend_t *be;
  ct_dev_t *dev;
  const ct_comm_ops_t *comm_ops;
  ct_comm_t *comm;
  ct_messages_t messages;
  ct_dataset_t data, val; /**< not opened: samples 0 */
  ct_dataset_t *set;      /**< eval.sets, in their order, … */
  int with_sets;          /**< in: … which are opened with data.val */
  ct_blocks_t *blocks;    /**< of the training data, with data.shuffle: blocks; owned; else NULL */
  ct_cache_t *cache;      /**< of their files, on the node's disk; owned; or NULL */
  ct_graph_t *graph;
  ct_fold_t
      fold; /**< of it; its graph is NULL: it is not folded, else it is what the trainer has */
  ct_graph_t *whole; /**< with train.qat, where `graph` is `observed`'s: the model itself */
  ct_observed_t observed;
  struct ct_quantized *quantized; /**< owned; NULL, or what the trainer has instead (ct_quantized.h)
                                       */
  ct_step_opts_t step_opts;
  float *class_weight; /**< of the loss; NULL: none */
  ct_trainer_t *trainer;
  double config_s, data_s, plan_s; /**< the ledger: seconds of start-up */
} ct_setup_t;

/** Rank 0 reads the file and the options of the command line, and sends the resolved text to all.
 */
int ct_setup_config(ct_setup_t *s, const char *path, const ct_args_t *a);
/** The same with a configuration that rank 0 has already: \a text is its dump, \a rc rank 0's code
 * so far; \a where names its file. */
int ct_setup_share_config(ct_setup_t *s, const char *where, int rc, const ct_str_t *text);
/** Threads of a rank: what the configuration says, or its share of the cores. */
int ct_setup_threads(const ct_config_t *c, int share);
/** Local.  This rank's device alone. */
int ct_setup_open_device(ct_setup_t *s);
/** Local.  What the doctor is told of this rank.  Without a device \a no_device says why, else it
 * is "". */
ct_doctor_env_t ct_setup_doctor(const ct_setup_t *s, const char *no_device);
/** With a device on each rank: how the ranks share the work, and the communicator. */
int ct_setup_comm(ct_setup_t *s);
/** 1 if the configuration leaves the bucket's size or the way of the sums to measurement, and there
 * is something to measure.  Local, as the next four. */
int ct_setup_leaves_messages(const ct_setup_t *s);
/** What was chosen, as a text for checkpoints. */
int ct_setup_note_messages(const ct_setup_t *s, ct_str_t *out);
/** Takes such a text, if ranks and nodes are as many.  Before ct_setup_comm(), on all ranks. */
void ct_setup_recall_messages(ct_setup_t *s, const char *text);
/** The size of a bucket, which is kept in s->messages. */
double ct_setup_bucket_mb(ct_setup_t *s);
/** To the log, if it was not the configuration that said it. */
void ct_setup_log_messages(const ct_setup_t *s);
/** Collective.  Times messages, if that is wanted and not recalled, and sets o->flat. */
int ct_setup_messages(ct_setup_t *s, ct_comm_opts_t *o);
/** Device and communicator; tells the log who runs where, and what is bad about it. */
int ct_setup_device(ct_setup_t *s);
/** The data sets that are asked for; ranks agree that they see the same.  Fills in model.classes,
 * counted in the data if neither the file nor the configuration says. */
int ct_setup_data(ct_setup_t *s, int want_train, int want_val);
/** Local, rank 0.  The log says how the samples of these opened data sets are read. */
void ct_setup_log_reading(const ct_setup_t *s, int want_train, int want_val);
/** Collective.  With data.stage: the ranks of each node copy the files of the opened data sets to
 * its disk, and read the copies from then on.  With data.cache_dir: what they read from then on is
 * kept there. */
int ct_setup_cache(ct_setup_t *s);
/** Local.  After the data sets are closed; with data.cache_dir logs how much the cache supplied. */
void ct_setup_cache_close(ct_setup_t *s);
/** The order of the training samples, which borrows from \a s; with data.shuffle: blocks the log is
 * told what it is like. */
int ct_setup_order(ct_setup_t *s, ct_sampler_t *out);
/** Collective.  Steps on the training data in that order, from the first epoch's first sample on;
 * \a s has a trainer and outlives them. */
int ct_setup_steps(ct_setup_t *s, ct_steps_t *out);
/** Local.  What it follows from besides the configuration, for a checkpoint: 0 or a hash. */
int64_t ct_setup_order_hash(const ct_sampler_t *s);
int ct_setup_model(ct_setup_t *s);
/** Local.  Freezes what `train.freeze` says; warns of batchnorms that go on in the frozen part. */
int ct_setup_freeze(const ct_config_t *c, ct_graph_t *g);
/** Local.  With train.qat, which is training of the observed model: s->graph becomes that. */
int ct_setup_observe(ct_setup_t *s);
/** training: 0 for evaluation only. */
int ct_setup_trainer(ct_setup_t *s, int training);
/** Collective.  The weights of `init.from`, which rank 0 reads, into the trainer. */
int ct_setup_init(ct_setup_t *s);
/** Local.  What this rank's trainer will allocate; the communicator need not be there.  residency
 * (may be NULL) is filled: residency[CT_RESIDENCIES], *residencies of them. */
int ct_setup_memory(ct_setup_t *s, ct_memory_t *out, ct_residency_t *residency, int *residencies);
/** A zeroed one is fine. */
void ct_setup_close(ct_setup_t *s);

/** Local.  Opens one data set without agreement; for commands of one process. */
int ct_setup_open_data(const ct_config_t *c, const ct_opt_texts_t *files, ct_dataset_t *out);
/** Local.  Makes sure that model.classes is given and enough for \a d. */
int ct_setup_classes(ct_config_t *c, ct_dataset_t *d);
/** Local, rank 0.  Takes the names of the classes from \a d, unless they are given: then names that
 * differ are warned of; \a what names the data. */
int ct_setup_take_names(ct_config_t *c, const ct_dataset_t *d, const char *what);
/** Local.  What an evaluation of s->val measures.  Classes are counted in *confusion, which is
 * opened for it and the caller closes, if a key wants it or they are few; \a counts: if it can be
 * done.  CT_ERR_USAGE: a metric that the data do not have. */
int ct_setup_eval(const ct_setup_t *s, int counts, ct_confusion_t *confusion, ct_eval_want_t *out);
/** Local.  A configuration from its file and --set. */
int ct_setup_parse(ct_config_t *c, const char *path, const ct_args_t *a);
/** Local.  What follows from it, for so many ranks. */
int ct_setup_resolve(ct_config_t *c, int ranks, int with_loss);
/** Local.  Both: file, --set and everything that follows from them, for so many ranks. */
int ct_setup_read_config(ct_config_t *c, const char *path, const ct_args_t *a, int ranks,
                         int with_loss);

#endif
