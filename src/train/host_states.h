/** \file host_states.h  Part of trainer.h: optimizer states in host memory. */
#ifndef CT_TRAINER_PRIVATE_H
#  error "include train/trainer.h"
#endif

/* ---- host_states.c: optim.place host: states and update in host memory ---- */

/** A piece of a range whose gradient is on its way to the host. */
typedef struct ct__host_piece {
  ct_op_args_t args; /**< of its update; dy: pinned */
  ct_event_t *there; /**< its gradient has arrived */
  char *gradient;    /**< pinned */
  char *to;          /**< device: its weights */
  size_t bytes;      /**< 0: none */
} ct__host_piece_t;

typedef struct ct__host_states {
  ct_queue_t *copies; /**< device: gradients to the host */
  ct_queue_t *q;      /**< of the host's backend */
  ct_op_t *update;
  char *state[CT_RULE_STATES];
  int states;
  char *weight; /**< pinned; float32 weights of this rank's ranges, laid out as the states */
  size_t bytes; /**< of `weight`, and of each state */
  int stale;    /**< 1: the weights on the device were written otherwise */
  int overlaps; /**< 1: buckets arrive on `copies` */
  ct__host_piece_t piece[2]; /**< alternate */
  int next;                  /**< index of the next one */
} ct__host_states_t;

/** Local, after the ranges were made. Allocates \a states states of \a bytes bytes, and the
 * weights. */
int ct__host_states_make(ct_trainer_t *t, int rule, int states, size_t bytes);
/** Returns the array of state \a s. */
char *ct__host_states_array(const ct_trainer_t *t, int s);
void ct__host_states_free(ct_trainer_t *t);
/** Local. Sets all states to 0. */
int ct__host_states_restart(ct_trainer_t *t);
/** The weights on the device were written by something else than the update. */
void ct__host_states_outdate(ct_trainer_t *t);
/** Returns the queue on which buckets arrive. */
ct_queue_t *ct__host_states_queue(const ct_trainer_t *t);
/** Local, Hot. Begins the updates of a step; \a overlaps: each bucket is updated when it arrives,
 * else all have arrived on t->q. r: all ranges of this rank. */
void ct__host_states_begin(ct_trainer_t *t, int overlaps, const ct__range_t *r, int64_t ranges);
/** Local, Hot. Updates a range, given the arguments for the device. */
void ct__host_states_update(ct_trainer_t *t, const ct__range_t *r, const ct_op_args_t *a);
/** Local, Hot. Completes the updates; t->q has the weights. */
void ct__host_states_end(ct_trainer_t *t);
/** The weights on the device are those of the host, although ct__host_states_outdate() was
 * called. */
void ct__host_states_keep(ct_trainer_t *t);
/** Local. Enclose the use of ct__update_state(): a state in host memory takes the place of the
 * gradients. \a save: with its values, else with zeros; the second call stores it. */
int ct__host_states_lend(ct_trainer_t *t, int s, int save);
int ct__host_states_take_back(ct_trainer_t *t, int s);
