/** \file conv/few_channels.h  Convolution by hand where channels are few: stride 1, kernel 3x3 or 5x5.
 * Module-internal. */
#ifndef CT_CPU_FEW_CHANNELS_H
#define CT_CPU_FEW_CHANNELS_H
#include "cpu/kern/op.h"
#include "cpu/onednn/glue.h"
#include "cpu/conv/few_channels_loops.h"

typedef struct cpu__few_channels {
  int passes; /**< that are run by hand; 0: none */
  const ct_op_desc_t *desc;
  int threads;
  int x_lanes, y_lanes;                      /**< channels side by side: 1, 8 or 16 */
  const cpu__few_loops_t *x_loops, *y_loops; /**< x_loops: NULL if x is plain */
  int64_t x_groups, y_groups;                /**< of lanes */
  int64_t rows, cols;                        /**< of x with its padding */
  int64_t weights, image, shared;            /**< floats: own weights; copy of x; for all threads */
} cpu__few_channels_t;

/** The layout that y would have: blocks as wide as its channels want, and as the weights have. */
ct_layout_t cpu__few_channels_y_layout(const ct_dev_t *dev, const ct_op_desc_t *d);
/** Estimated multiply-adds of a pass if x had this layout; INFINITY: not for this kernel. */
double cpu__few_channels_cost(const ct_dev_t *dev, const ct_op_desc_t *d, int pass, ct_layout_t x);
/** Local.  Weights in the own layout: [oc / lanes][ic][kernel][kernel][lanes]. */
int cpu__few_channels_weights(const ct_dev_t *dev, const ct_op_desc_t *d, cpu__md_t **out);
/** Makes ready for these passes; \a desc has its layouts and outlives this.  Returns the bytes of
 * scratch. */
size_t cpu__few_channels_init(cpu__few_channels_t *t, const ct_dev_t *dev, const ct_op_desc_t *desc,
                              int passes);
/** Hot.  Runs those of t->passes that a->pass asks for. */
void cpu__few_channels_run(const cpu__few_channels_t *t, const ct_op_args_t *a);

#endif
