/** \file ct_recipe.h  How a step is made: what the options come to for so many ranks.  Layer 4.
 * Free of MPI. */
#ifndef CT_RECIPE_H
#define CT_RECIPE_H
#include "base/ct_types.h"
#include "train/ct_strategies.h"

#define CT_SYNC_NODE (-1) /**< the ranks of a node */

/** How a step is made: sections `parallel` and `train`, as the trainer wants them. */
typedef struct ct_recipe {
  ct_dtype_t compute; /**< CT_F32, or the low type of mixed precision; fp16 scales the loss */
  int pieces; /**< pieces that a rank's share of a batch is cut into, one after another; 0: 1 */
  int fixed_order;   /**< logical shards: their gradients are summed along a fixed binary tree */
  int sync_bn;       /**< ranks of a group; 0: off; or CT_SYNC_NODE */
  double clip_norm;  /**< 0: off */
  double clip_p;     /**< infinity: the largest */
  double clip_value; /**< 0: off */
  int zero;
  int qat;             /**< 1: forward passes see weights rounded as in eight bits */
  double ema;          /**< of the averaged weights; 0: there are none */
  const ct_way_t *way; /**< NULL, for a trainer: ddp */
} ct_recipe_t;

/** Local.  From the options, for so many ranks.  What cannot be combined is refused: CT_ERR_USAGE
 * names the keys and the reason. */
int ct_recipe_make(const ct_parallel_opts_t *p, const ct_train_opts_t *t, int ranks,
                   ct_recipe_t *out);
/** Sums of earlier pieces' gradients that are kept, each as large as the trained parameters: one,
 * or with fixed_order one for each level of the tree. */
static inline int ct_recipe_levels(const ct_recipe_t *r)
{
  int levels = 0;
  if (!r->fixed_order) return r->pieces > 1;
  for (int pieces = r->pieces; pieces > 1; pieces /= 2)
    levels++;
  return levels;
}

#endif
