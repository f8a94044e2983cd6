/* Transposed convolution: a convolution (op_conv.c) whose passes run with x and y swapped, and a
 * bias that is added afterwards. */
#include "cuda/gpu.h"
#include "cuda/kernels/bias.h"

#include "base/ct_mem.h"

typedef struct convt {
  ct_op_t op;
  ct_op_t *conv;
} convt_t;

static int convt_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  convt_t *k = (convt_t *)op;
  const ct_op_desc_t *d = &op->desc;
  ct_op_info_t inner;
  k->conv = ct_mem_alloc(gpu__kind_conv.size, "convolution");
  if (!k->conv) return CT_ERR_NOMEM;
  k->conv->kind = &gpu__kind_conv;
  k->conv->dev = op->dev;
  k->conv->desc = ct_op_turned(d);
  inner = ct_op_info_of(&k->conv->desc, "kernel");
  CT_TRY(gpu__kind_conv.prepare(k->conv, &inner));
  op->turn[0] = k->conv->turn[0];
  info->scratch = inner.scratch;
  info->algorithm = inner.algorithm;
  gpu__gradient_kernels(d, d->u.conv.bias, info);
  if (d->u.conv.bias && d->passes & CT_BWD_PARAM) {
    size_t sums = gpu__column_sums_scratch(gpu__rows(&d->y), d->y.dim[1]);
    if (sums > info->scratch) info->scratch = sums;
  }
out:
  return rc;
}

static int run_conv(const convt_t *k, const ct_op_args_t *a, int pass, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  ct_op_args_t turned = *a;
  turned.pass = ct_op_turned_pass(pass);
  turned.x = a->dy;
  turned.dy = a->x;
  turned.y = a->dx;
  turned.dx = a->y;
  return gpu__kind_conv.run(k->conv, &turned, at, s);
}

static int convt_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                     cudaStream_t s)
{
  int rc = CT_OK;
  const convt_t *k = (const convt_t *)op;
  const ct_op_desc_t *d = &op->desc;
  ct_dtype_t t = d->y.dtype;
  int64_t rows = gpu__rows(&d->y), channels = d->y.dim[1];
  int bias = d->u.conv.bias;
  if (a->pass & CT_FWD) {
    CT_TRY(run_conv(k, a, CT_FWD, at, s));
    const void *b = t == CT_F32 ? a->w[1] : a->w_reduced[1];
    if (bias) GPU_TRY(gpu__bias_relu(t, a->y, b, 0, rows, channels, s));
  }
  if (a->pass & CT_BWD_PARAM) {
    CT_TRY(run_conv(k, a, CT_BWD_PARAM, at, s));
    if (bias) GPU_TRY(gpu__column_sums(t, a->dy, rows, channels, a->dw[1], a->scratch, s));
  }
  if (a->pass & CT_BWD_DATA) CT_TRY(run_conv(k, a, CT_BWD_DATA, at, s));
out:
  return rc;
}

static void convt_clear(ct_op_t *op)
{
  ct_op_t *conv = ((convt_t *)op)->conv;
  if (conv) gpu__kind_conv.clear(conv);
  ct_mem_free(conv);
}

const gpu__kind_t gpu__kind_convt = {.size = sizeof(convt_t),
                                     .reduced = 1,
                                     .low = 3,
                                     .nhwc = 1,
                                     .prepare = convt_prepare,
                                     .run = convt_run,
                                     .clear = convt_clear};
