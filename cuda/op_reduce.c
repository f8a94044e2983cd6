/* Reductions over any dims, and the cumulative sum along one. */
#include "cuda/gpu.h"
#include "cuda/kernels/reduce.h"

typedef struct reduce_op {
  ct_op_t head;
  gpu__reduce_t shape;
} reduce_op_t;

static void add_dim(gpu__dims_t *d, int64_t size, int64_t step, int merge)
{
  if (merge) {
    d->size[d->n - 1] *= size;
    return;
  }
  d->size[d->n] = size;
  d->step[d->n++] = step;
}

/* Finds the dims in memory, from the last. */
static void find_dims(const ct_op_desc_t *d, gpu__reduce_t *r)
{
  int last = d->x.layout == CT_NHWC, before = -1; /* before: 1 if the dim after was reduced */
  int64_t step = 1;
  for (int i = 0; i < d->x.ndim; i++) {
    /* channels last: C, then the pixels, then N */
    int dim = !last ? d->x.ndim - 1 - i : i == 0 ? 1 : i < d->x.ndim - 1 ? d->x.ndim - i : 0;
    int64_t size = d->x.dim[dim];
    int is = d->u.reduce.dims >> dim & 1;
    if (size == 1) continue;
    add_dim(is ? &r->reduced : &r->kept, size, step, before == is);
    if (before < 0) r->rows = is;
    before = is;
    step *= size;
  }
}

static int reduce_prepare(ct_op_t *op, ct_op_info_t *info)
{
  gpu__reduce_t *r = &((reduce_op_t *)op)->shape;
  const ct_op_desc_t *d = &op->desc;
  ct_op_desc_t back = *d;
  find_dims(d, r);
  back.passes = CT_BWD_DATA;
  r->count = ct_op_reduced(d);
  r->lines = ct_shape_count(&d->x) / (r->count ? r->count : 1);
  r->mode = d->u.reduce.mode;
  r->p = d->u.reduce.p;
  r->correction = d->u.reduce.correction;
  r->uses_x = !!(ct_op_uses(&back) & CT_USES_X);
  r->uses_y = !!(ct_op_uses(&back) & CT_USES_Y);
  if (d->y.ndim != d->x.ndim) info->y_layout = CT_PLAIN;
  return CT_OK;
}

static int reduce_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__reduce_t *r = &((const reduce_op_t *)op)->shape;
  ct_dtype_t t = op->desc.x.dtype;
  (void)at;
  if (ct_shape_count(&op->desc.x) == 0) return CT_OK;
  if (a->pass & CT_FWD) GPU_TRY(gpu__reduce(t, r, a->x, a->y, s));
  const void *x = r->uses_x ? a->x : NULL, *y = r->uses_y ? a->y : NULL;
  if (a->pass & CT_BWD_DATA) GPU_TRY(gpu__reduce_back(t, r, x, y, a->dy, a->dx, s));
out:
  return rc;
}

int gpu__reduce_nhwc(const ct_op_desc_t *d)
{
  unsigned dims = d->u.reduce.dims, pixels = (1u << d->x.ndim) - 4;
  if (d->u.reduce.mode == CT_RED_CUMSUM) return 0;
  return d->y.ndim == d->x.ndim || (dims & pixels) == pixels;
}

static int reduce_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->x.layout == CT_PLAIN || gpu__reduce_nhwc(d)) return 1;
  return gpu__cannot(why, "the CUDA backend reduces these dims in the plain layout only");
}

const gpu__kind_t gpu__kind_reduce = {.size = sizeof(reduce_op_t),
                                      .reduced = 1,
                                      .supports = reduce_supports,
                                      .prepare = reduce_prepare,
                                      .run = reduce_run};
