/* Pooling over volumes (torch.nn.MaxPool3d, AvgPool3d), and adaptive averages over images and
 * volumes (AdaptiveAvgPool2d and 3d), whose windows differ in size and may overlap.  An image is a
 * volume of depth 1.
 *
 * As in kern/pool.c, a maximum keeps one byte per output: where in the window it was. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/loops.h"

typedef struct pool3 {
  ct_op_t op;
  const cpu__loops_t *loops;
  cpu__pool3_t loop;
  cpu__view_t x, y;
  int64_t vectors; /* across the channels of a group */
  void *tables;    /* memory of loop.window, cover and share */
} pool3_t;

/* ---- one task: one vector of channels of one sample ---- */

typedef struct task {
  int64_t x, y, place; /* where its first voxel lies */
  cpu__pixels_t px;
} task_t;

static int64_t task_count(const pool3_t *k)
{
  return k->x.n * k->x.groups * k->vectors;
}

static task_t task_of(const pool3_t *k, int64_t i)
{
  int64_t width = k->loops->width, lane = i % k->vectors * width, group = i / k->vectors;
  int64_t left = k->x.lanes - lane;
  return (task_t){.x = group * k->x.inner * k->x.lanes + lane,
                  .y = group * k->y.inner * k->x.lanes + lane,
                  .place = i * k->y.inner * width,
                  .px = {k->x.lanes, (int)(left < width ? left : width)}};
}

/* ---- passes ---- */

static int is_average(const ct_op_desc_t *d)
{
  return d->u.pool.average || d->u.pool.adaptive || d->u.pool.global;
}

static void forward(const pool3_t *k, const ct_op_args_t *a)
{
  int average = is_average(&k->op.desc), keeps = (k->op.desc.passes & CT_BWD_DATA) != 0;
  int64_t tasks = task_count(k);
  ct_dtype_t dtype = k->op.desc.x.dtype;

#pragma omp parallel for if (cpu__is_parallel(&k->op.desc.x)) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    task_t t = task_of(k, i);
    const void *x = cpu__at(a->x, t.x, dtype);
    void *y = cpu__at(a->y, t.y, dtype);
    if (average) {
      k->loops->average3(&k->loop, t.px, x, y);
    } else {
      k->loops->max3(&k->loop, t.px, x, y, keeps ? (uint8_t *)a->saved + t.place : NULL);
    }
  }
}

static void backward(const pool3_t *k, const ct_op_args_t *a)
{
  int average = is_average(&k->op.desc);
  int64_t tasks = task_count(k);
  ct_dtype_t dtype = k->op.desc.x.dtype;

#pragma omp parallel for if (cpu__is_parallel(&k->op.desc.x)) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    task_t t = task_of(k, i);
    const void *dy = cpu__at(a->dy, t.y, dtype);
    void *dx = cpu__at(a->dx, t.x, dtype);
    if (average) {
      k->loops->average3_bwd(&k->loop, t.px, dy, dx);
    } else {
      k->loops->max3_bwd(&k->loop, t.px, (const uint8_t *)a->saved + t.place, dy, dx);
    }
  }
}

static int run(ct_op_t *op, const ct_op_args_t *a)
{
  const pool3_t *k = (const pool3_t *)op;

  if (a->pass & CT_FWD) forward(k, a);
  if (a->pass & CT_BWD_DATA) backward(k, a);
  return CT_OK;
}

/* ---- preparation ---- */

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const int *kernel = d->u.pool.kernel;

  (void)dev;
  if (is_average(d) || (int64_t)kernel[0] * kernel[1] * kernel[2] <= CPU__POOL_NONE) return 1;
  snprintf(why, 128, "windows of a maximum have at most %d elements", CPU__POOL_NONE);
  return 0;
}

/* Output i of an axis; its number in the descriptor is `at`. */
static cpu__extent_t window_of(const ct_op_desc_t *d, int at, int64_t i)
{
  int64_t in = d->x.dim[2 + at], out = d->y.dim[2 + at], from, to;

  if (d->u.pool.adaptive || d->u.pool.global)
    return (cpu__extent_t){(int32_t)(i * in / out), (int32_t)(((i + 1) * in + out - 1) / out)};
  from = i * d->u.pool.stride[at] - d->u.pool.pad[at];
  to = from + d->u.pool.kernel[at];
  return (cpu__extent_t){(int32_t)(from < 0 ? 0 : from), (int32_t)(to < in ? to : in)};
}

static void set_tables(const ct_op_desc_t *d, cpu__pool3_t *p, int axis, int at)
{
  int sized = !d->u.pool.adaptive && !d->u.pool.global;

  for (int64_t i = 0; i < p->out[axis]; i++) {
    cpu__extent_t w = at < 0 ? (cpu__extent_t){0, 1} : window_of(d, at, i);
    p->window[axis][i] = w;
    p->share[axis][i] = 1.0f / (float)(w.to - w.from);
    if (at >= 0 && sized && d->u.pool.include_pad)
      p->share[axis][i] = 1.0f / (float)d->u.pool.kernel[at];
    for (int32_t k = w.from; k < w.to; k++) {
      cpu__extent_t *c = &p->cover[axis][k]; /* zero so far: under no window */
      if (c->to == 0) c->from = (int32_t)i;
      c->to = (int32_t)i + 1;
    }
  }
}

static int make_tables(pool3_t *k)
{
  const ct_op_desc_t *d = &k->op.desc;
  cpu__pool3_t *p = &k->loop;
  size_t windows = 0, outputs = 0, missing = (size_t)(5 - d->x.ndim);

  for (int axis = 0; axis < 3; axis++) {
    int at = axis - (int)missing;
    p->in[axis] = at < 0 ? 1 : d->x.dim[2 + at];
    p->out[axis] = at < 0 ? 1 : d->y.dim[2 + at];
    p->kernel[axis] = at < 0 ? 1 : d->u.pool.kernel[at];
    p->stride[axis] = at < 0 ? 1 : d->u.pool.stride[at];
    p->pad[axis] = at < 0 ? 0 : d->u.pool.pad[at];
    windows += (size_t)(p->in[axis] + p->out[axis]);
    outputs += (size_t)p->out[axis];
  }
  k->tables = ct_mem_alloc(windows * sizeof *p->window[0] + outputs * sizeof *p->share[0],
                           "pooling windows");
  if (!k->tables) return CT_ERR_NOMEM;
  cpu__extent_t *extent = k->tables;
  float *share = (float *)(extent + windows);
  for (int axis = 0; axis < 3; axis++) {
    p->window[axis] = extent;
    p->cover[axis] = extent + p->out[axis];
    p->share[axis] = share;
    extent += p->out[axis] + p->in[axis];
    share += p->out[axis];
    set_tables(d, p, axis, axis - (int)missing);
  }
  return CT_OK;
}

static int prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  pool3_t *k = (pool3_t *)op;
  const ct_op_desc_t *d = &op->desc;

  (void)like;
  k->x = cpu__view(&d->x);
  k->y = cpu__view(&d->y);
  k->loops = cpu__loops_for(op->dev, d->x.dtype, k->x.lanes);
  k->vectors = (k->x.lanes + k->loops->width - 1) / k->loops->width;
  k->loop.relu = d->u.pool.relu;
  CT_TRY(make_tables(k));
  if ((d->passes & CT_BWD_DATA) && !is_average(d))
    info->saved = (size_t)(task_count(k) * k->y.inner * k->loops->width);
out:
  return rc;
}

static void clear(ct_op_t *op)
{
  ct_mem_free(((pool3_t *)op)->tables);
}

const cpu__op_kind_t cpu__pool3 = {.size = sizeof(pool3_t),
                                   .bf16 = 1,
                                   .supports = supports,
                                   .prepare = prepare,
                                   .run = run,
                                   .clear = clear};
