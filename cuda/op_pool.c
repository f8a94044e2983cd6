/* Pooling.  A maximum keeps where in its window it was, so that backward needs neither x nor y. */
#include <limits.h>

#include "cuda/gpu.h"
#include "cuda/kernels/pool.h"

typedef struct pool {
  ct_op_t op;
  gpu__windows_t windows;
} pool_t;

static int is_average(const ct_op_desc_t *d)
{
  return d->u.pool.average || d->u.pool.global || d->u.pool.adaptive;
}

/* ---- what can be done ---- */

static const char *check_axis(const ct_op_desc_t *d, int axis)
{
  int kernel = d->u.pool.kernel[axis], stride = d->u.pool.stride[axis], pad = d->u.pool.pad[axis];
  int64_t in = d->x.dim[2 + axis], out = d->y.dim[2 + axis];
  if (d->u.pool.global) return out == 1 ? NULL : "a global average has one output per channel";
  if (d->u.pool.adaptive) return NULL;
  if (kernel < 1 || stride < 1) return "kernel and stride must be at least 1";
  if (pad < 0 || pad > kernel / 2) return "padding must be 0 to half of the kernel";
  return out == ct_op_window_out(in, kernel, stride, pad, 1)
             ? NULL
             : "the output's size is not what the window gives";
}

static const char *check(const ct_op_desc_t *d)
{
  const ct_shape_t *x = &d->x, *y = &d->y;
  if (x->ndim < 4 || y->ndim != x->ndim) return "pooling takes N x C x H x W or N x C x D x H x W";
  if (x->dim[0] != y->dim[0] || x->dim[1] != y->dim[1])
    return "input and output differ in batch size or channels";
  if (d->u.pool.relu && is_average(d)) return "only maximum pooling has a ReLU";
  for (int axis = 0; axis < x->ndim - 2; axis++) {
    const char *reason = check_axis(d, axis);
    if (reason) return reason;
    if (x->dim[2 + axis] > INT_MAX / x->dim[1] || y->dim[2 + axis] > INT_MAX / x->dim[1])
      return "a line of the image is too large";
  }
  return NULL;
}

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const char *reason = check(d);
  (void)dev;
  return reason ? gpu__cannot(why, reason) : 1;
}

/* ---- preparation ---- */

static void set_windows(const ct_op_desc_t *d, gpu__windows_t *g)
{
  int missing = 5 - d->x.ndim;
  *g = (gpu__windows_t){.batch = d->x.dim[0],
                        .channels = (int)d->x.dim[1],
                        .in = {1},
                        .out = {1},
                        .adaptive = d->u.pool.adaptive || d->u.pool.global,
                        .kernel = {1},
                        .stride = {1},
                        .include_pad = d->u.pool.include_pad};
  for (int i = missing; i < 3; i++) {
    int axis = i - missing;
    g->in[i] = (int)d->x.dim[2 + axis];
    g->out[i] = (int)d->y.dim[2 + axis];
    g->kernel[i] = d->u.pool.kernel[axis];
    g->stride[i] = d->u.pool.stride[axis];
    g->pad[i] = d->u.pool.pad[axis];
  }
}

static int prepare(ct_op_t *op, ct_op_info_t *info)
{
  pool_t *p = (pool_t *)op;
  const ct_op_desc_t *d = &op->desc;
  set_windows(d, &p->windows);
  if (ct_shape_count(&d->y) == d->y.dim[0] * d->y.dim[1]) info->y_layout = CT_PLAIN; /* the same */
  if (d->passes & CT_BWD_DATA && !is_average(d))
    info->saved = (size_t)ct_shape_count(&d->y) * gpu__pool_place_size(&p->windows);
  info->takes_dy2 = 1;
  return CT_OK;
}

/* ---- running ---- */

static int run(ct_op_t *op, const ct_op_args_t *a, const gpu__dial_t *at, cudaStream_t s)
{
  int rc = CT_OK, average = is_average(&op->desc);
  const gpu__windows_t *g = &((pool_t *)op)->windows;
  const ct_op_desc_t *d = &op->desc;
  void *places = d->passes & CT_BWD_DATA ? a->saved : NULL;
  (void)at;
  if (a->pass & CT_FWD && average) GPU_TRY(gpu__average_pool(d->x.dtype, g, a->x, a->y, s));
  if (a->pass & CT_FWD && !average)
    GPU_TRY(gpu__max_pool(d->x.dtype, g, d->u.pool.relu, a->x, a->y, places, s));
  if (a->pass & CT_BWD_DATA && average)
    GPU_TRY(gpu__average_pool_backward(d->x.dtype, g, a->dy, a->dy2, a->dx, s));
  if (a->pass & CT_BWD_DATA && !average)
    GPU_TRY(gpu__max_pool_backward(d->x.dtype, g, places, a->dy, a->dy2, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_pool = {.size = sizeof(pool_t),
                                    .low = 1,
                                    .supports = supports,
                                    .nhwc = 1,
                                    .prepare = prepare,
                                    .run = run};
