/** \file trainer.h  What the files of this folder share.
 *
 * A trainer has facts, which are made once and which all may read, and rooms.  The members of a
 * room are of its own file only, which is named before it; tests/lint/habits.test checks it.  The
 * others call its functions: its make is local, its free may come after a make that failed. */
#ifndef CT_TRAINER_PRIVATE_H
#define CT_TRAINER_PRIVATE_H
#include "train/ct_memory.h"
#include "train/ct_trainer.h"
#include "train/ct_strategies.h"

#define CT_BUCKETS_MAX 512

/** The plan for one number of samples. */
typedef struct ct__variant {
  ct_plan_t *plan;
  ct_bucket_t *bucket; /**< training only */
} ct__variant_t;

/* ---- memory.c: sizes, which ct_trainer_plan_memory() says and the rooms take; pure ---- */

/** Pieces of a rank's share of a batch; at least 1. */
int ct__memory_pieces(const ct_trainer_env_t *e, int training);
/** Samples of a batch that a rank has room for. */
int ct__memory_room(const ct_trainer_env_t *e);
/** Samples of the first plan. */
int ct__memory_first(const ct_trainer_env_t *e);
/** Samples of this rank's piece p of a batch of \a total; *first: where they begin in it. */
int ct__memory_piece(const ct_trainer_env_t *e, int64_t total, int training, int p, int64_t *first);
/** What the plan for n samples is told. */
ct_plan_opts_t ct__memory_plan_opts(const ct_trainer_env_t *e, int n, int training);
/** Cuts the gradient arena: bucket[CT_BUCKETS_MAX]; returns how many there are. */
int ct__memory_buckets(const ct_trainer_env_t *e, const ct_plan_t *p, const ct_arena_map_t *m,
                       ct_bucket_t *bucket);
/** The slice of a bucket that this rank updates: bytes [*from, *to) of the gradient arena.  Without
 * a communicator only its length means something: the largest of any rank. */
void ct__memory_slice(const ct_trainer_env_t *e, const ct_bucket_t *b, size_t *from, size_t *to);
/** Bytes of all inputs of a sample as float32. */
size_t ct__memory_sample(const ct_graph_t *g);
/** 1: no batch is of float32. */
int ct__memory_all_bytes(const ct_trainer_env_t *e);
/** Bytes of one sample in each of the arrays that go to the device: size[CT_INPUT_ARRAYS]. */
void ct__memory_arrays(const ct_trainer_env_t *e, int bytes, size_t size[]);
/** All but activations and scratch, which are of the plans. */
void ct__memory_fixed(const ct_trainer_env_t *e, const ct_arena_map_t *m, const ct_bucket_t *bucket,
                      int buckets, ct_memory_t *out);

/* ---- arenas.c: memory of the device ---- */

/** A piece of it. */
typedef struct ct__block {
  char *p;
  size_t bytes;
  ct_memory_kind_t kind;
} ct__block_t;

typedef struct ct__arenas {
  ct__block_t *block;
  int64_t blocks, cap;
  ct_memory_t most; /**< that there was of a kind at a time */
} ct__arenas_t;

/** Local.  Zeroed memory until ct__arenas_give(), or the end of the trainer; NULL for no bytes. */
int ct__arenas_take(ct_trainer_t *t, ct_memory_kind_t kind, size_t bytes, char **out);
/** The same of all that is needed of a kind. */
int ct__arenas_take_all(ct_trainer_t *t, ct_memory_kind_t kind, char **out);
/** Gives back *p, which becomes NULL. */
void ct__arenas_give(ct_trainer_t *t, char **p);
/** Collective.  t->gradient, which the communicator allocates. */
int ct__arenas_make_gradient(ct_trainer_t *t);
void ct__arenas_free(ct_trainer_t *t);

/* ---- plans.c: what is run for so many samples, and where its activations lie ---- */

typedef struct ct__plans {
  ct__variant_t *variant;
  int64_t variants, cap;
  char *arena, *scratch;
  size_t arena_bytes, scratch_bytes;
  const ct_plan_t *last; /**< whose logits are there */
} ct__plans_t;

/** The first plans, which decide where parameters lie and what the buckets are. */
int ct__plans_make(ct_trainer_t *t);
void ct__plans_free(ct_trainer_t *t);
/** Local.  CT_ERR_ARG: more samples than were announced. */
int ct__plans_room(const ct_trainer_t *t, int n);
/** Local.  The plan for n samples, which is to be run now; made if it is new.  The arena grows if
 * it has to (no work may be pending then). */
int ct__plans_use(ct_trainer_t *t, int n, int training, const ct__variant_t **out);
/** What every run of a plan is told, on samples from \a first of the global batch on. */
ct_bind_t ct__plans_bind(const ct_trainer_t *t, int64_t first);

/* ---- reduced_precision_weights.c: a copy in the low type, for backends that want one ---- */

typedef struct ct__low {
  ct_op_t *cast; /**< of all weights; NULL: there is no copy */
  int stale;     /**< 1: the weights were written by other than UPDATE */
} ct__low_t;

int ct__low_make(ct_trainer_t *t);
void ct__low_free(ct_trainer_t *t);
/** To be called by who writes weights other than by UPDATE. */
void ct__low_outdate(ct_trainer_t *t);
/** Local, Hot.  Enqueues what makes them equal to the weights again, if those were written
 * otherwise. */
int ct__low_refresh(ct_trainer_t *t);

/* ---- qat.c: weights as forward passes see them, rounded as in eight bits ---- */

typedef struct ct__qat {
  char *weight; /**< NULL: forward passes see the weights themselves */
  float *plain; /**< room for any of them */
} ct__qat_t;

int ct__qat_make(ct_trainer_t *t);
void ct__qat_free(ct_trainer_t *t);
/** Local, Hot.  Rounds the weights as they are now; before any run of a plan that sees others. */
int ct__qat_round(ct_trainer_t *t);
/** The weights that a plan is run on. */
char *ct__qat_weight(const ct_trainer_t *t);

/* ---- average.c: averaged weights ---- */

typedef struct ct__average {
  ct_op_t *op;           /**< NULL: there are none */
  char *weight, *buffer; /**< the averages; while they are in use, what is averaged */
  int used;
} ct__average_t;

int ct__average_make(ct_trainer_t *t);
void ct__average_free(ct_trainer_t *t);
/** Local.  As they were made. */
int ct__average_restart(ct_trainer_t *t);
/** Local, Hot.  Enqueues the update of the averages by the weights that a step has made. */
int ct__average_step(ct_trainer_t *t);
/** The averages of weights or of buffers; NULL: there are none. */
char *ct__average_arena(const ct_trainer_t *t, int buffers);

/* ---- sync_bn.c: batchnorms over a group of ranks ---- */

/** Collective.  The group, before there are plans. */
int ct__sync_bn_open(ct_trainer_t *t);
int ct__sync_bn_make(ct_trainer_t *t);
/** Collective over the group, Hot.  Sums up the statistics of work \a i, if it has some. */
void ct__sync_bn_exchange(ct_trainer_t *t, const ct_plan_t *p, int i);

/* ---- input.c: batches on their way to the device ---- */

/** The arrays of a batch that go to the device. */
enum {
  CT_INPUT_X,
  CT_INPUT_LABELS,
  CT_INPUT_LABELS2,
  CT_INPUT_MIX,
  CT_INPUT_WEIGHTS,
  CT_INPUT_TARGETS,
  CT_INPUT_MORE, /* the first further input */
  CT_INPUT_ARRAYS = CT_INPUT_MORE + CT_INPUTS_MORE
};

/** Room for a batch on the device. */
typedef struct ct__slot {
  char *array[CT_INPUT_ARRAYS];
  ct_event_t *ready; /**< end of the copies */
} ct__slot_t;

typedef struct ct__input {
  ct_queue_t *copies; /**< of batches; NULL where they are used where they lie */
  ct__slot_t slot[2];
  float *affine[2]; /**< device: of evaluation, of training, if batches come as bytes */
  int used;         /**< number of the slot in use: a step's pointers alternate with it */
  ct_look_t look;
  int has_next;    /**< the other one holds, or will when its copies are done, … */
  ct_batch_t next; /**< … this batch */
} ct__input_t;

int ct__input_make(ct_trainer_t *t);
void ct__input_free(ct_trainer_t *t);
/** Local, Hot.  The batch to \a slot (0, 1; -1: the one not in use) of the device, where it is not
 * used in place; t->q waits for it, the host does not.  If it was looked ahead at, and the slot is
 * the one not in use, it is there already.  CT_ERR_ARG: more samples than were announced. */
int ct__input_take(ct_trainer_t *t, const ct_batch_t *b, int slot);
/** Local, Hot.  Begins to copy the batch that comes after the one that was taken, if it is there
 * and not begun yet: to be called while the device has work.  What fails here is tried again, and
 * told, when the batch is taken. */
void ct__input_look(ct_trainer_t *t);
/** What a plan is run on, for the samples from \a first of this rank on of the batch that was
 * taken, of which the loss is piece \a p's of the step. */
ct_bind_t ct__input_bind(const ct_trainer_t *t, const ct_batch_t *b, int training, int64_t first,
                         int p);

/* ---- update.c: from gradients to weights ---- */

/** Neighbouring weights that are updated with the same numbers: whole parameters, or the slice of
 * them that is this rank's to update (ZeRO-1). */
typedef struct ct__range {
  size_t offset, bytes; /**< in the weight and gradient arenas */
  size_t state;         /**< offset in the state arenas */
  int group, bucket;
  int norms; /**< number of its pair in the array of norms */
} ct__range_t;

typedef struct ct__update {
  ct_param_groups_t groups;
  ct_hyper_t *hyper; /**< of each group, in this step */
  ct__range_t *range;
  int64_t ranges, cap;
  int measures;  /**< pairs of norms; 0: the rule wants none */
  double *norms; /**< device */
  double *host_norms;
  ct_op_t *update, *measure, *gradstat;
  ct_grad_stat_t *stat; /**< staging */
  int states;           /**< float32 arrays of the optimizer */
  size_t state_bytes;   /**< of each: what this rank updates */
  char *state[CT_RULE_STATES];
  char *full[CT_RULE_STATES]; /**< ZeRO-1, while a checkpoint is read or written: whole states */
} ct__update_t;

/** Groups, ranges, ops and states; the buckets are cut already. */
int ct__update_make(ct_trainer_t *t);
/** States and progress as they were then. */
int ct__update_restart(ct_trainer_t *t);
void ct__update_free(ct_trainer_t *t);
/** Local, Hot.  At the start of a step. */
void ct__update_begin(ct_trainer_t *t, ct_step_report_t *report);
/** Hot.  Waits for a bucket's gradients; NULL: they are there. */
typedef void (*ct__arrive_t)(ct_trainer_t *t, int bucket);
/** Collective, Hot.  Updates the weights, bucket by bucket where it can; after a failure of this
 * rank it only takes its part in what others wait for. */
void ct__update_apply(ct_trainer_t *t, const ct_schedule_point_t *at, ct_step_report_t *report,
                      ct__arrive_t arrive);
/** Local, after the step's work is done: whether the update was made, and its norm. */
void ct__update_report(ct_trainer_t *t, ct_step_report_t *report);
/** States of the optimizer; the array of one: a slice with ZeRO-1, unless there is a whole one. */
int ct__update_states(const ct_trainer_t *t);
char *ct__update_state(const ct_trainer_t *t, int s);
/** Collective.  ZeRO-1: room for whole states until ct__update_narrow(); \a gather: with those of
 * all ranks in it. */
int ct__update_widen(ct_trainer_t *t, int gather);
void ct__update_narrow(ct_trainer_t *t);

/* ---- step.c: what a step in progress knows ---- */

typedef struct ct__step {
  ct_step_times_t times; /**< of the step so far */
  ct_step_time_t now;    /**< what this rank does … */
  double since;          /**< … since then (ct_clock()), … */
  ct_step_time_t own;    /**< … and what it goes on with behind a collective call */
  const char *doing;     /**< the collective call, … */
  int64_t detail;        /**< … and its number */
  double ended;          /**< ct_clock() of the end of the last step; 0: there was none */
  int failed;            /**< code of the first failure on this rank … */
  ct_err_info_t failure; /**< … and its record */
  ct_loss_t *piece;      /**< staging: the loss of each piece */
  float *class_weight;   /**< device */
  double divisor;        /**< of the sum of the losses */
} ct__step_t;

int ct__step_make(ct_trainer_t *t);
void ct__step_free(ct_trainer_t *t);
/** The next step has none before it. */
void ct__step_restart(ct_trainer_t *t);
/** How piece p's loss is run. */
void ct__step_bind_loss(const ct_trainer_t *t, int p, ct_bind_t *bind);
/** The numbers of all pieces are added to others. */
void ct__step_add_loss(const ct_trainer_t *t, ct_loss_t *sum);
/** Collective, Hot.  \a rc_in: this rank's code so far; finds what the losses are divided by. */
void ct__step_begin(ct_trainer_t *t, const ct_batch_t *b, int rc_in, ct_step_report_t *report);
/** Local, Hot, when the work is done.  This rank's word; CT_ERR_NONFINITE is noted. */
void ct__step_end(ct_trainer_t *t, const ct_batch_t *b, ct_step_word_t *word);
/** Collective, Hot.  The step word goes round; the step is over, and *report is told its times. */
int ct__step_over(ct_trainer_t *t, ct_step_word_t *word, ct_step_report_t *report);

/** Nothing has failed, no time has passed, no loss is there. */
void ct__step_clear(ct_trainer_t *t);
/** The first failure of a step is the one that is told, whatever fails after it.  Returns rc. */
int ct__step_note(ct_trainer_t *t, int rc);
/** 1: nothing has failed on this rank. */
int ct__step_is_well(const ct_trainer_t *t);
/** The code of the step, with its record. */
int ct__step_outcome(const ct_trainer_t *t);
/** Around every collective call; between the two, time is of this kind.  \a doing: for the
 * watch; NULL: the call says it. */
void ct__step_enter(ct_trainer_t *t, ct_step_time_t kind, const char *doing, int64_t detail);
void ct__step_leave(ct_trainer_t *t);
/** When the device's work is done: what it waited for others while the host went on is no
 * arithmetic. */
void ct__step_device(ct_trainer_t *t);
/** From here on time outside of collective calls is of this kind. */
void ct__step_turn(ct_trainer_t *t, ct_step_time_t own);
/** Collective, Hot.  Sum or maximum over the ranks. */
void ct__step_sum(ct_trainer_t *t, double *io, int n, int max);

/* ---- repeat.c: steps that are started as a whole ---- */

typedef struct ct__repeat {
  int on;                 /**< 0: this trainer's steps are not */
  int key;                /**< of the step that is being noted; -1: none */
  int64_t full;           /**< samples of a whole batch, over all ranks */
  int seen[CT_REPEATS];   /**< steps of the key so far */
  int agreed[CT_REPEATS]; /**< 1: all ranks can start them as a whole */
} ct__repeat_t;

void ct__repeat_make(ct_trainer_t *t);
/** Collective, Hot.  From here on the step's work is noted, if it may be repeated: a whole batch,
 * as all ranks see alike.  \a slot: 0 or 1, which of the batch's buffers it reads. */
void ct__repeat_begin(ct_trainer_t *t, const ct_batch_t *b, int slot, int want_norm);
/** Collective, Hot.  Starts what was noted.  After a failure of this rank it does what the peers
 * wait for. */
void ct__repeat_end(ct_trainer_t *t);

/* ---- state.c: the last snapshot ---- */

typedef struct ct__snapshot {
  float **array;  /**< host arrays, by item */
  double *number; /**< 8 bytes each */
  int items;
} ct__snapshot_t;

/** Local.  The initial parameters and buffers. */
int ct__state_init(ct_trainer_t *t);
void ct__state_free(ct_trainer_t *t);

/* ---- single_value_batchnorm.c ---- */

/** Local.  Counts that are 0. */
int ct__one_value_make(ct_trainer_t *t);
/** Local.  Behind a step on a batch (NULL: there was none). */
void ct__one_value_count(ct_trainer_t *t, const ct_batch_t *b);
/** Collective.  Rank 0's counts to all. */
void ct__one_value_share(ct_trainer_t *t);

/* ---- all of it ---- */

/** How far it has come: what a checkpoint says of a trainer besides arrays. */
typedef struct ct__progress {
  int64_t steps;      /**< made so far, for dropout: of trainer.c */
  int64_t updates;    /**< the optimizer's own count, … */
  ct_scaler_t scaler; /**< … and its scale of the loss: of update.c */
} ct__progress_t;

struct ct_trainer {
  ct_trainer_env_t env;
  ct_queue_t *q;
  int pieces;       /**< pieces of a rank's share of a batch; at least 1 */
  int64_t outputs;  /**< of a sample */
  int max_n;        /**< samples for which there is room */
  ct_memory_t need; /**< but for what is of the plans */

  /* facts of plans.c: of the first plan; the slices of the buckets are alike in all, and on all
   * ranks */
  ct__variant_t first; /**< borrowed */
  ct_arena_map_t map;
  int buckets;
  /* facts of arenas.c, reduced_precision_weights.c and sync_bn.c */
  char *weight, *gradient, *buffer;
  char *low;           /**< weights in the low type, at half their offsets; NULL: there are none */
  ct_group_t *group;   /**< SyncBN; NULL: off */
  int group_lowest[2]; /**< its two lowest ranks; -1: there is one only */
  int root_second;     /**< the second one of rank 0's group; -1 */
  double *stats;       /**< device: its message */
  int64_t *tracked;    /**< owned; of single_value_batchnorm.c: batches that each layer's running
                         statistics took */

  ct__progress_t progress;
  char *first_state; /* of ct_trainer_remember(): weights, buffers, tracked; NULL: none */
  void *way;         /**< what recipe.way keeps */
  ct__arenas_t arenas;
  ct__plans_t plans;
  ct__low_t lows;
  ct__qat_t rounding;
  ct__average_t average;
  ct__input_t input;
  ct__update_t update;
  ct__step_t step;
  ct__repeat_t repeat;
  ct__snapshot_t snapshot;
};

#endif
