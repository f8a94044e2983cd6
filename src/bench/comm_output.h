/** \file comm_output.h  The results of `bench comm`, and their output.  Layer 5. */
#ifndef CT_BENCH_COMM_H
#define CT_BENCH_COMM_H
#include "base/ct_text.h"
#include "comm/ct_comm_model.h"
#include "comm/ct_topo.h"

/** One call of one algorithm and size, in place. */
typedef struct ct_bench_comm_row {
  ct_comm_call_t call;
  const char *over;  /**< "mpi", "window", "exchange", "nccl", … */
  const char *level; /**< "node": the ranks of the first node; "nodes": one of each; "all" */
  ct_comm_algorithm_t algorithm; /**< in the cost model */
  int ranks, nodes;
  int64_t count;  /**< floats of the whole buffer */
  double seconds; /**< of a call: the mean of calls and ranks, as in nccl-tests */
  int64_t wrong;  /**< wrong elements on all ranks */
} ct_bench_comm_row_t;

typedef struct ct_bench_comm {
  ct_bench_comm_row_t *row; /**< owned */
  int64_t rows, cap;
} ct_bench_comm_t;

/** Local.  Appends tables with the columns of nccl-tests and the links fitted to them, or the same
 * as JSON. */
int ct_bench_comm_text(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out);
int ct_bench_comm_json(const ct_topo_t *t, const ct_bench_comm_t *b, ct_str_t *out);

#endif
