/* Fake quantization (ct_fake_quant.h) in any layout: 0 is exactly representable and in every range,
 * so padding stays 0 and does not change the range. */
#include "backend/ct_fake_quant.h"

#include "base/ct_err.h"
#include "cpu/kern/op.h"

static void follow(const ct_op_t *op, const float *x, float *range)
{
  int64_t count = ct_shape_padded(&op->desc.x);
  float low = 0, high = 0;

#pragma omp parallel for if (count > CPU__PARALLEL_MIN) reduction(min : low) reduction(max : high)
  for (int64_t i = 0; i < count; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  ct_fake_quant_follow(range, low, high);
}

static void quant_forward(const ct_op_t *op, const ct_quant_params_t *to, const float *x, float *y)
{
  const ct_quant_params_t qp = *to;
  int64_t count = ct_shape_padded(&op->desc.x);

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < count; i++)
    y[i] = ct_fake_quant(&qp, x[i]);
}

static void quant_backward(const ct_op_t *op, const ct_quant_params_t *to, const ct_op_args_t *a)
{
  const ct_quant_params_t qp = *to;
  const float *x = a->x, *dy = a->dy;
  float *dx = a->dx;
  int64_t count = ct_shape_padded(&op->desc.x);

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < count; i++)
    dx[i] = ct_fake_quant_gradient(&qp, x[i], dy[i]);
}

static int quant_run(ct_op_t *op, const ct_op_args_t *a)
{
  float *range = a->w[0];
  size_t bytes = ct_shape_bytes(&op->desc.x);

  if (a->pass & CT_FWD && op->desc.training && !a->keep_running && !a->again)
    follow(op, a->x, range);
  ct_quant_params_t qp = ct_quant_params_of(range[0], range[1]);
  int known = range[0] < range[1];
  if (a->pass & CT_FWD && known) quant_forward(op, &qp, a->x, a->y);
  if (a->pass & CT_FWD && !known && a->y != a->x) memcpy(a->y, a->x, bytes);
  if (a->pass & CT_BWD_DATA && known) quant_backward(op, &qp, a);
  if (a->pass & CT_BWD_DATA && !known && a->dx != a->dy) memcpy(a->dx, a->dy, bytes);
  return CT_OK;
}

static int quant_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)like;
  info->inplace_fwd = !ct_op_goes_back(&op->desc); /* backward needs x */
  info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__fake_quant = {
    .size = sizeof(ct_op_t), .prepare = quant_prepare, .run = quant_run};
