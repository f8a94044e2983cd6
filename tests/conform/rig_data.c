/* Host data of the rig: parameters, inputs, results. */
#include "ref/ref.h"
#include "tests/conform/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"

void must(int rc)
{
  if (rc == CT_OK) return;
  printf("Bail out! %s\n", ct_err_last()->text);
  exit(1);
}

void *host_array(int64_t n, size_t size)
{
  void *p = ct_mem_array(n, size, "test data");
  must(p ? CT_OK : CT_ERR_NOMEM);
  return p;
}

int64_t param_count(const ct_op_desc_t *d, int param)
{
  int64_t out = d->y.dim[1], wide = d->x.dim[d->x.ndim - 1];

  if (param >= CT_OP_PARAMS) return 0;
  switch (d->kind) {
  case CT_OP_CONV:
    if (param == 0)
      return out * (d->x.dim[1] / d->u.conv.groups) * d->u.conv.kernel[0] * d->u.conv.kernel[1] *
             (d->x.ndim == 5 ? d->u.conv.kernel[2] : 1);
    return param == 1 && d->u.conv.bias ? out : 0;
  case CT_OP_CONV_POOL: {
    const ct_op_conv_t *o = &d->u.conv_pool.conv;
    if (param == 0)
      return out * (d->x.dim[1] / o->groups) * o->kernel[0] * o->kernel[1] *
             (d->x.ndim == 5 ? o->kernel[2] : 1);
    return param == 1 && o->bias ? out : 0;
  }
  case CT_OP_CONVT:
    if (param == 0)
      return d->x.dim[1] * (out / d->u.conv.groups) * d->u.conv.kernel[0] * d->u.conv.kernel[1] *
             (d->x.ndim == 5 ? d->u.conv.kernel[2] : 1);
    return param == 1 && d->u.conv.bias ? out : 0;
  case CT_OP_LINEAR:
    out = d->y.dim[d->y.ndim - 1];
    if (param == 0) return out * wide;
    return param == 1 && d->u.linear.bias ? out : 0;
  case CT_OP_HEAD_LOSS:
    out = d->y.dim[d->u.loss.classes_last ? d->y.ndim - 1 : 1];
    if (param == 0) return out * (d->u.loss.classes_last ? wide : d->x.dim[1]);
    return param == 1 && d->u.head_loss.bias ? out : 0;
  case CT_OP_BNORM:
    return out;
  case CT_OP_LNORM:
    return param < (d->u.lnorm.rms ? 1 : 2) ? ct_op_normalised(d) : 0;
  case CT_OP_GNORM:
    return param < 2 && d->u.gnorm.affine ? out : 0;
  case CT_OP_LSTM:
  case CT_OP_GRU:
    if (param > 1 && d->u.rnn.no_bias) return 0;
    out = (d->kind == CT_OP_GRU ? 3 : 4) * d->y.dim[2];
    return param == 0 ? out * wide : param == 1 ? out * d->y.dim[2] : out;
  case CT_OP_ATTENTION:
    return (param < 2 ? 3 : 1) * (param % 2 ? wide : wide * wide);
  case CT_OP_FAKE_QUANT: /* its range */
    return param == 0 ? 2 : 0;
  case CT_OP_OPERAND:
    return param == 0 ? ct_shape_count(&d->y) : 0;
  case CT_OP_EXPR:
    return param < d->u.expr.weight ? ct_shape_count(param ? &d->x3 : &d->x2) : 0;
  case CT_OP_ROWS:
    if (d->x2.ndim || param > 0) return 0;
    for (int i = d->x.ndim, n = 1;; i++) {
      if (i == d->y.ndim) return d->u.rows.rows * n;
      n *= (int)d->y.dim[i];
    }
  case CT_OP_TOKENS:
    return param == 0 ? d->y.dim[2] : param == 1 ? ct_shape_sample(&d->y) : 0;
  case CT_OP_RELU: /* kinds without parameters; no `default`, so that the compiler warns about a
                      new kind */
  case CT_OP_ACT:
  case CT_OP_POOL:
  case CT_OP_ADD:
  case CT_OP_CONCAT:
  case CT_OP_DROPOUT:
  case CT_OP_RANDOM:
  case CT_OP_SELECT:
  case CT_OP_CACHE:
  case CT_OP_STRIDED:
  case CT_OP_MATMUL:
  case CT_OP_SDPA:
  case CT_OP_POSITION:
  case CT_OP_ROPE:
  case CT_OP_SOFTMAX:
  case CT_OP_REDUCE:
  case CT_OP_UPSAMPLE:
  case CT_OP_CONVOLVE:
  case CT_OP_REORDER:
  case CT_OP_LOSS:
  case CT_OP_GRADSTAT:
  case CT_OP_MEASURE:
  case CT_OP_UPDATE:
  case CT_OP_COUNT:
    break;
  }
  return 0;
}

int64_t normalised(const ct_op_desc_t *d, double *eps)
{
  switch (d->kind) {
  case CT_OP_BNORM:
    *eps = d->u.bnorm.eps;
    return ct_shape_count(&d->x) / d->x.dim[1];
  case CT_OP_LNORM:
    *eps = d->u.lnorm.eps;
    return ct_op_normalised(d);
  case CT_OP_GNORM:
    *eps = d->u.gnorm.eps;
    return ct_shape_sample(&d->x) / d->u.gnorm.groups;
  default:
    return 0;
  }
}

/* Fails for an op that reads parameters which this file does not know. */
static void params_known(const ct_op_desc_t *d)
{
  char text[160];
  for (int i = 0; i < CT_OP_PARAMS; i++) {
    if (ct_op_param_count(d, i) == 0 || param_count(d, i) == ct_op_param_count(d, i)) continue;
    printf("Bail out! rig_data.c has other sizes for parameter %d of '%s'\n", i,
           ct_op_text(d, text, sizeof text));
    exit(1);
  }
}

int param_running(const ct_op_desc_t *d, int i)
{
  if (d->kind == CT_OP_FAKE_QUANT && i == 0) return 0;
  return d->kind == CT_OP_BNORM ? 2 + i : CT_OP_PARAMS;
}

int takes_x2(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_ADD || d->kind == CT_OP_CONCAT ||
         (d->kind == CT_OP_BNORM && d->u.bnorm.add) || (d->kind == CT_OP_CONV && d->u.conv.add) ||
         ct_op_adds_second(d) || (d->x2.ndim && !(d->kind == CT_OP_EXPR && d->u.expr.weight));
}

int64_t second_count(const ct_op_desc_t *d)
{
  ct_shape_t x2 = ct_op_second(d);
  return ct_shape_count(&x2);
}

int takes_x3(const ct_op_desc_t *d)
{
  return d->x3.ndim && !(d->kind == CT_OP_EXPR && d->u.expr.weight > 1);
}

int64_t third_count(const ct_op_desc_t *d)
{
  return takes_x3(d) ? ct_shape_count(&d->x3) : 0;
}

/* Replaces n values by drawn whole numbers below `end`. */
static void draw_indices(float *x, int64_t n, int64_t end, uint64_t seed)
{
  for (int64_t i = 0; i < n; i++)
    x[i] = (float)(ct_rng_u64(seed, CT_RNG_TEST, 98, (uint64_t)i) % (uint64_t)end);
}

/* Makes a mask of drawn values: the first key of each query, which may be behind the last one that
 * it meets; or which keys are hidden, of one sample all. */
static void draw_mask(const ct_op_desc_t *d, inputs_t *in, uint64_t seed)
{
  int one = d->u.sdpa.packed == 1;
  const ct_shape_t *s = one ? &d->x2 : &d->x3;
  float *v = one ? in->x2 : in->x3;
  int64_t length = s->dim[1], n = ct_shape_count(s);
  if (d->u.sdpa.mask == CT_MASK_FIRST) {
    draw_indices(v, n, length, seed);
    for (int64_t i = 0; i < n; i++)
      if (v[i] > (float)(i % length) && i % 5) v[i] = (float)(i % length / 2);
  } else {
    draw_indices(v, n, 3, seed);
    for (int64_t i = 0; i < length && n > length; i++)
      v[i] = 0;
  }
}

/* Triangular distribution on (-2.45, 2.45): variance 1, four values per random block. */
static float *numbers(int64_t n, uint64_t seed, uint32_t stream, data_kind_t kind)
{
  float *v = host_array(n, sizeof *v);
  uint32_t r[4];

  for (int64_t i = 0; i < n; i++) {
    if (i % 4 == 0) ct_rng_block(seed, CT_RNG_TEST, stream, (uint64_t)i, r);
    float sum = (float)(r[i % 4] >> 16) + (float)(r[i % 4] & 0xffff);
    v[i] = (sum * 0x1p-16f - 1) * 2.4494898f;
    if (kind == DATA_TIES) v[i] = rintf(2 * v[i]) / 2;
  }
  return v;
}

/* ±0.15, ±0.35, ±0.55, … in random order */
static void spread(float *v, int64_t n, uint64_t seed)
{
  for (int64_t i = 0; i < n; i++) {
    v[i] = (float)(0.15 + 0.2 * (double)(i / 2)) * (i % 2 ? -1.0f : 1.0f);
  }
  for (int64_t i = n - 1; i > 0; i--) {
    int64_t k = (int64_t)(ct_rng_u64(seed, CT_RNG_TEST, 99, (uint64_t)i) % (uint64_t)(i + 1));
    float swap = v[i];
    v[i] = v[k];
    v[k] = swap;
  }
}

/* tests/unit/t_ref_low.c compares the conversions with PyTorch. */
void element_put(void *mem, ct_dtype_t dtype, int64_t i, float v)
{
  ct__ref_set(dtype, mem, i, v);
}

float element_take(const void *mem, ct_dtype_t dtype, int64_t i)
{
  return (float)ct__ref_get(dtype, mem, i);
}

static void round_to(ct_dtype_t dtype, float *v, int64_t n)
{
  for (int64_t i = 0; v && i < n; i++) {
    float one;
    element_put(&one, dtype, 0, v[i]);
    v[i] = element_take(&one, dtype, 0);
  }
}

void inputs_open(inputs_t *in, const ct_op_desc_t *d, uint64_t seed, data_kind_t kind)
{
  int64_t x = ct_shape_count(&d->x), y = ct_shape_count(&d->y);

  params_known(d);
  memset(in, 0, sizeof *in);
  in->x = numbers(x, seed, 0, kind);
  if (kind == DATA_SPREAD) spread(in->x, x, seed);
  if (d->kind == CT_OP_ROWS) draw_indices(in->x, x, d->u.rows.rows, seed);
  if (takes_x2(d)) in->x2 = numbers(second_count(d), seed, 1, kind);
  if (takes_x3(d)) in->x3 = numbers(third_count(d), seed, 9, kind);
  in->dy = numbers(y, seed, 2, kind);
  in->dy2 = numbers(y, seed, 3, kind);
  if (d->kind == CT_OP_SDPA && ct_op_indices(d)) draw_mask(d, in, seed);
  if (d->kind == CT_OP_ROPE && d->x2.ndim) draw_indices(in->x2, second_count(d), 200, seed);
  round_to(d->x.dtype, in->x, x);
  round_to(d->y.dtype, in->x2, takes_x2(d) ? second_count(d) : 0);
  round_to(d->y.dtype, in->x3, third_count(d));
  round_to(d->y.dtype, in->dy, y);
  round_to(d->y.dtype, in->dy2, y);
  for (int i = 0; i < 4; i++) {
    int64_t n = param_count(d, i);
    if (n > 0) in->w[i] = numbers(n, seed, 4 + (uint32_t)i, DATA_RANDOM);
  }
  /* -1, 0, 1: sums of halves are exact */
  for (int k = 0; k < 2 && d->kind == CT_OP_CONV_POOL && kind == DATA_TIES; k++)
    for (int64_t i = 0; i < param_count(d, k); i++)
      in->w[k][i] = rintf(in->w[k][i] / 2.4494898f);
  /* so large that ReLU6 cuts off some values; few, so that none is rounded to 6 */
  int cut = d->kind == CT_OP_BNORM && d->u.bnorm.relu == CT_RELU6;
  for (int64_t i = 0; cut && i < param_count(d, 0); i++)
    in->w[0][i] *= 4;
  /* a channel with weight 0 still has its group's means in dx */
  if (d->kind == CT_OP_GNORM && param_count(d, 0) > 0) in->w[0][0] = 0;
  /* so small that gates and softmax do not saturate */
  int saturates = d->kind == CT_OP_LSTM || d->kind == CT_OP_GRU || d->kind == CT_OP_ATTENTION;
  for (int k = 0; k < 4 && saturates; k++)
    for (int64_t i = 0; i < param_count(d, k); i++)
      in->w[k][i] /= sqrtf((float)d->x.dim[2]);
  /* a range that does not contain all values */
  if (d->kind == CT_OP_FAKE_QUANT) {
    in->w[0][0] = -fabsf(in->w[0][0]);
    in->w[0][1] = fabsf(in->w[0][1]);
  }
  /* running_var */
  for (int64_t i = 0; d->kind == CT_OP_BNORM && i < param_count(d, 3); i++)
    in->w[3][i] = 0.5f + fabsf(in->w[3][i]);
  if (ct_op_is_loss(d->kind)) loss_inputs_open(in, d, seed);
}

void inputs_close(inputs_t *in)
{
  ct_mem_free(in->x);
  ct_mem_free(in->x2);
  ct_mem_free(in->x3);
  ct_mem_free(in->dy);
  ct_mem_free(in->dy2);
  for (int i = 0; i < 4; i++)
    ct_mem_free(in->w[i]);
  loss_inputs_close(in);
  memset(in, 0, sizeof *in);
}

void outputs_open(outputs_t *out, const ct_op_desc_t *d)
{
  int64_t x = ct_shape_count(&d->x), y = ct_shape_count(&d->y);

  memset(out, 0, sizeof *out);
  out->y = host_array(y, sizeof *out->y);
  out->dx = host_array(x, sizeof *out->dx);
  out->dx2 = host_array(second_count(d), sizeof *out->dx2);
  out->dx3 = host_array(third_count(d), sizeof *out->dx3);
  for (int i = 0; i < 4; i++)
    out->dw[i] = host_array(param_count(d, i), sizeof(float));
  for (int i = 0; i < 2; i++)
    out->running[i] = host_array(param_count(d, param_running(d, i)), sizeof(float));
}

void outputs_close(outputs_t *out)
{
  ct_mem_free(out->y);
  ct_mem_free(out->dx);
  ct_mem_free(out->dx2);
  ct_mem_free(out->dx3);
  for (int i = 0; i < 4; i++)
    ct_mem_free(out->dw[i]);
  for (int i = 0; i < 2; i++)
    ct_mem_free(out->running[i]);
  memset(out, 0, sizeof *out);
}
