/** \file ct_time_breakdown.h  The time breakdown of training steps over all ranks: a sum without a
 * remainder.  Layer 4.
 *
 * A step takes equally long on all ranks (ct_step_times.h).  With mean and max over the ranks,
 *
 *     step = mean(busy) + [max(busy) - mean(busy)] + [step - max(busy)]
 *          = busy       + imbalance                + transfer
 *
 * is exact and does not need synchronized clocks: the slowest rank waits only for the network.
 * Means over the steps keep the sum exact; medians and maxima of different ranks would not add up.
 * The imbalance has two parts.  The steady part is caused by a rank that is always the slowest: the
 * largest of the ranks' mean busy times minus the mean of these.  The rest is random.
 *
 * In the terms of POP (Wagner, Mohr, Gimenez and Labarta 2018): load balance = busy / max(busy),
 * communication efficiency = max(busy) / step, parallel efficiency = their product.
 *
 * Usage: ct_breakdown_open(); ct_breakdown_step() after each step; ct_breakdown_collect() at the
 * end of each window of steps.  Rank 0 learns about the other ranks from one gather per window,
 * which also serves the search for slow ranks.  docs/metrics.md describes the result as JSON. */
#ifndef CT_TIME_BREAKDOWN_H
#define CT_TIME_BREAKDOWN_H
#include <jansson.h>

#include "train/ct_trainer.h"

struct ct__slow_stats;

/** Bins of the histogram of step times: 8 per octave, so that a bin is 9% wide; bin i begins at
 * CT_BREAKDOWN_FIRST_S * 2^(i/8).  Step times out of range count in the first or last bin. */
enum { CT_BREAKDOWN_BINS = 8 * 30 };
#define CT_BREAKDOWN_FIRST_S 1e-6

/** One rank: where it runs, and the means over its steps. */
typedef struct ct_breakdown_rank {
  const char *host; /**< borrowed from the ct_breakdown_t */
  int node, local_rank;
  ct_step_times_t mean; /**< adds up to step_s */
  ct_step_times_t max;  /**< the largest of any step, for each kind separately */
  double step_s;
  double busy_s;     /**< busy time of a step: mean over the steps */
  double busy_sd_s;  /**< its standard deviation over the steps */
  double busy_max_s; /**< its maximum over the steps */
  double offcpu_s;   /**< seconds per step in which the main thread of the rank was runnable but
                          off-CPU; < 0: unknown */
  int64_t steps;
} ct_breakdown_rank_t;

/** All ranks: seconds per step, means over the steps. */
typedef struct ct_breakdown_sum {
  int64_t steps; /**< number of steps; 0: all other members are undefined */
  int64_t samples;
  int ranks;
  double step_s, step_min_s, step_max_s;
  ct_step_times_t mean; /**< mean over the ranks; adds up to step_s */
  /** Maximum over the ranks, for each kind separately, so the maxima do not add up to step_s;
   * `word`: maximum of the ranks' means. */
  ct_step_times_t max;
  double busy_s;      /**< busy time, mean over the ranks */
  double imbalance_s; /**< max(busy) - mean(busy); imbalance_s = steady_s + random_s */
  double steady_s;    /**< imbalance by a rank that is always the slowest */
  double random_s;    /**< imbalance by ranks that are the slowest in some steps */
  double transfer_s;  /**< step - max(busy); step_s = busy_s + imbalance_s + transfer_s */
  double busy_sd_s; /**< standard deviation of the busy time over the steps, mean over the ranks */
  double offcpu_s;  /**< ct_breakdown_rank_t.offcpu_s, mean over the ranks; < 0: unknown */
  double slowest_offcpu_s; /**< ct_breakdown_rank_t.offcpu_s of the slowest rank; < 0: unknown */
  int slowest;             /**< rank with the largest mean busy time; -1: known to rank 0 only */
  int slowest_kind;        /**< the kind in which this rank exceeds the mean the most */
  char slowest_host[64];   /**< host of this rank; "": unknown */
  int64_t bin[CT_BREAKDOWN_BINS]; /**< histogram of step times */
} ct_breakdown_sum_t;

typedef struct ct_breakdown ct_breakdown_t;

/** Collective.  Opens an empty time breakdown; rank 0 gathers the hosts of all ranks.  \a window:
 * steps between two calls of ct_breakdown_collect(); 0: unknown.  CT_ERR_NOMEM. */
int ct_breakdown_open(const ct_topo_t *topo, int64_t window, ct_breakdown_t **out);
/** Local.  Excludes the time before this call: call before the first step. */
void ct_breakdown_begin(ct_breakdown_t *a);
/** Local, Hot.  Call after a ct_trainer_step() that returned CT_OK, with its step status and
 * report. */
void ct_breakdown_step(ct_breakdown_t *a, const ct_step_status_t *status,
                       const ct_step_report_t *r);
/** Local, Hot.  Includes a step in the search for slow ranks. */
void ct_breakdown_sample(ct_breakdown_t *a, const ct_step_report_t *r);
/** Collective, Hot.  Sums up the steps since the last call; gathers about 250 bytes from each rank.
 * Only rank 0 gets the values of single ranks: on other ranks steady_s is 0 and slowest is -1. */
void ct_breakdown_collect(ct_breakdown_t *a, ct_breakdown_sum_t *out);
/** Local.  Totals of all collected steps. */
void ct_breakdown_total(const ct_breakdown_t *a, ct_breakdown_sum_t *out);
/** Local, rank 0.  Returns the totals of all collected steps of one rank. */
ct_breakdown_rank_t ct_breakdown_of_rank(const ct_breakdown_t *a, int rank);
/** Local, rank 0.  Returns the statistics of a rank in the last window (slow_rank_stats.h);
 * borrowed until the next ct_breakdown_collect(). */
const struct ct__slow_stats *ct_breakdown_stats_of(const ct_breakdown_t *a, int rank);
/** Local.  Frees \a a, which may be NULL. */
void ct_breakdown_close(ct_breakdown_t *a);

/** Pure.  Returns the step time that a fraction \a q (0 to 1) of the steps does not exceed, from
 * the histogram. */
double ct_breakdown_quantile(const ct_breakdown_sum_t *s, double q);

/** Returns the keys of an `account` line (docs/metrics.md) as a new object; NULL: out of memory.
 *
 *     {"steps":100,"samples":25600,"ranks":4,
 *      "step_s":0.0612,"busy_s":0.0500,"imbalance_s":0.0031,"transfer_s":0.0081,
 *      "imbalance_steady_s":0.0020,"imbalance_random_s":0.0011,
 *      "slowest_rank":3,"slowest_host":"node2","slowest_kind":"compute",
 *      "slowest_taken_s":0,"taken_s":0,
 *      "busy_sd_s":0.0007,
 *      "load_balance":0.94,"communication_efficiency":0.87,"parallel_efficiency":0.82,
 *      "kinds_s":{"data":…,"compute":…,"move":…,"update":…,"checkpoint":…,"other":…,
 *                 "wait":…,"batchnorm":…,"word":…},
 *      "kinds_max_s":{… the same keys …},
 *      "step_min_s":…,"step_p50_s":…,"step_p95_s":…,"step_p99_s":…,"step_max_s":…,
 *      "bins":[[0.0567,37],[0.0618,63]]}
 *
 * bins: lower bound in seconds and number of steps of each bin that is not empty. */
json_t *ct_breakdown_json(const ct_breakdown_sum_t *s);

#endif
