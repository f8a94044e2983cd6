/** \file ct_trainer.h  The trainer: one model with its memory and execution plans on one rank.
 * Layer 4.
 *
 * It runs steps and forward passes, and saves and restores its state as named arrays. Epochs and
 * files are handled by the module run. */
#ifndef CT_TRAINER_H
#define CT_TRAINER_H
#include "ckpt/ct_ckpt.h"
#include "comm/ct_agree.h"
#include "comm/ct_comm.h"
#include "data/feed/ct_feed.h"
#include "optim/ct_optim.h"
#include "plan/ct_plan.h"
#include "train/ct_memory.h"
#include "train/ct_step_opts.h"
#include "weights/ct_weights.h"

/** Progress of a run: the scalar part of a checkpoint. */
typedef struct ct_position {
  int64_t step;    /**< optimizer steps done */
  int64_t epoch;   /**< from 0 */
  int64_t cursor;  /**< samples of this epoch already trained on; all of them: evaluation is still
                      due */
  int64_t order;   /**< data.shuffle: blocks: hash of the data's blocks, on which the sample order
                      depends; else 0 */
  int64_t skipped; /**< samples of this epoch that were skipped (data.on_error: skip) */
  ct_plateau_t plateau;
  ct_best_t best;  /**< best score by checkpoint.best */
  ct_best_t early; /**< best score by train.early_stop */
} ct_position_t;

/** Inputs and results of one step on this rank. */
typedef struct ct_step_report {
  int want_norm;         /**< in: compute the gradient norm even without clipping */
  double data_s;         /**< in: seconds waited for the feed; out: as in times */
  double save_s;         /**< in: seconds spent in checkpoints since the last step */
  double apart_s;        /**< in: seconds since the last step that belong to no step (evaluation);
                            INFINITY: all of them */
  ct_step_times_t times; /**< time breakdown since the end of the last step, without apart_s; with
                            ct_trainer_lag() 1 this includes the start of the next step; for
                            the trainer's first step: since its start, plus data_s */
  double compute_s;      /**< compute and update */
  double comm_exposed_s; /**< communication overhead and waiting for other ranks */
  int64_t samples;       /**< over all ranks */
  double grad_norm;      /**< of the whole gradient, before clipping; NaN: not computed */
  double loss_scale;     /**< used in this step; 1 without loss scaling */
  int skipped;           /**< 1: no update, since a gradient under loss scaling was not finite */
} ct_step_report_t;

/** Everything that a trainer borrows; must outlive the trainer. */
typedef struct ct_trainer_env {
  const ct_topo_t *topo;
  const ct_backend_t *be;
  ct_dev_t *dev;
  const ct_backend_t *host; /**< optim.place host: the backend that updates the states, with memory
                                 of the host; NULL: place device */
  ct_dev_t *host_dev;
  const ct_comm_ops_t *comm_ops;
  ct_comm_t *comm;
  const ct_graph_t *graph;
  const ct_optim_opts_t *optim;
  const char *where; /**< name of the configuration file, for messages */
  ct_step_opts_t step_opts;
  ct_loss_spec_t loss;
  const float *class_weight; /**< [outputs]; NULL: 1 */
  ct_heads_t heads;          /**< n > 0: the losses, in place of `loss` and `class_weight` */
  double bucket_mb;
  uint64_t seed;
  int max_batch;        /**< largest local batch of any rank in training, all micro-batches
                           together */
  int max_eval;         /**< largest local batch of any rank in evaluation; 0: no evaluation */
  int64_t repeat_batch; /**< size in samples (all ranks) of the batches whose steps may be replayed
                           as CUDA graphs; 0: none */
  size_t memory;        /**< with training: budget of this rank in bytes (train.memory); 0: none */
  size_t used;          /**< what of it the process uses before the trainer is made */
  size_t beside;        /**< what of it the caller uses later: feeds, caches of data */
  int plans[2];         /**< most plans of any rank: [0] of evaluation, [1] of training */
  int saves;            /**< 1: this rank copies the state for checkpoints */
  int training;         /**< 0: evaluation only, without gradients and optimizer states */
  const ct_quant_t *quant; /**< with training 0: int8 scales of the graph; NULL: float32 */
  int inference;      /**< 1, with training 0: logits only; batches need no labels or targets */
  int outputs_unread; /**< 1: evaluation may leave out the outputs (ct_trainer_read_outputs()) */
  /** [0] evaluation, [1] training: the data set if its batches arrive as bytes
   * (ct_trainer_takes_bytes()); NULL: as float32 */
  const ct_dataset_t *bytes_of[2];
} ct_trainer_env_t;

typedef struct ct_trainer ct_trainer_t;

/** Collective. Makes plans, allocates memory and initializes the parameters (drawn on rank 0,
 * broadcast, verified). All ranks must have the same parameter layout. *out is owned by the
 * caller. */
int ct_trainer_create(const ct_trainer_env_t *env, ct_trainer_t **out);
/** Collective. Frees \a t, which may be NULL. */
void ct_trainer_destroy(ct_trainer_t *t);

/** Number of samples of a data set and its global batch size. */
typedef struct ct_batches {
  int64_t samples, batch;
} ct_batches_t;

/** Local. Predicts the memory that ct_trainer_create(), ct_trainer_prepare() for the batches of
 * evaluation (of[0]) and training (of[1]), and a checkpoint allocate. samples 0: not used. Makes
 * plans but runs nothing. env->comm may be NULL: then a ZeRO slice counts as the largest of any
 * rank, with equal numbers of ranks per node. */
int ct_trainer_plan_memory(const ct_trainer_env_t *env, const ct_batches_t of[2], ct_memory_t *out);

/** Local. Makes the plan of the trainer's first step, for a look at it without a trainer; the
 * caller frees it. */
int ct_trainer_first_plan(const ct_trainer_env_t *env, ct_plan_t **out);

/** Pure. Lists which data of a training resides where: fills out[CT_RESIDENCIES] and returns the
 * number of rows. \a m: result of ct_trainer_plan_memory(). */
int ct_trainer_residency(const ct_trainer_env_t *env, const ct_memory_t *m, ct_residency_t *out);

/** Collective. Makes all plans that this rank needs for a data set of \a samples samples in global
 * batches of \a batch, so that no step has to make one. All ranks use the algorithms that rank 0
 * chooses by timing. No forward pass may be running; the last logits are lost. */
int ct_trainer_prepare(ct_trainer_t *t, int64_t samples, int64_t batch, int training);

/** Collective. CT_ERR_USAGE if a batchnorm would see a single value per channel in global batches
 * of this size, since nothing can be learned from it; the message names the layer and the remedies.
 * Only warns if this happens in the smaller last batch of an epoch alone. */
int ct_trainer_check_batches(ct_trainer_t *t, int64_t samples, int64_t batch);

/** Pure. Returns 1 if batches of the data set should stay bytes, to be converted on a device with
 * its own memory. */
int ct_trainer_takes_bytes(const ct_backend_t *be, ct_dev_t *dev, const ct_dataset_t *d);
/** Feed options for training or evaluation batches that this trainer decides: which local batch to
 * load (size 0: none, another rank has the whole batch), in which memory (one that the device
 * copies from fast; close the feed before the trainer), and whether samples stay bytes. The caller
 * sets the rest. */
ct_feed_opts_t ct_trainer_feed_opts(ct_trainer_t *t, int training);
/** Where to find the next batch for prefetching. ahead() returns NULL if it is not loaded yet. */
typedef struct ct_prefetch {
  const ct_batch_t *(*ahead)(void *ctx); /**< NULL: no prefetching */
  void *ctx;
  int same; /**< 1: each batch is the same, and is copied to the device only once (per buffer) */
} ct_prefetch_t;
/** Returns the prefetch source of a feed (borrowed); NULL: no prefetching. */
ct_prefetch_t ct_trainer_feed(ct_feed_t *f);
/** Local. Makes each later step or forward pass also prefetch the next batch to the device, where
 * batches are not used in place. The interface does not change: if a batch other than the
 * prefetched one is passed, the prefetched copy is discarded. On return no batch of the previous
 * source is in use. In training all ranks call it at the same points. Returns the previous
 * source. */
ct_prefetch_t ct_trainer_follow(ct_trainer_t *t, ct_prefetch_t prefetch);

/** Collective, Hot. One optimizer step on this rank's local batch (n may be 0), followed by the
 * all-reduce of the step status. \a rc_in: this rank's result of loading the batch; if it is not
 * CT_OK, the rank still takes part and only uses b->global, the same on all ranks. In mode dp
 * (ct_strategy_t.rank0_deals) rank 0 passes the whole global batch, and the other ranks only use
 * b->global. \a at: position in the
 * learning rate schedule. status->stop is set by the caller or by a signal on this rank; the other
 * members are filled in. CT_ERR_ARG: more samples than announced; CT_ERR_NONFINITE: a loss is not
 * finite. After a failed step the weights are undefined. */
int ct_trainer_step(ct_trainer_t *t, const ct_batch_t *b, int rc_in, const ct_schedule_point_t *at,
                    ct_step_status_t *status, ct_step_report_t *report);
/** Returns how many steps may have been begun and not ended when the next one is begun: 1 on a
 * device that runs ahead of the host (ct_step_opts_t.lag), so that it does not idle while the host
 * reads the result of a step. 0 where the host waits within each step, or where a step depends on
 * the result of the previous one (loss scaling). */
int ct_trainer_lag(const ct_trainer_t *t);
/** Collective, Hot. ct_trainer_step() in two parts: ct_trainer_begin() enqueues the step, and
 * ct_trainer_end() waits for the oldest step that is not ended yet and all-reduces its step status.
 * *report: the same for both calls. The batch may be reused after ct_trainer_end(), or after
 * ct_trainer_begin() if ct_trainer_lag() is 1. All other calls on the trainer require that all
 * steps are ended. After a failed step a later step may be left begun. */
void ct_trainer_begin(ct_trainer_t *t, const ct_batch_t *b, int rc_in,
                      const ct_schedule_point_t *at, ct_step_report_t *report);
int ct_trainer_end(ct_trainer_t *t, ct_step_status_t *status, ct_step_report_t *report);
/** Measurement of one launch of a step. */
typedef struct ct_launch_time {
  const ct_op_desc_t *desc; /**< borrowed */
  int pass;
  int again; /**< 1: in backward, to make a dropped value once more */
  const char *algorithm;
  double scratch; /**< bytes of workspace of the op, in any pass */
  double seconds;
  double bytes;          /**< all operands, each counted once */
  double flops;          /**< counted for the direct algorithm */
  double gradient_bytes; /**< training: bytes of the gradients that this launch completes */
} ct_launch_time_t;

/** Local. Runs each launch of a step (without training: of a forward pass) \a repeats times on the
 * samples of \a b and reports its mean time to \a each, which may abort with a code. Weights keep
 * their values; gradients and running statistics do not. Reductions over ranks are left out. */
int ct_trainer_time_launches(ct_trainer_t *t, const ct_batch_t *b, int repeats,
                             int (*each)(void *ctx, const ct_launch_time_t *w), void *ctx);
/** Pure. Returns 1 if ct_trainer_time_launches() repeats passes over all launches, as on CPUs; 0 if
 * it repeats each launch several times in a row, as on GPUs. */
int ct_trainer_times_in_order(const ct_trainer_t *t);
/** Returns the minimum bytes per gradient bucket. */
double ct_trainer_bucket_bytes(const ct_trainer_t *t);
/** Local, Hot. Forward pass; adds the first loss to *sum (inference: nothing is added). */
int ct_trainer_forward(ct_trainer_t *t, const ct_batch_t *b, ct_loss_t *sum);
/** Returns the losses; borrowed. */
const ct_heads_t *ct_trainer_heads(const ct_trainer_t *t);
/** Adds loss k of the last forward pass to *sum. */
void ct_trainer_add_loss(const ct_trainer_t *t, int k, ct_loss_t *sum);
/** Pure. Replaces loss_sum and loss_weight by those of the weighted sum of the losses, from sums
 * over all ranks; does nothing if there is only one. */
void ct_loss_combine(const ct_heads_t *heads, ct_step_status_t *status);
/** Local. Forward pass of a model with fake-quantization observers (model/ct_observe.h). Calls \a
 * see for each observation point with the parameter that holds its range and \a padded elements, of
 * which \a count are values and the rest 0. \a see may abort with a code. */
int ct_trainer_observe(ct_trainer_t *t, const ct_batch_t *b,
                       int (*see)(void *ctx, int param, const float *x, int64_t padded,
                                  int64_t count),
                       void *ctx);
/** Copies the sums of n losses into a step status. */
void ct_loss_report(const ct_loss_t sum[], int n, ct_step_status_t *status);
/** Collective. Broadcasts parameters and buffers from rank 0: at the start, after restoring, and
 * (buffers only) before evaluation, as DDP does. */
int ct_trainer_broadcast(ct_trainer_t *t, int buffers_only);

/** Local, or collective if ct_trainer_snapshot_is_collective(); between two steps. \a on 1: forward
 * passes, reads, writes and broadcasts use the averaged weights and running statistics
 * (ct_step_opts_t.ema). 0: they use the trained values again, as steps and snapshots require.
 * Returns 1 if averages are in use now; averages exist only with ema and after the first step. */
int ct_trainer_use_average(ct_trainer_t *t, int on);

/** Local, between two steps. Copies weights and running statistics to host memory for
 * ct_trainer_restart(). CT_ERR_NOMEM. */
int ct_trainer_remember(ct_trainer_t *t);
/** Local, or collective if ct_trainer_snapshot_is_collective(); between two steps, after
 * ct_trainer_remember(). Restores the weights that it copied, and resets optimizer states, loss
 * scale and averages to their initial values, so that the next steps repeat the first ones. */
int ct_trainer_restart(ct_trainer_t *t);

/** Weights in device memory; borrowed. */
typedef struct ct_trainer_weights {
  const ct_plan_t *plan; /**< the first plan: other plans adopt its parameter layout */
  const ct_arena_map_t *map;
  char *weight, *buffer, *reduced; /**< as in ct_bind_t */
  ct_queue_t *queue;
} ct_trainer_weights_t;
/** Local. Returns the weights, for plans of the caller that run on them. They stay valid until the
 * next call that writes weights. */
int ct_trainer_weights(ct_trainer_t *t, ct_trainer_weights_t *out);

/** Returns the topology that the trainer was created with; borrowed. */
const ct_topo_t *ct_trainer_topo(const ct_trainer_t *t);
/** Returns 1 if all ranks do the same work per sample of a batch. Only then can a rank be called
 * slow. */
int ct_trainer_is_even(const ct_trainer_t *t);

/** Local. Returns the number of state arrays: parameters, buffers and optimizer states. */
int ct_trainer_items(ct_trainer_t *t);
/** Local. Returns the number of state arrays that are not scalars: a checkpoint must contain them.
 * */
int ct_trainer_arrays(ct_trainer_t *t);
/** Returns 1 if ct_trainer_snapshot() is collective, because the states are sharded over the
 * ranks. */
int ct_trainer_snapshot_is_collective(const ct_trainer_t *t);
/** Returns the approximate size of a snapshot in bytes: parameters and optimizer states. */
double ct_trainer_snapshot_bytes(const ct_trainer_t *t);
/** Local, or collective (ct_trainer_snapshot_is_collective()). Copies the state into host arrays
 * owned by the trainer (plain layout) and lists them in item[ct_trainer_items()]; \a item is NULL
 * on ranks that only contribute their slices. The arrays are valid until the next snapshot. */
int ct_trainer_snapshot(ct_trainer_t *t, const ct_position_t *at, ct_ckpt_item_t *item);
/** Local. Lists names and shapes of the state in item[ct_trainer_items()], without data. */
int ct_trainer_list(ct_trainer_t *t, ct_ckpt_item_t *item);
/** Takes an item of the state; its data is valid during the call. */
typedef void (*ct_trainer_put_t)(void *ctx, const ct_ckpt_item_t *item);
/** Collective. Passes the state item by item, in the order of ct_trainer_list(), on the rank with
 * \a put (NULL on the others). One parameter is in memory at a time. \a rc_in: this rank's result
 * so far, with which all ranks fail. */
int ct_trainer_pass(ct_trainer_t *t, const ct_position_t *at, int rc_in, ct_trainer_put_t put,
                    void *ctx);
/** Collective. Restores parameters, buffers and (with \a with_optim) optimizer states and the
 * position from a checkpoint that rank 0 has open (s is NULL on the others), and broadcasts them.
 * CT_ERR_FORMAT names an array whose name does not match the model, CT_ERR_SHAPE one whose shape
 * does not. After a failure the state is undefined. */
int ct_trainer_restore(ct_trainer_t *t, const ct_store_ops_t *ops, ct_store_t *s, int with_optim,
                       ct_position_t *at);

/** Collective. Loads parameters and buffers one by one from a file that rank 0 has open (NULL on
 * the others), and broadcasts them. Parameter i gets tensor from[i], which must have its shape; -1
 * leaves it unchanged. */
int ct_trainer_load(ct_trainer_t *t, const ct_weights_file_t *f, const int *from);

/** Collective. CT_ERR_DIFFER names the first rank whose parameters are not bit-identical to rank
 * 0's. */
int ct_trainer_verify(ct_trainer_t *t);
/** Returns the learning rate of the first parameter group at a point of the schedule, for the
 * metrics. */
double ct_trainer_lr(const ct_trainer_t *t, const ct_schedule_point_t *at);
/** Finds the i-th entry of `optim.groups` that has its own learning rate: its rate and its pattern
 * (borrowed). Returns 0 if fewer entries have one. */
int ct_trainer_group_lr(const ct_trainer_t *t, const ct_schedule_point_t *at, int i,
                        const char **match, double *lr);
/** Returns the budget of this rank; borrowed. bytes 0: there is none. */
const ct_budget_t *ct_trainer_budget(const ct_trainer_t *t);
/** Returns the peak memory of this rank so far, by kind; borrowed. */
const ct_memory_t *ct_trainer_memory(const ct_trainer_t *t);

/** Returns 1 if each rank has the float32 values of a parameter or buffer; 0: it has a slice of
 * them (ZeRO-1 in mixed precision). */
int ct_trainer_has_whole(const ct_trainer_t *t, int param);
/** Local, or collective without ct_trainer_has_whole(): then rank 0 alone gets the values. Copies
 * one parameter or buffer to a host array in plain layout. */
int ct_trainer_get(ct_trainer_t *t, int param, float *out);
/** Local. Copies a trained parameter's gradient as the last step left it. */
int ct_trainer_get_gradient(ct_trainer_t *t, int param, float *out);
/** Local, or collective without ct_trainer_has_whole(): then rank 0's values are scattered, and
 * ct_trainer_broadcast() must follow. Overwrites one parameter or buffer from a host array in plain
 * layout. */
int ct_trainer_set(ct_trainer_t *t, int param, const float *in);
/** Returns the number of values per sample of the first output. */
int64_t ct_trainer_outputs(const ct_trainer_t *t);
/** Returns the number of outputs, and the number of values per sample of output \a k. */
int ct_trainer_output_count(const ct_trainer_t *t);
int64_t ct_trainer_output_values(const ct_trainer_t *t, int k);
/** Local. Copies this rank's values of output \a k of the last forward pass, n times its values per
 * sample. CT_ERR_ARG: they are not available. */
int ct_trainer_output(ct_trainer_t *t, int k, float *out);
/** Local. ct_trainer_output() of the first output. */
int ct_trainer_logits(ct_trainer_t *t, float *out);
/** Local. Says if the outputs of the next evaluations will be read: with \a read 0 a linear layer
 * and its loss may be one op, which does not store them. */
void ct_trainer_read_outputs(ct_trainer_t *t, int read);

#endif
