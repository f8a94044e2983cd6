/* torch.nn.functional.scaled_dot_product_attention() of queries, keys and values, [.., T, d],
 * [.., S, d] and [.., S, e], whose batch is in a dim before the last two.  With `heads` the
 * features are those of all heads: queries N x T x H d, keys and values N x S x K d, also packed
 * into one or two inputs; and a mask may be the last input. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include <math.h>

#include "backend/ct_sdpa.h"
#include "base/ct_err.h"

typedef struct {
  int64_t heads, kv_heads;
  int causal, mask;
  double scale;
} sdpa_t;

static const ct_opt_t rows[] = {
    CT_OPT_BOOL(sdpa_t, causal, "false", "query i meets the keys 0 to i only"),
    CT_OPT_DOUBLE(sdpa_t, scale, "0", 0, 1e6,
                  "factor of the products of queries and keys; 0: 1 / sqrt(features of a head)"),
    CT_OPT_INT(sdpa_t, heads, "0", 0, 1 << 16,
               "heads of the features of N x T x features; 0: the dims before the last two"),
    CT_OPT_INT(sdpa_t, kv_heads, "0", 0, 1 << 16,
               "heads of keys and values, each for heads / kv_heads of the queries; 0: heads"),
    CT_OPT_CHOICE(sdpa_t, mask, "none", "none|first|keys|bias",
                  "the last input: first: N x T, the first key that a query meets; keys: N x S, 0 "
                  "hides a key; bias: (N x) (heads x) T x S, added to the scaled products"),
    CT_OPT_END};

/* ---- without heads ---- */

static int plain_infer(const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, n = in[0].ndim, fit = in[1].ndim == n && in[2].ndim == n && n >= 2;
  char q[80], k[80], v[80];
  for (int i = 0; i < n - 2; i++)
    fit = fit && in[0].dim[i] == in[1].dim[i] && in[0].dim[i] == in[2].dim[i];
  fit = fit && in[0].dim[n - 1] == in[1].dim[n - 1] && in[1].dim[n - 2] == in[2].dim[n - 2];
  if (!fit || in[0].batch != in[1].batch || in[0].batch != in[2].batch)
    CT_FAIL(CT_ERR_SHAPE,
            "needs queries [.., T, d], keys [.., S, d] and values [.., S, e] with the same dims "
            "before, but they are %s, %s and %s of a sample",
            ct_shape_text(&in[0], q, sizeof q), ct_shape_text(&in[1], k, sizeof k),
            in[2].ndim ? ct_shape_text(&in[2], v, sizeof v) : "none");
  CT_TRY(ct__layer_no_batch(&in[0], 3u << (n - 2), "attention"));
  *out = in[0];
  out->dim[n - 1] = in[2].dim[n - 1];
out:
  return rc;
}

/* ---- with heads ---- */

/* Returns ct_op_desc_t.u.sdpa.packed for the number of inputs: 0 … 2; -1: none fits. */
static int packed_of(const sdpa_t *o, const ct_shape_t *x2, const ct_shape_t *x3)
{
  int tensors = 1 + (x2->ndim > 0) + (x3->ndim > 0) - (o->mask != CT_MASK_NONE);
  return tensors == 3 ? 0 : tensors < 1 ? -1 : tensors;
}

static void sdpa_attributes(const void *opts, ct_op_desc_t *d)
{
  const sdpa_t *o = opts;
  d->u.sdpa.causal = o->causal;
  d->u.sdpa.heads = (int)o->heads;
  d->u.sdpa.kv_heads = (int)o->kv_heads;
  d->u.sdpa.packed = o->heads ? packed_of(o, &d->x2, &d->x3) : 0;
  d->u.sdpa.mask = (ct_mask_t)o->mask;
  d->u.sdpa.scale = o->scale > 0 ? o->scale : 1 / sqrt((double)ct_sdpa_of(d).d);
}

/* Returns NULL if the batch is the first dim of each input, or the reason. */
static const char *batch_of(const sdpa_t *o, const ct_shape_t *in)
{
  int last = in[2].ndim ? 2 : 1;
  for (int k = 0; k < CT_OP_INPUTS; k++) {
    int is_bias = o->mask == CT_MASK_BIAS && k == last;
    int shared = is_bias && (in[k].ndim < 4 || in[k].dim[0] == 1) && !in[k].batch;
    if (in[k].ndim && in[k].batch != 1 && !shared) return "the batch is not dim 0 of its inputs";
  }
  return NULL;
}

static int heads_infer(const sdpa_t *o, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, packed = packed_of(o, &in[1], &in[2]);
  int64_t kv = o->kv_heads ? o->kv_heads : o->heads;
  char text[CT_OP_INPUTS][80];
  ct_op_desc_t d;
  const char *wrong = in[0].ndim != 3 ? "it takes N x T x features" : batch_of(o, in);
  if (packed < 0) wrong = "the mask is missing";
  *out = in[0];
  int64_t wide = packed == 1   ? in[0].dim[2] / (o->heads + 2 * kv) * o->heads
                 : packed == 0 ? in[2].dim[in[2].ndim - 1] / kv * o->heads
                               : in[0].dim[2];
  if (!wrong && wide < 1) wrong = "there are fewer features than heads";
  if (!wrong) {
    out->dim[2] = wide;
    ct_op_desc_init(&d, CT_OP_SDPA, &in[0], out);
    ct_op_desc_more(&d, in[1].ndim ? &in[1] : NULL, in[2].ndim ? &in[2] : NULL);
    d.u.sdpa.scale = 1;
    sdpa_t known = *o;
    known.scale = 1;
    sdpa_attributes(&known, &d);
    wrong = ct_sdpa_check(&d);
  }
  if (!wrong) return CT_OK;
  for (int k = 0; k < CT_OP_INPUTS; k++)
    if (in[k].ndim)
      ct__layer_shape_text(&in[k], text[k], sizeof text[k]);
    else
      ct_text_fit(text[k], sizeof text[k], "none");
  CT_FAIL(
      CT_ERR_SHAPE,
      "%s: needs queries, keys and values of %d and %d heads as q|k|v, as q and k|v, or as q, k "
      "and v, and then its mask if it has one; its inputs are %s, %s and %s",
      wrong, (int)o->heads, (int)kv, text[0], text[1], text[2]);
out:
  return rc;
}

static int sdpa_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const sdpa_t *o = opts;
  if (o->heads) return heads_infer(o, in, out);
  if (o->kv_heads || o->mask) CT_FAIL(CT_ERR_SHAPE, "kv_heads and mask need `heads`");
  return plain_infer(in, out);
out:
  return rc;
}

const ct_layer_ops_t ct__layer_sdpa = {
    .kind = "sdpa",
    .help = "scaled dot-product attention: from: [queries, keys, values]; with heads also [q|k|v] "
            "or [q, k|v], and a mask",
    .opts_bytes = sizeof(sdpa_t),
    .opts = rows,
    .inputs = 3,
    .optional = 2,
    .general = 1,
    .infer = sdpa_infer,
    .op = CT_OP_SDPA,
    .attributes = sdpa_attributes,
};
