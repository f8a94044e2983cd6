/** \file slow_rank_stats.h  How long ranks are busy in a step: what a window of steps says of one
 * rank, and who is slow among all.  Pure.
 *
 * A rank's number is the trimmed mean of its steps, and the error of that: an outlier is no
 * straggler.  The ranks' numbers are compared with their median, by margins that noise does not
 * reach. */
#ifndef CT_PACE_H
#define CT_PACE_H
#include <stdint.h>

#define CT_PACE_STEPS 128 /**< of a window that are looked at */

/** Steps of this rank so far in this window. */
typedef struct ct__pace_window {
  int64_t stride; /**< each stride-th step is looked at, so that all of a window have room */
  int64_t seen;
  int n; /**< of those looked at: */
  double busy_s[CT_PACE_STEPS], data_s[CT_PACE_STEPS];
} ct__pace_window_t;

/** What a window says of a rank. */
typedef struct ct__pace {
  double busy_s;  /**< mean seconds of a step that are its own … */
  double data_s;  /**< … of which it waited for the feed */
  double error_s; /**< standard error of busy_s; infinite: too few steps to tell */
} ct__pace_t;

/** Empties a window of so many steps. */
void ct__pace_begin(ct__pace_window_t *w, int64_t steps);
/** Hot. */
void ct__pace_add(ct__pace_window_t *w, double busy_s, double data_s);
/** Means without the fastest and slowest tenth of the steps, at least one each; the error is that
 * of Yuen (Biometrika 61, 1974): of the winsorized variance. */
ct__pace_t ct__pace_of(const ct__pace_window_t *w);

/** The ranks that took longer than the others in this window.  *usual becomes the medians over the
 * ranks (of an even number the lower one: half of the ranks may be on a slow node).  slow[r]
 * becomes 1 if rank r is above the median by more than the largest of: 25 % (10 % with 8 ranks and
 * more), 1 ms, 4 times its error, and with 8 ranks and more 4 robust standard deviations (of the
 * median absolute deviation; fewer ranks do not tell it).  share[r] >= 1: samples of rank r,
 * relative to the rank with the fewest; the median is taken times that.  \a work: room for so many
 * numbers as there are ranks. */
void ct__pace_judge(const ct__pace_t *pace, const double *share, int ranks, double *work, int *slow,
                    ct__pace_t *usual);
/** 1 if more of what a slow rank takes longer is waiting for the feed than anything else. */
int ct__pace_is_data(const ct__pace_t *slow, const ct__pace_t *usual);

#endif
