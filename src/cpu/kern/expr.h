/** \file kern/expr.h  Elementwise programs: one prepared op, and its inputs block by block.
 * Module-internal. */
#ifndef CT_KERN_EXPR_H
#define CT_KERN_EXPR_H
#include "backend/ct_expr_view.h"
#include "cpu/kern/loops.h"

/** Elements of a block.  The values and gradients of usual programs then fit the L1 cache. */
enum { CPU__EXPR_BLOCK = 512 };

/** How the backward pass divides y: a part is the range [chunk * part, …) along one dim, of all
 * `outer` slices of [size][inner] elements.  It depends on the shapes alone, and so do the sums. */
typedef struct cpu__expr_parts {
  int64_t outer, size, inner;
  int64_t chunk, parts;
} cpu__expr_parts_t;

typedef struct cpu__expr {
  ct_op_t head;
  ct_expr_view_t view;
  cpu__expr_parts_t parts;
  int64_t
      sets[CT_EXPR_INPUTS];    /**< sums per element of a broadcast input: one for each part, or one
                                     if each part has its own elements; 0: not broadcast */
  size_t sums[CT_EXPR_INPUTS]; /**< offset of its sums in the workspace */
  size_t sums_bytes;           /**< of all inputs; the threads' blocks follow */
  size_t blocks_bytes;         /**< blocks of one thread */
} cpu__expr_t;

/** Decides how the backward pass is divided, and the workspace of its sums. */
void cpu__expr_divide(cpu__expr_t *e);

/** A place in the elements of an input, in y's order. */
typedef struct cpu__walk {
  const ct_expr_view_t *view;
  int input;
  int64_t i[CT_MAX_DIMS + 1]; /**< index along each dim */
  int64_t at;                 /**< offset in the input */
} cpu__walk_t;

cpu__walk_t cpu__walk_to(const ct_expr_view_t *v, int input, int64_t first);
/** Returns the number of elements until the innermost dim ends, at most \a most. */
static inline int64_t cpu__walk_run(const cpu__walk_t *w, int64_t most)
{
  int last = w->view->dims - 1;
  int64_t rest = w->view->dim[last] - w->i[last];
  return rest < most ? rest : most;
}
/** Moves on by a run. */
void cpu__walk_on(cpu__walk_t *w, int64_t run);

/** Hot.  Adds the gradients of `count` elements of y from `first` on to the sums of an input. */
void cpu__expr_reduce(const cpu__expr_t *e, int input, int64_t first, int64_t count,
                      const float *gradient, double *sums);
/** Hot.  Adds up the sets of sums, in order, and stores them as the gradient of an input. */
void cpu__expr_store_sums(const cpu__expr_t *e, int input, ct_dtype_t t, const double *sums,
                          void *dx);

#endif
