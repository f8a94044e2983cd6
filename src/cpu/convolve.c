/* A convolution whose weight and bias are inputs: a convolution op whose parameters lie in scratch.
 * The weight is brought into the op's own layout in each run, and its gradient back. */
#include "cpu/conv/conv.h"
#include "cpu/gemm/passes.h"
#include "cpu/kinds.h"
#include "base/ct_err.h"
#include <string.h>

typedef struct convolve {
  ct_op_t op;
  ct_op_t *conv;
  cpu__prim_t *in, *out;       /* the weight to the layout of the convolution, and back */
  size_t w, dw, plain, db, at; /* offsets in scratch: the weight, its gradient in both layouts, that
                                  of the bias, and the workspace */
} convolve_t;

static size_t aligned(size_t bytes)
{
  return (bytes + 63) & ~(size_t)63;
}

static ct_layout_t convolve_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  ct_op_desc_t conv = ct_op_with_params(d);
  return cpu__conv.wants(dev, &conv);
}

static int make_reorders(convolve_t *k, size_t *work)
{
  int rc = CT_OK;
  cpu__dnnl_t *dnnl = k->op.dev->dnnl;
  cpu__md_t *own = ((cpu__passes_op_t *)k->conv)->md[CPU__W], *plain = NULL;
  CT_TRY(cpu__md_plain(own, &plain));
  CT_TRY(cpu__prim_reorder(dnnl, plain, own, &k->in));
  CT_TRY(cpu__prim_reorder(dnnl, own, plain, &k->out));
  if (cpu__prim_scratch(k->in) > *work) *work = cpu__prim_scratch(k->in);
  if (cpu__prim_scratch(k->out) > *work) *work = cpu__prim_scratch(k->out);
out:
  cpu__md_free(plain);
  return rc;
}

static int convolve_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  convolve_t *k = (convolve_t *)op;
  ct_op_desc_t conv = ct_op_with_params(&op->desc);
  ct_op_info_t inner;
  size_t bias = aligned((size_t)op->desc.y.dim[1] * sizeof(float));
  (void)like;
  CT_TRY(cpu__op_new(&cpu__conv, op->dev, &conv, NULL, &k->conv, &inner));
  size_t bytes = aligned(inner.param_bytes[0]), work = inner.scratch;
  CT_TRY(make_reorders(k, &work));
  k->dw = k->w + bytes;
  k->plain = k->dw + bytes;
  k->db = k->plain + aligned((size_t)ct_shape_count(&op->desc.x2) * sizeof(float));
  k->at = k->db + bias;
  info->y_layout = k->conv->desc.y.layout;
  info->scratch = k->at + work;
  info->algorithm = inner.algorithm;
out:
  return rc;
}

static int move(const convolve_t *k, cpu__prim_t *reorder, const void *from, void *to, char *work)
{
  void *at[CPU__ROLES] = {[CPU__X] = (void *)(uintptr_t)from, [CPU__Y] = to, [CPU__SCRATCH] = work};
  return cpu__prim_run(k->op.dev->dnnl, reorder, at);
}

static int run_params(const convolve_t *k, const ct_op_args_t *a, ct_op_args_t *args, char *scratch)
{
  int rc = CT_OK;
  args->pass = CT_BWD_PARAM;
  args->dw[0] = scratch + k->dw;
  args->dw[1] = a->dx3 ? a->dx3 : scratch + k->db;
  CT_TRY(k->conv->kind->run(k->conv, args));
  if (a->dx2) CT_TRY(move(k, k->out, scratch + k->dw, a->dx2, scratch + k->at));
out:
  return rc;
}

static int convolve_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const convolve_t *k = (const convolve_t *)op;
  char *scratch = a->scratch;
  ct_op_args_t args = *a;
  args.w[0] = scratch + k->w;
  args.w[1] = (void *)(uintptr_t)a->x3;
  args.scratch = scratch + k->at;
  if (a->pass & CT_FWD || a->dx) CT_TRY(move(k, k->in, a->x2, scratch + k->w, scratch + k->at));
  args.pass = CT_FWD;
  if (a->pass & CT_FWD) CT_TRY(k->conv->kind->run(k->conv, &args));
  if (!(a->pass & CT_BWD_DATA)) goto out;
  if (a->dx2 || a->dx3) CT_TRY(run_params(k, a, &args, scratch));
  args.pass = CT_BWD_DATA;
  if (a->dx) CT_TRY(k->conv->kind->run(k->conv, &args));
out:
  return rc;
}

static void convolve_clear(ct_op_t *op)
{
  convolve_t *k = (convolve_t *)op;
  cpu__prim_free(k->in);
  cpu__prim_free(k->out);
  cpu__op_free(k->conv);
}

const cpu__op_kind_t cpu__convolve = {.size = sizeof(convolve_t),
                                      .wants = convolve_wants,
                                      .prepare = convolve_prepare,
                                      .run = convolve_run,
                                      .clear = convolve_clear};
