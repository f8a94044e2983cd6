/* Pooling, with the semantics of torch.nn.MaxPool2d and 3d, AvgPool2d and 3d, and AdaptiveAvgPool2d
 * and 3d, whose windows differ in size and may overlap; other maxima are in free_max.c.  An image
 * is a volume of depth 1.
 *
 * Forward max pooling saves the index of the maximum in its window, in one byte per output, or four
 * bytes if windows have more than 255 elements.  So backward needs neither x nor y, and reads a
 * sixteenth of the data that a new search for the maximum would read. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/free_max.h"
#include "cpu/kern/loops.h"

typedef struct pool {
  ct_op_t op;
  const cpu__loops_t *loops;
  cpu__pool_t loop;
  cpu__view_t x, y;
  int64_t vectors;       /* vectors per group of channels */
  void *tables;          /* memory of loop.window, cover and share */
  cpu__free_max_t *free; /* a maximum whose windows are not blocks of one size; else NULL */
} pool_t;

/* Returns 1 if y has one element per channel of an image: y is then plain, without padding. */
static int is_flat(const ct_op_desc_t *d)
{
  return d->u.pool.global && d->x.ndim == 4;
}

/* ---- one task: one vector of channels of one sample ---- */

typedef struct task {
  int64_t x, y;   /* offsets of the first voxel in x and y */
  int64_t argmax; /* offset of the arg-max indices */
  cpu__pixels_t px, py;
} task_t;

/* Returns the number of valid lanes of the vector that begins at lane `lane` of a group of `lanes`
 * channels. */
static int lanes_left(const pool_t *k, int64_t lanes, int64_t lane)
{
  int64_t left = lanes > lane ? lanes - lane : 0;
  return left < k->loops->width ? (int)left : k->loops->width;
}

static int64_t task_count(const pool_t *k)
{
  return k->x.n * k->x.groups * k->vectors;
}

/* Returns the size of a task's arg-max indices in bytes. */
static int64_t argmax_bytes(const pool_t *k)
{
  int64_t each = k->loop.wide ? (int64_t)sizeof(int32_t) : 1;
  return k->y.inner * k->loops->width * each;
}

static task_t task_of(const pool_t *k, int64_t i)
{
  int64_t lane = i % k->vectors * k->loops->width, group = i / k->vectors; /* over all samples */
  int64_t sample = group / k->x.groups, channel = group % k->x.groups * k->x.lanes + lane;
  task_t t;

  t.x = group * k->x.inner * k->x.lanes + lane;
  t.px = (cpu__pixels_t){k->x.lanes, lanes_left(k, k->x.lanes, lane)};
  t.argmax = i * argmax_bytes(k);
  if (is_flat(&k->op.desc)) {
    t.y = sample * k->x.c + channel;
    t.py = (cpu__pixels_t){k->x.c, lanes_left(k, k->x.c, channel)};
  } else {
    t.y = group * k->y.inner * k->x.lanes + lane;
    t.py = t.px;
  }
  return t;
}

/* ---- passes ---- */

static int streams(const pool_t *k, const void *out, const ct_shape_t *s)
{
  return k->loops->width == k->x.lanes && cpu__streams(out, ct_shape_bytes(s));
}

static void pool_forward(const pool_t *k, const ct_op_args_t *a)
{
  int average = ct_op_averages(&k->op.desc), keeps = (k->op.desc.passes & CT_BWD_DATA) != 0;
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
      uint8_t *argmax = keeps ? (uint8_t *)a->saved + t.argmax : NULL;
      k->loops->max(&k->loop, t.px, x, y, argmax, stream);
    }
  }
}

static void pool_backward(const pool_t *k, const ct_op_args_t *a)
{
  int average = ct_op_averages(&k->op.desc), stream = streams(k, a->dx, &k->op.desc.x);
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
      k->loops->max_bwd(&k->loop, t.px, (const uint8_t *)a->saved + t.argmax, dy, dx, stream);
    }
  }
}

static int pool_run(ct_op_t *op, const ct_op_args_t *a)
{
  const pool_t *k = (const pool_t *)op;

  if (k->free) return cpu__free_max_run(k->free, a);
  if (a->pass & CT_FWD) pool_forward(k, a);
  if (a->pass & CT_BWD_DATA) pool_backward(k, a);
  return CT_OK;
}

/* ---- preparation ---- */

/* Returns the index in the descriptor of an axis of the loops; below 0: the depth of an image. */
static int axis_of(const ct_op_desc_t *d, int axis)
{
  return axis - (5 - d->x.ndim);
}

static void set_window(const ct_op_desc_t *d, cpu__pool_t *p)
{
  p->tiles = d->x.ndim == 4;
  for (int axis = 0; axis < 3; axis++) {
    int at = axis_of(d, axis);
    p->in[axis] = at < 0 ? 1 : d->x.dim[2 + at];
    p->out[axis] = at < 0 ? 1 : d->y.dim[2 + at];
    p->kernel[axis] = at < 0 ? 1 : d->u.pool.kernel[at];
    p->stride[axis] = at < 0 ? 1 : d->u.pool.stride[at];
    p->pad[axis] = at < 0 ? 0 : d->u.pool.pad[at];
    p->tiles &= p->kernel[axis] == p->stride[axis] && p->pad[axis] == 0 &&
                p->kernel[axis] * p->out[axis] == p->in[axis];
  }
  p->wide = (int64_t)p->kernel[0] * p->kernel[1] * p->kernel[2] > CPU__POOL_BYTE_ARGMAX;
  p->relu = d->u.pool.relu;
}

/* Returns the window of output i along an axis; `at`: index of the axis in the descriptor. */
static cpu__extent_t window_of(const ct_op_desc_t *d, int at, int64_t i)
{
  int64_t in = d->x.dim[2 + at], out = d->y.dim[2 + at], from, to;

  if (!ct_op_has_kernel(d))
    return (cpu__extent_t){(int32_t)(i * in / out), (int32_t)(((i + 1) * in + out - 1) / out)};
  from = i * d->u.pool.stride[at] - d->u.pool.pad[at];
  to = from + d->u.pool.kernel[at];
  return (cpu__extent_t){(int32_t)(from < 0 ? 0 : from), (int32_t)(to < in ? to : in)};
}

/* Returns the factor along an axis by which the sum of a window is multiplied in an average. */
static float share_of(const ct_op_desc_t *d, int at, int64_t i, cpu__extent_t w)
{
  if (at >= 0 && ct_op_has_kernel(d) && d->u.pool.divisor)
    return at == 0 ? 1.0f / (float)d->u.pool.divisor : 1;
  if (at < 0 || !ct_op_has_kernel(d) || !d->u.pool.include_pad)
    return 1.0f / (float)(w.to - w.from);
  /* the part of the window in the padded image */
  int64_t from = i * d->u.pool.stride[at] - d->u.pool.pad[at], to = from + d->u.pool.kernel[at];
  int64_t end = d->x.dim[2 + at] + d->u.pool.pad[at];
  return 1.0f / (float)((to < end ? to : end) - from);
}

static void set_tables(const ct_op_desc_t *d, cpu__pool_t *p, int axis, int at)
{
  for (int64_t i = 0; i < p->out[axis]; i++) {
    cpu__extent_t w = at < 0 ? (cpu__extent_t){0, 1} : window_of(d, at, i);
    p->window[axis][i] = w;
    p->share[axis][i] = share_of(d, at, i, w);
    for (int32_t k = w.from; k < w.to; k++) {
      cpu__extent_t *c = &p->cover[axis][k]; /* zero: no window yet */
      if (c->to == 0) c->from = (int32_t)i;
      c->to = (int32_t)i + 1;
    }
  }
}

static int make_tables(pool_t *k)
{
  const ct_op_desc_t *d = &k->op.desc;
  cpu__pool_t *p = &k->loop;
  size_t extents = 0, outputs = 0;

  for (int axis = 0; axis < 3; axis++) {
    extents += (size_t)(p->in[axis] + p->out[axis]);
    outputs += (size_t)p->out[axis];
  }
  k->tables = ct_mem_alloc(extents * sizeof *p->window[0] + outputs * sizeof *p->share[0],
                           "pooling windows");
  if (!k->tables) return CT_ERR_NOMEM;
  cpu__extent_t *extent = k->tables;
  float *share = (float *)(extent + extents);
  for (int axis = 0; axis < 3; axis++) {
    p->window[axis] = extent;
    p->cover[axis] = extent + p->out[axis];
    p->share[axis] = share;
    extent += p->out[axis] + p->in[axis];
    share += p->out[axis];
    set_tables(d, p, axis, axis_of(d, axis));
  }
  return CT_OK;
}

static int pool_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  pool_t *k = (pool_t *)op;
  const ct_op_desc_t *d = &op->desc;

  (void)like;
  if (cpu__is_free_max(d)) return cpu__free_max_make(op->dev, d, &k->free, info);
  set_window(d, &k->loop);
  k->x = cpu__view(&d->x);
  k->y = cpu__view(&d->y);
  k->loops = cpu__loops_for(op->dev, d->x.dtype, k->x.lanes);
  k->vectors = (k->x.lanes + k->loops->width - 1) / k->loops->width;
  CT_TRY(make_tables(k));
  if (is_flat(d)) info->y_layout = CT_PLAIN;
  if ((d->passes & CT_BWD_DATA) && !ct_op_averages(d))
    info->saved = (size_t)(task_count(k) * argmax_bytes(k));
out:
  return rc;
}

static void pool_clear(ct_op_t *op)
{
  ct_mem_free(((pool_t *)op)->tables);
  ct_mem_free(((pool_t *)op)->free);
}

const cpu__op_kind_t cpu__pool = {.size = sizeof(pool_t),
                                  .bf16 = 1,
                                  .prepare = pool_prepare,
                                  .run = pool_run,
                                  .clear = pool_clear};
