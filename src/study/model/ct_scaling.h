/** \file ct_scaling.h  Time breakdown of each measured configuration, and a model that predicts
 * other configurations.  Layer 4.
 *
 * A configuration is a number of ranks with their nodes, threads and batch (ct_study.h).  The
 * largest configuration is the one with the largest number of ranks, the base configuration the
 * smallest.
 *
 * The model: a step on N ranks takes the mean busy time of a rank, plus the delay of the slowest
 * rank, plus communication that does not overlap with compute (ct_timeline.h).  Busy times and
 * their spread are measured.  Latency and bandwidth of each level (inside a node, between nodes)
 * are fitted to the steps of the measured configurations.  The error of the model is estimated by
 * predicting the largest configuration from all others.  All functions are local. */
#ifndef CT_SCALING_H
#define CT_SCALING_H
#include "base/ct_text.h"
#include "study/model/ct_study.h"

/* ---- the terms of a step ---- */

/** The terms of a step of a configuration, compared with the base configuration.  The terms add up
 * to the step. */
#define CT_TERM_LIST(X)                                                                          \
  X(IDEAL, ideal, "useful work, at the speed of the base configuration")                         \
  X(SMALL_BATCH, small_batch, "compute: less efficient with fewer samples per rank")             \
  X(SHARING, sharing, "compute: slowed by the other ranks of the node (memory, clocks, caches)") \
  X(INTERFERENCE, interference, "compute: slowed by concurrent communication")                   \
  X(SLOWER, slower_compute, "compute: slower than at the base configuration")                    \
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

/** Returns the name of a term in files: "small_batch". */
const char *ct_term_name(int term);
/** Returns the description of a term, for people. */
const char *ct_term_help(int term);
/** Returns the sum of all terms. */
double ct_terms_all(const ct_terms_t *t);
/** Returns the largest term other than CT_TERM_IDEAL; -1: all other terms are 0 or less. */
int ct_terms_largest(const ct_terms_t *t);
/** Writes the largest loss in percent of a step, "bandwidth 44.8", and the sum of the gains (terms
 * below 0) if it is not 0, "bandwidth 44.8 -3.1"; "" without a loss. */
void ct_terms_loss(const ct_terms_t *t, double step_s, char *buf, size_t cap);

/* ---- the model ---- */

enum { CT_SCALING_BATCHES = 32 };

/** Compute time of a step as a function of the local batch. */
typedef struct ct_scaling_busy {
  double local_batch, compute_s;
} ct_scaling_busy_t;

typedef struct ct_scaling {
  const ct_study_t *study;                    /**< borrowed */
  const ct_study_size_t *base;                /**< base configuration; borrowed */
  ct_timeline_t timeline;                     /**< with the launches of the study, or `even` */
  ct_timeline_launch_t even[96];              /**< equal launches, for a study without a timeline */
  ct_scaling_busy_t busy[CT_SCALING_BATCHES]; /**< in ascending order of local_batch */
  int busys;
  ct_step_times_t own; /**< busy time of the largest configuration by kind; compute and the kinds of
                            waiting are 0 */
  double sigma;        /**< standard deviation of a rank's busy time, as a fraction of the mean */
  double steady; /**< mean excess of the slowest rank over the mean, as a fraction of the mean */
  double gradient_bytes, bucket_bytes;
  int algorithm, local_ranks, threads;
  ct_link_t inside;   /**< link inside a node; bytes_per_s 0: not known */
  ct_link_t between;  /**< link between nodes; bytes_per_s 0: not known */
  int fitted_inside;  /**< number of configurations that `inside` was fitted to */
  int fitted_between; /**< number of configurations that `between` was fitted to */
  double fit_error;   /**< largest relative error among the fitted steps */
  double left_out;    /**< relative error of the largest configuration if it is predicted from all
                           others */
  int left_ranks;     /**< ranks of this largest configuration; 0: too few configurations */
  int left_from;      /**< ranks of the second largest configuration; 0: too few configurations */
  int largest;        /**< ranks of the largest configuration */
} ct_scaling_t;

/** Reads the fastest link of each level from the output of `bench comm --json`; bytes_per_s 0: the
 * level was not measured.  CT_ERR_IO, CT_ERR_FORMAT. */
int ct_scaling_links(const char *path, ct_link_t *inside, ct_link_t *between);

/** Fits the model to a study.  \a inside, \a between: measured links, used for a level over which
 * no configuration of the study communicates; NULL: not measured.  CT_ERR_USAGE says which
 * configurations a fit needs. */
int ct_scaling_fit(const ct_study_t *study, const ct_link_t *inside, const ct_link_t *between,
                   ct_scaling_t *out);

/** The case to predict; a member that is 0 has its value in the study. */
typedef struct ct_scaling_ask {
  int ranks, local_ranks;
  double local_batch; /**< samples per rank */
  double bucket_bytes;
  double faster; /**< speed of the network: latency is divided and bandwidth multiplied by it */
  int algorithm; /**< ct_comm_algorithm_t + 1 */
} ct_scaling_ask_t;

typedef struct ct_scaling_prediction {
  int ranks, nodes;
  double batch, local_batch;
  double step_s;        /**< predicted step */
  double low_s, high_s; /**< error band of step_s, from ct_scaling_band() */
  double efficiency;    /**< relative to the base configuration */
  double samples_per_s;
  ct_terms_t terms; /**< add up to step_s */
} ct_scaling_prediction_t;

/** Pure.  Predicts a step.  CT_ERR_USAGE: the case communicates over a level whose latency and
 * bandwidth are not known. */
int ct_scaling_predict(const ct_scaling_t *m, const ct_scaling_ask_t *ask,
                       ct_scaling_prediction_t *out);
/** Pure.  Returns the expected error of a prediction for \a ranks, as a fraction of the step.  It
 * is left_out, scaled by the distance of the extrapolation in doublings of ranks; at least 2%, and
 * at least fit_error. */
double ct_scaling_band(const ct_scaling_t *m, int ranks);
/** Pure.  Sets *bytes to the bucket size with the shortest step, a power of two from 256 KiB to
 * 256 MiB. */
int ct_scaling_best_bucket(const ct_scaling_t *m, const ct_scaling_ask_t *ask, double *bytes);
/** Pure.  Returns the smallest number of ranks, a multiple of the ranks per node, at which the
 * efficiency is below \a efficiency; *at is the prediction for it.  0: the efficiency stays at
 * least \a efficiency up to \a most ranks. */
int ct_scaling_knee(const ct_scaling_t *m, double efficiency, int most,
                    ct_scaling_prediction_t *at);

/** Pure.  Returns the terms of a measured configuration.  \a m: the model that splits communication
 * into latency and bandwidth; NULL: communication is not split. */
ct_terms_t ct_scaling_terms(const ct_study_t *s, const ct_scaling_t *m,
                            const ct_study_size_t *size);

/** Appends the text of `--predict LIST`: a table, the ranks at which efficiency drops, the best
 * bucket sizes, and the effect of a network twice as fast.  CT_ERR_USAGE: \a list is not a list of
 * numbers. */
int ct_scaling_print(const ct_scaling_t *m, const char *list, ct_str_t *out);
/** Returns the predictions of `--predict LIST` as a new JSON object; NULL: out of memory or a wrong
 * list, with the error recorded. */
json_t *ct_scaling_json(const ct_scaling_t *m, const char *list);

#endif
