/* Transposed convolution: a convolution whose passes run with x and y swapped.  Forward is its
 * backward pass to the data, and backward to the data is its forward pass.  The bias is added in
 * place afterwards; its gradient is the sum of dy over samples and pixels. */
#include "cpu/conv/conv.h"
#include "cpu/gemm/passes.h"
#include "cpu/kern/channels.h"
#include "cpu/kinds.h"
#include "base/ct_err.h"
#include <string.h>

/* ---- the convolution, whose y has a given layout --------------------------------------------- */

static ct_op_desc_t with_a_sample(const ct_op_desc_t *d)
{
  ct_op_desc_t some = *d;
  if (d->x.dim[0] == 0) some.x.dim[0] = some.y.dim[0] = 1;
  return some;
}

/* Chooses the layout of x for the layout of y in the descriptor, the reverse of a convolution. */
static int turned_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  ct_op_desc_t some = with_a_sample(&op->desc);
  cpu__costs_t costs;
  double cost;
  CT_TRY(cpu__ask(&cpu__conv_algos, op->dev, &some, &costs));
  cpu__layouts_t at = cpu__best_for_y(&costs, op->desc.y.layout, &cost);
  CT_TRY(cpu__passes_prepare_at(op, &costs, at, &some, like, info));
  op->desc.x.layout = at.x;
out:
  return rc;
}

static const cpu__op_kind_t turned_conv = {
    .size = sizeof(cpu__passes_op_t),
    .bf16 = 1,
    .prepare = turned_prepare,
    .run = cpu__passes_run,
    .clear = cpu__passes_clear,
    .pack = cpu__passes_pack,
    .unpack = cpu__passes_unpack,
};

/* ---- the transposed convolution -------------------------------------------------------------- */

typedef struct convt {
  ct_op_t op;
  ct_op_t *inner;
} convt_t;

static int convt_stores(ct_dev_t *dev, const ct_op_desc_t *d)
{
  ct_op_desc_t conv = ct_op_turned(d);
  return cpu__conv.stores(dev, &conv);
}

static ct_layout_t convt_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  ct_op_desc_t conv = ct_op_turned(d), some = with_a_sample(&conv);
  cpu__costs_t costs;
  if (cpu__ask(&cpu__conv_algos, dev, &some, &costs) != CT_OK)
    return d->x.layout; /* prepare will report the reason */
  return cpu__best_y(&costs, d->x.layout);
}

static int convt_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  convt_t *k = (convt_t *)op;
  ct_op_desc_t conv = ct_op_turned(&op->desc);
  ct_op_info_t inner;
  CT_TRY(cpu__op_new(&turned_conv, op->dev, &conv, like ? ((const convt_t *)like)->inner : NULL,
                     &k->inner, &inner));
  info->y_layout = k->inner->desc.x.layout;
  info->param_bytes[0] = inner.param_bytes[0];
  info->param_layout = inner.param_layout;
  info->scratch = inner.scratch;
  info->algorithm = inner.algorithm;
  if (op->desc.u.conv.bias && op->desc.passes & CT_BWD_PARAM) {
    size_t sums = cpu__channel_sums_scratch(&k->inner->desc.x);
    if (sums > info->scratch) info->scratch = sums;
  }
out:
  return rc;
}

static int run_inner(const convt_t *k, const ct_op_args_t *a, int pass)
{
  ct_op_args_t turned = *a;
  turned.pass = ct_op_turned_pass(pass);
  turned.x = a->dy;
  turned.dy = a->x;
  turned.y = a->dx;
  turned.dx = a->y;
  return k->inner->kind->run(k->inner, &turned);
}

static int convt_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK, bias = op->desc.u.conv.bias;
  const convt_t *k = (const convt_t *)op;
  const ct_shape_t *y = &k->inner->desc.x;
  if (a->pass & CT_FWD) {
    CT_TRY(run_inner(k, a, CT_FWD));
    if (bias) cpu__channel_add(y, a->w[1], a->y);
  }
  if (a->pass & CT_BWD_PARAM) { /* first, because dx may share x's memory */
    CT_TRY(run_inner(k, a, CT_BWD_PARAM));
    if (bias) cpu__channel_sums(y, a->dy, a->scratch, a->dw[1]);
  }
  if (a->pass & CT_BWD_DATA) CT_TRY(run_inner(k, a, CT_BWD_DATA));
out:
  return rc;
}

static void convt_clear(ct_op_t *op)
{
  cpu__op_free(((convt_t *)op)->inner);
}

static int convt_pack(ct_op_t *op, int param, const float *plain, void *own)
{
  ct_op_t *inner = ((convt_t *)op)->inner;
  if (param == 0) return cpu__passes_pack(inner, 0, plain, own);
  memcpy(own, plain, op->param_bytes[param]);
  return CT_OK;
}

static int convt_unpack(ct_op_t *op, int param, const void *own, float *plain)
{
  ct_op_t *inner = ((convt_t *)op)->inner;
  if (param == 0) return cpu__passes_unpack(inner, 0, own, plain);
  memcpy(plain, own, op->param_bytes[param]);
  return CT_OK;
}

const cpu__op_kind_t cpu__convt = {
    .size = sizeof(convt_t),
    .bf16 = 1,
    .stores = convt_stores,
    .wants = convt_wants,
    .prepare = convt_prepare,
    .run = convt_run,
    .clear = convt_clear,
    .pack = convt_pack,
    .unpack = convt_unpack,
};
