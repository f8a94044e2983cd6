/* Life times, in-place sharing, and an offset for every value: all values are in one arena, without
 * separate allocations.  Values that are not alive at the same time share memory, which for deep
 * models saves the larger part of the memory. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include <stdlib.h>

#define ALIGN 64

static void touch(ct_plan_t *p, int v, int i)
{
  if (v < 0) return;
  if (p->value[v].first < 0) p->value[v].first = i;
  if (i > p->value[v].last) p->value[v].last = i;
}

static void life_times(ct_plan_t *p)
{
  for (int i = 0; i < p->values; i++)
    p->value[i].first = p->value[i].last = p->value[i].same_as = -1;
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    const int all[] = {w->x,  w->x2,  w->x3,  w->y,      w->dy,   w->dy2,
                       w->dx, w->dx2, w->dx3, w->dx_add, w->saved};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
      touch(p, all[k], i);
    for (int k = 0; k < CT_OP_PARAMS; k++)
      touch(p, w->dw[k], i);
  }
  for (int k = 0; k < CT_OUTPUTS; k++) /* predictions are read after the step */
    if (p->output[k] >= 0) p->value[p->output[k]].last = p->launches - 1;
}

/* Lets \a to, written by launch i, take over the memory of \a from if \a from is not used later. */
static void offsets_share(ct_plan_t *p, int i, int from, int to)
{
  if (from < 0 || to < 0 || from == to) return;
  int root = ct_plan_root(p, from);
  ct_value_t *r = &p->value[root], *v = &p->value[to];
  if (r->external || r->param || r->state || v->state || v->param || r->last != i ||
      v->first != i || r->bytes < v->bytes || v->same_as >= 0)
    return;
  v->same_as = root;
  r->last = v->last;
}

/* Makes a concatenation write where its first input is, which stays as it is. */
static void offsets_place(ct_plan_t *p, int x, int y)
{
  int root = ct_plan_root(p, x);
  p->value[y].same_as = root;
  if (p->value[y].last > p->value[root].last) p->value[root].last = p->value[y].last;
}

static void share_all(ct_plan_t *p)
{
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    const ct_op_info_t *info = &p->op[w->op].info;
    if (w->pass == CT_FWD && ct_op_is_placed(&p->op[w->op].desc)) offsets_place(p, w->x, w->y);
    if (!(w->pass & CT_FWD) && info->inplace_add) offsets_share(p, i, w->dx_add, w->dx);
    if (w->pass == CT_FWD && info->inplace_second && w->x != w->x2)
      offsets_share(p, i, w->x2, w->y);
    if (w->pass == CT_FWD && info->inplace_fwd && w->x != w->x2) offsets_share(p, i, w->x, w->y);
    if (!(w->pass & CT_FWD) && info->inplace_bwd && w->dy != w->dy2)
      offsets_share(p, i, w->dy, w->dx);
  }
}

void ct__plan_lives(ct_plan_t *p)
{
  life_times(p);
  share_all(p);
}

static int larger_first(const void *a, const void *b, void *of)
{
  const size_t *bytes = of;
  int i = *(const int *)a, j = *(const int *)b;
  if (bytes[i] != bytes[j]) return bytes[i] > bytes[j] ? -1 : 1;
  return i - j;
}

/* Returns the lowest offset at which block b fits between those placed blocks that are alive at the
 * same time as b. */
static size_t lowest_gap(int b, const int order[], int placed, const size_t bytes[],
                         const int first[], const int last[], const size_t offset[])
{
  size_t at = 0;
  for (int again = 1; again;) {
    again = 0;
    for (int k = 0; k < placed; k++) {
      int o = order[k];
      if (last[o] < first[b] || last[b] < first[o]) continue;
      if (at + bytes[b] <= offset[o] || offset[o] + bytes[o] <= at) continue;
      at = (offset[o] + bytes[o] + ALIGN - 1) / ALIGN * ALIGN;
      again = 1;
    }
  }
  return at;
}

int ct__plan_fit(int n, const size_t bytes[], const int first[], const int last[], size_t offset[],
                 size_t *total)
{
  int *order = ct_mem_array(n, sizeof *order, "plan");
  int placed = 0;
  *total = 0;
  if (!order) return CT_ERR_NOMEM;
  for (int i = 0; i < n; i++)
    order[i] = i;
  qsort_r(order, (size_t)n, sizeof *order, larger_first, (void *)(uintptr_t)bytes);
  for (; placed < n && bytes[order[placed]]; placed++) {
    int b = order[placed];
    offset[b] = lowest_gap(b, order, placed, bytes, first, last, offset);
    if (offset[b] + bytes[b] > *total) *total = offset[b] + bytes[b];
  }
  ct_mem_free(order);
  return CT_OK;
}

/* Prevents overflow: offsets are sums of sizes, and a size that overflowed is SIZE_MAX. */
static int check_sum(int n, const size_t bytes[])
{
  int rc = CT_OK;
  double sum = 0;
  char text[32];
  for (int i = 0; i < n; i++)
    sum += (double)bytes[i] + ALIGN;
  if (sum > 0x1p60)
    CT_FAIL(CT_ERR_NOMEM, "a step would need about %s: choose a smaller batch",
            ct_text_bytes(sum, text, sizeof text));
out:
  return rc;
}

/* Returns the offset of a value that keeps its contents, in their order. */
static size_t add_state(ct_plan_t *p, const ct_value_t *v)
{
  size_t at = p->state_bytes;
  p->state_bytes += (v->bytes + ALIGN - 1) / ALIGN * ALIGN;
  return at;
}

int ct__plan_offsets(ct_plan_t *p)
{
  int rc = CT_OK, n = p->values;
  size_t *bytes = ct_mem_array(2 * (int64_t)n, sizeof *bytes, "plan"), *offset = NULL;
  int *first = ct_mem_array(2 * (int64_t)n, sizeof *first, "plan"), *last = NULL;
  CT_TRY(bytes && first ? CT_OK : CT_ERR_NOMEM);
  offset = bytes + n;
  last = first + n;
  ct__plan_lives(p);
  for (int i = 0; i < n; i++) {
    const ct_value_t *v = &p->value[i];
    int own = !v->external && !v->param && !v->state && v->same_as < 0 && v->first >= 0;
    bytes[i] = own ? v->bytes : 0;
    first[i] = v->first;
    last[i] = v->last;
  }
  CT_TRY(check_sum(n, bytes));
  p->state_bytes = 0;
  CT_TRY(ct__plan_fit(n, bytes, first, last, offset, &p->arena_bytes));
  for (int i = 0; i < n; i++)
    p->value[i].offset = p->value[i].state ? add_state(p, &p->value[i]) : offset[i];
out:
  ct_mem_free(bytes);
  ct_mem_free(first);
  return rc;
}
