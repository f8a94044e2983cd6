/* Elementwise int8 ops.  An activation function is a table of 256 results.  Addition dequantizes,
 * adds and quantizes.  Concatenation converts both inputs to the scale and zero point of the
 * output, also by tables. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/int8/int8.h"
#include "cpu/kern/loops.h"

/* ---- activations ---- */

typedef struct table {
  ct_op_t op;
  uint8_t of[256];
} table_t;

/* Fills the table: applies the float32 function to the 256 values of a uint8. */
static int table_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  table_t *k = (table_t *)op;
  const ct_op_desc_t *d = &op->desc;
  float x[256], y[256];
  (void)like;
  for (int i = 0; i < 256; i++) {
    x[i] = ct_quant_from_u8(&d->q.x, (uint8_t)i);
    y[i] = x[i] > 0 ? x[i] : 0;
  }
  cpu__act_t f = {d->u.act.kind, (float)d->u.act.alpha};
  if (d->kind == CT_OP_ACT) cpu__loops(op->dev, CT_F32)->act(f, 256, x, y);
  for (int i = 0; i < 256; i++)
    k->of[i] = ct_quant_to_u8(&d->q.y, y[i]);
  info->inplace_fwd = 1;
  return CT_OK;
}

static int table_run(ct_op_t *op, const ct_op_args_t *a)
{
  const table_t *k = (const table_t *)op;
  int64_t n = ct_shape_count(&op->desc.x);
  const uint8_t *x = a->x;
  uint8_t *y = a->y;
#pragma omp parallel for if (n > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < n; i++)
    y[i] = k->of[x[i]];
  return CT_OK;
}

const cpu__op_kind_t cpu__int8_table = {
    .size = sizeof(table_t), .wants = cpu__int8_wants, .prepare = table_prepare, .run = table_run};

/* ---- addition ---- */

static int add_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)op;
  (void)like;
  info->inplace_fwd = 1;
  return CT_OK;
}

static int point_add_run(ct_op_t *op, const ct_op_args_t *a)
{
  const ct_op_desc_t *d = &op->desc;
  int64_t n = ct_shape_count(&d->x);
  const uint8_t *x = a->x, *x2 = a->x2;
  uint8_t *y = a->y;
  float one = d->q.x.scale / d->q.y.scale, two = d->q.x2.scale / d->q.y.scale;
  float zero = (float)d->q.y.zero, least = d->u.add.relu ? zero : 0;
  float fixed = zero - one * (float)d->q.x.zero - two * (float)d->q.x2.zero;
#pragma omp parallel for simd if (n > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < n; i++) {
    float v = one * (float)x[i] + two * (float)x2[i] + fixed;
    y[i] = cpu__int8_cut(v > least ? v : least);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__int8_add = {.size = sizeof(ct_op_t),
                                      .wants = cpu__int8_wants,
                                      .prepare = add_prepare,
                                      .run = point_add_run};

/* ---- concatenation ---- */

typedef struct concat {
  ct_op_t op;
  int64_t stretches; /* number of runs of bytes to copy from each input */
  int64_t one, two;  /* bytes of a run of the first and of the second input */
  uint8_t of[2][256];
  int same[2]; /* 1: the table is the identity */
} concat_t;

static int concat_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->y.dtype == CT_U8) return 1;
  snprintf(why, 128, "int8 can be concatenated with int8 only");
  return 0;
}

static int concat_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  concat_t *k = (concat_t *)op;
  const ct_op_desc_t *d = &op->desc;
  const ct_quant_params_t *qp[2] = {&d->q.x, &d->q.x2};
  (void)like;
  (void)info;
  k->one = ct_op_concat_row(d, &d->x);
  k->two = ct_op_concat_row(d, &d->y) - k->one;
  k->stretches = ct_shape_count(&d->x) / k->one;
  for (int t = 0; t < 2; t++) {
    k->same[t] = 1;
    for (int i = 0; i < 256; i++) {
      k->of[t][i] = ct_quant_to_u8(&d->q.y, ct_quant_from_u8(qp[t], (uint8_t)i));
      k->same[t] &= k->of[t][i] == i;
    }
  }
  return CT_OK;
}

static void translate(const concat_t *k, int t, int64_t n, const uint8_t *x, uint8_t *y)
{
  if (k->same[t])
    memcpy(y, x, (size_t)n);
  else
    for (int64_t i = 0; i < n; i++)
      y[i] = k->of[t][x[i]];
}

static int concat_run(ct_op_t *op, const ct_op_args_t *a)
{
  const concat_t *k = (const concat_t *)op;
  const uint8_t *x = a->x, *x2 = a->x2;
  uint8_t *y = a->y;
  int64_t both = k->one + k->two;
#pragma omp parallel for if (k->stretches * both > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < k->stretches; i++) {
    translate(k, 0, k->one, x + i * k->one, y + i * both);
    translate(k, 1, k->two, x2 + i * k->two, y + i * both + k->one);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__int8_concat = {.size = sizeof(concat_t),
                                         .supports = concat_supports,
                                         .wants = cpu__int8_wants,
                                         .prepare = concat_prepare,
                                         .run = concat_run};
