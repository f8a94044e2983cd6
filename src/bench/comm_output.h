/** \file comm_output.h  What `bench comm` measures, and how it is shown.  Layer 5. */
#ifndef CT_BENCH_COMM_H
#define CT_BENCH_COMM_H
#include "base/ct_text.h"
#include "comm/ct_comm_model.h"
#include "comm/ct_topo.h"

/** One call, measured one way. */
typedef struct ct_bench_call {
  int there;      /**< 0: there is no such way */
  double seconds; /**< of a call: the mean of calls and ranks, as nccl-tests has it */
  int64_t wrong;  /**< elements of all ranks that are not what they should be */
} ct_bench_call_t;

typedef struct ct_bench_comm_row {
  ct_comm_call_t call;
  const char *over;  /**< "mpi", "window", "exchange", "nccl", … */
  const char *level; /**< "node": the ranks of the first node; "nodes": one of each; "all" */
  ct_comm_algorithm_t algorithm; /**< by which the model counts it */
  int ranks, nodes;
  int64_t count; /**< of floats */
  ct_bench_call_t apart, in_place;
} ct_bench_comm_row_t;

typedef struct ct_bench_comm {
  ct_bench_comm_row_t *row; /**< owned */
  int64_t rows, room;
} ct_bench_comm_t;

/** Local.  Appended: tables with nccl-tests' columns and the links that follow from them, or all of
 * it as JSON. */
int ct_bench_comm_text(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out);
int ct_bench_comm_json(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out);

#endif
