/** \file step_output.h  Results of `bench step`, and their output.  Layer 5. */
#ifndef CT_BENCH_H
#define CT_BENCH_H
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "setup/ct_setup.h"
#include "base/ct_text.h"
#include "telemetry/ct_time_breakdown.h"

/** Where the batch of all steps is. */
typedef enum { CT_BENCH_IN_PLACE, CT_BENCH_ON_DEVICE, CT_BENCH_COPIED } ct_bench_batch_t;

/** One measurement.  Unless marked otherwise, seconds are means over the same steps, so that they
 * add up.  All ranks end each step together. */
typedef struct ct_bench {
  const char *mode; /**< "ddp", …; NULL: the mode of the configuration */
  int ranks, threads, steps;
  int64_t batch;       /**< global batch size */
  int where;           /**< ct_bench_batch_t: what of the batch is in the times */
  double median;       /**< median time of a step */
  double compute;      /**< compute and optimizer update, mean over ranks */
  double comm_exposed; /**< communication overhead and waiting, mean over ranks */
  double other;        /**< other time: compute + comm_exposed + other = breakdown.step_s */
  ct_breakdown_sum_t breakdown; /**< time breakdown of a step */
  double rate;                  /**< samples/s */
  double sent;                  /**< bytes sent per step by the rank that sends the most bytes */
  double sent_mean;             /**< bytes sent per step, mean over ranks */
  size_t activations, arenas;   /**< bytes on rank 0, from ct_trainer_memory() */
  size_t peak; /**< peak resident set size of rank 0 in bytes; 0: unknown, because an earlier mode
                    had a higher peak */
  char pages[200]; /**< shares of the memory of rank 0 by NUMA node; "": one node, or not known */
} ct_bench_t;

/** Appends one measurement as a JSON object with the additional keys of \a more (may be NULL), or
 * several measurements as an array. */
int ct_bench_json(const ct_bench_t *b, int n, json_t *more, ct_str_t *out);
/** Appends one measurement as lines, or several measurements as a table with the speed relative to
 * "ddp", or to the first mode if ddp is not measured. */
int ct_bench_text(const ct_bench_t *b, int n, ct_str_t *out);

/** Local.  Times every op of a step, and a copy and a GEMM for the lower bound of each op.  If \a
 * json is not NULL, adds keys to it; otherwise appends to \a out a line for each op, sums by kind,
 * and what \a step (may be NULL) would take at these bounds. */
int ct_bench_ops(ct_setup_t *s, const ct_batch_t *b, const ct_bench_t *step, json_t *json,
                 ct_str_t *out);

/** Pure.  Returns the bytes that an update moves of \a weights bytes of trained weights. */
double ct_bench_update_bytes(const ct_setup_t *s, double weights);

/** Local, rank 0.  `bench step --roofline`: prints the lower bound of each op of a step on a GPU
 * model.  Needs no GPU, but a build with CUDA. */
int ct_bench_roofline(const ct_args_t *a, const ct_topo_t *topo);

#endif
