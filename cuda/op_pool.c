/* Pooling. The position of each maximum is saved, so that backward needs neither x nor y. */
#include <limits.h>

#include "cuda/gpu.h"
#include "cuda/kernels/pool.h"

typedef struct pool {
  ct_op_t op;
  gpu__windows_t windows;
} pool_t;

/* ---- support ---- */

static int pool_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  for (int i = 2; i < d->x.ndim; i++)
    if (d->x.dim[i] > INT_MAX / d->x.dim[1] || d->y.dim[i] > INT_MAX / d->x.dim[1])
      return gpu__cannot(why, "a line of the image is too large");
  return 1;
}

/* ---- preparation ---- */

static void set_windows(const ct_op_desc_t *d, gpu__windows_t *g)
{
  int missing = 5 - d->x.ndim;
  *g = (gpu__windows_t){.batch = d->x.dim[0],
                        .channels = (int)d->x.dim[1],
                        .in = {1},
                        .out = {1},
                        .adaptive = !ct_op_has_kernel(d),
                        .kernel = {1},
                        .stride = {1},
                        .dilate = {1},
                        .include_pad = d->u.pool.include_pad,
                        .divisor = d->u.pool.divisor};
  for (int i = missing; i < 3; i++) {
    int axis = i - missing;
    g->in[i] = (int)d->x.dim[2 + axis];
    g->out[i] = (int)d->y.dim[2 + axis];
    g->dilate[i] = 1 + d->u.pool.gap[axis];
    g->kernel[i] = g->dilate[i] * (d->u.pool.kernel[axis] - 1) + 1;
    if (g->adaptive) g->kernel[i] = (g->in[i] - 1) / g->out[i] + 2;
    g->stride[i] = d->u.pool.stride[axis];
    g->pad[i] = d->u.pool.pad[axis];
  }
}

static int pool_prepare(ct_op_t *op, ct_op_info_t *info)
{
  pool_t *p = (pool_t *)op;
  const ct_op_desc_t *d = &op->desc;
  set_windows(d, &p->windows);
  if (ct_shape_count(&d->y) == d->y.dim[0] * d->y.dim[1])
    info->y_layout = CT_PLAIN; /* identical to NHWC */
  if (d->passes & CT_BWD_DATA && !ct_op_averages(d))
    info->saved = (size_t)ct_shape_count(&d->y) * gpu__pool_argmax_size(&p->windows);
  info->takes_dy2 = 1;
  return CT_OK;
}

/* ---- execution ---- */

static int pool_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK, average = ct_op_averages(&op->desc);
  const gpu__windows_t *g = &((pool_t *)op)->windows;
  const ct_op_desc_t *d = &op->desc;
  void *argmax = d->passes & CT_BWD_DATA ? a->saved : NULL;
  (void)at;
  if (a->pass & CT_FWD && average) GPU_TRY(gpu__average_pool(d->x.dtype, g, a->x, a->y, s));
  if (a->pass & CT_FWD && !average)
    GPU_TRY(gpu__max_pool(d->x.dtype, g, d->u.pool.relu, a->x, a->y, argmax, s));
  if (a->pass & CT_BWD_DATA && average)
    GPU_TRY(gpu__average_pool_backward(d->x.dtype, g, a->dy, a->dy2, a->dx, s));
  if (a->pass & CT_BWD_DATA && !average)
    GPU_TRY(gpu__max_pool_backward(d->x.dtype, g, argmax, a->dy, a->dy2, a->dx, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_pool = {.size = sizeof(pool_t),
                                    .reduced = 1,
                                    .supports = pool_supports,
                                    .nhwc = 1,
                                    .prepare = pool_prepare,
                                    .run = pool_run};
