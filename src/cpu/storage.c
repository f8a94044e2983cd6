/* Convolutions and linear with bf16 activations, computed in float32.  The op wraps a float32 op:
 * inputs are converted to scratch before the wrapped op runs, outputs after it.  Weights, gradients
 * and sums are always float32. */
#include "base/ct_err.h"
#include "cpu/conv/conv.h"
#include "cpu/kinds.h"
#include "cpu/kern/loops.h"
#include <stdio.h>

typedef struct storage {
  ct_op_t op;
  ct_op_t *inner;
  int relu;       /* 1: the conversion of y applies ReLU */
  int adds;       /* 1: x2 is also converted */
  int64_t nx, ny; /* number of elements */
  char algorithm[48];
  size_t y_at,
      at; /* offsets in scratch, after the copy of x: copy of y, workspace of the inner op */
} storage_t;

static const cpu__op_kind_t *inner_kind(const ct_op_desc_t *d)
{
  if (d->kind == CT_OP_CONVT) return &cpu__convt;
  return d->kind == CT_OP_CONV ? &cpu__conv : &cpu__linear;
}

static ct_op_desc_t inner_desc(const ct_op_desc_t *d)
{
  ct_op_desc_t inner = *d;
  inner.x.dtype = inner.y.dtype = CT_F32;
  if (d->kind == CT_OP_CONV)
    inner.u.conv.relu = 0;
  else if (d->kind == CT_OP_LINEAR)
    inner.u.linear.relu = 0;
  return inner;
}

static ct_layout_t storage_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  ct_op_desc_t inner = inner_desc(d);
  const cpu__op_kind_t *kind = inner_kind(d);
  return kind->plain ? CT_PLAIN : kind->wants(dev, &inner);
}

static size_t float_bytes(int64_t count)
{
  return ((size_t)count * sizeof(float) + 63) / 64 * 64;
}

static int storage_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  storage_t *k = (storage_t *)op;
  ct_op_desc_t inner = inner_desc(&op->desc);
  CT_TRY(cpu__op_new(inner_kind(&inner), op->dev, &inner,
                     like ? ((const storage_t *)like)->inner : NULL, &k->inner, info));
  if (op->desc.kind == CT_OP_CONV) k->relu = op->desc.u.conv.relu;
  if (op->desc.kind == CT_OP_LINEAR) k->relu = op->desc.u.linear.relu;
  k->adds = op->desc.kind == CT_OP_CONV && op->desc.u.conv.add;
  k->nx = ct_shape_padded(&k->inner->desc.x);
  k->ny = ct_shape_padded(&k->inner->desc.y);
  k->y_at = float_bytes(k->nx);
  k->at = k->y_at + float_bytes(k->ny);
  info->scratch += k->at;
  snprintf(k->algorithm, sizeof k->algorithm, "bf16 storage, %s", info->algorithm);
  info->algorithm = k->algorithm;
out:
  return rc;
}

static int storage_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK, back = a->pass & (CT_BWD_DATA | CT_BWD_PARAM);
  storage_t *k = (storage_t *)op;
  float *x = a->scratch, *y = (float *)((char *)a->scratch + k->y_at);
  ct_op_args_t inner = *a;
  inner.x = x;
  inner.y = y;
  inner.scratch = (char *)a->scratch + k->at;
  if (a->pass & (CT_FWD | CT_BWD_PARAM)) cpu__to_floats(op->dev, k->nx, a->x, x);
  if (a->pass & CT_FWD) {
    inner.pass = CT_FWD;
    if (k->adds)
      cpu__to_floats(op->dev, k->ny, a->x2, y); /* y holds x2, and the inner op adds to it */
    inner.x2 = y;
    CT_TRY(k->inner->kind->run(k->inner, &inner));
    cpu__from_floats(op->dev, k->ny, y, a->y, k->relu);
  }
  if (!back) goto out;
  inner.dy = y;
  inner.dx = x;
  cpu__to_floats(op->dev, k->ny, a->dy, y);
  inner.pass = CT_BWD_PARAM; /* first, because dx may share x's memory */
  if (back & CT_BWD_PARAM) CT_TRY(k->inner->kind->run(k->inner, &inner));
  inner.pass = CT_BWD_DATA;
  if (back & CT_BWD_DATA) {
    CT_TRY(k->inner->kind->run(k->inner, &inner));
    cpu__from_floats(op->dev, k->nx, x, a->dx, 0);
  }
out:
  return rc;
}

static void storage_clear(ct_op_t *op)
{
  cpu__op_free(((storage_t *)op)->inner);
}

static int storage_pack(ct_op_t *op, int param, const float *plain, void *own)
{
  ct_op_t *inner = ((storage_t *)op)->inner;
  return inner->kind->pack(inner, param, plain, own);
}

static int storage_unpack(ct_op_t *op, int param, const void *own, float *plain)
{
  ct_op_t *inner = ((storage_t *)op)->inner;
  return inner->kind->unpack(inner, param, own, plain);
}

const cpu__op_kind_t cpu__storage = {.size = sizeof(storage_t),
                                     .bf16 = 1,
                                     .wants = storage_wants,
                                     .prepare = storage_prepare,
                                     .run = storage_run,
                                     .clear = storage_clear,
                                     .pack = storage_pack,
                                     .unpack = storage_unpack};
