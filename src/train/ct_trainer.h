/** \file ct_trainer.h  The trainer: one model, its arenas and its plans on one rank.  Layer 4.
 *
 * It makes steps and forward passes, and turns its state into named arrays and back.  It knows
 * neither epochs nor files: those are of the folder run. */
#ifndef CT_TRAINER_H
#define CT_TRAINER_H
#include "ckpt/ct_ckpt.h"
#include "comm/ct_agree.h"
#include "comm/ct_comm.h"
#include "data/feed/ct_feed.h"
#include "optim/ct_optim.h"
#include "plan/ct_plan.h"
#include "train/ct_memory.h"
#include "train/ct_recipe.h"
#include "weights/ct_weights.h"

/** Where a run stands: what a checkpoint says besides arrays. */
typedef struct ct_position {
  int64_t step;   /**< optimizer steps done */
  int64_t epoch;  /**< from 0 */
  int64_t cursor; /**< samples of this epoch done; all: it is still to be evaluated */
  int64_t order;  /**< what their order follows from besides the configuration: a hash of the blocks
                     of the data with data.shuffle: blocks, else 0 */
  int64_t skipped; /**< samples of this epoch that were left out (data.on_error: skip) */
  ct_plateau_t plateau;
  ct_best_t best;  /**< by checkpoint.best */
  ct_best_t early; /**< by train.early_stop */
} ct_position_t;

/** What one step was like on this rank. */
typedef struct ct_step_report {
  int want_norm;         /**< in: compute the norm also if nothing is clipped */
  double data_s;         /**< in: seconds that were waited for the feed */
  double save_s;         /**< in: seconds in checkpoints since the last step */
  double apart_s;        /**< in: seconds since the last step that are no step's: evaluation;
                            INFINITY: all of them */
  ct_step_times_t times; /**< where the time went since the end of the last step, apart_s left out;
                            of a trainer's first step since its begin, and data_s */
  double compute_s;      /**< of it: compute and update */
  double comm_exposed_s; /**< of it: move and all that is not this rank's own */
  int64_t samples;       /**< of all ranks */
  double grad_norm;      /**< of the whole gradient, before clipping; NaN: not computed */
  double loss_scale;     /**< of this step; 1 without loss scaling */
  int skipped;           /**< 1: the gradient was not finite and the loss is scaled: no update */
} ct_step_report_t;

/** Everything a trainer borrows. */
typedef struct ct_trainer_env {
  const ct_topo_t *topo;
  const ct_backend_t *be;
  ct_dev_t *dev;
  const ct_comm_ops_t *comm_ops;
  ct_comm_t *comm;
  const ct_graph_t *graph;
  const ct_optim_opts_t *optim;
  const char *where; /**< names the configuration in messages */
  ct_recipe_t recipe;
  ct_loss_spec_t loss;
  const float *class_weight; /**< [outputs]; NULL: 1 */
  double bucket_mb;
  uint64_t seed;
  int max_batch;        /**< largest local batch of any rank, training: all its pieces */
  int max_eval;         /**< the same of evaluation; 0: none */
  int64_t repeat_batch; /**< global samples of a whole batch, whose steps may be started as a whole
                           (CUDA graphs); 0: none are */
  int training;         /**< 0: evaluation only; no gradients, no states */
  const ct_quant_t *quant; /**< with training 0: numbers of eight bits of the graph, borrowed; NULL:
                              float32 */
  int inference; /**< 1, with training 0: logits only; batches need no labels or targets */
  /** of evaluation, of training: the data set, if its batches come as bytes
   * (ct_trainer_takes_bytes()); NULL: as float32 */
  const ct_dataset_t *bytes_of[2];
} ct_trainer_env_t;

typedef struct ct_trainer ct_trainer_t;

/** Collective.  Plans, arenas, initial parameters (drawn on rank 0, broadcast, verified).  Ranks
 * agree on the layout of the parameters. */
int ct_trainer_create(const ct_trainer_env_t *env, ct_trainer_t **out);
/** Collective; NULL is fine. */
void ct_trainer_destroy(ct_trainer_t *t);

/** Samples of a data set, and how many of them are in a global batch. */
typedef struct ct_batches {
  int64_t samples, batch;
} ct_batches_t;

/** Local.  What ct_trainer_create(), ct_trainer_prepare() of evaluation's and of training's batches
 * (samples 0: there are none), and a checkpoint will have allocated.  Plans are made, and nothing
 * is run.  env->comm may be NULL: then a slice of ZeRO is as large as any rank's, of nodes with as
 * many ranks each. */
int ct_trainer_plan_memory(const ct_trainer_env_t *env, const ct_batches_t of[2], ct_memory_t *out);

/** Pure.  What of a training lies where, to be told: out[CT_PLACES]; returns how many.  \a m: what
 * ct_trainer_plan_memory() said of it. */
int ct_trainer_places(const ct_trainer_env_t *env, const ct_memory_t *m, ct_place_t *out);

/** Local.  Makes the plans that this rank will need for a data set of so many samples in global
 * batches, so that no step makes one.  No forward pass may be on its way; its logits may be gone
 * afterwards. */
int ct_trainer_prepare(ct_trainer_t *t, int64_t samples, int64_t batch, int training);

/** Collective.  Refuses (CT_ERR_USAGE; names the layer and the cures) to train on global batches
 * of so many samples if a batchnorm gets one value per channel, of which nothing can be learned;
 * warns if only the smaller batch at the end of an epoch is such a one. */
int ct_trainer_check_batches(ct_trainer_t *t, int64_t samples, int64_t batch);

/** 1 if batches of the data set should come as bytes: to be converted on a device with memory of
 * its own. */
int ct_trainer_takes_bytes(const ct_backend_t *be, ct_dev_t *dev, const ct_dataset_t *d);
/** What the feed of training's or evaluation's batches has to do for this trainer; the rest is the
 * caller's: whose share of the batch (size 0: this rank gets none, another has the whole batch),
 * where they lie (memory that the device copies fast; the feed is closed before the trainer), and
 * whether samples stay bytes. */
ct_feed_opts_t ct_trainer_feed_opts(ct_trainer_t *t, int training);
/** Where the batch after this one is found: ahead() returns NULL if it is not there yet. */
typedef struct ct_look {
  const ct_batch_t *(*ahead)(void *ctx); /**< NULL: nowhere */
  void *ctx;
} ct_look_t;
/** In a feed (borrowed), or nowhere (NULL). */
ct_look_t ct_trainer_feed(ct_feed_t *f);
/** Local.  From now on, while a step or a forward pass runs, the batch after it is copied to the
 * device already, where batches are not used in place.  Nothing else changes: batches are given as
 * ever, and if another is given, that copy was in vain.  When this returns, no batch found by the
 * look before it is in use. Returns that look. */
ct_look_t ct_trainer_follow(ct_trainer_t *t, ct_look_t look);

/** Collective, Hot.  One optimizer step on this rank's share of a batch (n may be 0); merges the
 * step word. \a rc_in: this rank's code from getting the batch; if it is not CT_OK the rank still
 * takes part, and \a b is not looked at.  Where rank 0 deals (ct_way_t) its b is the whole global
 * batch; of the others' only `global` is looked at.  \a at says the learning rates.  CT_ERR_ARG:
 * more samples than were announced; CT_ERR_NONFINITE: a loss is. word->stop is the caller's, or
 * what a signal asks this rank for; the rest is filled in.  After a failed step the weights are
 * undefined. */
int ct_trainer_step(ct_trainer_t *t, const ct_batch_t *b, int rc_in, const ct_schedule_point_t *at,
                    ct_step_word_t *word, ct_step_report_t *report);
/** One work of a step, on its own. */
typedef struct ct_work_time {
  const ct_op_desc_t *desc; /**< borrowed */
  int pass;
  const char *algorithm;
  double seconds;
  double bytes;          /**< of all operands, each once */
  double flops;          /**< by the direct algorithm */
  double gradient_bytes; /**< training: of gradients that it completes */
} ct_work_time_t;

/** Local.  Runs each work of a step (without training: of a forward pass) on the samples of \a b
 * so many times in a row, and tells \a each, which may end it with a code.  Weights stay as they
 * are; gradients and running statistics do not.  Sums over ranks are left out. */
int ct_trainer_time_works(ct_trainer_t *t, const ct_batch_t *b, int repeats,
                          int (*each)(void *ctx, const ct_work_time_t *w), void *ctx);
/** Bytes that a bucket of gradients has at least. */
double ct_trainer_bucket_bytes(const ct_trainer_t *t);
/** Local, Hot.  Forward only; adds to *sum (inference: nothing). */
int ct_trainer_forward(ct_trainer_t *t, const ct_batch_t *b, ct_loss_t *sum);
/** Local.  Forward only, of an observed model (model/ct_observe.h): shows the numbers behind each
 * place, by the parameter that is its range, as \a padded elements of which \a count are numbers
 * and the rest 0; \a see may end it with a code. */
int ct_trainer_observe(ct_trainer_t *t, const ct_batch_t *b,
                       int (*see)(void *ctx, int param, const float *x, int64_t padded,
                                  int64_t count),
                       void *ctx);
/** Writes sums of losses into a step word. */
void ct_loss_tell(const ct_loss_t *sum, ct_step_word_t *word);
/** Collective.  Parameters and buffers of rank 0 to all: at the start, after restoring, before
 * evaluation (buffers only), as DDP does. */
int ct_trainer_broadcast(ct_trainer_t *t, int buffers_only);

/** Local, between two steps.  \a on 1: from here on forward passes are of the averaged weights and
 * running statistics (ct_recipe_t.ema), as is all that is read, written or broadcast of parameters;
 * 0: of those that are trained again, as it must be for a step or a snapshot.  Returns 1 if
 * averages are in use now: without such, and before the first step, there is nothing to use. */
int ct_trainer_use_average(ct_trainer_t *t, int on);

/** Local, between two steps.  Keeps a copy of weights and running statistics in the host's memory,
 * which ct_trainer_restart() takes up.  CT_ERR_NOMEM. */
int ct_trainer_remember(ct_trainer_t *t);
/** Local, between two steps, behind ct_trainer_remember().  Those weights again, and states of the
 * optimizer, loss scale and averages as ct_trainer_create() left them: the next steps do what the
 * first ones did. */
int ct_trainer_restart(ct_trainer_t *t);

/** The ranks that it was made for; borrowed. */
const ct_topo_t *ct_trainer_topo(const ct_trainer_t *t);
/** 1 if all ranks have alike to do for each sample of a batch: only then one of them can be called
 * slow. */
int ct_trainer_is_even(const ct_trainer_t *t);

/** Local.  Number of state arrays: parameters, buffers and optimizer states. */
int ct_trainer_items(ct_trainer_t *t);
/** Local.  Those of them that are no single numbers: what a checkpoint cannot do without. */
int ct_trainer_arrays(ct_trainer_t *t);
/** 1 if a snapshot is Collective, since the states are spread over the ranks. */
int ct_trainer_snapshot_is_collective(const ct_trainer_t *t);
/** About the bytes of a snapshot: of parameters and optimizer states. */
double ct_trainer_snapshot_bytes(const ct_trainer_t *t);
/** Local, or Collective.  Copies the state into host arrays of the trainer's own (plain layouts)
 * and lists them; item[ct_trainer_items()], or NULL on ranks that only give their part.  The arrays
 * change at the next snapshot only. */
int ct_trainer_snapshot(ct_trainer_t *t, const ct_position_t *at, ct_ckpt_item_t *item);
/** Collective.  Takes parameters, buffers and (if \a with_optim) states and the position from a
 * checkpoint that rank 0 has open (s is NULL on the others) and gives them to all ranks.  The names
 * of the model's arrays must be the same (CT_ERR_FORMAT says which is not), and their shapes
 * (CT_ERR_SHAPE).  After a failure the state is undefined. */
int ct_trainer_restore(ct_trainer_t *t, const ct_store_ops_t *ops, ct_store_t *s, int with_optim,
                       ct_position_t *at);

/** Collective.  Parameters and buffers from tensors of a file that rank 0 has open (NULL on the
 * others), one after the other, for all ranks: parameter i gets tensor from[i], whose shape is its
 * own; with -1 it stays as it is. */
int ct_trainer_load(ct_trainer_t *t, const ct_weights_file_t *f, const int *from);

/** Collective.  CT_ERR_DIFFER names the first rank whose parameters are not the bits of rank 0's.
 */
int ct_trainer_verify(ct_trainer_t *t);
/** Learning rate of the first parameter group at a point of the schedule: for the metrics. */
double ct_trainer_lr(const ct_trainer_t *t, const ct_schedule_point_t *at);
/** The same of the i-th entry of `optim.groups` with a rate of its own, and its pattern (borrowed);
 * 0: there are not so many. */
int ct_trainer_group_lr(const ct_trainer_t *t, const ct_schedule_point_t *at, int i,
                        const char **match, double *lr);
/** The most that this rank has taken so far; borrowed. */
const ct_memory_t *ct_trainer_memory(const ct_trainer_t *t);

/** Host copy of one parameter or buffer in plain layout. */
int ct_trainer_get(ct_trainer_t *t, int param, float *out);
/** The same of a trained parameter's gradient, as the last step left it. */
int ct_trainer_get_gradient(ct_trainer_t *t, int param, float *out);
/** Overwrites one parameter or buffer from a plain host array. */
int ct_trainer_set(ct_trainer_t *t, int param, const float *in);
/** Outputs of a sample. */
int64_t ct_trainer_outputs(const ct_trainer_t *t);
/** Host copy of the last forward's logits of this rank, n x classes.  CT_ERR_ARG: there are none.
 */
int ct_trainer_logits(ct_trainer_t *t, float *out);

#endif
