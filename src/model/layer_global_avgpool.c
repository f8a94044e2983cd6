/* torch.nn.AdaptiveAvgPool2d(1) and AdaptiveAvgPool3d(1): average over H x W or D x H x W.  It
 * takes images of any size, so later layers do not depend on the size. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

static int global_avgpool_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  (void)opts;
  CT_TRY(ct__layer_want_channels(in));
  *out = ct_shape(in->ndim, in->dim[0], in->dim[1], 1, 1, 1);
out:
  return rc;
}

static void global_avgpool_attributes(const void *opts, ct_op_desc_t *d)
{
  (void)opts;
  d->u.pool.average = 1;
  d->u.pool.global = 1;
}

const ct_layer_ops_t ct__layer_global_avgpool = {
    .kind = "global_avgpool",
    .help = "average over all pixels of each channel",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .infer = global_avgpool_infer,
    .op = CT_OP_POOL,
    .attributes = global_avgpool_attributes,
};
