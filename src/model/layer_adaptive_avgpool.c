/* torch.nn.AdaptiveAvgPool2d: window sizes follow from the sizes of input and output.  Windows may
 * overlap and differ by a pixel, so layer_window.h does not apply. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  int64_t out[2];
} adaptive_t;

static const ct_opt_t rows[] = {
    CT_OPT_PAIR(adaptive_t, out, NULL, 1, 4096, "size of the output, in pixels: rows, columns"),
    CT_OPT_END};

static int adaptive_avgpool_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const adaptive_t *o = opts;
  CT_TRY(ct__layer_want_space(in, 2));
  *out = ct_shape(4, in->dim[0], in->dim[1], o->out[0], o->out[1]);
out:
  return rc;
}

static void adaptive_avgpool_attributes(const void *opts, ct_op_desc_t *d)
{
  (void)opts;
  d->u.pool.average = 1;
  d->u.pool.adaptive = 1;
}

const ct_layer_ops_t ct__layer_adaptive_avgpool = {
    .kind = "adaptive_avgpool",
    .help = "average pooling to a given output size",
    .opts_bytes = sizeof(adaptive_t),
    .opts = rows,
    .inputs = 1,
    .infer = adaptive_avgpool_infer,
    .op = CT_OP_POOL,
    .attributes = adaptive_avgpool_attributes,
};
