/* An op with bf16 activations, computed in float32 by a kind that knows no bf16.  The tensors that
 * the wrapped op reads are converted to scratch before it runs, its results after it. */
#include "base/ct_err.h"
#include "cpu/kinds.h"
#include "cpu/kern/loops.h"
#include <stdio.h>

/* The tensors of an op. */
enum { X, X2, X3, Y, DY, TENSORS };

typedef struct in_floats {
  ct_op_t op;
  ct_op_t *inner;
  int64_t count[TENSORS]; /* elements; 0: the op has none */
  size_t at[TENSORS];     /* offsets of the copies in scratch; gradients of inputs take their
                             inputs' */
  size_t rest;            /* offset of the workspace of the inner op */
  int uses;               /* tensors that backward reads */
  char algorithm[48];
} in_floats_t;

static ct_op_desc_t floats_desc(const ct_op_desc_t *d)
{
  ct_op_desc_t inner = *d;
  ct_op_desc_type(&inner, CT_F32);
  return inner;
}

static ct_layout_t floats_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  ct_op_desc_t inner = floats_desc(d);
  const cpu__op_kind_t *kind = cpu__kind_of(d->kind);
  return kind->plain ? CT_PLAIN : kind->wants ? kind->wants(dev, &inner) : d->x.layout;
}

/* Gives each tensor its place.  The gradients of x, x2 and x3 need places of their own, because the
 * op may read an input after it wrote the gradient of another one. */
static void place(in_floats_t *k, const ct_op_desc_t *d)
{
  size_t at = 0;
  k->count[X] = ct_shape_padded(&d->x);
  k->count[X2] = d->x2.ndim ? ct_shape_padded(&d->x2) : 0;
  k->count[X3] = d->x3.ndim ? ct_shape_padded(&d->x3) : 0;
  k->count[Y] = k->count[DY] = ct_shape_padded(&k->inner->desc.y);
  for (int i = 0; i < TENSORS; i++) {
    size_t bytes = ((size_t)k->count[i] * sizeof(float) + 63) / 64 * 64;
    k->at[i] = at;
    at += ct_op_goes_back(d) && i <= X3 ? 2 * bytes : bytes;
  }
  k->rest = at;
}

static int floats_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  in_floats_t *k = (in_floats_t *)op;
  ct_op_desc_t inner = floats_desc(&op->desc);
  CT_TRY(cpu__op_new(cpu__kind_of(inner.kind), op->dev, &inner,
                     like ? ((const in_floats_t *)like)->inner : NULL, &k->inner, info));
  place(k, &op->desc);
  k->uses = info->bwd_uses;
  info->scratch += k->rest;
  info->takes_dy2 = info->adds_dx = 0;
  snprintf(k->algorithm, sizeof k->algorithm, "in float32, %s", info->algorithm);
  info->algorithm = k->algorithm;
out:
  return rc;
}

static float *floats_at(const in_floats_t *k, const ct_op_args_t *a, int which)
{
  return (float *)((char *)a->scratch + k->at[which]);
}

/* Returns a float32 copy of a tensor. */
static const float *widen(const in_floats_t *k, const ct_op_args_t *a, int which, const void *from)
{
  float *to = floats_at(k, a, which);
  if (k->count[which] == 0 || (which <= X3 && ct_op_indices(&k->op.desc) >> which & 1)) return from;
  cpu__to_floats(k->op.dev, k->count[which], from, to);
  return to;
}

/* Returns the place of the gradient of an input; NULL: it is not computed. */
static float *slope_at(const in_floats_t *k, const ct_op_args_t *a, int which, const void *wanted)
{
  size_t bytes = ((size_t)k->count[which] * sizeof(float) + 63) / 64 * 64;
  return wanted && k->count[which] ? (float *)((char *)floats_at(k, a, which) + bytes) : NULL;
}

static void round_slope(const in_floats_t *k, int which, const float *from, void *to)
{
  if (from) cpu__from_floats(k->op.dev, k->count[which], from, to, 0);
}

static int floats_backward(in_floats_t *k, const ct_op_args_t *a)
{
  int rc = CT_OK;
  ct_op_args_t inner = *a;
  inner.pass = a->pass & (CT_BWD_DATA | CT_BWD_PARAM);
  inner.scratch = (char *)a->scratch + k->rest;
  if (k->uses & CT_USES_X) {
    inner.x = widen(k, a, X, a->x);
    inner.x2 = widen(k, a, X2, a->x2);
    inner.x3 = widen(k, a, X3, a->x3);
  }
  if (k->uses & CT_USES_Y) inner.y = (void *)(uintptr_t)widen(k, a, Y, a->y);
  inner.dy = widen(k, a, DY, a->dy);
  float *dx = NULL, *dx2 = NULL, *dx3 = NULL;
  if (a->pass & CT_BWD_DATA) {
    inner.dx = dx = slope_at(k, a, X, a->dx);
    inner.dx2 = dx2 = slope_at(k, a, X2, a->dx2);
    inner.dx3 = dx3 = slope_at(k, a, X3, a->dx3);
  }
  CT_TRY(k->inner->kind->run(k->inner, &inner));
  round_slope(k, X, dx, a->dx);
  round_slope(k, X2, dx2, a->dx2);
  round_slope(k, X3, dx3, a->dx3);
out:
  return rc;
}

static int floats_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  in_floats_t *k = (in_floats_t *)op;
  if (a->pass & CT_FWD) {
    ct_op_args_t inner = *a;
    inner.pass = CT_FWD;
    inner.scratch = (char *)a->scratch + k->rest;
    inner.x = widen(k, a, X, a->x);
    inner.x2 = widen(k, a, X2, a->x2);
    inner.x3 = widen(k, a, X3, a->x3);
    inner.y = floats_at(k, a, Y);
    CT_TRY(k->inner->kind->run(k->inner, &inner));
    cpu__from_floats(op->dev, k->count[Y], inner.y, a->y, 0);
  }
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(floats_backward(k, a));
out:
  return rc;
}

static void floats_clear(ct_op_t *op)
{
  cpu__op_free(((in_floats_t *)op)->inner);
}

static int floats_pack(ct_op_t *op, int param, const float *plain, void *own)
{
  ct_op_t *inner = ((in_floats_t *)op)->inner;
  if (inner->kind->pack) return inner->kind->pack(inner, param, plain, own);
  memcpy(own, plain, inner->param_bytes[param]);
  return CT_OK;
}

static int floats_unpack(ct_op_t *op, int param, const void *own, float *plain)
{
  ct_op_t *inner = ((in_floats_t *)op)->inner;
  if (inner->kind->unpack) return inner->kind->unpack(inner, param, own, plain);
  memcpy(plain, own, inner->param_bytes[param]);
  return CT_OK;
}

const cpu__op_kind_t cpu__in_floats = {.size = sizeof(in_floats_t),
                                       .bf16 = 1,
                                       .wants = floats_wants,
                                       .prepare = floats_prepare,
                                       .run = floats_run,
                                       .clear = floats_clear,
                                       .pack = floats_pack,
                                       .unpack = floats_unpack};
