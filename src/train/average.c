/* train.ema: exponential moving average of the weights.
 *
 * Equivalent to torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn(decay) and
 * use_buffers=True, updated after each optimizer step: the first update is a copy, and running
 * statistics are averaged like weights. It is implemented as the update rule AVERAGE over the
 * arenas, so every backend's optimizer kernels are used. Weights are identical on all ranks, so
 * their averages are too, and those of weights in slices are slices: no communication is needed. */
#include "train/trainer.h"
#include "base/ct_err.h"

int ct__average_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  ct__average_t *a = &t->average;
  ct_op_desc_t d;
  ct_op_info_t info;
  char *both = NULL;
  size_t weights = t->need.bytes[CT_MEMORY_WEIGHTS], buffers = t->map.buffer_bytes;
  if (t->env.step_opts.ema <= 0) return CT_OK;
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_AVERAGES, &both));
  a->weight = both;
  a->buffer = both + weights;
  int64_t count = (int64_t)((weights > buffers ? weights : buffers) / sizeof(float));
  ct_op_desc_flat(&d, CT_OP_UPDATE, count, CT_RULE_AVERAGE, 0);
  CT_TRY(t->env.be->op->prepare(t->env.dev, &d, NULL, &a->op, &info));
out:
  return rc;
}

void ct__average_free(ct_trainer_t *t)
{
  t->env.be->op->release(t->average.op);
}

static int lerp(ct_trainer_t *t, char *average, const char *now, size_t bytes, double take)
{
  ct_op_args_t a = {.pass = CT_FWD,
                    .w = {average},
                    .dy = (void *)(uintptr_t)now,
                    .count = (int64_t)(bytes / sizeof(float)),
                    .scale = 1,
                    .hyper = {.lr = (float)take}};
  return bytes ? t->env.be->op->run(t->q, t->average.op, &a) : CT_OK;
}

int ct__average_step(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct__average_t *a = &t->average;
  double take = t->progress.steps ? 1 - t->env.step_opts.ema : 1;
  if (!a->op) return CT_OK;
  CT_TRY(lerp(t, a->weight, t->weight, t->need.bytes[CT_MEMORY_WEIGHTS], take));
  CT_TRY(lerp(t, a->buffer, t->buffer, t->map.buffer_bytes, take));
out:
  return rc;
}

int ct__average_restart(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct__average_t *a = &t->average;
  const ct_mem_ops_t *mem = t->env.be->mem;
  ct_trainer_use_average(t, 0);
  if (!a->op) return CT_OK;
  CT_TRY(mem->zero(t->q, a->weight, t->need.bytes[CT_MEMORY_WEIGHTS]));
  if (a->buffer) CT_TRY(mem->zero(t->q, a->buffer, t->map.buffer_bytes));
out:
  return rc;
}

char *ct__average_arena(const ct_trainer_t *t, int buffers)
{
  return buffers ? t->average.buffer : t->average.weight;
}

static void swap(char **a, char **b)
{
  char *p = *a;
  *a = *b;
  *b = p;
}

/* Plans receive the address of the weights at each run, so swapping pointers is enough. */
int ct_trainer_use_average(ct_trainer_t *t, int on)
{
  ct__average_t *a = &t->average;
  int use = on && a->op && t->progress.steps > 0;
  if (use == a->used) return use;
  ct__slices_settle(t);
  swap(&t->weight, &a->weight);
  swap(&t->buffer, &a->buffer);
  ct__reduced_swap(t);
  a->used = use;
  return use;
}
