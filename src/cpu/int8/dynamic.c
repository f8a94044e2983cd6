/* Linear layer with dynamic quantization: x and y are float32; x is quantized with the range of the
 * batch, and the GEMM is int8.  The primitive computes with scale 1 and zero point 0; the actual
 * scale and zero point are applied afterwards. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "cpu/int8/gemm.h"

typedef struct dynamic {
  cpu__int8_gemm_t gemm; /* first member: the parameters are its own */
  int64_t rows, in, out;
  float *zero; /* [out] the amount that a zero point of 1 adds to a sum */
  uint64_t hash;
} dynamic_t;

/* Returns the descriptor of the int8 GEMM: no bias and ReLU, scale 1, zero point 0. */
static ct_op_desc_t gemm_of(const ct_op_desc_t *d)
{
  ct_op_desc_t p = *d;
  p.x.dtype = CT_U8;
  p.q.dynamic = 0;
  p.q.x.scale = 1;
  p.u.linear.bias = p.u.linear.relu = 0;
  return p;
}

static int dynamic_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  ct_op_desc_t p = gemm_of(d);
  return cpu__int8_gemm.supports(dev, &p, why);
}

static size_t bytes_size(const dynamic_t *k)
{
  return ((size_t)(k->rows * k->in) + 63) / 64 * 64;
}

static int dynamic_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  dynamic_t *k = (dynamic_t *)op;
  const ct_op_desc_t whole = op->desc;
  op->desc = gemm_of(&whole);
  rc = cpu__int8_gemm_prepare(op, like, info);
  op->desc = whole;
  CT_TRY(rc);
  k->in = k->gemm.flat.x.dim[1];
  k->out = k->gemm.flat.y.dim[1];
  k->rows = k->gemm.flat.x.dim[0];
  k->zero = ct_mem_array(k->out, sizeof *k->zero, "int8 weights");
  CT_TRY(k->zero ? CT_OK : CT_ERR_NOMEM);
  info->scratch += bytes_size(k);
  info->param_bytes[1] = (size_t)ct_op_param_count(&whole, 1) * sizeof(float);
out:
  return rc;
}

static ct_quant_params_t round_x(const dynamic_t *k, const float *x, uint8_t *q)
{
  int64_t n = k->rows * k->in;
  float low = 0, high = 0;
#pragma omp parallel for simd reduction(min : low) reduction(max : high) if (n > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  ct_quant_params_t qp = ct_quant_params_of(low, high);
  float zero = (float)qp.zero;
#pragma omp parallel for simd if (n > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < n; i++)
    q[i] = cpu__int8_cut(x[i] / qp.scale + zero);
  return qp;
}

/* Computes k->zero: the error of each sum per unit of the zero point of x. */
static void note_zero(dynamic_t *k, const void *own)
{
  const ct_op_desc_t *d = &k->gemm.flat;
  cpu__int8_weight_sums(d, own, k->zero);
  k->hash = k->gemm.hash;
}

static int dynamic_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  dynamic_t *k = (dynamic_t *)op;
  ct_op_args_t inner = *a;
  const ct_op_desc_t whole = op->desc;
  const float *bias = whole.u.linear.bias ? a->w[1] : NULL;
  float *y = a->y;
  uint8_t *q = a->scratch;
  if (k->rows == 0) return CT_OK;
  ct_quant_params_t qp = round_x(k, a->x, q);
  inner.x = q;
  inner.scratch = (char *)a->scratch + bytes_size(k);
  op->desc = gemm_of(&whole);
  rc = cpu__int8_gemm_run(op, &inner);
  op->desc = whole;
  CT_TRY(rc);
  if (k->hash != k->gemm.hash) note_zero(k, a->w[0]);
#pragma omp parallel for if (k->rows * k->out > CPU__PARALLEL_MIN)
  for (int64_t r = 0; r < k->rows; r++)
    for (int64_t c = 0; c < k->out; c++) {
      float v = y[r * k->out + c] - k->zero[c] * (float)qp.zero;
      v = v * qp.scale + (bias ? bias[c] : 0);
      y[r * k->out + c] = whole.u.linear.relu && v < 0 ? 0 : v;
    }
out:
  return rc;
}

static void dynamic_clear(ct_op_t *op)
{
  ct_mem_free(((dynamic_t *)op)->zero);
  cpu__int8_gemm_clear(op);
}

const cpu__op_kind_t cpu__int8_dynamic = {.size = sizeof(dynamic_t),
                                          .plain = 1,
                                          .supports = dynamic_supports,
                                          .prepare = dynamic_prepare,
                                          .run = dynamic_run,
                                          .clear = dynamic_clear,
                                          .pack = cpu__int8_gemm_pack,
                                          .unpack = cpu__int8_gemm_unpack};
