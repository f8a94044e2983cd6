/* Recomputation: makes a training plan fit into a limit.
 *
 * A value that forward makes and that backward reads is kept in between.  If the launch that made
 * it is *dropped*, the value ends with its last reader in forward, and a copy of the launch before
 * the first reader in backward makes it once more, as a new value.  Inputs of the copy that are
 * dropped too are made before it; others live until then.  So a set of dropped launches determines
 * a plan, and the added time is the sum of the times of its launches.
 *
 * What readers far apart need, such as a skip connection of a U-Net, can be made *twice*: the
 * readers after a given launch of backward get a value of their own, made with all that it needs.
 *
 * The results of a chain of concatenations are one tensor (place.c): they are dropped together.
 *
 * The set is chosen in two parts.  First, launches are dropped until the largest sum of values that
 * are alive at a time meets the limit: each time those that free the most bytes at that time per
 * modelled second, with all that they need.  Then launches are kept again, the most expensive
 * first, if the limit is met without them. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include <stdlib.h>
#include <string.h>

#define ALIGN 64

/* What becomes of a launch of forward.  A number above 0: it is dropped and made twice, for the
 * readers up to this launch of the unlimited plan and for those after it. */
enum { KEPT = 0, ONCE = -1 };

typedef struct search {
  ct_plan_t *p;
  const ct_plan_launch_t *base; /* the unlimited plan */
  int n, values;
  int *drop;         /* per launch; the set */
  char *can;         /* per launch: it can be dropped */
  char *banned;      /* per launch: dropping it has raised the peak */
  char *held;        /* per launch: it is kept, whatever it costs */
  int *lowest;       /* per launch: the best set so far */
  char *mark;        /* per launch: to be dropped together */
  int *order;        /* of launches */
  int *rerun;        /* per launch: how often it is made again in the current plan */
  int *made;         /* per launch: the launch of the unlimited plan before which, last */
  int eager;         /* 1: makes launches twice rather than keep others */
  int now;           /* the launch of the unlimited plan that the current plan has come to */
  double *seconds;   /* per launch */
  int *maker;        /* per value: the launch that makes it, if it can be dropped; -1 */
  int *renewed;      /* per value: what replaces it in backward; -1: itself */
  int *forth, *back; /* per value: the last launch of forward and the first of backward that
                               read it */
  int *holder;       /* per value: of a chain of concatenations the first; else the value itself */
  int *last;         /* per value: the last launch that accesses it */
  int64_t *live;     /* per launch of the current plan: change of the bytes alive */
  int64_t *load;     /* per launch: most bytes alive at it, or while inputs are made for it */
  int64_t peak;      /* most bytes alive in the current plan */
  int at, where;     /* the launch of the current, of the unlimited plan there */
} search_t;

/* The bytes freed at the peak, and the time that it costs. */
typedef struct gain {
  int64_t bytes;
  double seconds;
} gain_t;

static int64_t size_of(const search_t *s, int v)
{
  const ct_value_t *x = &s->p->value[v];
  if (x->external || x->param || x->state) return 0;
  return (int64_t)((x->bytes + ALIGN - 1) / ALIGN * ALIGN);
}

/* BNORM in training makes its output again from the saved statistics; what other ops save is made
 * again with their output. */
static int needs_saved(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_BNORM && d->training;
}

/* ---- the plan of a set ---- */

static int fetch(search_t *s, int v);

static void add_again(search_t *s, int m)
{
  ct_plan_t *p = s->p;
  ct_plan_launch_t w = s->base[m];
  int *in[] = {&w.x, &w.x2, &w.x3}, *out[] = {&w.y, &w.saved};
  for (size_t k = 0; k < sizeof in / sizeof *in; k++)
    *in[k] = fetch(s, *in[k]);
  for (size_t k = 0; k < sizeof out / sizeof *out; k++) {
    if (*out[k] < 0 || s->maker[*out[k]] != m) continue;
    p->value[p->values] = s->p->value[*out[k]];
    s->renewed[*out[k]] = p->values;
    *out[k] = p->values++;
  }
  w.again = 1;
  s->rerun[m]++;
  s->made[m] = s->now;
  p->launch[p->launches++] = w;
}

/* Returns what replaces value \a v in backward, after it was made again if it is dropped. */
static int fetch(search_t *s, int v)
{
  int m = v >= 0 && v < s->values ? s->maker[v] : -1;
  if (m < 0 || !s->drop[m]) return v;
  if (!s->rerun[m] || (s->drop[m] > 0 && s->made[m] <= s->drop[m] && s->now > s->drop[m]))
    add_again(s, m);
  return s->renewed[v] >= 0 ? s->renewed[v] : v;
}

/* Writes the launches and values of the set; there is room for them. */
static void build(search_t *s)
{
  ct_plan_t *p = s->p;
  p->launches = 0;
  p->values = s->values;
  memset(s->rerun, 0, (size_t)s->n * sizeof *s->rerun);
  memset(s->renewed, -1, (size_t)s->values * sizeof *s->renewed);
  for (int i = 0; i < s->n; i++) {
    ct_plan_launch_t w = s->base[i];
    s->now = i;
    int *read[] = {&w.x, &w.x2, &w.x3, &w.y, &w.saved};
    for (size_t k = 0; k < sizeof read / sizeof *read && i > p->loss_launch; k++)
      *read[k] = fetch(s, *read[k]);
    p->launch[p->launches++] = w;
  }
}

static void note(search_t *s, int v, int i)
{
  if (v < 0 || v >= s->values) return;
  v = s->holder[v];
  s->last[v] = i;
  if (i <= s->p->loss_launch)
    s->forth[v] = i;
  else if (s->back[v] < 0)
    s->back[v] = i;
}

/* Builds the plan of the set, and finds its peak and who reads each value. */
static void evaluate(search_t *s)
{
  ct_plan_t *p = s->p;
  int64_t now = 0;
  build(s);
  ct__plan_lives(p);
  memset(s->forth, -1, (size_t)s->values * sizeof *s->forth);
  memset(s->back, -1, (size_t)s->values * sizeof *s->back);
  memset(s->last, -1, (size_t)s->values * sizeof *s->last);
  memset(s->live, 0, (size_t)(p->launches + 1) * sizeof *s->live);
  for (int i = 0; i < p->launches; i++) {
    const ct_plan_launch_t *w = &p->launch[i];
    const int all[] = {w->x, w->x2, w->x3, w->y, w->saved};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
      note(s, all[k], i);
  }
  for (int v = 0; v < p->values; v++) {
    if (p->value[v].same_as >= 0 || p->value[v].first < 0) continue;
    s->live[p->value[v].first] += size_of(s, v);
    s->live[p->value[v].last + 1] -= size_of(s, v);
  }
  s->peak = -1;
  for (int i = 0, base = 0; i < p->launches; base += !p->launch[i++].again) {
    now += s->live[i];
    if (!i || !p->launch[i - 1].again || now > s->load[base]) s->load[base] = now;
    if (now <= s->peak) continue;
    s->peak = now;
    s->at = i;
    s->where = base;
  }
}

/* ---- choice ---- */

static double worth(const gain_t *g)
{
  return g->bytes > 0 ? (double)g->bytes / (g->seconds + 1e-12) : 0;
}

/* Adds what it takes to run launch  m again: marks the launches that have to be dropped for it,
 * and takes off the bytes of inputs that have to stay. */
static void need(search_t *s, int m, gain_t *g)
{
  const ct_plan_launch_t *w = &s->base[m];
  const int in[] = {w->x, w->x2, w->x3};
  s->mark[m] = 1;
  g->seconds += s->seconds[m];
  for (int i = 0; i < s->n && s->p->op[w->op].desc.kind == CT_OP_CONCAT; i++) {
    int y = s->can[i] ? s->base[i].y : -1;
    if (y >= 0 && s->holder[y] == s->holder[w->y] && !s->mark[i]) need(s, i, g);
  }
  for (size_t k = 0; k < sizeof in / sizeof *in; k++) {
    int v = in[k];
    if (v < 0 || !size_of(s, v) || s->last[s->holder[v]] >= s->at) continue;
    int made = s->maker[v];
    if (made >= 0 && (s->drop[made] || s->mark[made])) continue;
    if (made >= 0 && !s->banned[made] && !s->held[made])
      need(s, made, g);
    else
      g->bytes -= size_of(s, v);
  }
}

static int64_t freed(const search_t *s, int v)
{
  int holder = v < 0 ? -1 : s->holder[v];
  if (v < 0 || s->forth[holder] >= s->at || s->back[holder] <= s->at) return 0;
  return size_of(s, v);
}

/* Returns the gain of dropping launch \a m, and marks all that is dropped with it. */
static gain_t consider(search_t *s, int m)
{
  const ct_plan_launch_t *w = &s->base[m];
  int saved = w->saved >= 0 && s->maker[w->saved] == m ? w->saved : -1;
  gain_t g = {.bytes = freed(s, w->y) + freed(s, saved)};
  memset(s->mark, 0, (size_t)s->n);
  if (g.bytes) need(s, m, &g);
  return g;
}

static int best(search_t *s)
{
  int found = -1;
  double most = 0;
  for (int m = 0; m < s->n; m++) {
    if (!s->can[m] || s->drop[m] || s->banned[m] || s->held[m]) continue;
    gain_t g = consider(s, m);
    if (worth(&g) <= most) continue;
    most = worth(&g);
    found = m;
  }
  return found;
}

/* Drops launch \a m with all that it needs, unless that raises the peak. */
static void drop(search_t *s, int m)
{
  int64_t before = s->peak;
  consider(s, m);
  for (int i = 0; i < s->n; i++)
    if (s->mark[i]) s->drop[i] = ONCE;
  evaluate(s);
  if (s->peak <= before) return;
  for (int i = 0; i < s->n; i++)
    if (s->mark[i]) s->drop[i] = KEPT;
  s->banned[m] = 1;
  evaluate(s);
}

/* If the peak is reached in backward where much is made again at once, it falls there if one of
 * these values is kept, since those before it are then made later.  Keeps the best for good; other
 * values are then dropped where keeping it has raised the sum.  Returns 0 if none helps. */
static int split(search_t *s)
{
  int found = -1, where = s->where;
  int64_t least = s->peak, peak = 0;
  memset(s->mark, 0, (size_t)s->n);
  for (int i = 0; i < s->n; i++) {
    if (!s->rerun[i] || s->held[i]) continue;
    const ct_value_t *y = &s->p->value[s->renewed[s->base[i].y]];
    s->mark[i] = y->first <= s->at && y->last >= s->at;
  }
  for (int i = 0; i < s->n; i++) {
    if (!s->mark[i]) continue;
    int now = s->drop[i];
    s->drop[i] = KEPT;
    evaluate(s);
    s->drop[i] = now;
    if (s->load[where] > least || (s->load[where] == least && (found < 0 || s->peak >= peak)))
      continue;
    least = s->load[where];
    peak = s->peak;
    found = i;
  }
  if (found >= 0) {
    s->drop[found] = KEPT;
    s->held[found] = 1;
    memset(s->banned, 0, (size_t)s->n);
  }
  evaluate(s);
  return found >= 0;
}

/* Marks launch \a m and all that is made again for it, and returns their time. */
static double mark_twice(search_t *s, int m)
{
  const ct_plan_launch_t *w = &s->base[m];
  const int in[] = {w->x, w->x2, w->x3};
  double seconds = s->seconds[m];
  s->mark[m] = 1;
  for (size_t k = 0; k < sizeof in / sizeof *in; k++) {
    int made = in[k] < 0 ? -1 : s->maker[in[k]];
    if (made >= 0 && s->drop[made] == ONCE && !s->mark[made]) seconds += mark_twice(s, made);
  }
  return seconds;
}

/* Sets what becomes of the launches that are marked. */
static void set_marked(search_t *s, int to)
{
  for (int i = 0; i < s->n; i++)
    if (s->mark[i]) s->drop[i] = to;
  evaluate(s);
}

/* If the peak is in backward and values that were made again wait there for a later reader, makes
 * one of them twice.  It takes the value that frees the most bytes at the peak per second.  Returns
 * 0 if no value frees any. */
static int twice(search_t *s)
{
  int found = -1, where = s->where, at = s->at;
  int64_t peak = s->peak, load = s->load[where];
  double most = 0;
  for (int i = 0; i < s->n && where > s->p->loss_launch; i++) {
    if (s->rerun[i] != 1 || s->drop[i] != ONCE) continue;
    const ct_value_t *y = &s->p->value[s->renewed[s->base[i].y]];
    if (y->first >= at || y->last <= at) continue;
    memset(s->mark, 0, (size_t)s->n);
    double seconds = mark_twice(s, i);
    set_marked(s, where);
    double gain = (double)(load - s->load[where]) / (seconds + 1e-12);
    if (s->peak <= peak && gain > most) {
      most = gain;
      found = i;
    }
    set_marked(s, ONCE);
  }
  if (found < 0) return 0;
  memset(s->mark, 0, (size_t)s->n);
  mark_twice(s, found);
  set_marked(s, where);
  memset(s->banned, 0, (size_t)s->n);
  return 1;
}

/* Drops launches until the peak is at most \a target; returns 1 if it is.  Otherwise the set is the
 * best that was met. */
static int descend(search_t *s, int64_t target)
{
  int64_t least = INT64_MAX;
  memset(s->banned, 0, (size_t)s->n);
  memset(s->held, 0, (size_t)s->n);
  evaluate(s);
  while (s->peak > target) {
    int m = best(s);
    if (s->peak < least) {
      least = s->peak;
      memcpy(s->lowest, s->drop, (size_t)s->n * sizeof *s->drop);
    }
    if (m >= 0)
      drop(s, m);
    else if (!(s->eager && twice(s)) && !split(s) && !twice(s))
      break;
  }
  if (s->peak <= target) return 1;
  memcpy(s->drop, s->lowest, (size_t)s->n * sizeof *s->drop);
  evaluate(s);
  return 0;
}

static int costlier(const void *a, const void *b, void *of)
{
  const double *seconds = of;
  int i = *(const int *)a, j = *(const int *)b;
  if (seconds[i] != seconds[j]) return seconds[i] > seconds[j] ? -1 : 1;
  return i - j;
}

/* Keeps launches again, or makes them once, the most expensive first, if the peak stays within
 * \a target. */
static void keep(search_t *s, int64_t target)
{
  int n = 0, *order = s->order;
  for (int i = 0; i < s->n; i++)
    if (s->drop[i]) order[n++] = i;
  qsort_r(order, (size_t)n, sizeof *order, costlier, s->seconds);
  for (int k = 0; k < 2 * n; k++) {
    int *drop = &s->drop[order[k / 2]], now = *drop;
    if (k % 2 && now == KEPT) continue;
    *drop = k % 2 ? ONCE : KEPT;
    evaluate(s);
    if (s->peak > target) *drop = now;
  }
  evaluate(s);
}

/* ---- the search ---- */

static int can_drop(const ct_plan_t *p, const ct_plan_launch_t *w)
{
  const ct_plan_op_t *o = &p->op[w->op];
  if (w->pass != CT_FWD || ct_op_is_loss(o->desc.kind) || o->desc.kind == CT_OP_CACHE || w->y < 0)
    return 0;
  for (int k = 0; k < CT_OUTPUTS; k++)
    if (p->output[k] == w->y) return 0;
  return !(needs_saved(&o->desc) && w->saved < 0);
}

static void search_prepare(search_t *s)
{
  ct_plan_t *p = s->p;
  memset(s->maker, -1, (size_t)s->values * sizeof *s->maker);
  for (int v = 0; v < s->values; v++)
    s->holder[v] = v;
  build(s);
  for (int i = 0; i < s->n; i++) {
    const ct_plan_launch_t *w = &s->base[i];
    s->seconds[i] = ct_plan_launch_seconds(p, i);
    if (i > p->loss_launch || !can_drop(p, w)) continue;
    s->can[i] = 1;
    s->maker[w->y] = i;
    if (ct_op_is_placed(&p->op[w->op].desc)) s->holder[w->y] = s->holder[w->x];
    if (w->saved >= 0 && !needs_saved(&p->op[w->op].desc)) s->maker[w->saved] = i;
  }
}

static void search_free(search_t *s)
{
  void *all[] = {s->holder,  s->order,  s->made, s->held,  s->lowest,  s->load,
                 s->can,     s->banned, s->mark, s->rerun, s->seconds, s->maker,
                 s->renewed, s->forth,  s->back, s->last,  s->live};
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    ct_mem_free(all[k]);
}

/* Keeps the launches of the plan without a limit, and makes room for those of any set. */
static int remember(ct_plan_t *p)
{
  int rc = CT_OK, n = p->launches;
  if (p->unlimited.launch) return CT_OK;
  CT_TRY(ct_mem_grow((void **)&p->launch, &p->cap_launches, 3 * (int64_t)n, sizeof *p->launch));
  CT_TRY(ct_mem_grow((void **)&p->value, &p->cap_values, p->values + 4 * (int64_t)n,
                     sizeof *p->value));
  p->unlimited.dropped = ct_mem_array(n, sizeof *p->unlimited.dropped, "plan");
  CT_TRY(p->unlimited.dropped ? CT_OK : CT_ERR_NOMEM);
  p->unlimited.launch = ct_mem_array(n, sizeof *p->unlimited.launch, "plan");
  CT_TRY(p->unlimited.launch ? CT_OK : CT_ERR_NOMEM);
  memcpy(p->unlimited.launch, p->launch, (size_t)n * sizeof *p->launch);
  p->unlimited.launches = n;
  p->unlimited.values = p->values;
  p->again.most = p->arena_bytes;
out:
  return rc;
}

static int search_make(search_t *s, ct_plan_t *p)
{
  int n = p->unlimited.launches, v = p->unlimited.values;
  *s = (search_t){.p = p, .base = p->unlimited.launch, .n = n, .values = v};
  s->drop = p->unlimited.dropped;
  s->can = ct_mem_array(n, 1, "plan");
  s->banned = ct_mem_array(n, 1, "plan");
  s->mark = ct_mem_array(n, 1, "plan");
  s->held = ct_mem_array(n, 1, "plan");
  s->lowest = ct_mem_array(n, sizeof *s->lowest, "plan");
  s->made = ct_mem_array(n, sizeof *s->made, "plan");
  s->load = ct_mem_array(n, sizeof *s->load, "plan");
  s->order = ct_mem_array(n, sizeof *s->order, "plan");
  s->rerun = ct_mem_array(n, sizeof *s->rerun, "plan");
  s->seconds = ct_mem_array(n, sizeof *s->seconds, "plan");
  s->maker = ct_mem_array(v, sizeof *s->maker, "plan");
  s->renewed = ct_mem_array(v, sizeof *s->renewed, "plan");
  s->forth = ct_mem_array(v, sizeof *s->forth, "plan");
  s->back = ct_mem_array(v, sizeof *s->back, "plan");
  s->last = ct_mem_array(v, sizeof *s->last, "plan");
  s->holder = ct_mem_array(v, sizeof *s->holder, "plan");
  s->live = ct_mem_array(3 * (int64_t)n + 1, sizeof *s->live, "plan");
  if (!s->holder || !s->order || !s->made || !s->held || !s->lowest || !s->load || !s->can ||
      !s->banned || !s->mark || !s->rerun || !s->seconds || !s->maker || !s->renewed || !s->forth ||
      !s->back || !s->last || !s->live)
    return CT_ERR_NOMEM;
  search_prepare(s);
  return CT_OK;
}

/* Finds the set for a limit.  *met 0: not found. */
static int meet(search_t *s, size_t limit, int *met)
{
  int rc = CT_OK;
  int64_t target = limit > INT64_MAX ? INT64_MAX : (int64_t)limit;
  for (;;) {
    memset(s->drop, 0, (size_t)s->n * sizeof *s->drop);
    if (!(*met = descend(s, target))) return CT_OK;
    keep(s, target);
    CT_TRY(ct__plan_offsets(s->p));
    if (s->p->arena_bytes <= limit) return CT_OK;
    target -= (int64_t)(s->p->arena_bytes - limit);
  }
out:
  return rc;
}

/* Finds the set with the smallest arena: goes down in turns, as what was dropped without use is
 * kept in between. */
static int find_least(search_t *s)
{
  int rc = CT_OK;
  ct_plan_t *p = s->p;
  int *set = ct_mem_array(s->n, sizeof *set, "plan");
  CT_TRY(set ? CT_OK : CT_ERR_NOMEM);
  p->again.least = p->again.most;
  for (int turn = 0; turn < 2; turn++) {
    int64_t before = INT64_MAX;
    memset(s->drop, 0, (size_t)s->n * sizeof *s->drop);
    s->eager = turn;
    for (evaluate(s); s->peak < before;) {
      before = s->peak;
      descend(s, 0);
      keep(s, s->peak);
      CT_TRY(ct__plan_offsets(p));
      if (p->arena_bytes >= p->again.least) continue;
      p->again.least = p->arena_bytes;
      memcpy(set, s->drop, (size_t)s->n * sizeof *set);
    }
  }
  p->unlimited.least = set;
  set = NULL;
out:
  ct_mem_free(set);
  return rc;
}

/* Finds the set for a limit; if both searches fail, that of the least arena may meet it. */
static int meet_somehow(search_t *s, size_t limit, int *met)
{
  int rc = CT_OK;
  ct_plan_t *p = s->p;
  for (s->eager = 0; s->eager < 2; s->eager++) {
    CT_TRY(meet(s, limit, met));
    if (*met) return CT_OK;
  }
  if (!p->unlimited.least) CT_TRY(find_least(s));
  memcpy(s->drop, p->unlimited.least, (size_t)s->n * sizeof *s->drop);
  evaluate(s);
  CT_TRY(ct__plan_offsets(p));
  *met = p->arena_bytes <= limit;
out:
  return rc;
}

static void sum_up(search_t *s)
{
  ct_plan_again_t *a = &s->p->again;
  double all = 0, again = 0;
  a->launches = 0;
  a->flops = 0;
  for (int i = 0; i < s->n; i++) {
    all += s->seconds[i];
    again += s->rerun[i] * s->seconds[i];
    a->launches += s->rerun[i];
    a->flops += s->rerun[i] * ct_op_flops(&s->p->op[s->base[i].op].desc, CT_FWD);
  }
  a->seconds = all;
  a->share = all > 0 ? again / all : 0;
}

static int cannot(ct_plan_t *p, size_t limit)
{
  char want[32], least[32];
  p->again.unmet = 1;
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__,
                    "activations and gradients of %d samples cannot fit into %s (%zu bytes): the "
                    "least is %s (%zu bytes)",
                    p->o.n, ct_text_bytes((double)limit, want, sizeof want), limit,
                    ct_text_bytes((double)p->again.least, least, sizeof least), p->again.least);
}

int ct_plan_limit(ct_plan_t *p, size_t arena_bytes)
{
  int rc = CT_OK, met = 0;
  int *before = NULL;
  search_t s = {0};
  p->again.unmet = 0;
  if (!p->o.training) {
    p->again.least = p->again.most = p->arena_bytes;
    return arena_bytes < p->arena_bytes ? cannot(p, arena_bytes) : CT_OK;
  }
  CT_TRY(remember(p));
  before = ct_mem_array(p->unlimited.launches, sizeof *before, "plan");
  CT_TRY(before ? CT_OK : CT_ERR_NOMEM);
  memcpy(before, p->unlimited.dropped, (size_t)p->unlimited.launches * sizeof *before);
  CT_TRY(search_make(&s, p));
  rc = meet_somehow(&s, arena_bytes < p->again.most ? arena_bytes : SIZE_MAX, &met);
  if (rc != CT_OK || !met) {
    memcpy(s.drop, before, (size_t)s.n * sizeof *before);
    evaluate(&s);
    CT_TRY(rc);
    CT_TRY(ct__plan_offsets(p));
    rc = cannot(p, arena_bytes);
  }
  sum_up(&s);
out:
  search_free(&s);
  ct_mem_free(before);
  return rc;
}
