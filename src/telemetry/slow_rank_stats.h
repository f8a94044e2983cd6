/** \file slow_rank_stats.h  How long ranks are busy in a step: the mean of a window of steps of one
 * rank, and which of all ranks are slow.  Pure.
 *
 * A rank is described by the trimmed mean of its steps and the standard error of that mean, so that
 * an outlier makes no straggler.  Ranks are compared with their median, by margins larger than
 * noise. */
#ifndef CT_SLOW_RANK_STATS_H
#define CT_SLOW_RANK_STATS_H
#include <stdint.h>

#define CT_SLOW_STATS_STEPS 128 /**< most steps of a window that are sampled */

/** Sampled steps of this rank in this window. */
typedef struct ct__slow_stats_window {
  int64_t stride; /**< samples each stride-th step, so that the samples cover the window */
  int64_t seen;
  int n; /**< samples so far */
  struct ct__slow_stats_step {
    double busy_s, data_s;
  } step[CT_SLOW_STATS_STEPS];
} ct__slow_stats_window_t;

/** One rank in one window. */
typedef struct ct__slow_stats {
  double busy_s;  /**< trimmed mean of the busy time of a step … */
  double data_s;  /**< … of which it waited for samples */
  double error_s; /**< standard error of busy_s; infinite: too few steps */
} ct__slow_stats_t;

/** One rank of all that are compared. */
typedef struct ct__slow_stats_rank {
  ct__slow_stats_t stats; /**< in */
  double share;           /**< in: its samples relative to the rank with the fewest; >= 1 */
  int slow;               /**< out: 1 if it is slow */
} ct__slow_stats_rank_t;

/** Empties a window of so many steps; 0: of unknown length. */
void ct__slow_stats_begin(ct__slow_stats_window_t *w, int64_t steps);
/** Hot. */
void ct__slow_stats_add(ct__slow_stats_window_t *w, double busy_s, double data_s);
/** Means without the fastest and the slowest tenth of the steps, at least one each; the error is
 * Yuen's (Biometrika 61, 1974), from the winsorized variance.  Sorts the samples. */
ct__slow_stats_t ct__slow_stats_of(ct__slow_stats_window_t *w);

/** Marks the ranks that took longer than the others in this window.  *usual becomes the medians
 * over the ranks (of an even number the lower one: half of the ranks may be on a slow node).  A
 * rank is slow if it exceeds the median times its share by more than the largest of: 25% (10% with
 * 8 and more ranks), 1 ms, 4 times its error, and with 8 and more ranks 4 robust standard
 * deviations (from the median absolute deviation, which fewer ranks do not allow).  \a work: one
 * number per rank. */
void ct__slow_stats_judge(ct__slow_stats_rank_t *rank, int ranks, double *work,
                          ct__slow_stats_t *usual);
/** 1 if waiting for samples makes up more than half of the time that a slow rank takes longer. */
int ct__slow_stats_is_data(const ct__slow_stats_t *slow, const ct__slow_stats_t *usual);

#endif
