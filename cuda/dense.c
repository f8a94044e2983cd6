/* Matrix products of rows with weights: see dense.h. */
#include "cuda/dense.h"
#include "cuda/kernels/bias.h"

static void raise_to(size_t *most, size_t bytes)
{
  if (*most < bytes) *most = bytes;
}

int gpu__gemm_add(ct_dev_t *dev, const gpu__gemm_spec_t *g, gpu__gemm_t **out, size_t *scratch)
{
  size_t wanted = 0;
  int rc = gpu__gemm_make(dev, g, out, &wanted);
  raise_to(scratch, wanted);
  return rc;
}

size_t gpu__take(size_t *end, int64_t count, size_t size)
{
  size_t at = *end, align = 64;
  *end += ((size_t)count * size + align - 1) / align * align;
  return at;
}

const void *gpu__factor(const ct_op_t *op, const ct_op_args_t *a, int i)
{
  return op->desc.x.dtype == CT_F32 ? a->w[i] : a->w_reduced[i];
}

int gpu__dense_make(ct_dev_t *dev, const gpu__dense_spec_t *spec, gpu__dense_t *d, size_t *scratch)
{
  int rc = CT_OK;
  int64_t rows = spec->rows, in = spec->in, out = spec->out;
  gpu__gemm_spec_t forward = {.m = rows, .n = out, .k = in, .lda = in, .ldb = in, .ldc = out};
  gpu__gemm_spec_t data = {.m = rows, .n = in, .k = out, .lda = out, .ldb = in, .ldc = in};
  gpu__gemm_spec_t param = {.m = out, .n = in, .k = rows, .lda = out, .ldb = in, .ldc = in};
  forward.batch = data.batch = param.batch = 1;
  forward.in = data.in = data.out = param.in = spec->type;
  forward.out = spec->y_type;
  forward.b_turned = 1;
  forward.bias = spec->bias;
  forward.relu = spec->relu;
  forward.adds = spec->add;
  param.out = CT_F32;
  param.a_turned = 1;
  /* a micro-batch may start at any row of the batch */
  if ((size_t)in * ct_dtype_size(spec->type) % 16 != 0) {
    forward.unaligned = GPU_GEMM_A;
    param.unaligned = GPU_GEMM_B;
  }
  *d = (gpu__dense_t){.spec = *spec};
  if (spec->passes & CT_FWD) CT_TRY(gpu__gemm_add(dev, &forward, &d->forward, scratch));
  if (spec->passes & CT_BWD_DATA) CT_TRY(gpu__gemm_add(dev, &data, &d->data, scratch));
  if (spec->passes & CT_BWD_PARAM) {
    CT_TRY(gpu__gemm_add(dev, &param, &d->param, scratch));
    raise_to(scratch, gpu__column_sums_scratch(rows, out));
    param.adds = 1;
    if (spec->adds_dw) CT_TRY(gpu__gemm_add(dev, &param, &d->param_add, scratch));
  }
out:
  return rc;
}

void gpu__dense_clear(gpu__dense_t *d)
{
  gpu__gemm_free(d->forward);
  gpu__gemm_free(d->data);
  gpu__gemm_free(d->param);
  gpu__gemm_free(d->param_add);
  d->forward = d->data = d->param = d->param_add = NULL;
}

int gpu__dense_forward(const gpu__dense_t *d, const void *x, const void *w, const void *bias,
                       void *y, void *scratch, cudaStream_t s)
{
  return gpu__gemm_run(d->forward, 1, x, w, bias, y, scratch, s);
}

int gpu__dense_forward_add(const gpu__dense_t *d, const void *x, const void *w, const void *bias,
                           const void *other, void *y, void *scratch, cudaStream_t s)
{
  return gpu__gemm_run_add(d->forward, 1, x, w, bias, other, y, scratch, s);
}

int gpu__dense_data(const gpu__dense_t *d, const void *dy, const void *w, void *dx, void *scratch,
                    cudaStream_t s)
{
  return gpu__gemm_run(d->data, 1, dy, w, NULL, dx, scratch, s);
}

int gpu__dense_param(const gpu__dense_t *d, const void *x, const void *dy, float *dw, float *dbias,
                     void *scratch, cudaStream_t s)
{
  int rc = CT_OK;
  CT_TRY(gpu__gemm_run(d->param, 1, dy, x, NULL, dw, scratch, s));
  if (dbias)
    GPU_TRY(gpu__column_sums(d->spec.type, dy, d->spec.rows, d->spec.out, dbias, scratch, s));
out:
  return rc;
}

int gpu__dense_param_add(const gpu__dense_t *d, const void *x, const void *dy, float *dw,
                         void *scratch, cudaStream_t s)
{
  return gpu__gemm_run(d->param_add, 1, dy, x, NULL, dw, scratch, s);
}
