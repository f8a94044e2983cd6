/** \file slow_rank_stats.h  Computes the mean busy time of a rank over a window of steps, and finds
 * the slow ranks.  Pure.
 *
 * A rank is described by the trimmed mean of its steps and the standard error of this mean, so that
 * one slow step does not make a rank a straggler.  Ranks are compared with the median of all ranks,
 * by margins larger than noise. */
#ifndef CT_SLOW_RANK_STATS_H
#define CT_SLOW_RANK_STATS_H
#include <stdint.h>

#define CT_SLOW_STATS_STEPS 128 /**< maximum number of sampled steps in a window */

/** Sampled steps of this rank in this window. */
typedef struct ct__slow_stats_window {
  int64_t stride; /**< each stride-th step is sampled, so that the samples cover the window */
  int64_t seen;   /**< steps so far */
  int n;          /**< sampled steps so far */
  struct ct__slow_stats_step {
    double busy_s, data_s;
  } step[CT_SLOW_STATS_STEPS];
} ct__slow_stats_window_t;

/** One rank in one window. */
typedef struct ct__slow_stats {
  double busy_s;  /**< trimmed mean of the busy time of a step */
  double data_s;  /**< the part of busy_s spent waiting for samples */
  double error_s; /**< standard error of busy_s; infinite: too few steps */
} ct__slow_stats_t;

/** One of the ranks that are compared. */
typedef struct ct__slow_stats_rank {
  ct__slow_stats_t stats; /**< in */
  double share;           /**< in: its number of samples divided by the smallest number of samples
                               of any rank; >= 1 */
  int slow;               /**< out: 1 if it is slow */
} ct__slow_stats_rank_t;

/** Empties a window that will have \a steps steps; 0: not known. */
void ct__slow_stats_begin(ct__slow_stats_window_t *w, int64_t steps);
/** Hot.  Adds a step to the window. */
void ct__slow_stats_add(ct__slow_stats_window_t *w, double busy_s, double data_s);
/** Returns the means without the fastest and the slowest tenth of the steps (at least one step
 * each); the error is Yuen's (Biometrika 61, 1974), from the winsorized variance.  Sorts the
 * samples. */
ct__slow_stats_t ct__slow_stats_of(ct__slow_stats_window_t *w);

/** Marks the ranks that took longer than the others in this window.  *usual becomes the medians
 * over the ranks (the lower median of an even number: half of the ranks may be on a slow node).  A
 * rank is slow if its busy time exceeds the median times its share by more than the largest of:
 * 25% (10% with 8 and more ranks), 1 ms, 4 times its error, and with 8 and more ranks 4 robust
 * standard deviations (from the median absolute deviation, which needs that many ranks).  \a work:
 * workspace of one number per rank. */
void ct__slow_stats_judge(ct__slow_stats_rank_t *rank, int ranks, double *work,
                          ct__slow_stats_t *usual);
/** Returns 1 if waiting for samples is more than half of the excess of a slow rank over *usual. */
int ct__slow_stats_is_data(const ct__slow_stats_t *slow, const ct__slow_stats_t *usual);

#endif
