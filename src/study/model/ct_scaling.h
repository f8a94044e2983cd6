/** \file ct_scaling.h  Where the time of each size went, and what other sizes would take.  Layer 4.
 *
 * A step of N ranks is the busy time of one, plus what the slowest is above the mean, plus what its
 * messages take beyond what overlaps (ct_timeline.h).  Busy times and their spread are measured;
 * latency and rate of each level are fitted to the steps of the sizes that were measured.  How far
 * that reaches is told by leaving out the largest size and predicting it from the others.
 * All functions are local. */
#ifndef CT_SCALING_H
#define CT_SCALING_H
#include "base/ct_text.h"
#include "study/model/ct_study.h"

/* ---- what was lost ---- */

/** The terms of a step of a size, against the base size.  They add up to the step. */
#define CT_TERM_LIST(X)                                                                \
  X(IDEAL, ideal, "useful work, at the speed of the base size")                        \
  X(SMALL_BATCH, small_batch, "compute less efficient with fewer samples a rank")      \
  X(SHARING, sharing, "compute slower beside neighbours (memory, clocks, caches)")     \
  X(INTERFERENCE, interference, "compute slower while messages are under way")         \
  X(SLOWER, slower_compute, "compute slower than at the base size")                    \
  X(DATA, data, "waiting for samples")                                                 \
  X(STEADY, imbalance_steady, "one rank always slower than the others")                \
  X(RANDOM, imbalance_random, "another rank the slowest in each step")                 \
  X(LATENCY, latency, "messages: latency")                                             \
  X(BANDWIDTH, bandwidth, "messages: bytes")                                           \
  X(TRANSFER, transfer, "messages that do not overlap, else than by latency and rate") \
  X(MOVE, move, "own work for messages: sums, copies, posting")                        \
  X(BATCHNORM, batchnorm, "messages of batchnorms over several ranks")                 \
  X(UPDATE, update, "the optimizer")                                                   \
  X(WORD, word, "the step word")                                                       \
  X(SAVE, checkpoint, "copying the state for a checkpoint")                            \
  X(OTHER, other, "all else between two steps")
#define CT_TERM_NAME(upper, lower, help) CT_TERM_##upper,
typedef enum ct_term { CT_TERM_LIST(CT_TERM_NAME) CT_TERMS } ct_term_t;
#undef CT_TERM_NAME

typedef struct ct_terms {
  double s[CT_TERMS];
} ct_terms_t;

/** "small_batch" */
const char *ct_term_name(int term);
/** What it is, for people. */
const char *ct_term_help(int term);
double ct_terms_all(const ct_terms_t *t);
/** The largest but the first; -1: all others are 0 or less. */
int ct_terms_largest(const ct_terms_t *t);
/** "bandwidth 44.8", the largest loss in percent of a step; with gains "bandwidth 44.8 -3.1",
 * since losses are then more than the time that is lost.  "" without a loss. */
void ct_terms_loss(const ct_terms_t *t, double step_s, char *buf, size_t cap);

/* ---- the model ---- */

enum { CT_SCALING_BATCHES = 32 };

/** Seconds a step that a rank is busy, by its number of samples. */
typedef struct ct_scaling_busy {
  double local_batch, compute_s;
} ct_scaling_busy_t;

typedef struct ct_scaling {
  const ct_study_t *study;     /**< borrowed */
  const ct_study_size_t *base; /**< borrowed */
  ct_timeline_t timeline;      /**< its works are the study's, or `even` */
  ct_timeline_work_t even[96];
  ct_scaling_busy_t busy[CT_SCALING_BATCHES]; /**< by local_batch */
  int busys;
  ct_step_times_t own; /**< those kinds but compute, of the largest size; the rest is 0 */
  double sigma;        /**< random spread of a rank's busy time, as a share of it */
  double steady;       /**< by how much the slowest rank is above the mean, as a share */
  double gradient_bytes, bucket_bytes;
  int algorithm, local_ranks, threads;
  ct_link_t inside, between;         /**< bytes_per_s 0: nothing is known */
  int fitted_inside, fitted_between; /**< sizes that each was fitted to */
  double fit_error;                  /**< largest relative error of a step that it was fitted to */
  double left_out;           /**< relative error of the largest size, predicted from the others */
  int left_ranks, left_from; /**< that size; the largest of the others; 0: there are too few */
  int largest;               /**< ranks */
} ct_scaling_t;

/** What `bench comm --json` found, the fastest of each level; bytes_per_s 0: nothing.  CT_ERR_IO,
 * CT_ERR_FORMAT. */
int ct_scaling_links(const char *path, ct_link_t *inside, ct_link_t *between);

/** \a inside, \a between: what a benchmark of messages found, for a level that no size of the study
 * tells of; NULL: nothing.  CT_ERR_USAGE says which sizes a prediction would need. */
int ct_scaling_fit(const ct_study_t *study, const ct_link_t *inside, const ct_link_t *between,
                   ct_scaling_t *out);

/** What is to be predicted; 0: as in the study. */
typedef struct ct_scaling_ask {
  int ranks, local_ranks;
  double local_batch; /**< samples of a rank */
  double bucket_bytes;
  double faster; /**< the network is so many times as fast, in latency and rate */
  int algorithm; /**< ct_comm_algorithm_t + 1 */
} ct_scaling_ask_t;

typedef struct ct_scaling_answer {
  int ranks, nodes;
  double batch, local_batch;
  double step_s, low_s, high_s; /**< the band: see ct_scaling_band() */
  double efficiency;            /**< against the base size */
  double samples_per_s;
  ct_terms_t terms; /**< add up to step_s */
} ct_scaling_answer_t;

/** Pure.  CT_ERR_USAGE: of a level that nothing is known of. */
int ct_scaling_predict(const ct_scaling_t *m, const ct_scaling_ask_t *ask,
                       ct_scaling_answer_t *out);
/** Pure.  How wrong a prediction for so many ranks may be, as a share of the step: the error with
 * the largest size left out, in proportion to how much further it reaches (in doublings), at least
 * 2 % and the largest error of the fit. */
double ct_scaling_band(const ct_scaling_t *m, int ranks);
/** Pure.  The bucket size, a power of two from 256 KiB to 256 MiB, with the shortest step. */
int ct_scaling_best_bucket(const ct_scaling_t *m, const ct_scaling_ask_t *ask, double *bytes);
/** Pure.  The least number of ranks, a multiple of those of a node, at which the efficiency is
 * below \a efficiency; 0: not up to \a most. */
int ct_scaling_knee(const ct_scaling_t *m, double efficiency, int most, ct_scaling_answer_t *at);

/** Pure.  The terms of a measured size; latency and bandwidth by \a m, if not NULL. */
ct_terms_t ct_scaling_terms(const ct_study_t *s, const ct_scaling_t *m,
                            const ct_study_size_t *size);

/** `--predict LIST`: table, knee, best buckets, what a network twice as fast would do; appended.
 * CT_ERR_USAGE: a list that is no numbers. */
int ct_scaling_print(const ct_scaling_t *m, const char *list, ct_str_t *out);
/** The same as an object; NULL: no memory or wrong list, with the error recorded. */
json_t *ct_scaling_json(const ct_scaling_t *m, const char *list);

#endif
