/* Slices of the gradient arena that are all-reduced while backward continues.  A slice begins and
 * ends with whole parameters.  The parameters are in the order in which backward completes their
 * gradients, and the slices are identical on all ranks, so the all-reduces match. */
#include "plan/ct_plan.h"

/* Returns the launch that completes the gradients of a layer.  A SyncBN completes its parameter
 * gradients in the launch that computes the local sums. */
static int finished_by(const ct_plan_t *p, int layer)
{
  for (int i = p->launches - 1; i > p->loss_launch; i--)
    if (p->launch[i].op == p->layer_op[layer] &&
        (p->launch[i].pass & (CT_BWD_PARAM | CT_BWD_STATS)))
      return i;
  return p->launches - 1; /* never written in this plan: stays zero */
}

/* Returns the end of the k-th trained parameter, including padding. */
static size_t end_of(const ct_arena_map_t *m, int k)
{
  return k == m->trained - 1 ? m->trained_bytes : m->offset[m->order[k + 1]];
}

size_t ct_plan_launch_completes(const ct_plan_t *p, const ct_arena_map_t *m, int i)
{
  size_t bytes = 0;
  for (int k = 0; k < m->trained; k++)
    if (finished_by(p, p->graph->param[m->order[k]].layer) == i)
      bytes += end_of(m, k) - m->offset[m->order[k]];
  return bytes;
}

int ct_buckets_make(const ct_plan_t *p, const ct_arena_map_t *m, size_t bucket_bytes, int cap,
                    ct_bucket_t *bucket)
{
  int n = 0;
  size_t begin = 0;
  for (int k = 0; k < m->trained; k++) {
    int last = k == m->trained - 1;
    size_t end = end_of(m, k);
    /* the last possible bucket takes all that is left */
    if (!last && (end - begin < bucket_bytes || n == cap - 1)) continue;
    bucket[n].offset = begin;
    bucket[n].bytes = end - begin;
    bucket[n].after = finished_by(p, p->graph->param[m->order[k]].layer);
    n++;
    begin = end;
  }
  return n;
}
