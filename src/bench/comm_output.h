/** \file comm_output.h  Results of `bench comm`, and their output.  Layer 5. */
#ifndef CT_BENCH_COMM_H
#define CT_BENCH_COMM_H
#include "base/ct_text.h"
#include "comm/ct_comm_model.h"
#include "comm/ct_topo.h"

/** Result of one in-place collective with one algorithm and message size. */
typedef struct ct_bench_comm_row {
  ct_comm_call_t call;
  const char *over;  /**< transport: "mpi", "window", "exchange", "nccl", … */
  const char *level; /**< "node": ranks of the first node; "nodes": one rank of each node; "all" */
  ct_comm_algorithm_t algorithm; /**< algorithm in the cost model */
  int ranks, nodes;
  int64_t count;  /**< number of floats in the whole buffer */
  double seconds; /**< mean time of a call over calls and ranks, as in nccl-tests */
  int64_t wrong;  /**< number of wrong elements on all ranks */
} ct_bench_comm_row_t;

typedef struct ct_bench_comm {
  ct_bench_comm_row_t *row; /**< owned; the results */
  int64_t rows, cap;
} ct_bench_comm_t;

/** Local.  Append the results: ct_bench_comm_text() as tables with the columns of nccl-tests and
 * the fitted links, ct_bench_comm_json() as JSON. */
int ct_bench_comm_text(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out);
int ct_bench_comm_json(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out);

#endif
