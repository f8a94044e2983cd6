/** \file trainer.h  Declarations shared by the files of this module.
 *
 * A trainer consists of read-only facts, set once and readable by all files, and of one state
 * struct per file. Only the file named above a struct may access its members;
 * tests/lint/habits.test checks this. Other files call its functions. The make functions are local;
 * a free function may be called after a make function that failed. */
#ifndef CT_TRAINER_PRIVATE_H
#define CT_TRAINER_PRIVATE_H
#include "train/ct_memory.h"
#include "train/ct_trainer.h"
#include "train/ct_strategies.h"

#define CT_BUCKETS_MAX 512

/** Execution plan for one number of samples. */
typedef struct ct__variant {
  ct_plan_t *plan;
  ct_bucket_t *bucket; /**< training only */
} ct__variant_t;

/* ---- memory.c: sizes for ct_trainer_plan_memory() and for the allocations; pure ---- */

/** Returns the number of micro-batches per local batch; at least 1. */
int ct__memory_micro_batches(const ct_trainer_env_t *e, int training);
/** Returns the number of samples that this rank allocates memory for. */
int ct__memory_capacity(const ct_trainer_env_t *e);
/** Returns the number of samples of the first plan. */
int ct__memory_first(const ct_trainer_env_t *e);
/** Returns the number of samples of this rank's micro-batch p in a global batch of \a total;
 * *first: index of its first sample. */
int ct__memory_micro_batch(const ct_trainer_env_t *e, int64_t total, int training, int p,
                           int64_t *first);
/** Returns the options of the plan for n samples. */
ct_plan_opts_t ct__memory_plan_opts(const ct_trainer_env_t *e, int n, int training);
/** Cuts the gradient arena into bucket[CT_BUCKETS_MAX]; returns their number. */
int ct__memory_buckets(const ct_trainer_env_t *e, const ct_plan_t *p, const ct_arena_map_t *m,
                       ct_bucket_t *bucket);
/** Returns 1 if float32 weights are divided into slices where ops read the reduced copy. */
int ct__memory_sliced(const ct_trainer_env_t *e);
/** Computes the slice of a bucket that this rank updates: bytes [*from, *to) of the gradient arena.
 * Without a communicator only its length is valid: the largest of any rank. */
void ct__memory_slice(const ct_trainer_env_t *e, const ct_bucket_t *b, size_t *from, size_t *to);
/** Returns 1 if the states are in host memory, and the device has memory of its own. */
int ct__memory_on_host(const ct_trainer_env_t *e);
/** Returns the losses. */
ct_heads_t ct__memory_heads(const ct_trainer_env_t *e);
/** Returns the shape of the output that a loss is of, for one sample. */
const ct_shape_t *ct__memory_output(const ct_trainer_env_t *e, const ct_head_t *h);
/** Returns the offset of the class weights of loss k, or with \a places of its place weights, among
 * those of all losses; *bytes becomes their size. */
size_t ct__memory_class_weights(const ct_trainer_env_t *e, int k, int places, size_t *bytes);
/** Returns the bytes of all inputs of one sample as float32. */
size_t ct__memory_sample(const ct_graph_t *g);
/** Returns 1 if all batches arrive as bytes, none as float32. */
int ct__memory_all_bytes(const ct_trainer_env_t *e);
/** Computes the bytes of one sample in each array that is copied to the device:
 * size[CT_INPUT_ARRAYS]. */
void ct__memory_arrays(const ct_trainer_env_t *e, int bytes, size_t size[]);
/** Predicts the memory of all kinds but activations and scratch, which depend on the plans.
 * \a first: the first plan and its buckets. */
int ct__memory_fixed(const ct_trainer_env_t *e, const ct_arena_map_t *m, const ct__variant_t *first,
                     int buckets, ct_memory_t *out);

/* ---- budget.c: the memory budget of a rank ---- */

/** Pure. Takes from the budget all that does not depend on plans. \a fixed: result of
 * ct__memory_fixed(). */
void ct__budget_open(const ct_trainer_env_t *e, const ct_plan_t *first, const ct_arena_map_t *m,
                     const ct_memory_t *fixed, ct_budget_t *b);
/** Local. Makes a plan fit into the budget, if there is one. If that is not possible it returns
 * CT_OK: b->met is 0, or b->evaluation is less. */
int ct__budget_limit(ct_budget_t *b, ct_plan_t *p);
/** Local. CT_ERR_NOMEM: the plan does not fit. */
int ct__budget_check(const ct_budget_t *b, const ct_plan_t *p);

/* ---- arenas.c: device memory ---- */

/** One allocation. */
typedef struct ct__block {
  char *p;
  size_t bytes;
  ct_memory_kind_t kind;
} ct__block_t;

typedef struct ct__arenas {
  ct__block_t *block;
  int64_t blocks, cap;
  ct_memory_t most; /**< peak of each kind */
} ct__arenas_t;

/** Local. Allocates zeroed device memory, valid until ct__arenas_give() or the end of the trainer;
 * *out is NULL for 0 bytes. */
int ct__arenas_take(ct_trainer_t *t, ct_memory_kind_t kind, size_t bytes, char **out);
/** Local. Calls ct__arenas_take() with the size that was planned for the kind. */
int ct__arenas_take_all(ct_trainer_t *t, ct_memory_kind_t kind, char **out);
/** Frees *p and sets it to NULL. */
void ct__arenas_give(ct_trainer_t *t, char **p);
/** Collective. Sets t->gradient, which the communicator allocates. */
int ct__arenas_make_gradient(ct_trainer_t *t);
void ct__arenas_free(ct_trainer_t *t);

/* ---- plans.c: plans per number of samples, and their activation memory ---- */

typedef struct ct__plans {
  ct__variant_t *variant;
  int64_t variants, cap;
  char *arena, *scratch;
  size_t arena_bytes, scratch_bytes;
  const ct_plan_t *last; /**< the plan whose logits are valid */
} ct__plans_t;

/** Collective. Makes the first plans, which define the parameter layout and the buckets. */
int ct__plans_make(ct_trainer_t *t);
void ct__plans_free(ct_trainer_t *t);
/** Local. Checks that n samples fit. CT_ERR_ARG: more samples than announced. */
int ct__plans_fit(const ct_trainer_t *t, int n);
/** Local. Returns the plan for n samples, which it makes on first use. The activations of this plan
 * become the valid ones. May grow the arena, so no launch may be pending. */
int ct__plans_use(ct_trainer_t *t, int n, int training, const ct__variant_t **out);
/** Returns the arguments common to all runs of a plan, for samples of the global batch from
 * \a first on. */
ct_bind_t ct__plans_bind(const ct_trainer_t *t, int64_t first);

/* ---- reduced_precision_weights.c: bf16 or fp16 copy of the weights, for backends that want one
 * ---- */

typedef struct ct__reduced {
  ct_op_t *round; /**< NULL: the backend uses float32 weights */
  int stale;      /**< 1: whole weights were written by something other than UPDATE */
  int failed;     /**< result of ct__reduced_swap(), for the next refresh */
} ct__reduced_t;

int ct__reduced_make(ct_trainer_t *t);
void ct__reduced_free(ct_trainer_t *t);
/** Marks the copy as outdated; call it after writing weights by anything but UPDATE. */
void ct__reduced_outdate(ct_trainer_t *t);
/** Local, Hot. Enqueues the rounding of the whole weights if their copy is outdated. */
int ct__reduced_refresh(ct_trainer_t *t);
/** Local, Hot. Enqueues the rounding of this rank's slices. */
int ct__reduced_round(ct_trainer_t *t);
/** Collective. Makes the copy of the weights in slices, from those of all ranks. */
int ct__reduced_share(ct_trainer_t *t);
/** Collective if weights are in slices. Makes the copy that of other weights; the next refresh
 * returns a failure. */
void ct__reduced_swap(ct_trainer_t *t);

/* ---- slices.c: ZeRO-1 ---- */

typedef struct ct__slices {
  int *ticket;       /**< per bucket: its gather; -1: none is open */
  int open;          /**< number of open gathers */
  size_t *packed;    /**< per bucket: offset of this rank's slice in an array of slices */
  int64_t *bytes;    /**< per rank: its part of a parameter */
  int64_t *place;    /**< per rank: where that part begins in the parameter */
  char *piece;       /**< device, rank 0: a parameter, and the parts of the ranks */
  ct_event_t *ready; /**< recorded after the update of a bucket */
} ct__slices_t;

int ct__slices_make(ct_trainer_t *t);
void ct__slices_free(ct_trainer_t *t);
/** Collective, Hot. Starts the gather of bucket k's weights, which follows the launches so far. */
void ct__slices_gather(ct_trainer_t *t, int k);
/** Hot. Orders all open gathers before later launches. */
void ct__slices_settle(ct_trainer_t *t);
/** Hot. The same for the weights that are whole in float32. */
void ct__slices_settle_float(ct_trainer_t *t);
/** Hot, before launch \a i of a plan. The same for the weights that it reads. */
void ct__slices_before(ct_trainer_t *t, const ct_plan_t *p, int i);
/** Returns this rank's slice of bucket k's float32 weights, which begins at byte *from of the
 * gradient arena; NULL: the bucket's weights are whole. */
char *ct__slices_low(const ct_trainer_t *t, int k, size_t *from, size_t *bytes);
/** Returns 1 if the float32 values of a parameter exist in slices only. */
int ct__slices_has(const ct_trainer_t *t, int param);
/** Returns the address of whole float32 weights in an arena of weights. */
char *ct__slices_whole(const ct_trainer_t *t, char *weights, size_t offset);
/** Returns rank 0's memory for a parameter in slices, in the op's own layout. */
char *ct__slices_piece(const ct_trainer_t *t);
/** Collective. Copy a parameter between packed slices of all ranks and rank 0's piece. */
int ct__slices_collect(ct_trainer_t *t, const char *slices, int param);
int ct__slices_scatter(ct_trainer_t *t, char *slices, int param);

/* ---- qat.c: weights rounded to int8 steps, for forward passes ---- */

typedef struct ct__qat {
  char *weight; /**< NULL: forward passes use the weights themselves */
  float *plain; /**< workspace, as large as the largest rounded weight */
} ct__qat_t;

int ct__qat_make(ct_trainer_t *t);
void ct__qat_free(ct_trainer_t *t);
/** Local, Hot. Rounds the current weights. Call it before running a plan after the weights have
 * changed. */
int ct__qat_round(ct_trainer_t *t);
/** Returns the weights to run a plan on. */
char *ct__qat_weight(const ct_trainer_t *t);

/* ---- average.c: averaged weights ---- */

typedef struct ct__average {
  ct_op_t *op; /**< NULL: no averaging */
  /* The averages. While the averages are in use, these two hold the trained values. */
  char *weight;
  char *buffer;
  int used;
} ct__average_t;

int ct__average_make(ct_trainer_t *t);
void ct__average_free(ct_trainer_t *t);
/** Local. Resets the averages to their initial state. */
int ct__average_restart(ct_trainer_t *t);
/** Local, Hot. Enqueues the update of the averages from the weights of this step. */
int ct__average_step(ct_trainer_t *t);
/** Returns the averages of weights or of buffers; NULL: no averaging. */
char *ct__average_arena(const ct_trainer_t *t, int buffers);

/* ---- sync_bn.c: batchnorm over a group of ranks ---- */

/** Collective. Creates the group, before plans are made. */
int ct__sync_bn_open(ct_trainer_t *t);
int ct__sync_bn_make(ct_trainer_t *t);
/** Collective over the group, Hot. Sums the statistics of launch \a i, if it has any. \a piece:
 * the micro-batch. *number: messages of the micro-batch so far. */
void ct__sync_bn_exchange(ct_trainer_t *t, const ct_plan_t *p, int i, int piece, int *number);

/* ---- input.c: transfer of batches to the device ---- */

/** Arrays of a batch that are copied to the device. */
enum {
  CT_INPUT_X,
  CT_INPUT_LABELS,
  CT_INPUT_LABELS2,
  CT_INPUT_MIX,
  CT_INPUT_WEIGHTS,
  CT_INPUT_TARGETS,
  CT_INPUT_EXTRA,                                   /* first of the extra inputs */
  CT_INPUT_MORE = CT_INPUT_EXTRA + CT_INPUTS_EXTRA, /* first of the further targets */
  CT_INPUT_ARRAYS = CT_INPUT_MORE + CT_TARGETS_MORE
};

/** Device buffers for one batch. */
typedef struct ct__slot {
  char *array[CT_INPUT_ARRAYS];
  ct_event_t *ready; /**< recorded after the copies */
  int same;          /**< 1: it holds the batch of a source in which all are the same */
} ct__slot_t;

typedef struct ct__input {
  ct_queue_t *copies; /**< for batch copies; NULL where batches are used in place */
  ct__slot_t slot[2];
  float *affine[2]; /**< device: normalization constants, [0] evaluation, [1] training, for batches
                       that arrive as bytes */
  int used;         /**< index of the slot in use; a step's pointers alternate with it */
  ct_prefetch_t prefetch;
  int has_next;    /**< 1: the other slot holds the batch `next`, or will when its copies are
                      complete */
  ct_batch_t next; /**< the prefetched batch */
} ct__input_t;

int ct__input_make(ct_trainer_t *t);
void ct__input_free(ct_trainer_t *t);
/** Local, Hot. Copies the batch into device \a slot (0, 1; -1: the one not in use), unless it is
 * used in place. t->q waits for the copies, the host does not. A batch that was prefetched into the
 * slot is not copied again. CT_ERR_ARG: more samples than announced. */
int ct__input_take(ct_trainer_t *t, const ct_batch_t *b, int slot);
/** Local, Hot. Starts to prefetch the batch after the current one if it is loaded and not yet
 * prefetched. Call it while the device is busy. An error is not reported here: the copy is repeated
 * when the batch is used. */
void ct__input_prefetch(ct_trainer_t *t);
/** Local, Hot. Waits until the copies from the current batch have completed, so that its memory may
 * be reused. */
int ct__input_copied(ct_trainer_t *t);
/** Returns the arguments to run a plan on the current batch, from this rank's sample \a first on,
 * as micro-batch \a p of the step. */
ct_bind_t ct__input_bind(const ct_trainer_t *t, const ct_batch_t *b, int training, int64_t first,
                         int p);

#include "train/muon.h"

/* ---- update.c: from gradients to weights ---- */

/** Contiguous weights updated with the same hyperparameters: whole parameters, or this rank's slice
 * of them (ZeRO-1). */
typedef struct ct__range {
  size_t offset; /**< in the gradient arena */
  size_t weight; /**< offset in the weight arena */
  size_t bytes;  /**< length in each of these arenas */
  size_t state;  /**< offset in the state arenas */
  int group, bucket;
  int norms; /**< index of its pair of parameter norms: that of the parameter in the arena */
} ct__range_t;

/** The segments of a parameter group in a bucket, for optimizers that use norms. */
typedef struct ct__segments {
  int group, bucket;
  int first, n;  /**< in the table of segments, which is sorted by group, then bucket */
  int64_t count; /**< elements */
} ct__segments_t;

typedef struct ct__update {
  ct_param_groups_t groups;
  ct_hyper_t *hyper; /**< per group, for the current step */
  ct__range_t *range;
  int64_t ranges, cap;
  int norm_pairs;    /**< number of pairs of parameter norms; 0: the optimizer does not use norms */
  double *norms;     /**< device */
  double *sums;      /**< ZeRO-1: device copy of *stat */
  ct_group_t *world; /**< borrowed; ZeRO-1: all ranks, if the device sums over them; else NULL */
  const ct_segment_t *segment; /**< device; a segment per range; NULL without norms */
  ct__segments_t *part;        /**< the table's parts, in its order */
  int parts;
  double *host_norms;
  ct_op_t *update, *norms_op, *gradstat;
  ct_op_t *direction;   /**< muon; NULL: other optimizers */
  ct_grad_stat_t *stat; /**< staging: [2], by slot of the step */
  int states;           /**< float32 state arrays of the optimizer (momentum and the like) */
  size_t state_bytes;   /**< bytes of each on this rank */
  int on_host;          /**< 1: optim.place host (host_states.c) */
  char *state[CT_RULE_STATES];
} ct__update_t;

/** Makes groups, ranges, ops and states; the buckets must exist. */
int ct__update_make(ct_trainer_t *t);
/** Collective. Creates the group for sums on the device, after ct__update_make(). */
int ct__update_open(ct_trainer_t *t);
/** Resets optimizer states and progress to their initial values. */
int ct__update_restart(ct_trainer_t *t);
void ct__update_free(ct_trainer_t *t);
/** Local, Hot. Resets the gradient statistics at the start of a step. */
void ct__update_begin(ct_trainer_t *t, ct_step_report_t *report);
/** Hot. Waits for the reduction of a bucket; NULL: all gradients are complete. */
typedef void (*ct__arrive_t)(ct_trainer_t *t, int bucket);
/** Collective, Hot. Updates the weights, bucket by bucket where possible. After a failure on this
 * rank it only joins the collective calls that peers wait for. */
void ct__update_apply(ct_trainer_t *t, const ct_schedule_point_t *at, ct_step_report_t *report,
                      ct__arrive_t arrive);
/** Local; call after ct__step_wait(). Reports whether the update was applied,
 * and the gradient norm. */
void ct__update_report(ct_trainer_t *t, ct_step_report_t *report);
/** Return the number of optimizer states, and the array of state \a s: with ZeRO-1 slices. */
int ct__update_states(const ct_trainer_t *t);
char *ct__update_state(const ct_trainer_t *t, int s);

#include "train/host_states.h"
#include "train/late_rows.h"

/* ---- step.c: state of the steps in progress ---- */

/** A step that was begun and is not ended yet; step k uses element k % 2. */
typedef struct ct__begun {
  ct_event_t *done;      /**< recorded after its launches; NULL: never recorded */
  int64_t number;        /**< number of the step, from 0 */
  int failed;            /**< first error code on this rank while the step was begun */
  ct_err_info_t failure; /**< error record of `failed` */
  int64_t epoch, sample; /**< position of this rank's first sample in the data */
  int n, skipped;        /**< of its batch */
} ct__begun_t;

typedef struct ct__step {
  ct__begun_t begun[2];
  int pending;           /**< number of steps that were begun and are not ended yet */
  int slot;              /**< number % 2 of the step that the members below belong to */
  ct_step_times_t times; /**< time breakdown since the end of the last step */
  ct_step_time_t now;    /**< kind of time that is running now */
  double since;          /**< ct_clock() at the start of `now` */
  ct_step_time_t own;    /**< kind of time to return to after a collective call */
  const char *doing;     /**< name of the collective call in progress */
  int64_t detail;        /**< number of that call, such as its bucket */
  double ended;          /**< ct_clock() when the last step was begun or ended, whichever is later;
                            0: before the first step */
  int failed;            /**< first error code on this rank */
  ct_err_info_t failure; /**< error record of `failed` */
  ct_loss_t *micro_batch_loss; /**< staging: [2][micro_batches][losses], by slot */
  char *class_weight;          /**< device: weights of classes and places of all losses */
  double divisor[CT_OUTPUTS];  /**< per loss: divisor of its sum */
} ct__step_t;

int ct__step_make(ct_trainer_t *t);
void ct__step_free(ct_trainer_t *t);
/** Makes the next step count as the first one. */
void ct__step_restart(ct_trainer_t *t);
/** Sets the loss arguments of micro-batch p. */
void ct__step_bind_loss(const ct_trainer_t *t, int p, ct_bind_t *bind);
/** Returns the losses of the current step, [micro_batches][losses], once its launches have
 * completed. */
const ct_loss_t *ct__step_losses(const ct_trainer_t *t);
/** Adds loss k of all micro-batches to *sum. */
void ct__step_add_loss(const ct_trainer_t *t, int k, ct_loss_t *sum);
/** Collective, Hot. \a rc_in: this rank's result so far. Computes the divisor of the losses. */
void ct__step_begin(ct_trainer_t *t, const ct_batch_t *b, int rc_in, ct_step_report_t *report);
/** Local, Hot, after all launches of the step were enqueued. Stores what ct__step_wait() needs. */
void ct__step_begun(ct_trainer_t *t, const ct_batch_t *b);
/** Local, Hot. Makes the oldest step that is not ended yet the current one, and waits until its
 * launches have completed. */
void ct__step_wait(ct_trainer_t *t);
/** Returns the number % 2 of the current step: of its elements in arrays [2]. */
int ct__step_slot(const ct_trainer_t *t);
/** Returns the number of steps that were begun and are not ended yet. */
int ct__step_pending(const ct_trainer_t *t);
/** Returns the event recorded after the last step that used batch buffer \a slot; NULL: none. */
ct_event_t *ct__step_done(const ct_trainer_t *t, int slot);
/** Local, Hot, after ct__step_wait(). Fills this rank's step status; records CT_ERR_NONFINITE. */
void ct__step_end(ct_trainer_t *t, ct_step_status_t *status);
/** Collective, Hot. All-reduces the step status, ends the step, and stores its times in *report. */
int ct__step_over(ct_trainer_t *t, ct_step_status_t *status, ct_step_report_t *report);

/** Resets failure, times and losses. */
void ct__step_clear(ct_trainer_t *t);
/** Records the first failure of a step; later ones are ignored. Returns rc. */
int ct__step_note(ct_trainer_t *t, int rc);
/** Returns 1 if nothing has failed on this rank. */
int ct__step_is_well(const ct_trainer_t *t);
/** Returns the step's result and restores its error record. */
int ct__step_outcome(const ct_trainer_t *t);
/** Enclose every collective call; time between the two counts as \a kind. \a doing: name shown by
 * the watch; NULL: the call sets it itself. */
void ct__step_enter(ct_trainer_t *t, ct_step_time_t kind, const char *doing, int64_t detail);
void ct__step_leave(ct_trainer_t *t);
/** Sets the kind of time that time outside of collective calls counts as from now on. */
void ct__step_turn(ct_trainer_t *t, ct_step_time_t own);
/** Collective, Hot. Computes a sum or maximum over the ranks, in place. */
void ct__step_sum(ct_trainer_t *t, double *io, int n, int max);

/* ---- repeat.c: steps replayed as CUDA graphs ---- */

typedef struct ct__repeat {
  int on;                 /**< 0: steps are not replayed */
  int key;                /**< key of the step that is being recorded; -1: none */
  int64_t full;           /**< samples of a full batch, over all ranks */
  int seen[CT_REPEATS];   /**< steps with each key so far */
  int agreed[CT_REPEATS]; /**< 1: the ranks have agreed to replay steps of this key */
} ct__repeat_t;

void ct__repeat_make(ct_trainer_t *t);
/** Returns 1 if steps may be replayed. */
int ct__repeat_is_on(const ct_trainer_t *t);
/** Local; all ranks call it at the same point. The ranks agree again before they replay a step. */
void ct__repeat_doubt(ct_trainer_t *t);
/** Local, Hot. Starts recording the step's launches, if the step can be replayed: a full batch,
 * which all ranks know from b->global. \a slot: 0 or 1, the batch buffer that the step reads. */
void ct__repeat_begin(ct_trainer_t *t, const ct_batch_t *b, int slot, int want_norm);
/** Collective, Hot. Launches the recorded step. After a failure on this rank it only joins the
 * calls that peers wait for. */
void ct__repeat_end(ct_trainer_t *t);

/* ---- replay.c: steps that run twice, to compare gradients ---- */

/** What forward and backward belong to: a usual step, the first of two runs, or the second. */
typedef enum { CT_NO_REPLAY, CT_REHEARSAL, CT_REPLAY } ct__replay_stage_t;

typedef struct ct__replay {
  ct__replay_stage_t stage;
  uint64_t *sum;   /**< owned; checksums of the rehearsal, of each micro-batch */
  int messages;    /**< SyncBN's messages in a micro-batch */
  char *seen;      /**< owned; [micro_batches]; 1: the rehearsal took its checksums */
  ct_loss_t *loss; /**< owned; losses of the rehearsal, as ct__step_losses() */
  char *piece;     /**< staging: a part of the gradients */
  char *buffer;    /**< device: running statistics before the first run */
  int differ;      /**< checksums that differ */
  int first;       /**< number of the first one within its micro-batch, if any */
  int innocent;    /**< 1: a message of another rank differed before any own checksum did */
} ct__replay_t;

/** Local. Does nothing without train.replay_every. CT_ERR_USAGE: an op of the plan may give other
 * bits when it repeats. */
int ct__replay_make(ct_trainer_t *t);
void ct__replay_free(ct_trainer_t *t);
/** Returns 1 if the current step runs forward and backward twice; identical on all ranks. */
int ct__replay_is_due(const ct_trainer_t *t);
/** Local, Hot. Enclose the first run of a step that is due; the second one follows, from the same
 * running statistics. */
void ct__replay_begin(ct_trainer_t *t);
void ct__replay_turn(ct_trainer_t *t);
/** Returns 1 in the first run. */
int ct__replay_is_rehearsal(const ct_trainer_t *t);
/** Local, Hot. Takes the checksums of a complete bucket after micro-batch p, before it is sent.
 * Does nothing in a step that runs once. */
int ct__replay_look(ct_trainer_t *t, int p, int bucket);
/** Local, Hot. Takes the checksum of SyncBN's message \a number of micro-batch p, n numbers,
 * before the exchange or after it (\a received). */
int ct__replay_message(ct_trainer_t *t, int p, int number, int64_t n, int received);
/** Local, Hot, after backward of the n samples of micro-batch p. Takes the other checksums: those
 * of late rows, and of all buckets unless the micro-batch sends them. */
int ct__replay_look_all(ct_trainer_t *t, int p, int64_t n);
/** Local, Hot, after the second run. Fails the step with CT_ERR_DEVICE if the runs differ. */
void ct__replay_end(ct_trainer_t *t);

/* ---- arrays.c: arrays of the parameters' shapes ---- */

typedef struct ct__arrays {
  char *base;   /**< packed slices, or an arena */
  int of_state; /**< 1: an optimizer state */
} ct__arrays_t;

/** Returns the weights, or for a buffer the buffers. */
ct__arrays_t ct__arrays_of(const ct_trainer_t *t, int param);
/** Returns 1 if a parameter of the array exists in slices only. */
int ct__arrays_sliced(const ct_trainer_t *t, int param, const ct__arrays_t *a);
/** Allocates host memory for any parameter or buffer in plain layout. */
float *ct__arrays_plain(const ct_graph_t *g);
/** Local, or for slices collective: then rank 0 gets the values. *agreed: result on all ranks,
 * after which rank 0 may fail alone. */
int ct__arrays_get(ct_trainer_t *t, int param, const ct__arrays_t *a, float *out, int *agreed);
/** Local, or for slices collective: then rank 0's values are scattered. \a rc: this rank's result
 * so far, with which slices fail on all ranks; *agreed: result on all ranks. */
int ct__arrays_put(ct_trainer_t *t, int param, const ct__arrays_t *a, const float *in, int rc,
                   int *agreed);
/** Collective. Initializes parameters and buffers: rank 0's arrays, and all slices. */
int ct__arrays_init(ct_trainer_t *t);

/* ---- state.c: the last snapshot ---- */

typedef struct ct__snapshot {
  float **array;  /**< host arrays, by item */
  double *number; /**< 8 bytes each */
  int items;
} ct__snapshot_t;

void ct__state_free(ct_trainer_t *t);

/* ---- single_value_batchnorm.c: running statistics of batches with one value per channel ---- */

/** Local. Allocates the counters, all 0. */
int ct__one_value_make(ct_trainer_t *t);
/** Local. Counts a batch after its step; NULL: this rank had no batch. */
void ct__one_value_count(ct_trainer_t *t, const ct_batch_t *b);
/** Collective. Broadcasts rank 0's counters. */
void ct__one_value_share(ct_trainer_t *t);

/* ---- the trainer ---- */

/** Counters that a checkpoint saves besides arrays. */
typedef struct ct__progress {
  int64_t steps;      /**< steps begun so far, for dropout; written by trainer.c */
  int64_t updates;    /**< the optimizer's own step count; written by update.c */
  ct_scaler_t scaler; /**< loss scale; written by update.c */
} ct__progress_t;

struct ct_trainer {
  ct_trainer_env_t env;
  ct_queue_t *q;
  int micro_batches; /**< micro-batches per local batch; at least 1 */
  int64_t outputs;   /**< values per sample of the first output */
  ct_heads_t heads;  /**< the losses */
  int max_n;         /**< samples for which memory is allocated */
  ct_memory_t need;  /**< planned memory, without the memory of the plans */
  ct_budget_t budget;

  /* facts of plans.c, from the first plan; bucket slices are the same in all plans and on all
   * ranks */
  ct__variant_t first; /**< borrowed */
  ct_arena_map_t map;
  int buckets;
  /* facts of arenas.c, reduced_precision_weights.c and sync_bn.c */
  char *weight;   /**< float32: this rank's slices, then the weights that are whole */
  size_t own_low; /**< bytes of these slices; 0: all weights are whole */
  char *gradient, *buffer;
  char *reduced;       /**< reduced-precision weights, at half the offsets; NULL: none */
  ct_group_t *group;   /**< SyncBN; NULL: off */
  int group_lowest[2]; /**< the two lowest ranks of this rank's group; -1: there is only one */
  int root_second;     /**< second rank of rank 0's group; -1: none */
  double *stats;       /**< device: SyncBN's message */
  int64_t *tracked;    /**< owned, written by single_value_batchnorm.c: number of batches in each
                          layer's running statistics */

  ct__progress_t progress;
  char *first_state; /* set by ct_trainer_remember(): weights, buffers, tracked; NULL: none */
  void *strategy;    /**< state of step_opts.strategy */
  ct__arenas_t arenas;
  ct__plans_t plans;
  ct__reduced_t reduced_state;
  ct__slices_t slices;
  ct__qat_t rounding;
  ct__muon_t muon;
  ct__average_t average;
  ct__input_t input;
  ct__late_rows_t late;
  ct__update_t update;
  ct__host_states_t host;
  ct__step_t step;
  ct__repeat_t repeat;
  ct__replay_t replay;
  ct__snapshot_t snapshot;
};

#endif
