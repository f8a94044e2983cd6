/* Copies by a map of indices, as loops over y in memory order.  The innermost loop copies a run:
 * consecutive elements, one element again and again, or elements at equal distances; at an edge of
 * x it copies the pieces between the borders.  If x is consecutive along another dim of y, both
 * dims are copied in square tiles.  Elements are moved as integers, so no bit changes.
 *
 * Backward is the copy by the inverse map, or the sum of strided_sum.c. */
#include <stdio.h>
#include <string.h>

#include "backend/ct_strided.h"
#include "base/ct_err.h"
#include "base/ct_int.h"
#include "cpu/kern/loops.h"
#include "cpu/kern/strided_sum.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

enum {
  TILE = 16,  /* rows and columns of a tile */
  STRIP = 64, /* columns of x that a task transposes */
  PARTS = 256 /* tasks of a copy without transposing */
};

/* A copy. */
typedef struct copy {
  ct_walk_t walk;
  int along;            /* the dim of y along which x is consecutive, if it is transposed; -1 */
  int loops;            /* outer loops */
  int dim[CT_MAP_DIMS]; /* their dims */
  int64_t pitch[CT_MAP_DIMS]; /* per dim: elements of y from one index to the next */
  int64_t outer;              /* steps of all outer loops */
  int64_t strips;
} copy_t;

typedef struct strided {
  ct_op_t op;
  copy_t forward, backward;
  int direct; /* 1: backward is a copy */
  ct_readers_t readers;
} strided_t;

/* The position of the outer loops. */
typedef struct cursor {
  int64_t i[CT_MAP_DIMS];
  int64_t x, y;           /* elements */
  int64_t t[CT_MAP_DIMS]; /* per edge: the index */
} cursor_t;

static void cursor_move(const copy_t *c, cursor_t *at, int dim, int64_t by)
{
  const ct_walk_t *w = &c->walk;
  at->y += by * c->pitch[dim];
  if (w->on[dim] < 0)
    at->x += by * w->step[dim];
  else
    at->t[w->on[dim]] += by * w->step[dim];
}

static cursor_t cursor_at(const copy_t *c, int64_t index)
{
  cursor_t at = {.x = c->walk.base};
  for (int e = 0; e < c->walk.edges; e++)
    at.t[e] = c->walk.edge[e].start;
  for (int k = c->loops - 1; k >= 0; k--) {
    int64_t size = c->walk.size[c->dim[k]];
    at.i[k] = index % size;
    index /= size;
    cursor_move(c, &at, c->dim[k], at.i[k]);
  }
  return at;
}

static void cursor_next(const copy_t *c, cursor_t *at)
{
  for (int k = c->loops - 1; k >= 0; k--) {
    int64_t size = c->walk.size[c->dim[k]];
    cursor_move(c, at, c->dim[k], 1);
    if (++at->i[k] < size) return;
    at->i[k] = 0;
    cursor_move(c, at, c->dim[k], -size);
  }
}

/* Returns the element of x at which a row begins, without the edge `but`; -1: the row is
 * constant. */
static int64_t place_of(const ct_walk_t *w, const cursor_t *at, int but)
{
  int64_t x = at->x;
  for (int e = 0; e < w->edges; e++) {
    if (e == but) continue;
    int64_t place = ct_edge_place(w->edge[e].edge, at->t[e], w->edge[e].size);
    if (place < 0) return -1;
    x += place * w->edge[e].stride;
  }
  return x;
}

/* A piece of a row: n elements from `place` on, `step` apart; place -1: constants. */
typedef struct piece {
  int64_t place, step, n;
} piece_t;

/* Returns how many of n steps from t on stay in lo … hi - 1. */
static int64_t steps_in(int64_t t, int64_t step, int64_t lo, int64_t hi, int64_t n)
{
  if (step == 0) return n;
  int64_t most = step > 0 ? (hi - 1 - t) / step : (t - lo) / -step;
  return ct_least(n, most + 1);
}

/* Returns the first piece of the n elements at t, t + step, … */
static piece_t piece_of(const ct_walk_edge_t *e, int64_t t, int64_t step, int64_t n)
{
  const int64_t far = INT64_MAX / 2;
  int64_t place = ct_edge_place(e->edge, t, e->size), size = e->size;
  if (t >= 0 && t < size) return (piece_t){place, step, steps_in(t, step, 0, size, n)};
  int64_t lo = t < 0 ? -far : size, hi = t < 0 ? 0 : far;
  switch (e->edge) {
  case CT_EDGE_WRAP:
    return (piece_t){place, step, steps_in(place, step, 0, size, n)};
  case CT_EDGE_REFLECT: { /* on the way back an index moves against the step */
    int64_t period = 2 * (size - 1), in = size > 1 ? t % period : 0;
    if (size == 1) return (piece_t){0, 0, n};
    if (in < 0) in += period;
    if (in < size) return (piece_t){place, step, steps_in(in, step, 0, size, n)};
    return (piece_t){place, -step, steps_in(in, step, size, period, n)};
  }
  case CT_EDGE_REPLICATE:
    return (piece_t){place, 0, steps_in(t, step, lo, hi, n)};
  default:
    return (piece_t){-1, 0, steps_in(t, step, lo, hi, n)};
  }
}

#define NAME(x) x##_4
#define WORD    uint32_t
#include "cpu/kern/strided_body.h"
#undef NAME
#undef WORD
#define NAME(x) x##_2
#define WORD    uint16_t
#include "cpu/kern/strided_body.h"
#undef NAME
#undef WORD

static void copy_do(const copy_t *c, ct_dtype_t t, const void *x, double value, void *y)
{
  float constant = (float)value;
  uint32_t bits;
  memcpy(&bits, &constant, sizeof bits);
  if (c->walk.count == 0) return;
  if (t == CT_F32)
    copy_all_4(c, x, bits, y);
  else
    copy_all_2(c, x, ct_bf16_of(constant), y);
}

static int strided_run(ct_op_t *op, const ct_op_args_t *a)
{
  const strided_t *k = (const strided_t *)op;
  ct_dtype_t t = op->desc.x.dtype;
  if (a->pass & CT_FWD) copy_do(&k->forward, t, a->x, op->desc.u.strided.value, a->y);
  if (a->pass & CT_BWD_DATA && k->direct) copy_do(&k->backward, t, a->dy, 0, a->dx);
  if (a->pass & CT_BWD_DATA && !k->direct) cpu__strided_sum(&k->readers, t, a->dy, a->dx);
  return CT_OK;
}

/* ---- preparation ---- */

static ct_layout_t strided_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return ct_strided_layout(d) < 0 ? CT_PLAIN : d->x.layout;
}

static int strided_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (ct_strided_layout(d) >= 0) return 1;
  snprintf(why, 128, "the map moves channels within their blocks");
  return 0;
}

/* Returns the dim along which x is consecutive, for transposing; -1: the innermost loop has runs,
 * or there is no such dim. */
static int turned_dim(const ct_walk_t *w)
{
  int last = w->dims - 1;
  if (last < 0 || w->on[last] >= 0 || w->step[last] == 0 || w->step[last] == 1) return -1;
  for (int i = 0; i < last; i++)
    if (w->on[i] < 0 && w->step[i] == 1 && w->size[i] > 1) return i;
  return -1;
}

static void copy_make(const ct_map_t *m, copy_t *c)
{
  int64_t pitch = 1;
  ct_map_walk(m, &c->walk);
  c->along = turned_dim(&c->walk);
  c->outer = 1;
  c->loops = 0;
  for (int i = c->walk.dims - 1; i >= 0; i--) {
    c->pitch[i] = pitch;
    pitch *= c->walk.size[i];
  }
  for (int i = 0; i < c->walk.dims - 1; i++) {
    if (i == c->along) continue;
    c->dim[c->loops++] = i;
    c->outer *= c->walk.size[i];
  }
  c->strips = c->along < 0 ? 1 : (c->walk.size[c->along] + STRIP - 1) / STRIP;
}

static int strided_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  strided_t *k = (strided_t *)op;
  ct_map_t map, back;
  (void)like;
  if (!ct_strided_map(&op->desc, &map)) return CT_ERR_UNSUP; /* supports() has refused it */
  info->y_layout = (ct_layout_t)ct_strided_layout(&op->desc);
  copy_make(&map, &k->forward);
  if (!(op->desc.passes & CT_BWD_DATA)) return CT_OK;
  k->direct = ct_map_inverse(&map, &back);
  if (!k->direct) return ct_readers_make(&map, &k->readers);
  copy_make(&back, &k->backward);
  return CT_OK;
}

static void strided_clear(ct_op_t *op)
{
  ct_readers_clear(&((strided_t *)op)->readers);
}

const cpu__op_kind_t cpu__strided = {.size = sizeof(strided_t),
                                     .bf16 = 1,
                                     .wants = strided_wants,
                                     .supports = strided_supports,
                                     .prepare = strided_prepare,
                                     .run = strided_run,
                                     .clear = strided_clear};
