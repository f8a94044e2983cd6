/** \file ct_step_times.h  The time breakdown of a training step on one rank.  Layer 0.
 *
 * A step lasts from the end of one step status (the all-reduce at the end of a step) to the end of
 * the next.  All ranks leave this all-reduce together, so a step is equally long on all of them and
 * no clocks are compared.  At any time a rank spends exactly one kind of time, so the kinds add up
 * to the step.  Some kinds are the rank's own work (busy time), which other ranks cannot prolong;
 * in the others it waits for other ranks or for the network. */
#ifndef CT_STEP_TIMES_H
#define CT_STEP_TIMES_H

/** X(KIND, name in metrics.jsonl, OWN, description); OWN 1: part of the busy time. */
#define CT_STEP_TIME_LIST(X)                                                             \
  X(DATA, data, 1, "waiting for samples")                                                \
  X(COMPUTE, compute, 1, "forward, loss, backward")                                      \
  X(MOVE, move, 1, "own work for messages: sums in shared memory, copies, posting")      \
  X(UPDATE, update, 1, "the optimizer")                                                  \
  X(SAVE, checkpoint, 1, "copying the state for a checkpoint, waiting for an older one") \
  X(OTHER, other, 1, "lines of the log and of metrics, and all else between two steps")  \
  X(WAIT, wait, 0, "waiting for gradients, and for other sums of the step")              \
  X(BATCHNORM, batchnorm, 0, "messages of batchnorms over several ranks")                \
  X(WORD, word, 0, "the step word: waiting for the last rank")

#define CT_STEP_TIME_NAME(upper, lower, own, help) CT_TIME_##upper,
typedef enum ct_step_time { CT_STEP_TIME_LIST(CT_STEP_TIME_NAME) CT_TIME_KINDS } ct_step_time_t;
#undef CT_STEP_TIME_NAME

/** Seconds of each kind. */
typedef struct ct_step_times {
  double s[CT_TIME_KINDS];
} ct_step_times_t;

/** "compute" */
const char *ct_step_time_name(int kind);
/** Description of a kind. */
const char *ct_step_time_help(int kind);
/** 1: part of the busy time. */
int ct_step_time_is_own(int kind);
/** Sum of the kinds of busy time. */
double ct_step_times_busy(const ct_step_times_t *t);
/** Sum of all kinds. */
double ct_step_times_all(const ct_step_times_t *t);

#endif
