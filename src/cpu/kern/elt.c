/* Elementwise kernels: ReLU and addition; and the column sums for bias gradients.  ReLU and
 * addition work in any layout: padding is computed too, and 0 stays 0. */

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

/* ---- ReLU and addition ---- */

void cpu__add_of(const ct_dev_t *dev, const ct_shape_t *s, const void *x, const void *x2, void *y,
                 int relu)
{
  ct_dtype_t t = s->dtype;
  const cpu__loops_t *loops = cpu__loops(dev, t);
  int64_t count = ct_shape_padded(s);
  int parts = dev->threads, stream = y != x && y != x2 && cpu__streams(y, ct_shape_bytes(s));

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    loops->add(p.count, cpu__at(x, p.first, t), cpu__at(x2, p.first, t), cpu__at(y, p.first, t),
               relu, stream);
  }
}

void cpu__relu_of(const ct_dev_t *dev, const ct_shape_t *s, void *x)
{
  cpu__add_of(dev, s, x, NULL, x, 1);
}

static void elt_backward(const ct_op_t *op, const ct_op_args_t *a, const void *y)
{
  ct_dtype_t t = op->desc.x.dtype;
  const cpu__loops_t *loops = cpu__loops(op->dev, t);
  int64_t count = ct_shape_padded(&op->desc.x);
  int parts = op->dev->threads;
  int stream =
      a->dx != a->dy && a->dx != a->dy2 && cpu__streams(a->dx, ct_shape_bytes(&op->desc.x));

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t p = cpu__part(count, parts, k);
    loops->add_bwd(p.count, cpu__at(y, p.first, t), cpu__at(a->dy, p.first, t),
                   cpu__at(a->dy2, p.first, t), cpu__at(a->dx, p.first, t), stream);
  }
}

void cpu__column_sums(const ct_dev_t *dev, int64_t rows, int64_t columns, const float *x,
                      float *sums)
{
  enum { MOST = 128 }; /* maximum columns for which the hardware prefetcher follows each row */
  int64_t share = (columns + dev->threads - 1) / dev->threads, wide = (share + 15) / 16 * 16;
  if (wide > MOST) wide = MOST;
  const cpu__loops_t *loops = cpu__loops(dev, CT_F32);

#pragma omp parallel for if (rows * columns > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t at = 0; at < columns; at += wide) {
    double sum[MOST] = {0};
    int64_t n = columns - at < wide ? columns - at : wide;
    loops->add_rows(rows, n, columns, x + at, sum);
    for (int64_t j = 0; j < n; j++)
      sums[at + j] = (float)sum[j];
  }
}

static int relu_run(ct_op_t *op, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) cpu__add_of(op->dev, &op->desc.x, a->x, NULL, a->y, 1);
  if (a->pass & CT_BWD_DATA) elt_backward(op, a, a->y);
  return CT_OK;
}

static int elt_add_run(ct_op_t *op, const ct_op_args_t *a)
{
  int relu = op->desc.u.add.relu;

  if (a->pass & CT_FWD) cpu__add_of(op->dev, &op->desc.x, a->x, a->x2, a->y, relu);
  if (a->pass & CT_BWD_DATA) elt_backward(op, a, relu ? a->y : NULL);
  return CT_OK;
}

static int elt_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)op;
  (void)like;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__relu = {
    .size = sizeof(ct_op_t), .bf16 = 1, .prepare = elt_prepare, .run = relu_run};

const cpu__op_kind_t cpu__add = {
    .size = sizeof(ct_op_t), .bf16 = 1, .prepare = elt_prepare, .run = elt_add_run};
