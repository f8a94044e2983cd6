/* Reduced-precision copy of the weights for mixed precision. UPDATE writes it together with the
 * weights. Code that writes weights otherwise (initial values, checkpoints, broadcasts, gathers)
 * must call ct__reduced_outdate(), and for weights in slices ct__reduced_share(). */
#include "train/trainer.h"
#include "base/ct_err.h"

/* The op rounds any number of weights: the rule that copies a weight to an average, here to itself,
 * as a part of UPDATE. */
int ct__reduced_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  ct_op_desc_t d;
  ct_op_info_t info;
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_REDUCED_WEIGHTS, &t->reduced));
  if (!t->reduced) return CT_OK;
  int64_t count = (int64_t)(t->map.weight_bytes / sizeof(float));
  ct_op_desc_flat(&d, CT_OP_UPDATE, count, CT_RULE_AVERAGE, 0);
  d.y.dtype = t->env.step_opts.compute;
  CT_TRY(t->env.be->op->prepare(t->env.dev, &d, NULL, &t->reduced_state.round, &info));
  t->reduced_state.stale = 1;
out:
  return rc;
}

void ct__reduced_free(ct_trainer_t *t)
{
  t->env.be->op->release(t->reduced_state.round);
}

void ct__reduced_outdate(ct_trainer_t *t)
{
  t->reduced_state.stale = 1;
  ct__host_states_outdate(t);
}

/* Enqueues the rounding of float32 weights. */
static int round_weights(ct_trainer_t *t, char *weights, char *low, size_t bytes)
{
  ct_op_args_t a = {.pass = CT_FWD,
                    .w = {weights},
                    .dy = weights,
                    .y = low,
                    .count = (int64_t)(bytes / sizeof(float)),
                    .scale = 1,
                    .hyper = {.lr = 1}};
  return bytes ? t->env.be->op->run(t->q, t->reduced_state.round, &a) : CT_OK;
}

int ct__reduced_refresh(ct_trainer_t *t)
{
  size_t low = t->map.low_bytes;
  if (t->reduced_state.failed != CT_OK) return t->reduced_state.failed;
  if (!t->reduced || !t->reduced_state.stale) return CT_OK;
  ct__slices_settle_float(t);
  t->reduced_state.stale = 0;
  return round_weights(t, ct__slices_whole(t, t->weight, low), t->reduced + low / 2,
                       t->map.weight_bytes - low);
}

int ct__reduced_round(ct_trainer_t *t)
{
  int rc = CT_OK;
  size_t from, bytes;
  char *own;
  for (int k = 0; (own = ct__slices_low(t, k, &from, &bytes)); k++)
    CT_TRY(round_weights(t, own, t->reduced + from / 2, bytes));
out:
  return rc;
}

int ct__reduced_share(ct_trainer_t *t)
{
  ct__host_states_outdate(t);
  if (!t->map.low_bytes) return CT_OK;
  ct__step_clear(t);
  ct__step_note(t, ct__reduced_round(t));
  for (int k = t->buckets - 1; k >= 0; k--)
    if (t->first.bucket[k].offset < t->map.low_bytes) ct__slices_gather(t, k);
  ct__slices_settle(t);
  ct__step_note(t, t->env.be->queue->sync(t->q));
  int rc = ct_agree(t->env.topo, ct__step_outcome(t));
  ct__step_clear(t);
  return rc;
}

void ct__reduced_swap(ct_trainer_t *t)
{
  ct__reduced_outdate(t);
  t->reduced_state.failed = ct__reduced_share(t);
}
