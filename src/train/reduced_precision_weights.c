/* Reduced-precision copy of the weights for mixed precision. UPDATE writes it together with the
 * weights. Code that writes weights otherwise (initial values, checkpoints, broadcasts) must call
 * ct__reduced_outdate(). */
#include "train/trainer.h"
#include "base/ct_err.h"

int ct__reduced_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_shape_t from = ct_shape(2, 1, (int64_t)(t->map.weight_bytes / sizeof(float))), to = from;
  to.dtype = t->env.step_opts.compute;
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_REDUCED_WEIGHTS, &t->reduced));
  if (!t->reduced) return CT_OK;
  ct_op_desc_init(&d, CT_OP_REORDER, &from, &to);
  CT_TRY(t->env.be->op->prepare(t->env.dev, &d, NULL, &t->reduced_state.cast, &info));
  t->reduced_state.stale = 1;
out:
  return rc;
}

void ct__reduced_free(ct_trainer_t *t)
{
  t->env.be->op->release(t->reduced_state.cast);
}

void ct__reduced_outdate(ct_trainer_t *t)
{
  t->reduced_state.stale = 1;
  ct__host_states_outdate(t);
}

int ct__reduced_refresh(ct_trainer_t *t)
{
  ct_op_args_t a = {.pass = CT_FWD, .x = t->weight, .y = t->reduced};
  if (!t->reduced || !t->reduced_state.stale) return CT_OK;
  t->reduced_state.stale = 0;
  return t->env.be->op->run(t->q, t->reduced_state.cast, &a);
}
