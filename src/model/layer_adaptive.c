/* torch.nn.AdaptiveAvgPool1d to 3d and AdaptiveMaxPool1d to 3d: window sizes follow from the sizes
 * of input and output.  Windows may overlap and differ by a pixel, so layer_window.h does not
 * apply. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  ct_opt_doubles_t out;
} adaptive_t;

static const ct_opt_t rows[] = {{"out", CT_OPT_T_DOUBLES, offsetof(adaptive_t, out), NULL, 1,
                                 1 << 20, 0,
                                 "size of the output, in pixels: one number, or one per dimension"},
                                CT_OPT_END};

static int adaptive_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, space = in->ndim - 2;
  const ct_opt_doubles_t *size = &((const adaptive_t *)opts)->out;
  CT_TRY(ct__layer_want_channels(in));
  *out = *in;
  if (size->n != 1 && size->n != space)
    CT_FAIL(CT_ERR_SHAPE, "out: expected one number, or one for each of %d dims, not %d", space,
            size->n);
  for (int i = 0; i < space; i++) {
    double v = size->v[size->n == 1 ? 0 : i];
    if (v != (double)(int64_t)v) CT_FAIL(CT_ERR_SHAPE, "out: %g is not a whole number", v);
    out->dim[2 + i] = (int64_t)v;
  }
out:
  return rc;
}

static void maximum(const void *opts, ct_op_desc_t *d)
{
  (void)opts;
  d->u.pool.adaptive = 1;
}

static void average(const void *opts, ct_op_desc_t *d)
{
  maximum(opts, d);
  d->u.pool.average = 1;
}

#define KIND(word, text, what)                                                        \
  const ct_layer_ops_t ct__layer_adaptive_##word = {.kind = "adaptive_" #word,        \
                                                    .help = text,                     \
                                                    .opts_bytes = sizeof(adaptive_t), \
                                                    .opts = rows,                     \
                                                    .inputs = 1,                      \
                                                    .infer = adaptive_infer,          \
                                                    .op = CT_OP_POOL,                 \
                                                    .attributes = what};

KIND(avgpool, "average pooling to a given output size", average)
KIND(maxpool, "max pooling to a given output size", maximum)
