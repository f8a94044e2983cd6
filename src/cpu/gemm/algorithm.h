/** \file product/way.h  One way to compute a pass of a product between x, w and y: of a convolution
 * or a linear layer.  Module-internal.
 *
 * A kind of op has a table of its ways (conv/conv.c, linear.c).  All of them are asked what they
 * can do and what it costs (product/choose.h); where a way takes a tensor in another format than
 * the graph or the arena holds it in, product/product.c puts a conversion around it.  To add a way:
 * a file, and its row in the table; tests/conform/ways.c then tries it.
 *
 * Parameters lie in the arena in one format for all passes, batch sizes and ranks, that of the way
 * that is chosen for the forward pass: so this choice is a function of what does not change with
 * the batch.  It is a format of float32 in which every element of the plain layout lies once, as
 * the optimizer works on it; a transform of the weights belongs into the way's scratch memory, run
 * by run. */
#ifndef CT_CPU_WAY_H
#define CT_CPU_WAY_H
#include "cpu/kern/op.h"
#include "cpu/onednn/glue.h"
#include <stdio.h>

/** How x and y, or their gradients, lie. */
typedef struct cpu__layouts {
  ct_layout_t x, y;
} cpu__layouts_t;

/** What a way is asked to do. */
typedef struct cpu__job {
  ct_dev_t *dev;
  const ct_op_desc_t *desc; /**< of a batch of at least 1; its own layouts do not matter */
  int pass;                 /**< CT_FWD, CT_BWD_DATA or CT_BWD_PARAM */
  cpu__layouts_t at;
} cpu__job_t;

/** Estimated, in multiply-adds of float32 at the full speed of the processor's vectors. */
typedef struct cpu__cost {
  double each; /**< in proportion to the batch size */
  double once; /**< of a run, whatever the batch: a transform of the weights */
} cpu__cost_t;

/** A pass that is ready to run. */
typedef struct cpu__ready {
  void *own;      /**< the way's */
  cpu__md_t *w;   /**< the format in which the pass takes or gives w; owned, freed by the caller */
  size_t scratch; /**< bytes wanted during a run */
} cpu__ready_t;

typedef struct cpu__way {
  const char *name; /**< static: ct_op_info_t.algorithm where the forward pass is done so */
  int as_it_lies;   /**< 1: nothing is converted around it, not even w */
  int second;       /**< 1: asked only where no other way is at full speed without padding */
  int relu; /**< 1: the forward pass applies the ReLU of the op, if it has one; a NaN stays */
  int add;  /**< 1: if the op adds x2, the forward pass adds to what is in y, before the ReLU */
  /** 1 and its cost; 0 and why not; or a code.  A function of the job alone: nothing is timed. */
  int (*can)(const cpu__job_t *job, cpu__cost_t *cost, char why[128]);
  /** Local.  The format of the weights in the arena, float32, if a forward pass is done so. */
  int (*stored)(const cpu__job_t *job, cpu__md_t **out);
  /** Local.  What desc points to may be gone when it is run. */
  int (*prepare)(const cpu__job_t *job, cpu__ready_t *out);
  /** Hot.  at[role] as the job and ready->w say: what is read, and of this pass the result. */
  int (*run)(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES]);
  /** Frees ready->own, which may be NULL. */
  void (*clear)(cpu__ready_t *ready);
} cpu__way_t;

/** What can() returns where a way cannot do a job. */
static inline int cpu__refuse(char why[128], const char *reason)
{
  snprintf(why, 128, "%s", reason);
  return 0;
}

#endif
