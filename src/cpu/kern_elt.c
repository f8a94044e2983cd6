/* Elementwise kernels: ReLU and addition.  Layouts do not matter: the padding is computed along,
 * and 0 stays 0. */
#include <stdio.h>

#include "base/ct_err.h"
#include "cpu/kern_loops.h"

/* ---- ReLU and addition ---- */

static void forward(const ct_op_t *op, int64_t count, const float *x, const float *x2, float *y,
                    int relu)
{
  const cpu__loops_t *loops = cpu__loops(op->dev);
  int parts = op->dev->threads;
  int stream = y != x && y != x2 && cpu__streams(y, (size_t)count * sizeof(float));

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    loops->add(p.count, x + p.first, x2 ? x2 + p.first : NULL, y + p.first, relu, stream);
  }
}

static void backward(const ct_op_t *op, int64_t count, const float *y, const ct_op_args_t *a)
{
  const cpu__loops_t *loops = cpu__loops(op->dev);
  const float *dy = a->dy, *dy2 = a->dy2;
  float *dx = a->dx;
  int parts = op->dev->threads;
  int stream = dx != dy && dx != dy2 && cpu__streams(dx, (size_t)count * sizeof(float));

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    loops->add_bwd(p.count, y ? y + p.first : NULL, dy + p.first, dy2 ? dy2 + p.first : NULL,
                   dx + p.first, stream);
  }
}

static int relu_run(ct_op_t *op, const ct_op_args_t *a)
{
  int64_t count = ct_shape_padded(&op->desc.x);

  if (a->pass & CT_FWD) forward(op, count, a->x, NULL, a->y, 1);
  if (a->pass & CT_BWD_DATA) backward(op, count, a->y, a);
  return CT_OK;
}

static int add_run(ct_op_t *op, const ct_op_args_t *a)
{
  int64_t count = ct_shape_padded(&op->desc.x);
  int relu = op->desc.u.add.relu;

  if (a->pass & CT_FWD) forward(op, count, a->x, a->x2, a->y, relu);
  if (a->pass & CT_BWD_DATA) backward(op, count, relu ? a->y : NULL, a);
  return CT_OK;
}

static int same_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (ct_shape_same(&d->x, &d->y)) return 1;
  snprintf(why, 128, "input and output differ in shape");
  return 0;
}

static int relu_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)like;
  if (op->desc.passes & CT_BWD_DATA) info->bwd_uses = CT_USES_Y;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

static int add_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)like;
  if ((op->desc.passes & CT_BWD_DATA) && op->desc.u.add.relu) info->bwd_uses = CT_USES_Y;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__relu = {
    .size = sizeof(ct_op_t), .supports = same_supports, .prepare = relu_prepare, .run = relu_run};

const cpu__op_kind_t cpu__add = {
    .size = sizeof(ct_op_t), .supports = same_supports, .prepare = add_prepare, .run = add_run};
