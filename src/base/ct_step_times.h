/** \file ct_step_times.h  The time breakdown of a training step on one rank.  Layer 0.
 *
 * A step lasts from the end of one step status (the all-reduce at the end of a step) to the end of
 * the next.  All ranks leave this all-reduce together, so a step is equally long on all of them and
 * no clocks are compared.  At any time a rank spends exactly one kind of time, so the kinds add up
 * to the step.  Some kinds are the rank's own work (busy time), which other ranks cannot prolong;
 * in the other kinds the rank waits for other ranks or for the network. */
#ifndef CT_STEP_TIMES_H
#define CT_STEP_TIMES_H

/** Kinds: X(KIND, name in metrics.jsonl, OWN); OWN 1: part of the busy time.  DATA waits for
 * samples; COMPUTE is forward, loss and backward; MOVE is communication overhead: sums in shared
 * memory, copies, posting; UPDATE is the optimizer; SAVE copies the state for a checkpoint, or
 * waits for an earlier one; OTHER is logging and the rest between two steps; WAIT waits for
 * gradients and other sums of the step; BATCHNORM waits for batchnorms over several ranks; WORD
 * is the step status, which waits for the last rank. */
#define CT_STEP_TIME_LIST(X) \
  X(DATA, data, 1)           \
  X(COMPUTE, compute, 1)     \
  X(MOVE, move, 1)           \
  X(UPDATE, update, 1)       \
  X(SAVE, checkpoint, 1)     \
  X(OTHER, other, 1)         \
  X(WAIT, wait, 0)           \
  X(BATCHNORM, batchnorm, 0) \
  X(WORD, word, 0)

#define CT_STEP_TIME_NAME(upper, lower, own) CT_TIME_##upper,
typedef enum ct_step_time { CT_STEP_TIME_LIST(CT_STEP_TIME_NAME) CT_TIME_KINDS } ct_step_time_t;
#undef CT_STEP_TIME_NAME

/** Seconds of each kind. */
typedef struct ct_step_times {
  double s[CT_TIME_KINDS];
} ct_step_times_t;

/** Returns the name of a kind in metrics.jsonl, such as "compute". */
const char *ct_step_time_name(int kind);
/** Returns 1 if the kind is part of the busy time. */
int ct_step_time_is_own(int kind);
/** Returns the busy time: the sum of its kinds. */
double ct_step_times_busy(const ct_step_times_t *t);
/** Returns the sum of all kinds. */
double ct_step_times_all(const ct_step_times_t *t);

#endif
