/* torch.nn.Upsample by a whole scale_factor: nearest, or bilinear (for volumes trilinear) with
 * align_corners = False. */
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t scale;
  int mode;
} upsample_t;

static const ct_opt_t rows[] = {
    CT_OPT_INT(upsample_t, scale, "2", 1, 256, "scale factor in each dimension"),
    CT_OPT_CHOICE(upsample_t, mode, "nearest", "nearest|linear",
                  "nearest pixel, or linear interpolation between pixel centres"),
    CT_OPT_END};

static int upsample_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  char shape[80];
  const upsample_t *o = opts;
  CT_TRY(ct__layer_want_channels(in));
  *out = *in;
  for (int i = 2; i < in->ndim; i++)
    if (__builtin_mul_overflow(in->dim[i], o->scale, &out->dim[i]) || out->dim[i] > INT32_MAX)
      CT_FAIL(CT_ERR_SHAPE, "its input of %s is too large for scale %" PRId64,
              ct_shape_text(in, shape, sizeof shape), o->scale);
out:
  return rc;
}

static void upsample_attributes(const void *opts, ct_op_desc_t *d)
{
  d->u.upsample.linear = ((const upsample_t *)opts)->mode;
}

const ct_layer_ops_t ct__layer_upsample = {
    .kind = "upsample",
    .help = "enlarges an image or volume",
    .opts_bytes = sizeof(upsample_t),
    .opts = rows,
    .inputs = 1,
    .infer = upsample_infer,
    .op = CT_OP_UPSAMPLE,
    .attributes = upsample_attributes,
};
