/* torch.nn.functional.scaled_dot_product_attention() of queries, keys and values, [.., T, d],
 * [.., S, d] and [.., S, e], without a mask or dropout.  The batch is in a dim before the last
 * two. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include <math.h>

#include "base/ct_err.h"

typedef struct {
  int causal;
  double scale;
} sdpa_t;

static const ct_opt_t rows[] = {
    CT_OPT_BOOL(sdpa_t, causal, "false", "query i meets the keys 0 to i only"),
    CT_OPT_DOUBLE(sdpa_t, scale, "0", 0, 1e6,
                  "factor of the products of queries and keys; 0: 1 / sqrt(features)"),
    CT_OPT_END};

static int sdpa_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, n = in[0].ndim, fit = in[1].ndim == n && in[2].ndim == n && n >= 2;
  char q[80], k[80], v[80];
  (void)opts;
  for (int i = 0; i < n - 2; i++)
    fit = fit && in[0].dim[i] == in[1].dim[i] && in[0].dim[i] == in[2].dim[i];
  fit = fit && in[0].dim[n - 1] == in[1].dim[n - 1] && in[1].dim[n - 2] == in[2].dim[n - 2];
  if (!fit || in[0].batch != in[1].batch || in[0].batch != in[2].batch)
    CT_FAIL(CT_ERR_SHAPE,
            "needs queries [.., T, d], keys [.., S, d] and values [.., S, e] with the same dims "
            "before, but they are %s, %s and %s of a sample",
            ct_shape_text(&in[0], q, sizeof q), ct_shape_text(&in[1], k, sizeof k),
            ct_shape_text(&in[2], v, sizeof v));
  CT_TRY(ct__layer_no_batch(&in[0], 3u << (n - 2), "attention"));
  *out = in[0];
  out->dim[n - 1] = in[2].dim[n - 1];
out:
  return rc;
}

static void sdpa_attributes(const void *opts, ct_op_desc_t *d)
{
  const sdpa_t *o = opts;
  d->u.sdpa.causal = o->causal;
  d->u.sdpa.scale = o->scale > 0 ? o->scale : 1 / sqrt((double)ct_dim_back(&d->x, 0));
}

const ct_layer_ops_t ct__layer_sdpa = {
    .kind = "sdpa",
    .help = "scaled dot-product attention: from: [queries, keys, values]",
    .opts_bytes = sizeof(sdpa_t),
    .opts = rows,
    .inputs = 3,
    .general = 1,
    .infer = sdpa_infer,
    .op = CT_OP_SDPA,
    .attributes = sdpa_attributes,
};
