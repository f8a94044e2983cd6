/** \file product/choose.h  Which way does each pass of a product, and in which layouts.
 * Module-internal.
 *
 * All ways are asked for their costs; the choice is a function of these alone.  Layouts follow from
 * what is in proportion to the batch size: ranks may have batches of different sizes, but must
 * agree on the layout of the weights.  What a run costs once decides only among ways that take the
 * same layouts. */
#ifndef CT_CPU_CHOOSE_H
#define CT_CPU_CHOOSE_H
#include "cpu/gemm/algorithm.h"

enum { CPU__PASSES = 3, CPU__WAYS_MAX = 8, CPU__PAIRS_MAX = 8 };

/** The ways of a kind of op, and the layouts that they are asked for, both in order of
 * preference. */
typedef struct cpu__ways {
  const cpu__way_t *way[CPU__WAYS_MAX]; /**< NULL: no more */
  cpu__layouts_t pair[CPU__PAIRS_MAX];
  int pairs;
} cpu__ways_t;

typedef struct cpu__costs {
  const cpu__ways_t *ways;
  int passes;  /**< wanted ones and CT_FWD, which decides on the layout of the weights */
  double x, y; /**< of bringing x or y into another layout */
  cpu__cost_t of[CPU__PASSES][CPU__WAYS_MAX][CPU__PAIRS_MAX]; /**< INFINITY: cannot be */
} cpu__costs_t;

/** What was chosen for a pass. */
typedef struct cpu__choice {
  const cpu__way_t *way;             /**< NULL: there is none */
  const cpu__way_t *in_the_long_run; /**< the best but for costs of once: decides how weights lie */
  cpu__layouts_t at;
  double cost; /**< of that, and of reorders */
} cpu__choice_t;

/** Local.  Asks all ways; \a d has a batch of at least 1. */
int cpu__ask(const cpu__ways_t *ways, ct_dev_t *dev, const ct_op_desc_t *d, cpu__costs_t *out);
/** For pass 1 << i, where the graph has x and y in these layouts; \a without has a bit for each way
 * that is out of the question. */
cpu__choice_t cpu__choose(const cpu__costs_t *c, int i, cpu__layouts_t outer, unsigned without);
/** x, and the layout of y that is best with it; *least: what all passes cost then. */
cpu__layouts_t cpu__best_layouts(const cpu__costs_t *c, ct_layout_t x, double *least);
/** The layout in which x is best, if it comes in the layout \a offered. */
ct_layout_t cpu__best_x(const cpu__costs_t *c, ct_layout_t offered);
/** What all passes cost if the graph has x and y as is best. */
double cpu__least_cost(const cpu__costs_t *c);

#endif
