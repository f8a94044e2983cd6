/* Batch normalization, semantics of torch.nn.BatchNorm2d, then + x2, then ReLU.
 *
 * The op is memory-bound. Forward reads x twice (and x2), and writes y. Backward reads x and dy
 * twice. Backward gets the sign of the ReLU's input by recomputing y from x; if an x2 was added,
 * forward stores the sign, one bit per element. If dx2, the gradient before the ReLU, is requested,
 * the summing pass writes dx2, and the second pass reads dx2 instead of dy and dy2. */
#include "cuda/gpu.h"
#include "cuda/kernels/bnorm.h"

typedef struct bnorm {
  ct_op_t op;
  gpu__bn_grid_t grid;
  int keeps_norm;  /* 1: mean and invstd are saved from forward to backward */
  int keeps_signs; /* 1: the signs of the ReLU's input are saved from forward to backward */
} bnorm_t;

enum { BACK = CT_BWD_DATA | CT_BWD_PARAM | CT_BWD_STATS };

/* ---- memory ---- */

/* Returns the offset of the count in saved memory: [mean][invstd] of the batch, if kept; the count
 * for SyncBN; the signs, if kept. */
static size_t count_at(const bnorm_t *b)
{
  return b->keeps_norm ? 2 * (size_t)b->grid.channels * sizeof(float) : 0;
}

static size_t signs_at(const bnorm_t *b)
{
  return count_at(b) + (b->op.desc.u.bnorm.sync ? sizeof(double) : 0);
}

static size_t signs_bytes(const bnorm_t *b)
{
  return (size_t)(b->grid.rows * b->grid.channels / b->grid.width);
}

static double *count_of(const bnorm_t *b, const ct_op_args_t *a)
{
  return b->keeps_norm && b->op.desc.u.bnorm.sync ? (double *)((char *)a->saved + count_at(b))
                                                  : NULL;
}

static unsigned char *signs_of(const bnorm_t *b, const ct_op_args_t *a)
{
  return b->keeps_signs ? (unsigned char *)a->saved + signs_at(b) : NULL;
}

/* Returns the partial sums in scratch: [mean][invstd], in backward [middle][slope]; then the
 * partial sums of the splits. */
static float *sums_of(const bnorm_t *b, const ct_op_args_t *a)
{
  return (float *)a->scratch + 2 * b->grid.channels;
}

static size_t scratch_bytes(const bnorm_t *b)
{
  return (size_t)(2 * b->grid.channels * (1 + b->grid.splits)) * sizeof(float);
}

/* Returns the statistics for normalization: those of the batch, or the running statistics. */
static gpu__bn_norm_t norm_of(const bnorm_t *b, const ct_op_args_t *a)
{
  const ct_op_desc_t *d = &b->op.desc;
  gpu__bn_norm_t n = {.weight = a->w[0], .bias = a->w[1]};
  if (d->training) {
    n.mean = b->keeps_norm ? a->saved : a->scratch;
    n.invstd = n.mean + b->grid.channels;
  } else {
    n.mean = a->w[2];
    n.var = a->w[3];
    n.eps = d->u.bnorm.eps;
  }
  return n;
}

/* ---- forward ---- */

static gpu__bn_stats_t stats_of(const bnorm_t *b, const ct_op_args_t *a)
{
  float *norm = b->keeps_norm ? a->saved : a->scratch;
  return (gpu__bn_stats_t){.eps = b->op.desc.u.bnorm.eps,
                           .momentum = a->keep_running ? 0 : b->op.desc.u.bnorm.momentum,
                           .mean = norm,
                           .invstd = norm + b->grid.channels,
                           .running_mean = a->w[2],
                           .running_var = a->w[3],
                           .count = count_of(b, a)};
}

static int local_stats(const bnorm_t *b, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  GPU_TRY(gpu__bn_moments(&b->grid, a->x, sums_of(b, a), s));
  GPU_TRY(gpu__bn_local(&b->grid, sums_of(b, a), a->w[2], a->stats, s));
out:
  return rc;
}

/* Computes the batch statistics. With SyncBN it also runs for an empty batch, to update the running
 * statistics with the statistics of the group. */
static int batch_stats(const bnorm_t *b, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  gpu__bn_stats_t out = stats_of(b, a);
  if (b->op.desc.u.bnorm.sync) {
    GPU_TRY(gpu__bn_merge_synced(b->grid.channels, a->stats, &out, s));
  } else if (b->grid.rows > 0) {
    GPU_TRY(gpu__bn_moments(&b->grid, a->x, sums_of(b, a), s));
    GPU_TRY(gpu__bn_merge(&b->grid, sums_of(b, a), &out, s));
  }
out:
  return rc;
}

static int bnorm_forward(const bnorm_t *b, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &b->op.desc;
  gpu__bn_norm_t norm = norm_of(b, a);
  if (d->training && !a->again) CT_TRY(batch_stats(b, a, s));
  GPU_TRY(gpu__bn_normalise(&b->grid, &norm, a->x, d->u.bnorm.add ? a->x2 : NULL, d->u.bnorm.relu,
                            a->y, signs_of(b, a), s));
out:
  return rc;
}

/* ---- backward ---- */

static gpu__bn_gradient_t gradient_of(const bnorm_t *b, const ct_op_args_t *a)
{
  gpu__bn_gradient_t g = {.dy = a->dy, .dy2 = a->dy2, .kept = signs_of(b, a)};
  g.sign = b->keeps_signs ? GPU_BN_KEPT : b->op.desc.u.bnorm.relu ? GPU_BN_FROM_X : GPU_BN_LINEAR;
  return g;
}

/* Returns the sums of the gradient that a pass needs. */
static gpu__bn_summed_t wanted_sums(const bnorm_t *b, const ct_op_args_t *a)
{
  const ct_op_desc_t *d = &b->op.desc;
  int with_stats = (a->pass & CT_BWD_STATS) != 0;
  gpu__bn_summed_t out = {.stats = with_stats ? a->stats : NULL};
  if (a->pass & CT_BWD_PARAM || (with_stats && d->passes & CT_BWD_PARAM)) {
    out.dweight = a->dw[0];
    out.dbias = a->dw[1];
  }
  if (a->pass & CT_BWD_DATA && d->training && !d->u.bnorm.sync) {
    out.middle = a->scratch;
    out.slope = out.middle + b->grid.channels;
  }
  return out;
}

/* Computes the sums of the gradient. On return *in describes the inputs from which dx is
 * computed. */
static int gradient_sums(const bnorm_t *b, const ct_op_args_t *a, const gpu__bn_norm_t *norm,
                         const gpu__bn_summed_t *out, gpu__bn_gradient_t *in, cudaStream_t s)
{
  int rc = CT_OK;
  void *dx2 = b->op.desc.u.bnorm.add && a->pass & CT_BWD_DATA ? a->dx2 : NULL;
  GPU_TRY(gpu__bn_gradient_sums(&b->grid, norm, a->x, in, dx2, sums_of(b, a), s));
  GPU_TRY(gpu__bn_sum_up(&b->grid, sums_of(b, a), norm, out, s));
  if (dx2) *in = (gpu__bn_gradient_t){.dy = dx2, .sign = GPU_BN_LINEAR};
out:
  return rc;
}

static int bnorm_backward(const bnorm_t *b, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &b->op.desc;
  gpu__bn_norm_t norm = norm_of(b, a);
  gpu__bn_gradient_t in = gradient_of(b, a);
  gpu__bn_summed_t sums = wanted_sums(b, a);
  void *dx2 = d->u.bnorm.add ? a->dx2 : NULL;

  if (sums.dweight || sums.middle || sums.stats) {
    CT_TRY(gradient_sums(b, a, &norm, &sums, &in, s));
    if (in.dy == dx2) dx2 = NULL; /* already written */
  }
  if (!(a->pass & CT_BWD_DATA) || (!a->dx && !dx2)) goto out;
  if (d->u.bnorm.sync) {
    sums.middle = a->scratch;
    sums.slope = sums.middle + b->grid.channels;
    GPU_TRY(gpu__bn_sum_up_synced(b->grid.channels, a->stats, count_of(b, a), &norm, &sums, s));
  }
  GPU_TRY(gpu__bn_dx(&b->grid, &norm, a->x, &in, sums.middle, sums.slope, a->dx, dx2, s));
out:
  return rc;
}

static int bnorm_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                     cudaStream_t s)
{
  int rc = CT_OK;
  const bnorm_t *b = (const bnorm_t *)op;
  (void)at;
  if (a->pass & CT_FWD_STATS) CT_TRY(local_stats(b, a, s));
  if (a->pass & CT_FWD) CT_TRY(bnorm_forward(b, a, s));
  if (a->pass & BACK) CT_TRY(bnorm_backward(b, a, s));
out:
  return rc;
}

/* ---- preparation ---- */

static int bnorm_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->x.ndim > 5) return gpu__cannot(why, "batch normalisation takes up to 3 dims of pixels");
  return d->within ? gpu__cannot(why, "tensors are whole") : 1;
}

static int bnorm_prepare(ct_op_t *op, ct_op_info_t *info)
{
  bnorm_t *b = (bnorm_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int back = ct_op_goes_back(d), relu = d->u.bnorm.relu;

  b->grid = gpu__bn_share(d->x.dtype, gpu__rows(&d->x), d->x.dim[1], op->dev->sms);
  b->keeps_norm = back && d->training;
  b->keeps_signs = back && relu && (d->u.bnorm.add || relu == CT_RELU6);
  info->scratch = scratch_bytes(b);
  if (back) info->saved = signs_at(b) + (b->keeps_signs ? signs_bytes(b) : 0);
  int of_x = d->training || d->passes & CT_BWD_PARAM || (relu && !b->keeps_signs);
  info->bwd_uses = back && of_x ? CT_USES_X : 0;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  if (d->training) { /* the second kernel reads x, and in backward also the gradient */
    info->extra_bytes[0] = (double)ct_shape_bytes(&d->x);
    info->extra_bytes[1] = 2 * info->extra_bytes[0];
    info->kernels[0] = info->kernels[1] = 3;
  }
  return CT_OK;
}

const gpu__kind_t gpu__kind_bnorm = {.size = sizeof(bnorm_t),
                                     .reduced = 1,
                                     .nhwc = 1,
                                     .supports = bnorm_supports,
                                     .prepare = bnorm_prepare,
                                     .run = bnorm_run};
