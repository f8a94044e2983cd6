/* Rows of a table by their indices. The indices are checked on the GPU; the next wait reports one
 * that is no row. */
#include "cuda/gpu.h"
#include "cuda/kernels/elt.h"
#include "cuda/kernels/table_rows.h"

static int rows_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  ct_dev_t *dev = op->dev;
  const ct_op_desc_t *d = &op->desc;
  void *bad = NULL;
  info->adds_dw = !d->x2.ndim;
  if (!dev->bad_index && !dev->card) {
    CT_TRY(gpu__mem_ops.alloc(dev, CT_MEM_STAGING, sizeof *dev->bad_index, &bad));
    dev->bad_index = bad;
  }
  /* the sums of a table in reduced precision */
  if (d->x2.ndim && d->x2.dtype != CT_F32 && d->passes & CT_BWD_DATA)
    info->scratch = (size_t)ct_shape_count(&d->x2) * sizeof(float);
out:
  return rc;
}

static int rows_backward(const ct_op_t *op, const ct_op_args_t *a, gpu__rows_t *r, cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  int low = d->x2.ndim && d->x2.dtype != CT_F32;
  if (d->x2.ndim ? !(a->pass & CT_BWD_DATA) || !a->dx2 : !(a->pass & CT_BWD_PARAM)) return CT_OK;
  r->adds = a->adds_dw;
  float *table = low ? a->scratch : d->x2.ndim ? a->dx2 : a->dw[0];
  GPU_TRY(gpu__rows_sum(r, d->y.dtype, a->dy, table, s));
  if (low) GPU_TRY(gpu__cast(CT_F32, d->x2.dtype, ct_shape_count(&d->x2), table, a->dx2, s));
out:
  return rc;
}

static int rows_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  gpu__rows_t r = {.n = ct_shape_count(&d->x),
                   .rows = d->u.rows.rows,
                   .width = ct_op_row_width(d),
                   .padding = d->u.rows.padding - 1,
                   .index = a->x};
  (void)at;
  if (a->pass & CT_FWD) {
    GPU_TRY(gpu__rows_check(&r, op->dev->bad_index, s));
    GPU_TRY(gpu__rows_read(&r, d->x2.ndim ? d->x2.dtype : CT_F32, d->x2.ndim ? a->x2 : a->w[0],
                           d->y.dtype, a->y, s));
  }
  CT_TRY(rows_backward(op, a, &r, s));
out:
  return rc;
}

int gpu__check_indices(ct_dev_t *dev)
{
  gpu__bad_index_t *bad = dev->bad_index;
  if (!bad || !bad->found) return CT_OK;
  bad->found = 0;
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                    "index %g is not a row of the table: expected 0 to %lld", (double)bad->index,
                    (long long)bad->rows - 1);
}

const gpu__kind_t gpu__kind_rows = {
    .size = sizeof(ct_op_t), .reduced = 1, .nhwc = -1, .prepare = rows_prepare, .run = rows_run};
