/* Batchnorms that take their statistics over a group of ranks: the group, and its message between
 * the work that sums up a rank's samples and the one that uses the sums. */
#include "train/trainer.h"

/* Groups of neighbouring ranks. */
int ct__sync_bn_open(ct_trainer_t *t)
{
  const ct_topo_t *topo = t->env.topo;
  int size = t->env.recipe.sync_bn;
  if (!ct__memory_plan_opts(&t->env, 1, 1).sync_bn) return CT_OK;
  int color = size == CT_SYNC_NODE ? topo->node_index : topo->rank / size;
  return t->env.comm_ops->group(t->env.comm, color, &t->group);
}

int ct__sync_bn_make(ct_trainer_t *t)
{
  char *stats = NULL;
  int rc = ct__arenas_take_all(t, CT_MEMORY_STATISTICS, &stats);
  t->stats = (double *)stats;
  return rc;
}

void ct__sync_bn_exchange(ct_trainer_t *t, const ct_plan_t *p, int i)
{
  if (!(p->work[i].pass & (CT_FWD_STATS | CT_BWD_STATS))) return;
  int64_t n = 2 * p->op[p->work[i].op].desc.x.dim[1] + 1;
  ct__step_enter(t, CT_TIME_BATCHNORM, "the sum of a batchnorm's statistics, op", i);
  ct__step_note(t, t->env.comm_ops->group_sum(t->group, t->q, t->stats, n));
  ct__step_leave(t);
}
