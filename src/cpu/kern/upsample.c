/* Resizing.  Each output is a weighted sum of one to four inputs per dim (ct_resize.h); the
 * gradient uses the same weights.  A task is a group of contiguous channels of one sample. */
#include <omp.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/loops.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* The inputs of an output along one axis, with their weights. */
typedef struct tap {
  int32_t n, from[CT_RESIZE_TAPS];
  float weight[CT_RESIZE_TAPS];
} tap_t;

typedef struct upsample {
  ct_op_t op;
  cpu__view_t x, y;
  int64_t in[3], out[3]; /* sizes of an input and output volume */
  tap_t *tap[3];         /* per axis, the inputs of each output; tap[0] owns the memory of all */
} upsample_t;

static int64_t width(const upsample_t *k)
{
  return k->in[2] * k->x.lanes;
}

/* Computes y = weight * x, or adds it to y. */
static void add_scaled(int64_t count, float weight, int add, const float *restrict x,
                       float *restrict y)
{
  if (add)
    for (int64_t i = 0; i < count; i++)
      y[i] += weight * x[i];
  else
    for (int64_t i = 0; i < count; i++)
      y[i] = weight * x[i];
}

/* ---- one row of outputs: first its rows of inputs are mixed, then the columns of the mixture
 * ---- */

/* Mixes the rows of inputs of output row (z, r); x: first element of the volume. */
static void mix_rows(const upsample_t *k, int64_t z, int64_t r, const float *x, float *row)
{
  const tap_t *depth = &k->tap[0][z], *high = &k->tap[1][r];
  for (int i = 0; i < depth->n; i++)
    for (int j = 0; j < high->n; j++)
      add_scaled(width(k), depth->weight[i] * high->weight[j], i + j > 0,
                 x + (depth->from[i] * k->in[1] + high->from[j]) * width(k), row);
}

/* The gradient of mix_rows(). */
static void add_rows(const upsample_t *k, int64_t z, int64_t r, const float *row, float *dx)
{
  const tap_t *depth = &k->tap[0][z], *high = &k->tap[1][r];
  for (int i = 0; i < depth->n; i++)
    for (int j = 0; j < high->n; j++)
      add_scaled(width(k), depth->weight[i] * high->weight[j], 1, row,
                 dx + (depth->from[i] * k->in[1] + high->from[j]) * width(k));
}

/* Mixes the columns of a row of single channels. */
static void mix_single(const upsample_t *k, const float *restrict row, float *restrict y)
{
  const tap_t *tap = k->tap[2];
  for (int64_t c = 0; c < k->out[2]; c++) {
    float sum = tap[c].weight[0] * row[tap[c].from[0]];
    for (int i = 1; i < tap[c].n; i++)
      sum += tap[c].weight[i] * row[tap[c].from[i]];
    y[c] = sum;
  }
}

static void mix_columns(const upsample_t *k, const float *row, float *y)
{
  int64_t lanes = k->x.lanes;
  if (lanes == 1) {
    mix_single(k, row, y);
    return;
  }
  for (int64_t c = 0; c < k->out[2]; c++) {
    const tap_t *t = &k->tap[2][c];
    for (int i = 0; i < t->n; i++)
      add_scaled(lanes, t->weight[i], i, row + t->from[i] * lanes, y + c * lanes);
  }
}

/* The gradient of mix_columns(). */
static void add_columns(const upsample_t *k, const float *dy, float *row)
{
  int64_t lanes = k->x.lanes;
  memset(row, 0, (size_t)width(k) * sizeof *row);
  for (int64_t c = 0; c < k->out[2]; c++) {
    const tap_t *t = &k->tap[2][c];
    for (int i = 0; i < t->n; i++) {
      if (lanes == 1)
        row[t->from[i]] += t->weight[i] * dy[c];
      else
        add_scaled(lanes, t->weight[i], 1, dy + c * lanes, row + t->from[i] * lanes);
    }
  }
}

static void do_task(const upsample_t *k, const ct_op_args_t *a, int64_t task)
{
  int64_t lanes = k->x.lanes, in = task * k->x.inner * lanes, at = task * k->y.inner * lanes;
  int back = a->pass & CT_BWD_DATA;
  float *row = (float *)a->scratch + omp_get_thread_num() * width(k);
  if (back) memset((float *)a->dx + in, 0, (size_t)(k->x.inner * lanes) * sizeof(float));
  for (int64_t z = 0; z < k->out[0]; z++) {
    for (int64_t r = 0; r < k->out[1]; r++, at += k->out[2] * lanes) {
      if (back) {
        add_columns(k, (const float *)a->dy + at, row);
        add_rows(k, z, r, row, (float *)a->dx + in);
      } else {
        mix_rows(k, z, r, (const float *)a->x + in, row);
        mix_columns(k, row, (float *)a->y + at);
      }
    }
  }
}

static int upsample_run(ct_op_t *op, const ct_op_args_t *a)
{
  const upsample_t *k = (const upsample_t *)op;
  int64_t tasks = k->x.n * k->x.groups;

#pragma omp parallel for if (cpu__is_parallel(&op->desc.y)) schedule(static)
  for (int64_t i = 0; i < tasks; i++)
    do_task(k, a, i);
  return CT_OK;
}

/* ---- preparation ---- */

/* Returns the inputs of output o along an axis; those of weight 0 are left out. */
static tap_t tap_of(const ct_resize_dim_t *d, int64_t o)
{
  ct_resize_tap_t all = ct_resize_tap(d, o);
  tap_t t = {0};
  for (int k = 0; k < all.taps; k++) {
    if (all.weight[k] == 0 && (t.n > 0 || k + 1 < all.taps)) continue;
    t.from[t.n] = (int32_t)all.in[k];
    t.weight[t.n++] = (float)all.weight[k];
  }
  return t;
}

static int upsample_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  upsample_t *k = (upsample_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int64_t taps = 0;
  (void)like;
  k->x = cpu__view(&d->x);
  k->y = cpu__view(&d->y);
  for (int axis = 0; axis < 3; axis++) {
    int at = axis - (5 - d->x.ndim);
    k->in[axis] = at < 0 ? 1 : d->x.dim[2 + at];
    k->out[axis] = at < 0 ? 1 : d->y.dim[2 + at];
    taps += k->out[axis];
  }
  info->scratch = (size_t)(op->dev->threads * width(k)) * sizeof(float);
  tap_t *tap = ct_mem_array(taps, sizeof *tap, "upsampling");
  if (!tap) return CT_ERR_NOMEM;
  for (int axis = 0; axis < 3; tap += k->out[axis++]) {
    int at = axis - (5 - d->x.ndim);
    ct_resize_dim_t one = {.in = 1, .out = 1}, dim = at < 0 ? one : ct_op_resize_dim(d, at);
    k->tap[axis] = tap;
    for (int64_t o = 0; o < k->out[axis]; o++)
      tap[o] = tap_of(&dim, o);
  }
  return CT_OK;
}

static void upsample_clear(ct_op_t *op)
{
  ct_mem_free(((upsample_t *)op)->tap[0]);
}

const cpu__op_kind_t cpu__upsample = {.size = sizeof(upsample_t),
                                      .prepare = upsample_prepare,
                                      .run = upsample_run,
                                      .clear = upsample_clear};
