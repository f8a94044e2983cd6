/** \file ct_scaling.h  Time breakdown of each measured size, and a model that predicts other sizes.
 * Layer 4.
 *
 * The model: a step on N ranks takes the mean busy time of a rank, plus the delay of the slowest
 * rank, plus communication that does not overlap with compute (ct_timeline.h).  Busy times and
 * their spread are measured; latency and bandwidth of each level (inside a node, between nodes) are
 * fitted to the steps of the measured sizes.  The error of the model is estimated by leaving out
 * the largest size and predicting it from the others.  All functions are local. */
#ifndef CT_SCALING_H
#define CT_SCALING_H
#include "base/ct_text.h"
#include "study/model/ct_study.h"

/* ---- the terms of a step ---- */

/** The terms of a step of a size, compared with the base size.  They add up to the step. */
#define CT_TERM_LIST(X)                                                                          \
  X(IDEAL, ideal, "useful work, at the speed of the base size")                                  \
  X(SMALL_BATCH, small_batch, "compute: less efficient with fewer samples per rank")             \
  X(SHARING, sharing, "compute: slowed by the other ranks of the node (memory, clocks, caches)") \
  X(INTERFERENCE, interference, "compute: slowed by concurrent communication")                   \
  X(SLOWER, slower_compute, "compute: slower than at the base size")                             \
  X(DATA, data, "waiting for samples")                                                           \
  X(STEADY, imbalance_steady, "waiting for one rank that is always slower")                      \
  X(RANDOM, imbalance_random, "waiting for the slowest rank, another one in each step")          \
  X(LATENCY, latency, "communication: latency")                                                  \
  X(BANDWIDTH, bandwidth, "communication: bandwidth")                                            \
  X(TRANSFER, transfer, "communication that latency and bandwidth do not explain")               \
  X(MOVE, move, "communication overhead (sums, copies, posting)")                                \
  X(BATCHNORM, batchnorm, "communication of synchronized batchnorms")                            \
  X(UPDATE, update, "weight update")                                                             \
  X(WORD, word, "step status (the all-reduce at the end of a step)")                             \
  X(SAVE, checkpoint, "copying the state for a checkpoint")                                      \
  X(OTHER, other, "other time between two steps")
#define CT_TERM_NAME(upper, lower, help) CT_TERM_##upper,
typedef enum ct_term { CT_TERM_LIST(CT_TERM_NAME) CT_TERMS } ct_term_t;
#undef CT_TERM_NAME

typedef struct ct_terms {
  double s[CT_TERMS];
} ct_terms_t;

/** The name of a term in files: "small_batch". */
const char *ct_term_name(int term);
/** The description of a term, for people. */
const char *ct_term_help(int term);
/** The sum of all terms. */
double ct_terms_all(const ct_terms_t *t);
/** The largest term other than CT_TERM_IDEAL; -1: all others are 0 or less. */
int ct_terms_largest(const ct_terms_t *t);
/** Writes the largest loss in percent of a step, "bandwidth 44.8"; if there are gains (terms below
 * 0), also their sum, "bandwidth 44.8 -3.1"; "" without a loss. */
void ct_terms_loss(const ct_terms_t *t, double step_s, char *buf, size_t cap);

/* ---- the model ---- */

enum { CT_SCALING_BATCHES = 32 };

/** Compute time of a step as a function of the local batch. */
typedef struct ct_scaling_busy {
  double local_batch, compute_s;
} ct_scaling_busy_t;

typedef struct ct_scaling {
  const ct_study_t *study;                    /**< borrowed */
  const ct_study_size_t *base;                /**< borrowed */
  ct_timeline_t timeline;                     /**< its launches are those of the study, or `even` */
  ct_timeline_launch_t even[96];              /**< equal launches, for a study without a timeline */
  ct_scaling_busy_t busy[CT_SCALING_BATCHES]; /**< in ascending order of local_batch */
  int busys;
  ct_step_times_t own; /**< of the largest size, without compute; other members are 0 */
  double sigma;        /**< standard deviation of a rank's busy time, as a fraction of it */
  double steady;       /**< excess of the slowest rank over the mean, as a fraction */
  double gradient_bytes, bucket_bytes;
  int algorithm, local_ranks, threads;
  ct_link_t inside, between;         /**< bytes_per_s 0: not known */
  int fitted_inside, fitted_between; /**< number of sizes that each was fitted to */
  double fit_error;                  /**< largest relative error among the fitted steps */
  double left_out;           /**< relative error of the largest size, predicted from the others */
  int left_ranks, left_from; /**< ranks of that size; of the largest other size; 0: too few sizes */
  int largest;               /**< ranks */
} ct_scaling_t;

/** Reads the output of `bench comm --json`: the fastest link of each level; bytes_per_s 0: none was
 * measured.  CT_ERR_IO, CT_ERR_FORMAT. */
int ct_scaling_links(const char *path, ct_link_t *inside, ct_link_t *between);

/** Fits the model to a study.  \a inside, \a between: measured links, used for a level that no size
 * of the study exercises; NULL: none.  CT_ERR_USAGE says which sizes a fit needs. */
int ct_scaling_fit(const ct_study_t *study, const ct_link_t *inside, const ct_link_t *between,
                   ct_scaling_t *out);

/** The case to predict; members that are 0 are as in the study. */
typedef struct ct_scaling_ask {
  int ranks, local_ranks;
  double local_batch; /**< samples per rank */
  double bucket_bytes;
  double faster; /**< latency is divided, bandwidth multiplied by it */
  int algorithm; /**< ct_comm_algorithm_t + 1 */
} ct_scaling_ask_t;

typedef struct ct_scaling_prediction {
  int ranks, nodes;
  double batch, local_batch;
  double step_s, low_s, high_s; /**< with the error band of ct_scaling_band() */
  double efficiency;            /**< relative to the base size */
  double samples_per_s;
  ct_terms_t terms; /**< add up to step_s */
} ct_scaling_prediction_t;

/** Pure.  CT_ERR_USAGE: the case uses a level whose latency and bandwidth are not known. */
int ct_scaling_predict(const ct_scaling_t *m, const ct_scaling_ask_t *ask,
                       ct_scaling_prediction_t *out);
/** Pure.  The expected error of a prediction for \a ranks, as a fraction of the step: the error
 * with the largest size left out, scaled by the distance of the extrapolation in doublings of
 * ranks; at least 2%, and at least the largest error of the fit. */
double ct_scaling_band(const ct_scaling_t *m, int ranks);
/** Pure.  *bytes is set to the bucket size with the shortest step, a power of two from 256 KiB to
 * 256 MiB. */
int ct_scaling_best_bucket(const ct_scaling_t *m, const ct_scaling_ask_t *ask, double *bytes);
/** Pure.  The smallest number of ranks, a multiple of the ranks per node, at which the efficiency
 * is below \a efficiency; *at is the prediction there.  0: there is none up to \a most ranks. */
int ct_scaling_knee(const ct_scaling_t *m, double efficiency, int most,
                    ct_scaling_prediction_t *at);

/** Pure.  The terms of a measured size; \a m splits communication into latency and bandwidth; NULL:
 * it is not split. */
ct_terms_t ct_scaling_terms(const ct_study_t *s, const ct_scaling_t *m,
                            const ct_study_size_t *size);

/** Appends the text of `--predict LIST`: a table, the ranks at which efficiency drops, the best
 * bucket sizes, and the effect of a network twice as fast.  CT_ERR_USAGE: \a list is not a list of
 * numbers. */
int ct_scaling_print(const ct_scaling_t *m, const char *list, ct_str_t *out);
/** The same as a new JSON object; NULL: out of memory or a wrong list, with the error recorded. */
json_t *ct_scaling_json(const ct_scaling_t *m, const char *list);

#endif
