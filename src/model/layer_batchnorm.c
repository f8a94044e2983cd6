/* torch.nn.BatchNorm2d on N x C x H x W, BatchNorm3d on N x C x D x H x W, BatchNorm1d on N x C and
 * N x C x L, selected by the shape.  Statistics over several ranks are a training option
 * (train.sync_bn), not part of the model. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  double eps, momentum;
  int affine, track_running_stats;
} batchnorm_t;

static const ct_opt_t rows[] = {
    CT_OPT_DOUBLE(batchnorm_t, eps, "1e-5", 1e-12, 1, "added to the variance"),
    CT_OPT_DOUBLE(batchnorm_t, momentum, "0.1", 0, 1,
                  "weight of the batch statistics in the running statistics"),
    CT_OPT_BOOL(batchnorm_t, affine, "true", "trained scale and shift per channel"),
    CT_OPT_BOOL(
        batchnorm_t, track_running_stats, "true",
        "no: without running statistics; evaluation too normalises by those of its batches, "
        "so its results depend on the batch size and the number of ranks"),
    CT_OPT_END};

static int batchnorm_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  char shape[80];
  (void)opts;
  if (in->ndim < 2 || in->ndim > 5)
    CT_FAIL(CT_ERR_SHAPE, "needs N x C and up to 3 dims of pixels, but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
  *out = *in;
out:
  return rc;
}

static int batchnorm_params(const void *opts, const ct_shape_t *in,
                            ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  ct_shape_t per_channel = ct_shape(1, in->dim[1]);
  const batchnorm_t *o = opts;
  int buffer = o->affine ? 0 : CT_CONSTANT, running = o->track_running_stats ? 1 : CT_CONSTANT;
  spec[0] = (ct_param_spec_t){"weight", per_channel, CT_INIT_ONE, 0, buffer};
  spec[1] = (ct_param_spec_t){"bias", per_channel, CT_INIT_ZERO, 0, buffer};
  spec[2] = (ct_param_spec_t){"running_mean", per_channel, CT_INIT_ZERO, 0, running};
  spec[3] = (ct_param_spec_t){"running_var", per_channel, CT_INIT_ONE, 0, running};
  return 4;
}

static void batchnorm_attributes(const void *opts, ct_op_desc_t *d)
{
  const batchnorm_t *o = opts;
  d->u.bnorm.eps = o->eps;
  d->u.bnorm.momentum = o->track_running_stats ? o->momentum : 0;
  d->u.bnorm.untracked = !o->track_running_stats;
}

const ct_layer_ops_t ct__layer_batchnorm = {
    .kind = "batchnorm",
    .help = "batch normalisation per channel, with trained scale and shift",
    .opts_bytes = sizeof(batchnorm_t),
    .opts = rows,
    .inputs = 1,
    .infer = batchnorm_infer,
    .params = batchnorm_params,
    .op = CT_OP_BNORM,
    .attributes = batchnorm_attributes,
};
