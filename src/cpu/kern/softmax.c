/* Softmax along a dim, and its logarithm. */
#include "base/ct_err.h"
#include "cpu/kern/loops.h"

/* Columns of a part, which one thread processes: a few vectors. */
enum { COLUMNS = 64 };

typedef struct softmax_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  int log_of;
  int64_t outer, count, inner; /* sizes before the dim, of the dim, and after it */
  int64_t parts, wide;         /* parts of the columns, and columns of a part */
} softmax_op_t;

/* Runs one part: a row, or some columns. */
static void softmax_part(const softmax_op_t *k, int64_t task, const float *x, float *y)
{
  int64_t first = task % k->parts * k->wide, at = task / k->parts * k->count * k->inner + first;
  int64_t n = k->inner - first < k->wide ? k->inner - first : k->wide;
  if (k->inner == 1)
    k->loops->soft_row(k->log_of, k->count, x + at, y + at);
  else
    k->loops->soft_columns(k->log_of, k->count, k->inner, n, x + at, y + at);
}

static void softmax_part_back(const softmax_op_t *k, int64_t task, const ct_op_args_t *a)
{
  int64_t first = task % k->parts * k->wide, at = task / k->parts * k->count * k->inner + first;
  int64_t n = k->inner - first < k->wide ? k->inner - first : k->wide;
  const float *y = (const float *)a->y + at, *dy = (const float *)a->dy + at;
  float *dx = (float *)a->dx + at;
  if (k->inner == 1)
    k->loops->soft_row_bwd(k->log_of, k->count, y, dy, dx);
  else
    k->loops->soft_columns_bwd(k->log_of, k->count, k->inner, n, y, dy, dx);
}

static int softmax_run(ct_op_t *op, const ct_op_args_t *a)
{
  const softmax_op_t *k = (const softmax_op_t *)op;
  int64_t tasks = k->outer * k->parts;

  if (a->pass & CT_FWD) {
#pragma omp parallel for if (cpu__is_parallel(&op->desc.x)) schedule(static)
    for (int64_t i = 0; i < tasks; i++)
      softmax_part(k, i, a->x, a->y);
  }
  if (a->pass & CT_BWD_DATA) {
#pragma omp parallel for if (cpu__is_parallel(&op->desc.x)) schedule(static)
    for (int64_t i = 0; i < tasks; i++)
      softmax_part_back(k, i, a);
  }
  return CT_OK;
}

static int softmax_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  softmax_op_t *k = (softmax_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->log_of = d->u.softmax.log;
  k->outer = k->inner = 1;
  k->count = d->x.dim[d->u.softmax.dim];
  for (int i = 0; i < d->x.ndim; i++) {
    if (i < d->u.softmax.dim) k->outer *= d->x.dim[i];
    if (i > d->u.softmax.dim) k->inner *= d->x.dim[i];
  }
  k->wide = k->inner < COLUMNS ? k->inner : COLUMNS;
  k->parts = (k->inner + k->wide - 1) / k->wide;
  info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__softmax = {.size = sizeof(softmax_op_t),
                                     .bf16 = 1,
                                     .plain = 1,
                                     .stores = cpu__always,
                                     .prepare = softmax_prepare,
                                     .run = softmax_run};
