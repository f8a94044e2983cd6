/** \file step_output.h  What `bench step` measures, and how it is shown.  Layer 5. */
#ifndef CT_BENCH_H
#define CT_BENCH_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "setup/ct_setup.h"
#include "base/ct_text.h"
#include "telemetry/ct_time_breakdown.h"

/** One measurement.  Seconds are means of the same steps, so that they add up, but for those that
 * say otherwise; all ranks end each step together. */
typedef struct ct_bench {
  const char *mode; /**< "ddp", …; NULL: as the configuration says */
  int ranks, threads, steps;
  int64_t batch;                /**< global */
  double median;                /**< step */
  double compute;               /**< and update, mean of the ranks */
  double comm_exposed;          /**< own work for messages, and waiting, mean of the ranks */
  double other;                 /**< the rest: compute + comm_exposed + other = account.step_s */
  ct_breakdown_sum_t breakdown; /**< all of it */
  double rate;                  /**< samples/s */
  double sent;                  /**< bytes a step, of the rank that sends most */
  double sent_mean;             /**< mean over the ranks */
  size_t activations, arenas;   /**< bytes of rank 0's, as ct_trainer_memory() */
  size_t peak; /**< resident set of rank 0; 0: cannot be told apart from that of earlier modes */
} ct_bench_t;

/** One measurement as a JSON object, with the keys of \a more (NULL: none), several as an array.
 * Appended. */
int ct_bench_json(const ct_bench_t *b, int n, json_t *more, ct_str_t *out);
/** One as lines, several as a table in which the speed is that relative to "ddp" (to the first
 * where ddp is not among them).  Appended. */
int ct_bench_text(const ct_bench_t *b, int n, ct_str_t *out);

/** Local.  Times every op of a step on its own, and two ops that only move or only multiply for the
 * floor below each.  With an object \a json: adds its keys to that.  With NULL: appends to \a out a
 * line for each op, and sums by kind. */
int ct_bench_ops(ct_setup_t *s, const ct_batch_t *b, json_t *json, ct_str_t *out);

#endif
