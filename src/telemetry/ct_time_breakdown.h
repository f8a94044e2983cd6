/** \file ct_time_breakdown.h  An account of steps that adds up: where all ranks' time went.
 * Layer 4.
 *
 * A step is equally long on all ranks (ct_step_times.h).  Of each, with mean and maximum over the
 * ranks,
 *
 *     step = mean(busy) + [max(busy) - mean(busy)] + [step - max(busy)]
 *          = busy       + imbalance                + transfer
 *
 * is exact, without synchronised clocks: who comes last waits for the wire alone.  Means over steps
 * keep it exact; medians, and maxima of different ranks, would not add up.  The imbalance is steady
 * as far as the same rank is always the slowest (the largest of the ranks' mean busy times, less
 * the mean of all), and random for the rest.
 *
 * In the words of POP (Wagner, Mohr, Gimenez and Labarta 2018): load balance = busy / max(busy),
 * communication efficiency = max(busy) / step, parallel efficiency = their product.
 *
 * Used by everything that makes steps: ct_account_open(), ct_account_step() behind each,
 * ct_account_collect() behind some; docs/metrics.md has the same as JSON. */
#ifndef CT_ACCOUNT_H
#define CT_ACCOUNT_H
#include <jansson.h>

#include "train/ct_trainer.h"

/** Bins of a histogram of the lengths of steps: 8 to an octave, so a bin is 9 % wide; bin i begins
 * at CT_ACCOUNT_FIRST_S * 2^(i/8).  What lies outside counts in the first or last one. */
enum { CT_ACCOUNT_BINS = 8 * 30 };
#define CT_ACCOUNT_FIRST_S 1e-6

/** What one rank spent, a step, in the mean. */
typedef struct ct_account_rank {
  ct_step_times_t mean; /**< adds up to step_s */
  ct_step_times_t max;  /**< the largest of any step, each kind for itself */
  double step_s;
  double busy_s, busy_sd_s, busy_max_s; /**< mean, standard deviation, largest of a step */
  double taken_s; /**< its thread stood ready, in waits too, and others had its core; < 0: not
                     known */
  int64_t steps;
} ct_account_rank_t;

/** What all ranks spent: seconds a step, in the mean over the steps. */
typedef struct ct_account_sum {
  int64_t steps, samples; /**< 0 steps: nothing is known */
  int ranks;
  double step_s, step_min_s, step_max_s;
  ct_step_times_t mean; /**< mean over the ranks; adds up to step_s */
  /** the largest of a rank, each kind for itself, so these do not add up; `word`: of the ranks'
   * means */
  ct_step_times_t max;
  double busy_s;             /**< mean over the ranks; the kinds of `mean` that are a rank's own */
  double imbalance_s;        /**< max(busy) - mean(busy); … */
  double steady_s, random_s; /**< … its two parts */
  double transfer_s;         /**< step - max(busy); busy_s + imbalance_s + transfer_s = step_s */
  double busy_sd_s;          /**< mean over the ranks of the standard deviation over the steps */
  double taken_s, slowest_taken_s; /**< ct_account_rank_t's: mean; of `slowest`; < 0: not known */
  int slowest;                     /**< the rank whose mean busy time is the largest … */
  int slowest_kind;                /**< … and the kind in which it is furthest above the mean */
  int64_t bin[CT_ACCOUNT_BINS];    /**< how many steps were how long */
} ct_account_sum_t;

typedef struct ct_account ct_account_t;

/** Local.  Nothing is known yet.  CT_ERR_NOMEM. */
int ct_account_open(const ct_topo_t *topo, ct_account_t **out);
/** Local.  What was until now does not count: steps begin. */
void ct_account_begin(ct_account_t *a);
/** Local, Hot.  Behind a ct_trainer_step() that returned CT_OK: what it left in word and report. */
void ct_account_step(ct_account_t *a, const ct_step_word_t *word, const ct_step_report_t *r);
/** Collective, Hot.  What the steps since the last call come to; a gather of some 200 bytes a rank.
 * Only rank 0 knows what each rank spent: elsewhere there is no steady imbalance and no slowest
 * rank (-1). */
void ct_account_collect(ct_account_t *a, ct_account_sum_t *out);
/** Local.  What all steps come to that were collected so far. */
void ct_account_total(const ct_account_t *a, ct_account_sum_t *out);
/** Local, rank 0.  The same of one rank. */
ct_account_rank_t ct_account_of_rank(const ct_account_t *a, int rank);
/** Local; NULL is fine. */
void ct_account_close(ct_account_t *a);

/** Pure.  The length of a step that a share \a q (0 to 1) of the steps do not exceed, from the
 * bins. */
double ct_account_quantile(const ct_account_sum_t *s, double q);

/** The keys of an `account` line (docs/metrics.md), as an object; NULL: no memory.  \a host: of the
 * slowest rank; NULL: unknown.
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
 * bins: where each bin begins in seconds, and its steps; empty ones are left out. */
json_t *ct_account_json(const ct_account_sum_t *s, const char *host);

#endif
