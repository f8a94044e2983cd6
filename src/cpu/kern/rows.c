/* Rows of a table by their indices.  For the gradient the indices are sorted, in a counting sort
 * that keeps the order of equal ones; then each row of the table is summed by one thread in this
 * order, so the result does not depend on the number of threads.  Rows without an index are
 * cleared, many at a time. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_int.h"
#include "cpu/kern/loops.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* Columns that are summed at a time. */
#define WIDTH 256

typedef struct rows {
  ct_op_t op;
  int64_t n, rows, width;
} rows_t;

static int rows_check(const rows_t *k, const float *x)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < k->n; i++)
    if (!(x[i] >= 0 && x[i] < (float)k->rows && x[i] == floorf(x[i])))
      CT_FAIL(CT_ERR_DATA, "index %g is not a row of the table: expected 0 to %lld", (double)x[i],
              (long long)k->rows - 1);
out:
  return rc;
}

static void rows_gather(const rows_t *k, const ct_op_args_t *a)
{
  const float *x = a->x, *w = a->w[0];
  int param = k->op.desc.x2.ndim == 0;
  ct_dtype_t t = k->op.desc.y.dtype;
  size_t bytes = (size_t)k->width * ct_dtype_size(t);
#pragma omp parallel for if (k->n * k->width > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < k->n; i++) {
    int64_t row = (int64_t)x[i];
    void *y = cpu__at(a->y, i * k->width, t);
    if (param && t != CT_F32)
      for (int64_t c = 0; c < k->width; c++)
        ((uint16_t *)y)[c] = ct_bf16_of(w[row * k->width + c]);
    else
      memcpy(y, cpu__at(param ? a->w[0] : a->x2, row * k->width, t), bytes);
  }
}

/* The indices in the order of their rows: those of row r are order[begin[r]] … order[begin[r + 1] -
 * 1]. */
static void rows_sort(const rows_t *k, const float *x, int64_t *begin, int64_t *order)
{
  int64_t skipped = k->op.desc.u.rows.padding - 1, sum = 0;
  memset(begin, 0, (size_t)(k->rows + 2) * sizeof *begin);
  for (int64_t i = 0; i < k->n; i++)
    if ((int64_t)x[i] != skipped) begin[(int64_t)x[i] + 2]++;
  for (int64_t r = 0; r <= k->rows + 1; r++)
    begin[r] = sum += begin[r];
  for (int64_t i = 0; i < k->n; i++)
    if ((int64_t)x[i] != skipped) order[begin[(int64_t)x[i] + 1]++] = i;
}

/* Sums one row of the table.  \a adds: to what is there, which is of float32. */
static void rows_sum(const rows_t *k, int64_t count, const int64_t *order, const void *dy,
                     int64_t row, void *out, int adds)
{
  const ct_op_desc_t *d = &k->op.desc;
  int floats = d->x2.ndim == 0 || d->x2.dtype == CT_F32;
  for (int64_t c = 0; c < k->width; c += WIDTH) {
    double sum[WIDTH] = {0};
    int64_t wide = ct_least(WIDTH, k->width - c), to = row * k->width + c;
    for (int64_t j = 0; j < wide && adds; j++)
      sum[j] = (double)((const float *)out)[to + j];
    for (int64_t i = 0; i < count; i++) {
      const float *f = (const float *)dy + order[i] * k->width + c;
      const uint16_t *h = (const uint16_t *)dy + order[i] * k->width + c;
      for (int64_t j = 0; j < wide && d->y.dtype == CT_F32; j++)
        sum[j] += (double)f[j];
      for (int64_t j = 0; j < wide && d->y.dtype != CT_F32; j++)
        sum[j] += (double)ct_bf16_float(h[j]);
    }
    for (int64_t j = 0; j < wide && floats; j++)
      ((float *)out)[to + j] = (float)sum[j];
    for (int64_t j = 0; j < wide && !floats; j++)
      ((uint16_t *)out)[to + j] = ct_bf16_of((float)sum[j]);
  }
}

/* Writes rows first … end - 1 of the gradient, or adds to them. */
static void rows_part(const rows_t *k, const int64_t *begin, const int64_t *order, const void *dy,
                      int64_t first, int64_t end, void *out, int adds)
{
  ct_dtype_t t = k->op.desc.x2.ndim ? k->op.desc.x2.dtype : CT_F32;
  size_t bytes = (size_t)k->width * ct_dtype_size(t);
  for (int64_t r = first, next; r < end; r = next) {
    next = r + 1;
    if (begin[r] < begin[r + 1]) {
      rows_sum(k, begin[r + 1] - begin[r], order + begin[r], dy, r, out, adds);
      continue;
    }
    while (next < end && begin[next] == begin[next + 1])
      next++;
    if (!adds) memset(cpu__at(out, r * k->width, t), 0, (size_t)(next - r) * bytes);
  }
}

static int rows_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const rows_t *k = (const rows_t *)op;
  int64_t *begin = a->scratch, *order = begin + k->rows + 2;
  void *out = op->desc.x2.ndim ? a->dx2 : a->dw[0];
  int back = op->desc.x2.ndim ? a->pass & CT_BWD_DATA && a->dx2 : (a->pass & CT_BWD_PARAM) != 0;
  const int64_t parts = ct_least(k->rows, 256);
  CT_TRY(rows_check(k, a->x));
  if (a->pass & CT_FWD) rows_gather(k, a);
  if (!back) return CT_OK;
  rows_sort(k, a->x, begin, order);
#pragma omp parallel for schedule(dynamic) if (k->rows * k->width > CPU__PARALLEL_MIN)
  for (int64_t p = 0; p < parts; p++)
    rows_part(k, begin, order, a->dy, k->rows * p / parts, k->rows * (p + 1) / parts, out,
              a->adds_dw);
out:
  return rc;
}

static int rows_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  rows_t *k = (rows_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->n = ct_shape_count(&d->x);
  k->rows = d->u.rows.rows;
  k->width = ct_op_row_width(d);
  info->adds_dw = !d->x2.ndim;
  if (ct_op_goes_back(d)) info->scratch = (size_t)(k->rows + 2 + k->n) * sizeof(int64_t);
  return CT_OK;
}

const cpu__op_kind_t cpu__rows = {
    .size = sizeof(rows_t), .bf16 = 1, .plain = 1, .prepare = rows_prepare, .run = rows_run};
