/** \file trainer.h  What the files of this folder share. */
#ifndef CT_TRAINER_PRIVATE_H
#define CT_TRAINER_PRIVATE_H
#include "train/ct_trainer.h"

#define CT_BUCKETS_MAX 512
#define CT_LEVELS_MAX  16 /**< partial sums that are kept: of up to 2^16 pieces */

/** The plan for one number of samples. */
typedef struct ct_variant {
  ct_plan_t *plan;
  ct_bucket_t *bucket; /**< training only */
} ct_variant_t;

/** Neighbouring weights that are updated with the same numbers: whole parameters, or the slice of them that
 * is this rank's to update (ZeRO-1). */
typedef struct ct_range {
  size_t offset, bytes; /**< in the weight and gradient arenas */
  size_t state;         /**< offset in the state arenas */
  int group, bucket;
  int norms; /**< number of its pair in the array of norms */
} ct_range_t;

/** The arrays of a batch that go to the device. */
enum {
  CT_INPUT_X,
  CT_INPUT_LABELS,
  CT_INPUT_LABELS2,
  CT_INPUT_MIX,
  CT_INPUT_TARGETS,
  CT_INPUT_PARTS
};

/** Room for a batch on the device. */
typedef struct ct_input {
  char *part[CT_INPUT_PARTS];
  ct_event_t *ready; /**< end of the copies */
} ct_input_t;

typedef struct ct__dp ct__dp_t;

/** Steps that are started as a whole (repeat.c). */
typedef struct ct__repeat {
  int on;                 /**< 0: this trainer's steps are not */
  int key;                /**< of the step that is being noted; -1: none */
  int64_t full;           /**< samples of a whole batch, over all ranks */
  int seen[CT_REPEATS];   /**< steps of the key so far */
  int agreed[CT_REPEATS]; /**< 1: all ranks can start them as a whole */
} ct__repeat_t;

struct ct_trainer {
  ct_trainer_env_t env;
  ct_queue_t *q;
  ct_event_t *ready; /**< end of the work that fills a bucket */
  ct_variant_t *variant;
  int variants;
  int64_t cap_variants;
  ct_arena_map_t map;
  int buckets; /**< the same for every variant and rank */
  int parts;   /**< pieces of a rank's part of a batch; at least 1 */
  ct_group_t *group;

  /* input.c */
  ct_queue_t *copies; /**< of batches; NULL where they are used where they lie */
  ct_input_t input[2];
  float *affine[2]; /**< device: of evaluation, of training, if batches come as bytes */
  int slot;         /**< number of the one in use: a step's pointers alternate with it */
  ct_look_t look;
  int has_next;    /**< the other one holds, or will when its copies are done, … */
  ct_batch_t next; /**< … this batch */

  ct__dp_t *dp; /**< owned, of dp.c; NULL in the other modes */

  /* update.c */
  ct_param_groups_t groups;
  ct_hyper_t *hyper; /**< of each group, in this step */
  ct_range_t *range;
  int ranges;
  int64_t cap_ranges;
  int measures;  /**< pairs of norms; 0: the rule wants none */
  double *norms; /**< device */
  double *host_norms;
  ct_op_t *update, *measure, *gradstat;
  ct_grad_stat_t *stat; /**< staging */
  int states;           /**< float32 arrays of the optimizer */
  size_t state_bytes;   /**< of each: what this rank updates */
  ct_scaler_t scaler;
  int64_t updates; /**< made so far: the optimizer's own count */

  char *arena, *scratch, *weight, *gradient, *buffer, *state[CT_RULE_STATES];
  char *full[CT_RULE_STATES];   /**< ZeRO-1, while a checkpoint is read or written: whole states */
  char *partial[CT_LEVELS_MAX]; /**< sums of gradients of earlier pieces */
  int levels;                   /**< of them */
  ct_op_t *sum[CT_BUCKETS_MAX]; /**< adds up two arenas' slices, if there are several pieces */
  size_t arena_bytes, scratch_bytes;
  float *class_weight;
  int64_t outputs;       /**< of a sample */
  int max_n;             /**< samples for which there is room */
  ct_loss_t *loss;       /**< staging: of each piece */
  double *stats;         /**< device: SyncBN's message */
  const ct_plan_t *last; /**< of the last forward, while its logits are there */

  char *
      low; /**< the weights in the low type of mixed precision, for backends that want them; offsets are half
                of those in `weight` */
  ct_op_t *lower; /**< casts all of them */
  int low_stale;  /**< 1: `weight` was written by other than UPDATE */

  ct__repeat_t repeat;

  int64_t steps;  /**< made so far, for dropout */
  double divisor; /**< of the sum of the losses, in this step */
  int ticket[CT_BUCKETS_MAX];
  int sent;              /**< buckets of this step on their way */
  double exposed_s;      /**< seconds of this step in the communicator */
  double begun;          /**< ct_clock() of this step's start … */
  double before_s;       /**< … and seconds up to the first bucket; -1: none was sent */
  int failed;            /**< code of the step's first failure on this rank … */
  ct_err_info_t failure; /**< … and its record */
  float **snap;          /**< host arrays of the last snapshot, by item */
  double *snap_number;   /**< its numbers, 8 bytes each */
};

/** Local.  Device memory, also for no bytes; *out is NULL on failure. */
int ct__trainer_alloc(ct_trainer_t *t, size_t bytes, char **out);
/** Local.  CT_ERR_ARG: more samples than were announced. */
int ct__trainer_room(const ct_trainer_t *t, int n);
/** Local.  The plan for n samples, made if it is new; grows the activation arena if it has to (no work may be
 * pending then). */
int ct__trainer_variant(ct_trainer_t *t, int n, int training, const ct_variant_t **out);
/** The first failure of a step is the one that is told, whatever fails after it.  Returns rc. */
int ct__trainer_note(ct_trainer_t *t, int rc);
/** Before every collective call of the communicator: ct_beat_enter(), if there are other ranks. */
void ct__trainer_enter(const ct_trainer_t *t, const char *doing, int64_t detail);

/* ---- low.c: nothing happens where the backend does not want low weights ---- */

/** Local. */
int ct__low_make(ct_trainer_t *t);
void ct__low_free(ct_trainer_t *t);
/** Local, Hot.  Enqueues what makes them equal to the weights again, if those were written otherwise. */
int ct__low_refresh(ct_trainer_t *t);

/* ---- repeat.c ---- */

void ct__repeat_make(ct_trainer_t *t);
/** Collective, Hot.  From here on the step's work is noted, if it may be repeated: a whole batch, as all ranks
 * see alike.  \a slot: 0 or 1, which of the batch's buffers it reads. */
void ct__repeat_begin(ct_trainer_t *t, const ct_batch_t *b, int slot, int want_norm);
/** Collective, Hot.  Starts what was noted.  After a failure of this rank it does what the peers wait for. */
void ct__repeat_end(ct_trainer_t *t);

/* ---- input.c ---- */

/** Local. */
int ct__input_make(ct_trainer_t *t);
void ct__input_free(ct_trainer_t *t);
/** Bytes on the device of the batches there is room for. */
size_t ct__input_size(const ct_trainer_t *t);
/** Local, Hot.  The batch to place \a slot (0 or 1) of the device, where it is not used in place; t->q waits for
 * it, the host does not.  If it was looked ahead at, and !t->slot is the slot, it is there already.
 * CT_ERR_ARG: more samples than were announced. */
int ct__input_take(ct_trainer_t *t, const ct_batch_t *b, int slot);
/** Local, Hot.  Begins to copy the batch that comes after the one that was taken, if it is there and not begun
 * yet: to be called while the device has work.  What fails here is tried again, and told, when the batch is
 * taken. */
void ct__input_look(ct_trainer_t *t);
/** What a plan is run on, for the samples from \a first of this rank on of the batch that was taken. */
void ct__input_bind(const ct_trainer_t *t, const ct_batch_t *b, int training, int64_t first,
                    ct_bind_t *bind);

/* ---- dp.c: what a trainer of the mode dp has more; nothing happens in the others ---- */

/** Local. */
int ct__dp_make(ct_trainer_t *t);
void ct__dp_free(ct_trainer_t *t);
/** Local.  What a batch of n samples over all ranks needs. */
int ct__dp_prepare(ct_trainer_t *t, int n);
/** Collective, Hot.  All of a step but the step word; its outcome is noted. */
void ct__dp_step(ct_trainer_t *t, const ct_batch_t *b, const ct_schedule_point_t *at,
                 ct_step_report_t *report);

/** Adds one batch's numbers to those of others. */
void ct__loss_add(ct_loss_t *sum, const ct_loss_t *l);

/* ---- update.c ---- */

/** Local.  Groups, ranges, ops and states; the buckets are cut already. */
int ct__update_make(ct_trainer_t *t);
void ct__update_free(ct_trainer_t *t);
/** Collective, Hot.  Ends every transfer of this step and updates the weights; after a failure of this rank
 * it only takes its part in what others wait for. */
void ct__update_apply(ct_trainer_t *t, const ct_schedule_point_t *at, ct_step_report_t *report);
/** Local, after the step's work is done: whether the update was made, and its norm. */
void ct__update_report(ct_trainer_t *t, ct_step_report_t *report);

/** Collective.  ZeRO-1: whole states of all ranks in t->full. */
int ct__update_gather_states(ct_trainer_t *t);
/** Collective.  The other direction: rank 0's t->full becomes everybody's slices. */
int ct__update_share_states(ct_trainer_t *t);
/** Local.  Room for the whole states; freed by _drop. */
int ct__update_room(ct_trainer_t *t);
void ct__update_drop(ct_trainer_t *t);

#endif
