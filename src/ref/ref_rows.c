/* Rows of a table by their indices. */
#include <math.h>
#include <string.h>

#include "ref/ref.h"

/* Returns in *row the row of index i. */
static int row_of(const ct_op_desc_t *d, const float *x, int64_t i, int64_t *row)
{
  int rc = CT_OK;
  if (!(x[i] >= 0 && x[i] < (float)d->u.rows.rows && x[i] == floorf(x[i])))
    CT_FAIL(CT_ERR_DATA, "index %g is not a row of the table: expected 0 to %lld", (double)x[i],
            (long long)d->u.rows.rows - 1);
  *row = (int64_t)x[i];
out:
  return rc;
}

/* Reads row i of the parameter or of x2 into y. */
static void rows_read(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t row, int64_t i)
{
  int64_t width = ct_op_row_width(d);
  for (int64_t k = 0; k < width; k++)
    ct__ref_set(d->y.dtype, a->y, i * width + k,
                d->x2.ndim ? ct__ref_get(d->x2.dtype, a->x2, row * width + k)
                           : ((const float *)a->w[0])[row * width + k]);
}

static int rows_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int rc = CT_OK;
  int64_t n = ct_shape_count(&d->x), width = ct_op_row_width(d), all = d->u.rows.rows * width;
  int back = d->x2.ndim ? a->pass & CT_BWD_DATA && a->dx2 : (a->pass & CT_BWD_PARAM) != 0;
  double *sum = back ? a->scratch : NULL;
  for (int64_t i = 0; back && i < all; i++)
    sum[i] = a->adds_dw ? ((const float *)a->dw[0])[i] : 0;
  for (int64_t i = 0, row = 0; i < n; i++) {
    CT_TRY(row_of(d, a->x, i, &row));
    if (a->pass & CT_FWD) rows_read(d, a, row, i);
    for (int64_t k = 0; back && k < width && row != d->u.rows.padding - 1; k++)
      sum[row * width + k] += ct__ref_get(d->y.dtype, a->dy, i * width + k);
  }
  for (int64_t i = 0; back && i < all; i++) {
    if (d->x2.ndim)
      ct__ref_set(d->x2.dtype, a->dx2, i, sum[i]);
    else
      ((float *)a->dw[0])[i] = (float)sum[i];
  }
out:
  return rc;
}

static void rows_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->adds_dw = !d->x2.ndim;
  if (ct_op_goes_back(d))
    info->scratch = (size_t)(d->u.rows.rows * ct_op_row_width(d)) * sizeof(double);
}

const ct__ref_kind_t ct__ref_rows = {.needs = rows_needs, .run = rows_run, .reduced = 1};
