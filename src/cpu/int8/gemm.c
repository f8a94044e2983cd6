/* int8 convolutions and linear layers, with oneDNN.
 *
 * The parameters are stored independently of the primitive: scales and plain int8.  The primitive's
 * own data (scales at creation, weights in its format, a bias that includes the zero points) are
 * made at the first run, and again whenever the parameters change.
 *
 * With x = sx * (qx - zx), w = sw[c] * qw, y = sy * (qy - zy), where s are scales, q the stored
 * integers and z zero points:
 *
 *   qy = s[c] * Σ qw * (qx - zx) + b[c] / sy + zy,   s[c] = sx * sw[c] / sy
 *
 * An added x2 contributes s2 / sy * (q2 - z2) to qy; q2 shares the memory of y. */
#include "cpu/int8/gemm.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"

/* Own layout of the weights: this header, the scales, then plain int8. */
typedef struct header {
  uint64_t hash; /* hash of the rest */
  char padding[56];
} header_t;

static size_t scale_bytes(const ct_op_desc_t *d)
{
  return ((size_t)*cpu__outputs_of(d) * sizeof(float) + 63) / 64 * 64;
}

static const float *scales_in(const void *own)
{
  return (const float *)((const char *)own + sizeof(header_t));
}

static const int8_t *weights_in(const ct_op_desc_t *d, const void *own)
{
  return (const int8_t *)own + sizeof(header_t) + scale_bytes(d);
}

static int relu_of(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONV ? d->u.conv.relu : d->u.linear.relu;
}

static int has_bias(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONV ? d->u.conv.bias : d->u.linear.bias;
}

static int adds(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONV && d->u.conv.add;
}

/* Returns 1 if the convolution has padding: padded pixels hold the zero point, which then cannot be
 * folded into the bias. */
static int is_padded(const ct_op_desc_t *d)
{
  if (d->kind != CT_OP_CONV) return 0;
  for (int i = 0; i < d->x.ndim - 2; i++)
    if (d->u.conv.pad[i]) return 1;
  return 0;
}

/* Returns the descriptor; a linear layer is flattened to rows of features. */
static ct_op_desc_t flat(const ct_op_desc_t *d)
{
  ct_op_desc_t f = *d;
  if (d->kind == CT_OP_CONV) return f;
  int64_t in = d->x.dim[d->x.ndim - 1], out = d->y.dim[d->y.ndim - 1];
  f.x.dim[0] = f.y.dim[0] = ct_shape_count(&d->x) / in;
  f.x.ndim = f.y.ndim = 2;
  f.x.dim[1] = in;
  f.y.dim[1] = out;
  return f;
}

/* Returns the upper limit of the result, cpu__int8_t.most; uint8 results are clamped to 0 … 255 in
 * any case. */
static float most_of(const ct_op_desc_t *d)
{
  int relu = relu_of(d), bytes = d->y.dtype == CT_U8;
  if (relu == CT_RELU6) return bytes ? CT_RELU6 / d->q.y.scale : CT_RELU6;
  return relu && !bytes ? INFINITY : 0;
}

static int gemm_find(const ct_dev_t *dev, const ct_op_desc_t *d, const float *scale,
                     cpu__prim_t **out)
{
  float unit = d->y.dtype == CT_U8 ? d->q.y.scale : 1;
  cpu__int8_t p = {.desc = d,
                   .scale = scale,
                   .x_zero = is_padded(d) ? d->q.x.zero : 0,
                   .sum = adds(d) ? d->q.x2.scale / unit : 0,
                   .most = most_of(d)};
  return cpu__prim_int8(dev->dnnl, &p, out);
}

int cpu__int8_find(const ct_dev_t *dev, const ct_op_desc_t *d, cpu__prim_t **out)
{
  int64_t outputs = *cpu__outputs_of(d);
  ct_op_desc_t f = flat(d);
  if (f.x.dim[0] == 0) f.x.dim[0] = f.y.dim[0] = 1;
  *out = NULL;
  float *scale = ct_mem_array(outputs, sizeof *scale, "scales");
  if (!scale) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < outputs; i++)
    scale[i] = 0.5F;
  int rc = gemm_find(dev, &f, scale, out);
  ct_mem_free(scale);
  return rc;
}

/* Returns 1 in a case where oneDNN's GEMM implementation gives wrong results, observed with oneDNN
 * 2.6.3 and VNNI: grouped convolutions with padding, a zero point and windows whose number of
 * elements is a multiple of 8.  All other cases that were tested are correct.  The likely cause is
 * the reorder that sums the weights for the zero point. */
static int sums_wrongly(const ct_op_desc_t *d, const cpu__prim_t *prim)
{
  int elements = 1;
  if (!is_padded(d) || d->q.x.zero == 0 || d->u.conv.groups == 1) return 0;
  for (int i = 0; i < d->x.ndim - 2; i++)
    elements *= d->u.conv.kernel[i];
  return elements % 8 == 0 && strstr(cpu__prim_name(prim), "gemm");
}

static int gemm_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const char *reason = NULL;
  cpu__prim_t *prim = NULL;
  if (cpu__dnnl_major() == 0)
    reason = "the program was built without oneDNN, which computes int8 products";
  else if (!cpu__dnnl_has_int8())
    reason = "the processor has no exact int8 dot products (VNNI)";
  else if (d->y.dtype == CT_U8 && relu_of(d) && d->q.y.zero)
    reason = "after a ReLU the minimum must be 0";
  else if (adds(d) && d->y.dtype != CT_U8)
    reason = "an int8 sum needs int8 operands";
  else if (cpu__int8_find(dev, d, &prim) != CT_OK || !prim || strstr(cpu__prim_name(prim), "ref"))
    reason = "oneDNN has no fast int8 GEMM for this case";
  else if (sums_wrongly(d, prim))
    reason = "oneDNN's result for this padded grouped convolution is wrong";
  cpu__prim_free(prim);
  if (reason) snprintf(why, 128, "%s", reason);
  return reason == NULL;
}

int cpu__int8_gemm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  cpu__int8_gemm_t *k = (cpu__int8_gemm_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int64_t outputs = *cpu__outputs_of(d);
  cpu__prim_t *prim = NULL;
  (void)like;
  k->flat = flat(d);
  CT_TRY(cpu__int8_find(op->dev, d, &prim));
  if (!prim) CT_FAIL(CT_ERR_UNSUP, "oneDNN has no int8 GEMM for this case");
  k->bias = ct_mem_array(2 * outputs, sizeof *k->bias, "bias");
  CT_TRY(k->bias ? CT_OK : CT_ERR_NOMEM);
  k->bias_of = k->bias + outputs;
  info->param_bytes[0] = sizeof(header_t) + scale_bytes(d) + (size_t)ct_op_param_count(d, 0);
  info->param_layout = ct_hash_text("int8", 0);
  info->y_layout = cpu__int8_layout(&d->y);
  info->scratch = cpu__prim_scratch(prim);
  info->inplace_second = adds(d);
  info->algorithm = cpu__prim_name(prim);
out:
  cpu__prim_free(prim);
  return rc;
}

void cpu__int8_gemm_clear(ct_op_t *op)
{
  cpu__int8_gemm_t *k = (cpu__int8_gemm_t *)op;
  cpu__prim_free(k->prim);
  ct_mem_free(k->w);
  ct_mem_free(k->bias);
}

/* ---- conversion of parameters to the format of the primitive ---- */

static int order_weights(cpu__int8_gemm_t *k, const int8_t *plain)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &k->flat;
  const cpu__md_t *to = cpu__prim_md(k->prim, CPU__W);
  cpu__md_t *from = NULL;
  cpu__prim_t *reorder = NULL;
  void *scratch = NULL;
  int64_t outputs = *cpu__outputs_of(d), in = d->x.dim[1];
  int g = d->kind == CT_OP_CONV ? d->u.conv.groups : 1;
  const int *kernel = d->u.conv.kernel;
  const int64_t w[6] = {g, outputs / g, in / g, kernel[0], kernel[1], kernel[2]};
  int dims = d->kind == CT_OP_CONV ? d->x.ndim + (g > 1) : 2;
  ct_mem_free(k->w);
  k->w = ct_mem_alloc(cpu__md_bytes(to), "int8 weights");
  CT_TRY(k->w ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(cpu__md_typed(CT_I8, dims, g > 1 ? w : w + 1, CT_PLAIN, &from));
  CT_TRY(cpu__prim_reorder(k->op.dev->dnnl, from, to, &reorder));
  scratch = ct_mem_alloc(cpu__prim_scratch(reorder) + 1, "int8 weights");
  CT_TRY(scratch ? CT_OK : CT_ERR_NOMEM);
  void *const at[CPU__ROLES] = {
      [CPU__X] = (void *)(uintptr_t)plain, [CPU__Y] = k->w, [CPU__SCRATCH] = scratch};
  CT_TRY(cpu__prim_run(k->op.dev->dnnl, reorder, at));
out:
  ct_mem_free(scratch);
  cpu__prim_free(reorder);
  cpu__md_free(from);
  return rc;
}

static double weight_sum(const int8_t *w, int64_t each)
{
  int64_t sum = 0;
  for (int64_t i = 0; i < each; i++)
    sum += w[i];
  return (double)sum;
}

void cpu__int8_weight_sums(const ct_op_desc_t *d, const void *own, float *sums)
{
  int64_t outputs = *cpu__outputs_of(d), each = ct_op_param_count(d, 0) / outputs;
  for (int64_t c = 0; c < outputs; c++)
    sums[c] = (float)(scales_in(own)[c] * weight_sum(weights_in(d, own) + c * each, each));
}

/* Computes the scale of each output's sum, and the bias that is added to it. */
static void make_numbers(cpu__int8_gemm_t *k, const void *own, const float *bias, float *scale)
{
  const ct_op_desc_t *d = &k->flat;
  int64_t outputs = *cpu__outputs_of(d), each = ct_op_param_count(d, 0) / outputs;
  int bytes = d->y.dtype == CT_U8;
  double unit = bytes ? d->q.y.scale : 1, fixed = bytes ? d->q.y.zero : 0;
  double zero = is_padded(d) ? 0 : d->q.x.zero;
  if (adds(d)) fixed -= (double)d->q.x2.scale / unit * d->q.x2.zero;
  for (int64_t c = 0; c < outputs; c++) {
    double s = (double)d->q.x.scale * scales_in(own)[c] / unit;
    double b = (bias ? bias[c] / unit : 0) + fixed;
    if (zero != 0) b -= s * zero * weight_sum(weights_in(d, own) + c * each, each);
    scale[c] = (float)s;
    k->bias[c] = cpu__int8_bias((float)b, (float)s);
    if (bias) k->bias_of[c] = bias[c];
  }
}

static int seal(cpu__int8_gemm_t *k, const void *own, const float *bias)
{
  int rc = CT_OK;
  float *scale = ct_mem_array(*cpu__outputs_of(&k->flat), sizeof *scale, "scales");
  CT_TRY(scale ? CT_OK : CT_ERR_NOMEM);
  make_numbers(k, own, bias, scale);
  cpu__prim_free(k->prim);
  k->prim = NULL;
  k->sealed = 0;
  CT_TRY(gemm_find(k->op.dev, &k->flat, scale, &k->prim));
  if (!k->prim) CT_FAIL(CT_ERR_UNSUP, "oneDNN has no int8 GEMM for this case");
  CT_TRY(cpu__prim_build(k->op.dev->dnnl, k->prim));
  CT_TRY(order_weights(k, weights_in(&k->flat, own)));
  k->hash = ((const header_t *)own)->hash;
  k->sealed = 1;
out:
  ct_mem_free(scale);
  return rc;
}

static int is_current(const cpu__int8_gemm_t *k, const void *own, const float *bias)
{
  size_t bytes = (size_t)*cpu__outputs_of(&k->flat) * sizeof *bias;
  return k->sealed && k->hash == ((const header_t *)own)->hash &&
         (!bias || memcmp(bias, k->bias_of, bytes) == 0);
}

/* ---- running ---- */

int cpu__int8_gemm_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  cpu__int8_gemm_t *k = (cpu__int8_gemm_t *)op;
  const float *bias = has_bias(&op->desc) ? a->w[1] : NULL;
  if (k->flat.x.dim[0] == 0) return CT_OK;
  if (!is_current(k, a->w[0], bias)) CT_TRY(seal(k, a->w[0], bias));
  if (adds(&op->desc) && a->y != a->x2) memcpy(a->y, a->x2, ct_shape_bytes(&op->desc.y));
  void *const at[CPU__ROLES] = {[CPU__X] = (void *)(uintptr_t)a->x,
                                [CPU__W] = k->w,
                                [CPU__BIAS] = k->bias,
                                [CPU__Y] = a->y,
                                [CPU__SCRATCH] = a->scratch};
  CT_TRY(cpu__prim_run(op->dev->dnnl, k->prim, at));
out:
  return rc;
}

int cpu__int8_gemm_pack(ct_op_t *op, int param, const float *plain, void *own)
{
  const ct_op_desc_t *d = &op->desc;
  if (param) {
    memcpy(own, plain, op->param_bytes[param]);
    return CT_OK;
  }
  int64_t outputs = *cpu__outputs_of(d), count = ct_op_param_count(d, 0);
  memset(own, 0, op->param_bytes[0]);
  ct_quant_weights(outputs, count / outputs, plain, (int8_t *)(uintptr_t)weights_in(d, own),
                   (float *)(uintptr_t)scales_in(own));
  ((header_t *)own)->hash =
      ct_hash((char *)own + sizeof(header_t), op->param_bytes[0] - sizeof(header_t), 0);
  return CT_OK;
}

int cpu__int8_gemm_unpack(ct_op_t *op, int param, const void *own, float *plain)
{
  const ct_op_desc_t *d = &op->desc;
  int64_t outputs = *cpu__outputs_of(d), count = ct_op_param_count(d, 0);
  if (param)
    memcpy(plain, own, op->param_bytes[param]);
  else
    ct_quant_weights_back(outputs, count / outputs, weights_in(d, own), scales_in(own), plain);
  return CT_OK;
}

const cpu__op_kind_t cpu__int8_gemm = {.size = sizeof(cpu__int8_gemm_t),
                                       .supports = gemm_supports,
                                       .wants = cpu__int8_wants,
                                       .prepare = cpu__int8_gemm_prepare,
                                       .run = cpu__int8_gemm_run,
                                       .clear = cpu__int8_gemm_clear,
                                       .pack = cpu__int8_gemm_pack,
                                       .unpack = cpu__int8_gemm_unpack};
