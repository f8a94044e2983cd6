/** \file ct_step_opts.h  The parallel strategy of a step: options resolved for a number of ranks.
 * Layer 4. Free of MPI. */
#ifndef CT_STEP_OPTS_H
#define CT_STEP_OPTS_H
#include "base/ct_types.h"
#include "train/ct_strategies.h"

#define CT_MEMORY_AUTO SIZE_MAX /**< train.memory: auto */
#define CT_SYNC_NODE   (-1)     /**< SyncBN over the ranks of a node */

/** Sections `parallel` and `train` in the form that the trainer uses. */
typedef struct ct_step_opts {
  ct_dtype_t compute; /**< CT_F32, or bf16/fp16 for mixed precision; fp16 enables loss scaling */
  int micro_batches;  /**< micro-batches per local batch, run one after another; 0: 1 */
  int fixed_order;    /**< logical shards: gradients are summed along a fixed binary tree */
  int sync_bn;        /**< ranks per SyncBN group; 0: off; or CT_SYNC_NODE */
  size_t memory;      /**< budget of a rank in bytes; 0: off; or CT_MEMORY_AUTO */
  double clip_norm;   /**< 0: off */
  double clip_p;      /**< p of the norm; infinity: maximum norm */
  double clip_value;  /**< 0: off */
  int zero;
  double slab_mb;                /**< ct_plan_opts_t.slab_mb */
  int late_rows;                 /**< 1: ct_parallel_opts_t.tied_rows */
  int qat;                       /**< 1: forward passes use weights rounded to int8 steps */
  int lag;                       /**< ct_trainer_lag() where the host need not wait */
  int64_t replay_every;          /**< ct_train_opts_t.replay_every */
  double ema;                    /**< decay of the averaged weights; 0: no averaging */
  const ct_strategy_t *strategy; /**< NULL in a trainer: ddp */
} ct_step_opts_t;

/** Local. Resolves the options for \a ranks ranks. CT_ERR_USAGE for combinations that are not
 * supported; the message names the keys and the reason. */
int ct_step_opts_make(const ct_parallel_opts_t *p, const ct_train_opts_t *t, int ranks,
                      ct_step_opts_t *out);
/** Returns the number of gradient accumulators, each as large as the trained parameters, besides
 * the gradient arena: with fixed_order one per level of the summation tree above the lowest. */
static inline int ct_step_opts_accumulators(const ct_step_opts_t *r)
{
  int levels = 0;
  if (!r->fixed_order) return 0;
  for (int micro_batches = r->micro_batches; micro_batches > 2; micro_batches /= 2)
    levels++;
  return levels;
}

#endif
