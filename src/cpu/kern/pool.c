/* Pooling, with the semantics of torch.nn.MaxPool2d, AvgPool2d and AdaptiveAvgPool2d(1).
 *
 * The forward pass of a maximum keeps one byte per output, where in the window it was.  Backward
 * needs neither x nor y then, and reads a sixteenth of what it would to find the place again. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/loops.h"

typedef struct pool {
  ct_op_t op;
  const cpu__loops_t *loops;
  cpu__pool_t loop;
  cpu__view_t x, y;
  int64_t vectors; /* across the channels of a group */
  void *tables;    /* memory of loop.cover and loop.share */
} pool_t;

/* ---- one task: one vector of channels of one image ---- */

typedef struct task {
  int64_t x, y, place; /* where its first pixel lies */
  cpu__pixels_t px, py;
} task_t;

/* Of a vector that begins at `lane`, what is within `lanes`. */
static int lanes_left(const pool_t *k, int64_t lanes, int64_t lane)
{
  int64_t left = lanes > lane ? lanes - lane : 0;
  return left < k->loops->width ? (int)left : k->loops->width;
}

static int64_t task_count(const pool_t *k)
{
  return k->x.n * k->x.groups * k->vectors;
}

static task_t task_of(const pool_t *k, int64_t i)
{
  int64_t lane = i % k->vectors * k->loops->width, group = i / k->vectors % k->x.groups;
  int64_t image = i / k->vectors / k->x.groups, channel = group * k->x.lanes + lane;
  task_t t;

  t.x = (image * k->x.groups + group) * k->x.inner * k->x.lanes + lane;
  t.px = (cpu__pixels_t){k->x.lanes, lanes_left(k, k->x.lanes, lane)};
  t.place = i * k->loop.out[0] * k->loop.out[1] * k->loops->width;
  if (k->op.desc.u.pool.global) { /* y is plain, without padding */
    t.y = image * k->x.c + channel;
    t.py = (cpu__pixels_t){k->x.c, lanes_left(k, k->x.c, channel)};
  } else {
    t.y = (image * k->x.groups + group) * k->y.inner * k->x.lanes + lane;
    t.py = t.px;
  }
  return t;
}

/* ---- passes ---- */

static int is_average(const ct_op_desc_t *d)
{
  return d->u.pool.global || d->u.pool.average;
}

static int streams(const pool_t *k, const void *out, const ct_shape_t *s)
{
  return k->loops->width == k->x.lanes && cpu__streams(out, ct_shape_bytes(s));
}

static void forward(const pool_t *k, const ct_op_args_t *a)
{
  int average = is_average(&k->op.desc), keeps = (k->op.desc.passes & CT_BWD_DATA) != 0;
  int stream = streams(k, a->y, &k->op.desc.y);
  ct_dtype_t dtype = k->op.desc.x.dtype;
  int64_t tasks = task_count(k);

#pragma omp parallel for if (cpu__is_parallel(&k->op.desc.x)) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    task_t t = task_of(k, i);
    const void *x = cpu__at(a->x, t.x, dtype);
    void *y = cpu__at(a->y, t.y, dtype);
    if (average) {
      k->loops->average(&k->loop, t.px, t.py, x, y);
    } else {
      uint8_t *place = keeps ? (uint8_t *)a->saved + t.place : NULL;
      k->loops->max(&k->loop, t.px, x, y, place, stream);
    }
  }
}

static void backward(const pool_t *k, const ct_op_args_t *a)
{
  int average = is_average(&k->op.desc), stream = streams(k, a->dx, &k->op.desc.x);
  ct_dtype_t dtype = k->op.desc.x.dtype;
  int64_t tasks = task_count(k);

#pragma omp parallel for if (cpu__is_parallel(&k->op.desc.x)) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    task_t t = task_of(k, i);
    const void *dy = cpu__at(a->dy, t.y, dtype);
    void *dx = cpu__at(a->dx, t.x, dtype);
    if (average) {
      k->loops->average_bwd(&k->loop, t.px, t.py, dy, dx);
    } else {
      k->loops->max_bwd(&k->loop, t.px, (const uint8_t *)a->saved + t.place, dy, dx, stream);
    }
  }
}

static int run(ct_op_t *op, const ct_op_args_t *a)
{
  const pool_t *k = (const pool_t *)op;

  if (a->pass & CT_FWD) forward(k, a);
  if (a->pass & CT_BWD_DATA) backward(k, a);
  return CT_OK;
}

/* ---- preparation ---- */

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const int *kernel = d->u.pool.kernel;

  (void)dev;
  if (is_average(d) || (int64_t)kernel[0] * kernel[1] <= CPU__POOL_NONE) return 1;
  snprintf(why, 128, "windows of a maximum have at most %d elements", CPU__POOL_NONE);
  return 0;
}

static void set_window(const ct_op_desc_t *d, cpu__pool_t *p)
{
  for (int axis = 0; axis < 2; axis++) {
    p->in[axis] = d->x.dim[2 + axis];
    p->out[axis] = d->y.dim[2 + axis];
    p->kernel[axis] = d->u.pool.global ? (int)p->in[axis] : d->u.pool.kernel[axis];
    p->stride[axis] = d->u.pool.global ? 1 : d->u.pool.stride[axis];
    p->pad[axis] = d->u.pool.global ? 0 : d->u.pool.pad[axis];
  }
  p->tiles = 1;
  for (int axis = 0; axis < 2; axis++)
    p->tiles &= p->kernel[axis] == p->stride[axis] && p->kernel[axis] * p->out[axis] == p->in[axis];
  p->relu = d->u.pool.relu;
}

static void set_tables(cpu__pool_t *p, int axis, int include_pad)
{
  int kernel = p->kernel[axis], stride = p->stride[axis], pad = p->pad[axis];

  for (int64_t i = 0; i < p->in[axis]; i++) {
    int64_t before = i + pad - kernel, last = (i + pad) / stride;
    p->cover[axis][i][0] = before < 0 ? 0 : (int32_t)(before / stride + 1);
    p->cover[axis][i][1] = (int32_t)(last < p->out[axis] ? last : p->out[axis] - 1);
  }
  for (int64_t i = 0; i < p->out[axis]; i++) {
    int64_t first = i * stride - pad, end = first + kernel;
    int64_t inside = (end < p->in[axis] ? end : p->in[axis]) - (first < 0 ? 0 : first);
    p->share[axis][i] = 1.0f / (float)(include_pad ? kernel : inside);
  }
}

static int prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  pool_t *k = (pool_t *)op;
  cpu__pool_t *p = &k->loop;
  const ct_op_desc_t *d = &op->desc;

  (void)like;
  set_window(d, p);
  k->x = cpu__view(&d->x);
  k->y = cpu__view(&d->y);
  k->loops = cpu__loops_for(op->dev, d->x.dtype, k->x.lanes);
  k->vectors = (k->x.lanes + k->loops->width - 1) / k->loops->width;

  size_t cover = sizeof *p->cover[0], share = sizeof *p->share[0];
  k->tables =
      ct_mem_alloc((size_t)(p->in[0] + p->in[1]) * cover + (size_t)(p->out[0] + p->out[1]) * share,
                   "pooling windows");
  if (!k->tables) return CT_ERR_NOMEM;
  p->cover[0] = k->tables;
  p->cover[1] = p->cover[0] + p->in[0];
  p->share[0] = (float *)(p->cover[1] + p->in[1]);
  p->share[1] = p->share[0] + p->out[0];
  for (int axis = 0; axis < 2; axis++)
    set_tables(p, axis, d->u.pool.include_pad && !d->u.pool.global);

  if (d->u.pool.global) info->y_layout = CT_PLAIN;
  if ((d->passes & CT_BWD_DATA) && !is_average(d))
    info->saved = (size_t)(task_count(k) * p->out[0] * p->out[1] * k->loops->width);
  return CT_OK;
}

static void clear(ct_op_t *op)
{
  ct_mem_free(((pool_t *)op)->tables);
}

const cpu__op_kind_t cpu__pool = {.size = sizeof(pool_t),
                                  .bf16 = 1,
                                  .supports = supports,
                                  .prepare = prepare,
                                  .run = run,
                                  .clear = clear};
