/* SyncBN: creates the group of ranks, and sums the statistics between the launch that computes a
 * rank's sums and the one that uses the group's. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Finds the two lowest ranks with this rank's color. */
static void find_lowest(ct_trainer_t *t, int64_t *colors, int color)
{
  const ct_topo_t *topo = t->env.topo;
  colors[topo->rank] = color;
  ct_agree_sum(topo, colors, topo->size); /* the other ranks contributed 0 */
  t->group_lowest[0] = t->group_lowest[1] = t->root_second = -1;
  for (int r = topo->size - 1; r >= 0; r--) {
    if (r > 0 && colors[r] == colors[0]) t->root_second = r;
    if (colors[r] != color) continue;
    t->group_lowest[1] = t->group_lowest[0];
    t->group_lowest[0] = r;
  }
}

/* Groups consist of consecutive ranks. */
int ct__sync_bn_open(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_topo_t *topo = t->env.topo;
  int size = t->env.step_opts.sync_bn;
  int64_t *colors = NULL;
  if (!ct__memory_plan_opts(&t->env, 1, 1).sync_bn) return CT_OK;
  int color = size == CT_SYNC_NODE ? topo->node_index : topo->rank / size;
  colors = ct_mem_array(topo->size, sizeof *colors, "the groups of ranks");
  CT_TRY_ALL(topo, colors ? CT_OK : CT_ERR_NOMEM);
  find_lowest(t, colors, color);
  CT_TRY(t->env.comm_ops->group(t->env.comm, color, &t->group));
out:
  ct_mem_free(colors);
  return rc;
}

int ct__sync_bn_make(ct_trainer_t *t)
{
  char *stats = NULL;
  int rc = ct__arenas_take_all(t, CT_MEMORY_STATISTICS, &stats);
  t->stats = (double *)stats;
  return rc;
}

void ct__sync_bn_exchange(ct_trainer_t *t, const ct_plan_t *p, int i, int piece, int *number)
{
  if (!(p->launch[i].pass & (CT_FWD_STATS | CT_BWD_STATS))) return;
  int64_t n = 2 * p->op[p->launch[i].op].desc.x.dim[1] + 1;
  ct__step_note(t, ct__replay_message(t, piece, *number, n, 0));
  ct__step_enter(t, CT_TIME_BATCHNORM, "the sum of a batchnorm's statistics, op", i);
  ct__step_note(t, t->env.comm_ops->group_sum(t->group, t->q, t->stats, n));
  ct__step_leave(t);
  ct__step_note(t, ct__replay_message(t, piece, *number, n, 1));
  ++*number;
}
