/* Slices of the gradient arena that are all-reduced while backward continues.  A slice begins and
 * ends with whole parameters.  The parameters are in the order in which backward completes their
 * gradients, and the slices are identical on all ranks, so the all-reduces match. */
#include "plan/ct_plan.h"

/* Returns 1 if the launch writes or adds to the gradient of a parameter.  A SyncBN completes its
 * parameter gradients in the launch that computes the local sums. */
static int writes(const ct_plan_t *p, const ct_plan_launch_t *w, int param)
{
  int layer = p->op[w->op].layer;
  if (w->late) return 0;
  if (w->y >= 0 && p->value[w->y].param == param + 1) return 1;
  if (layer < 0 || !(w->pass & (CT_BWD_PARAM | CT_BWD_STATS))) return 0;
  for (int k = 0; k < p->graph->layer[layer].params; k++)
    if (p->graph->layer[layer].param[k] == param) return 1;
  return 0;
}

/* Returns the launch that completes the gradient of a parameter. */
static int finished_by(const ct_plan_t *p, int param)
{
  for (int i = p->launches - 1; i >= p->loss_launch; i--)
    if (writes(p, &p->launch[i], param)) return i;
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
    if (finished_by(p, m->order[k]) == i) bytes += end_of(m, k) - m->offset[m->order[k]];
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
    int border = end == m->low_bytes; /* no bucket has parameters of both kinds */
    int full = n >= (end < m->low_bytes ? cap - 2 : cap - 1); /* the last takes all that is left */
    if (!last && !border && (end - begin < bucket_bytes || full)) continue;
    bucket[n].offset = begin;
    bucket[n].bytes = end - begin;
    bucket[n].after = finished_by(p, m->order[k]);
    n++;
    begin = end;
  }
  return n;
}
