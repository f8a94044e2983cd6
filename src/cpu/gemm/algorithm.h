/** \file gemm/algorithm.h  An algorithm for one pass of a convolution or linear layer.
 * Module-internal.
 *
 * Each kind of op has a table of its algorithms (conv/conv.c, linear.c).  Each is asked for its
 * support and cost (gemm/choose.h).  If an algorithm takes a tensor in another format than the
 * graph or the arena has, gemm/passes.c inserts a reorder.  To add an algorithm: a file, and a
 * row in the table; tests/conform/ways.c then tests the algorithm.
 *
 * Parameters have one format in the arena for all passes, batch sizes and ranks: that of the
 * algorithm chosen for the forward pass.  So this choice must not depend on the batch size.  The
 * format is float32 and holds every element of the plain layout once, because the optimizer works
 * on the arena.  Algorithms keep transformed weights in their workspace and compute them in each
 * run. */
#ifndef CT_CPU_ALGORITHM_H
#define CT_CPU_ALGORITHM_H
#include "cpu/kern/op.h"
#include "cpu/onednn/glue.h"
#include <stdio.h>

/** Layouts of x and y, or of their gradients. */
typedef struct cpu__layouts {
  ct_layout_t x, y;
} cpu__layouts_t;

/** A pass that an algorithm is asked to run. */
typedef struct cpu__job {
  ct_dev_t *dev;
  const ct_op_desc_t *desc; /**< batch at least 1; its layouts are ignored */
  int pass;                 /**< CT_FWD, CT_BWD_DATA or CT_BWD_PARAM */
  cpu__layouts_t at;
} cpu__job_t;

/** Estimated cost in float32 multiply-adds at the peak rate of the processor's vectors. */
typedef struct cpu__cost {
  double each; /**< part proportional to the batch size */
  double once; /**< constant part of a run, such as a transform of the weights */
} cpu__cost_t;

/** A prepared pass. */
typedef struct cpu__ready {
  void *own;      /**< state of the algorithm */
  cpu__md_t *w;   /**< format of w in this pass; owned, freed by the caller */
  size_t scratch; /**< workspace in bytes */
} cpu__ready_t;

typedef struct cpu__algo {
  const char *name; /**< static: ct_op_info_t.algorithm if the forward pass uses it */
  int as_it_lies;   /**< 1: needs no reorder, not even of w */
  int second;       /**< 1: only considered if no other algorithm has full speed without padding */
  int relu;         /**< 1: the forward pass applies the op's ReLU, if any; NaN stays NaN */
  int add; /**< 1: if the op adds x2, the forward pass accumulates into y, before the ReLU */
  /** Returns 1 and the cost if the algorithm supports the job; 0 and the reason if not; or an error
   * code.  The result is a pure function of the job: nothing is timed. */
  int (*can)(const cpu__job_t *job, cpu__cost_t *cost, char why[128]);
  /** Local.  Returns the float32 format of the weights in the arena for the case that this
   * algorithm runs the forward pass. */
  int (*stored)(const cpu__job_t *job, cpu__md_t **out);
  /** Local.  Prepares the pass.  Must copy the descriptor if the run needs it: job->desc may be
   * freed before the run. */
  int (*prepare)(const cpu__job_t *job, cpu__ready_t *out);
  /** Hot.  Runs the pass.  at[role]: the inputs and outputs of the pass, in the formats of the job
   * and of ready->w. */
  int (*run)(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES]);
  /** Hot.  Runs backward to parameters, and adds to them.  NULL: it cannot. */
  int (*run_adding)(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES]);
  /** Frees ready->own, which may be NULL. */
  void (*clear)(cpu__ready_t *ready);
} cpu__algo_t;

/** Sets the reason and returns 0: the result of can() for an unsupported job. */
static inline int cpu__refuse(char why[128], const char *reason)
{
  snprintf(why, 128, "%s", reason);
  return 0;
}

#endif
