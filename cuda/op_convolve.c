/* A convolution whose weight and bias are inputs: the convolution of op_conv.c, with the weight
 * turned from OIHW to OHWI in each run, and its gradient back. */
#include "cuda/dense.h"
#include "cuda/gpu.h"
#include "cuda/kernels/reorder.h"

#include "base/ct_mem.h"

typedef struct convolve {
  ct_op_t op;
  ct_op_t *conv;
  struct {
    size_t w, dw, db, work; /* byte offsets in scratch */
  } at;
} convolve_t;

static int convolve_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  convolve_t *k = (convolve_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int64_t weights = ct_shape_count(&d->x2);
  size_t end = 0;
  k->conv = ct_mem_alloc(gpu__kind_conv.size, "convolution");
  if (!k->conv) return CT_ERR_NOMEM;
  k->conv->kind = &gpu__kind_conv;
  k->conv->dev = op->dev;
  k->conv->desc = ct_op_with_params(d);
  ct_op_info_t inner = ct_op_info_of(&k->conv->desc, "kernel");
  CT_TRY(gpu__kind_conv.prepare(k->conv, &inner));
  k->at.w = gpu__take(&end, weights, sizeof(float));
  k->at.dw = gpu__take(&end, weights, sizeof(float));
  k->at.db = gpu__take(&end, d->y.dim[1], sizeof(float));
  k->at.work = end;
  info->scratch = end + inner.scratch;
  info->algorithm = inner.algorithm;
out:
  return rc;
}

static int convolve_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                        cudaStream_t s)
{
  int rc = CT_OK;
  const convolve_t *k = (const convolve_t *)op;
  const gpu__turn_t *t = &k->conv->turn[0];
  char *scratch = a->scratch;
  float *w = (float *)(scratch + k->at.w), *dw = (float *)(scratch + k->at.dw);
  ct_op_args_t args = *a;
  args.scratch = scratch + k->at.work;
  args.w[0] = w;
  args.w[1] = (void *)(uintptr_t)a->x3;
  args.dw[0] = dw;
  args.dw[1] = a->dx3 ? a->dx3 : scratch + k->at.db;
  if (a->pass & CT_FWD || a->dx)
    GPU_TRY(gpu__turn(CT_F32, CT_F32, t->outer, t->middle, t->inner, a->x2, w, s));
  args.pass = CT_FWD;
  if (a->pass & CT_FWD) CT_TRY(gpu__kind_conv.run(k->conv, &args, at, s));
  if (!(a->pass & CT_BWD_DATA)) goto out;
  args.pass = CT_BWD_PARAM;
  if (a->dx2 || a->dx3) CT_TRY(gpu__kind_conv.run(k->conv, &args, at, s));
  if (a->dx2) GPU_TRY(gpu__turn(CT_F32, CT_F32, t->outer, t->inner, t->middle, dw, a->dx2, s));
  args.pass = CT_BWD_DATA;
  if (a->dx) CT_TRY(gpu__kind_conv.run(k->conv, &args, at, s));
out:
  return rc;
}

static void convolve_clear(ct_op_t *op)
{
  ct_op_t *conv = ((convolve_t *)op)->conv;
  if (conv) gpu__kind_conv.clear(conv);
  ct_mem_free(conv);
}

const gpu__kind_t gpu__kind_convolve = {.size = sizeof(convolve_t),
                                        .nhwc = 1,
                                        .prepare = convolve_prepare,
                                        .run = convolve_run,
                                        .clear = convolve_clear};
