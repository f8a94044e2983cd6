/* Ops into and out of sequences N x T x D: patches to tokens, and select. */
#include "cpu/kern/op.h"
#include "base/ct_err.h"
#include <string.h>

/* ---- tokens ---- */

/* One sample: x is D x HW, y (1 + HW) x D. */
typedef struct tokens {
  int64_t wide, patches;
} tokens_t;

static void sample_forward(const tokens_t *k, const float *x, const float *class_token,
                           const float *position, float *y)
{
  for (int64_t i = 0; i < k->wide; i++)
    y[i] = class_token[i] + position[i];
  for (int64_t p = 0; p < k->patches; p++) {
    int64_t at = (p + 1) * k->wide;
    for (int64_t i = 0; i < k->wide; i++)
      y[at + i] = x[i * k->patches + p] + position[at + i];
  }
}

static void sample_backward(const tokens_t *k, const float *dy, float *dx)
{
  for (int64_t i = 0; i < k->wide; i++)
    for (int64_t p = 0; p < k->patches; p++)
      dx[i * k->patches + p] = dy[(p + 1) * k->wide + i];
}

static int tokens_run(ct_op_t *op, const ct_op_args_t *a)
{
  const ct_shape_t *s = &op->desc.x;
  const tokens_t k = {s->dim[1], s->dim[2] * s->dim[3]};
  int64_t in = k.wide * k.patches, out = in + k.wide, batch = s->dim[0];
  const float *x = a->x, *dy = a->dy;
  float *y = a->y, *dx = a->dx;

  if (a->pass & CT_FWD) {
#pragma omp parallel for if (batch * out > CPU__PARALLEL_MIN) schedule(static)
    for (int64_t n = 0; n < batch; n++)
      sample_forward(&k, x + n * in, a->w[0], a->w[1], y + n * out);
  }
  if (a->pass & CT_BWD_DATA) {
#pragma omp parallel for if (batch * out > CPU__PARALLEL_MIN) schedule(static)
    for (int64_t n = 0; n < batch; n++)
      sample_backward(&k, dy + n * out, dx + n * in);
  }
  if (a->pass & CT_BWD_PARAM) {
    cpu__column_sums(op->dev, batch, out, dy, a->dw[1]);
    memcpy(a->dw[0], a->dw[1], (size_t)k.wide * sizeof(float));
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__tokens = {.size = sizeof(ct_op_t), .plain = 1, .run = tokens_run};

/* ---- select ---- */

static int select_run(ct_op_t *op, const ct_op_args_t *a)
{
  const ct_shape_t *s = &op->desc.x;
  int64_t index = op->desc.u.select.index, wide = s->dim[2], sample = s->dim[1] * wide;
  int64_t first = (index < 0 ? s->dim[1] + index : index) * wide;
  size_t bytes = (size_t)wide * sizeof(float);

  if (a->pass & CT_BWD_DATA) memset(a->dx, 0, ct_shape_bytes(s));
  for (int64_t n = 0; n < s->dim[0]; n++) {
    int64_t in = n * sample + first, out = n * wide;
    if (a->pass & CT_FWD) memcpy((float *)a->y + out, (const float *)a->x + in, bytes);
    if (a->pass & CT_BWD_DATA) memcpy((float *)a->dx + in, (const float *)a->dy + out, bytes);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__select = {.size = sizeof(ct_op_t), .plain = 1, .run = select_run};
