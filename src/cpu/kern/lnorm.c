/* Layer normalisation over the last dims, or by their root mean square.  Saved for backward: mean
 * and 1 / std of each row. */
#include "cpu/kern/loops.h"
#include "base/ct_err.h"
#include <string.h>

/* Number of groups of rows for the sums of parameter gradients.  It is fixed, so that the result
 * does not depend on the number of threads. */
enum { GROUPS = 16 };

typedef struct lnorm_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  int64_t rows, wide;
} lnorm_op_t;

static int is_parallel(const lnorm_op_t *k)
{
  return k->rows * k->wide > CPU__PARALLEL_MIN;
}

static void lnorm_forward(const lnorm_op_t *k, const ct_op_args_t *a)
{
  const float *x = a->x, *w = a->w[0], *b = k->head.desc.u.lnorm.rms ? NULL : a->w[1];
  float *y = a->y, *stats = a->saved;
  int keep = ct_op_goes_back(&k->head.desc);

#pragma omp parallel for if (is_parallel(k)) schedule(static)
  for (int64_t r = 0; r < k->rows; r++) {
    float own[2];
    k->loops->lnorm(k->wide, x + r * k->wide, w, b, (float)k->head.desc.u.lnorm.eps,
                    y + r * k->wide, keep ? stats + 2 * r : own);
  }
}

/* Sums the parameter gradients over groups of rows; sums: per group the gradients of weight and
 * bias. */
static void group_sums(const lnorm_op_t *k, const ct_op_args_t *a, float *sums)
{
  const float *x = a->x, *dy = a->dy, *stats = a->saved;
  int64_t size = (k->rows + GROUPS - 1) / GROUPS;

  memset(sums, 0, (size_t)(GROUPS * 2 * k->wide) * sizeof *sums);
#pragma omp parallel for if (is_parallel(k)) schedule(static)
  for (int64_t g = 0; g < GROUPS; g++) {
    float *dw = sums + g * 2 * k->wide;
    for (int64_t r = g * size; r < (g + 1) * size && r < k->rows; r++)
      k->loops->lnorm_sums(k->wide, x + r * k->wide, stats + 2 * r, dy + r * k->wide, dw,
                           k->head.desc.u.lnorm.rms ? NULL : dw + k->wide);
  }
}

static void lnorm_backward_param(const lnorm_op_t *k, const ct_op_args_t *a)
{
  float *sums = a->scratch, *dw = a->dw[0], *db = a->dw[1];

  group_sums(k, a, sums);
  for (int64_t i = 0; i < k->wide; i++) {
    double weight = 0, bias = 0;
    for (int64_t g = 0; g < GROUPS; g++) {
      weight += sums[g * 2 * k->wide + i];
      bias += sums[(g * 2 + 1) * k->wide + i];
    }
    dw[i] = (float)weight;
    if (db && !k->head.desc.u.lnorm.rms) db[i] = (float)bias;
  }
}

static void lnorm_backward_data(const lnorm_op_t *k, const ct_op_args_t *a)
{
  const float *x = a->x, *w = a->w[0], *dy = a->dy, *stats = a->saved;
  float *dx = a->dx;

#pragma omp parallel for if (is_parallel(k)) schedule(static)
  for (int64_t r = 0; r < k->rows; r++)
    k->loops->lnorm_bwd(k->wide, x + r * k->wide, w, stats + 2 * r, dy + r * k->wide,
                        k->head.desc.u.lnorm.rms, dx + r * k->wide);
}

static int lnorm_run(ct_op_t *op, const ct_op_args_t *a)
{
  const lnorm_op_t *k = (const lnorm_op_t *)op;

  if (a->pass & CT_FWD) lnorm_forward(k, a);
  if (a->pass & CT_BWD_PARAM) lnorm_backward_param(k, a); /* first, because dx may overwrite dy */
  if (a->pass & CT_BWD_DATA) lnorm_backward_data(k, a);
  return CT_OK;
}

static int lnorm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  lnorm_op_t *k = (lnorm_op_t *)op;
  const ct_op_desc_t *d = &op->desc;

  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->wide = ct_op_normalised(d);
  k->rows = ct_shape_count(&d->x) / k->wide;
  info->inplace_fwd = info->inplace_bwd = 1;
  if (d->passes & CT_BWD_PARAM) info->scratch = (size_t)(GROUPS * 2 * k->wide) * sizeof(float);
  if (ct_op_goes_back(d)) info->saved = (size_t)(2 * k->rows) * sizeof(float);
  return CT_OK;
}

const cpu__op_kind_t cpu__lnorm = {
    .size = sizeof(lnorm_op_t), .plain = 1, .prepare = lnorm_prepare, .run = lnorm_run};
