/** \file gemm/choose.h  Chooses the algorithm and layouts of each pass of a convolution or
 * linear layer.  Module-internal.
 *
 * All algorithms are asked for their costs, and the choice depends on nothing else.  The layouts
 * depend only on the costs that are proportional to the batch size: ranks may have batches of
 * different sizes, but must agree on the layout of the weights.  Constant costs of a run only
 * decide among algorithms with the same layouts. */
#ifndef CT_CPU_CHOOSE_H
#define CT_CPU_CHOOSE_H
#include "cpu/gemm/algorithm.h"

enum { CPU__PASSES = 3, CPU__ALGOS_MAX = 8, CPU__LAYOUTS_MAX = 8 };

/** The algorithms of a kind of op, and the layouts to ask them for, both in order of preference. */
typedef struct cpu__algos {
  const cpu__algo_t *algo[CPU__ALGOS_MAX]; /**< ends with NULL */
  cpu__layouts_t layouts[CPU__LAYOUTS_MAX];
  int nlayouts;
} cpu__algos_t;

typedef struct cpu__costs {
  const cpu__algos_t *algos;
  int passes;  /**< requested passes and CT_FWD, which decides the layout of the weights */
  double x, y; /**< cost of reordering x or y */
  cpu__cost_t of[CPU__PASSES][CPU__ALGOS_MAX][CPU__LAYOUTS_MAX]; /**< INFINITY: not supported */
} cpu__costs_t;

/** The choice for a pass. */
typedef struct cpu__choice {
  const cpu__algo_t *algo;            /**< NULL: no algorithm supports the pass */
  const cpu__algo_t *in_the_long_run; /**< the algorithm with the lowest cost per sample, constant
                                           costs ignored: it decides the format of the weights */
  cpu__layouts_t at;
  double cost; /**< including reorders */
} cpu__choice_t;

/** Local.  Asks all algorithms for their costs; \a d has a batch of at least 1. */
int cpu__ask(const cpu__algos_t *algos, ct_dev_t *dev, const ct_op_desc_t *d, cpu__costs_t *out);
/** Returns the choice for pass 1 << i if the graph has x and y in the layouts \a outer; \a without:
 * bit mask of excluded algorithms. */
cpu__choice_t cpu__choose(const cpu__costs_t *c, int i, cpu__layouts_t outer, unsigned without);
/** Returns the layout \a x and the best layout of y for it; *least: the cost of all passes with
 * these layouts. */
cpu__layouts_t cpu__best_layouts(const cpu__costs_t *c, ct_layout_t x, double *least);
/** As cpu__best_layouts(), for a given layout of y. */
cpu__layouts_t cpu__best_for_y(const cpu__costs_t *c, ct_layout_t y, double *least);
/** Returns the best layout of x if x exists in the layout \a offered, so that another layout costs
 * a reorder. */
ct_layout_t cpu__best_x(const cpu__costs_t *c, ct_layout_t offered);
/** As cpu__best_x() for y, which exists in the layout \a offered. */
ct_layout_t cpu__best_y(const cpu__costs_t *c, ct_layout_t offered);
/** Returns the cost of all passes with the best layouts of x and y. */
double cpu__least_cost(const cpu__costs_t *c);

#endif
