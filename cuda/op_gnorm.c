/* Group normalization, in either layout. Saved from forward to backward: mean and 1 / std per group
 * and sample. */
#include "cuda/gpu.h"
#include "cuda/kernels/gnorm.h"

typedef struct gnorm_op {
  ct_op_t head;
  gpu__gnorm_t shape;
} gnorm_op_t;

static int gnorm_prepare(ct_op_t *op, ct_op_info_t *info)
{
  gnorm_op_t *k = (gnorm_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int last = d->x.layout == CT_NHWC;
  gpu__gnorm_t *g = &k->shape;

  *g = (gpu__gnorm_t){.samples = d->x.dim[0], .channels = d->x.dim[1], .groups = d->u.gnorm.groups};
  g->space = ct_shape_sample(&d->x) / g->channels;
  g->channel_step = last ? 1 : g->space;
  g->pixel_step = last ? g->channels : 1;
  size_t groups = (size_t)(2 * g->samples * g->groups) * sizeof(float);
  info->scratch = groups + (size_t)(2 * g->samples * g->channels) * sizeof(float);
  if (ct_op_goes_back(d)) info->saved = groups;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  /* the second kernel reads x, and in backward also the gradient */
  info->extra_bytes[0] = (double)ct_shape_bytes(&d->x);
  info->extra_bytes[1] = 2 * info->extra_bytes[0];
  info->kernels[0] = 3;
  info->kernels[1] = 4;
  return CT_OK;
}

static int gnorm_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                     cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  const gpu__gnorm_t *g = &((const gnorm_op_t *)op)->shape;
  const float *w = d->u.gnorm.affine ? a->w[0] : NULL, *b = w ? a->w[1] : NULL;
  float *of_groups = a->scratch, *sums = of_groups + 2 * g->samples * g->groups;
  float *stats = ct_op_goes_back(d) ? a->saved : of_groups;
  (void)at;

  if (a->pass & CT_FWD)
    GPU_TRY(gpu__gnorm(d->x.dtype, g, (float)d->u.gnorm.eps, a->x, w, b, a->y, sums, stats, s));
  if (!(a->pass & (CT_BWD_DATA | CT_BWD_PARAM))) goto out;
  GPU_TRY(gpu__gnorm_sums(d->x.dtype, g, a->x, a->dy, a->dy2, stats, sums, s));
  if (a->pass & CT_BWD_PARAM && w) GPU_TRY(gpu__gnorm_param(g, stats, sums, a->dw[0], a->dw[1], s));
  if (a->pass & CT_BWD_DATA)
    GPU_TRY(
        gpu__gnorm_data(d->x.dtype, g, a->x, w, stats, sums, a->dy, a->dy2, a->dx, of_groups, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_gnorm = {
    .size = sizeof(gnorm_op_t), .reduced = 1, .prepare = gnorm_prepare, .run = gnorm_run};
