/* Fully connected layers over the last dim.  x and y are plain.  The weights are in panels, w[out /
 * 16][in][16], both dims padded to 16: the format that the GEMMs of the forward pass and of the
 * weight gradient read directly, and nearly that of the data gradient.  Where ops of other kinds
 * use them too they are plain, and each GEMM packs them.  bf16: linear_bf16.c. */
#include "cpu/kinds.h"
#include "cpu/gemm/dense.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/gemm/primitive.h"
#include "cpu/gemm/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <stdio.h>
#include <string.h>

/* Returns 1 if a bf16 op is faster in float32: in bf16 each pass converts the weights, which only
 * pays off if a sample has many rows.  The batch may be in any dim, so no dim tells how many. */
static int linear_stores(ct_dev_t *dev, const ct_op_desc_t *d)
{
  return dev->bf16_rate <= 1 || d->x.ndim == 2;
}

static int linear_can(const cpu__job_t *job, ct_dtype_t dtype, cpu__cost_t *cost, char why[128])
{
  if (job->desc->x.dtype != dtype) return cpu__refuse(why, "another type of activations");
  if (dtype == CT_BF16 && job->dev->bf16_rate == 0)
    return cpu__refuse(why, "the processor has no bfloat16 dot products");
  *cost = (cpu__cost_t){ct_op_flops(job->desc, job->pass) / 2, 0};
  return 1;
}

/* ---- float32, own GEMM ---- */

typedef struct own {
  int pass, bias, relu, plain;
  int64_t rows, in, out;
  float *before; /* backward to parameters: the gradient of the bias that the sums are added to */
} own_t;

static int gemm_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  return linear_can(job, CT_F32, cost, why);
}

static int gemm_stored(const cpu__job_t *job, cpu__md_t **out)
{
  int format = job->desc->u.linear.plain ? CT_PLAIN : CPU__PANELS16;
  return cpu__md_new(2, (int64_t[]){job->desc->y.dim[1], job->desc->x.dim[1]}, format, out);
}

static int gemm_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  const ct_op_desc_t *d = job->desc;
  own_t *own = out->own = ct_mem_alloc(sizeof *own, "linear layer");
  if (!own) return CT_ERR_NOMEM;
  *own = (own_t){.pass = job->pass,
                 .bias = d->u.linear.bias,
                 .relu = d->u.linear.relu,
                 .plain = d->u.linear.plain,
                 .rows = d->x.dim[0],
                 .in = d->x.dim[1],
                 .out = d->y.dim[1]};
  if (own->bias && own->pass == CT_BWD_PARAM) {
    own->before = ct_mem_array(own->out, sizeof *own->before, "linear layer");
    if (!own->before) return CT_ERR_NOMEM;
  }
  return gemm_stored(job, &out->w);
}

static void linear_forward(ct_dev_t *dev, const own_t *o, cpu__matrix_t w,
                           void *const at[CPU__ROLES])
{
  cpu__gemm_t g = {.m = o->rows, .n = o->out, .k = o->in, .b = w};
  g.a = cpu__row_major(at[CPU__X], o->in);
  g.c = cpu__row_major(at[CPU__Y], o->out);
  if (o->bias) g.bias = at[CPU__BIAS];
  g.relu = o->relu;
  cpu__gemm_blocked(dev, &g);
}

static void data(ct_dev_t *dev, const own_t *o, cpu__matrix_t w, void *const at[CPU__ROLES])
{
  cpu__gemm_t g = {.m = o->rows, .n = o->in, .k = o->out, .b = cpu__transposed(w)};
  g.a = cpu__row_major(at[CPU__Y], o->out);
  g.c = cpu__row_major(at[CPU__X], o->in);
  if (!o->plain && cpu__gemm_is_skinny(&g))
    cpu__gemm_skinny(dev, &g);
  else
    cpu__gemm_blocked(dev, &g);
}

static void linear_gradient(ct_dev_t *dev, const own_t *o, cpu__matrix_t w,
                            void *const at[CPU__ROLES], int add)
{
  cpu__gemm_t g = {.m = o->in, .n = o->out, .k = o->rows, .c = w, .add = add};
  g.a = cpu__transposed(cpu__row_major(at[CPU__X], o->in));
  g.b = cpu__row_major(at[CPU__Y], o->out);
  if (o->bias) g.sums = at[CPU__BIAS];
  if (o->bias && add) memcpy(o->before, g.sums, (size_t)o->out * sizeof *g.sums);
  g.streams = (o->out + 15) / 16 * w.col16 * (int64_t)sizeof(float) > CPU__STREAM_MIN;
  cpu__gemm_blocked(dev, &g);
  for (int64_t i = 0; o->bias && add && i < o->out; i++)
    g.sums[i] += o->before[i];
  for (int64_t i = 0; i < o->out && o->in % 16; i += 16)
    memset(w.at + i / 16 * w.col16 + o->in * 16, 0, (size_t)(w.col16 - o->in * 16) * sizeof *w.at);
}

/* The gradient of plain weights. */
static void plain_gradient(ct_dev_t *dev, const own_t *o, void *const at[CPU__ROLES])
{
  cpu__dense_t d = {o->rows, o->in, o->out};
  cpu__dense_param(dev, d, at[CPU__X], at[CPU__Y], at[CPU__W]);
  if (o->bias) cpu__column_sums(dev, o->rows, o->out, at[CPU__Y], at[CPU__BIAS]);
}

static int run_product(ct_dev_t *dev, const own_t *o, void *const at[CPU__ROLES], int add)
{
  cpu__matrix_t w = cpu__panels(at[CPU__W], (o->in + 15) / 16 * 16);
  if (o->plain) w = cpu__transposed(cpu__row_major(at[CPU__W], o->in));
  if (o->pass == CT_FWD)
    linear_forward(dev, o, w, at);
  else if (o->pass == CT_BWD_DATA)
    data(dev, o, w, at);
  else if (o->plain)
    plain_gradient(dev, o, at);
  else
    linear_gradient(dev, o, w, at, add);
  return CT_OK;
}

static int gemm_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  return run_product(dev, ready->own, at, 0);
}

static int gemm_run_adding(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  return run_product(dev, ready->own, at, 1);
}

static void gemm_clear(cpu__ready_t *ready)
{
  own_t *own = ready->own;
  if (own) ct_mem_free(own->before);
  ct_mem_free(own);
}

static const cpu__algo_t gemm = {.name = "product",
                                 .relu = 1,
                                 .can = gemm_can,
                                 .stored = gemm_stored,
                                 .prepare = gemm_prepare,
                                 .run = gemm_run,
                                 .run_adding = gemm_run_adding,
                                 .clear = gemm_clear};

/* ---- bf16, oneDNN ---- */

static int bf16_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  return linear_can(job, CT_BF16, cost, why);
}

/* Returns the format of the float32 weights, from which each pass converts. */
static int bf16_stored(const cpu__job_t *job, cpu__md_t **out)
{
  return cpu__md_new(2, (int64_t[]){job->desc->y.dim[1], job->desc->x.dim[1]}, CT_PLAIN, out);
}

static const cpu__algo_t bf16 = {.name = "bf16",
                                 .can = bf16_can,
                                 .stored = bf16_stored,
                                 .prepare = cpu__primitive_prepare,
                                 .run = cpu__primitive_run,
                                 .clear = cpu__primitive_clear};

const cpu__algos_t cpu__linear_algos = {.algo = {&gemm, &cpu__linear_amx, &cpu__linear_bf16, &bf16},
                                        .layouts = {{CT_PLAIN, CT_PLAIN}},
                                        .nlayouts = 1};

static int linear_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (!d->u.linear.add) return 1;
  snprintf(why, 128, "the CPU backend adds no second input in a linear layer");
  return 0;
}

/* Prepares the op; its algorithms see x as a matrix of rows. */
static int linear_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  ct_op_desc_t flat = op->desc;
  const ct_shape_t *x = &op->desc.x, *y = &op->desc.y;
  int64_t in = x->dim[x->ndim - 1], rows = x->dim[0] > 0 ? ct_shape_count(x) / in : 1;
  flat.x = ct_shape(2, rows, in);
  flat.y = ct_shape(2, rows, y->dim[y->ndim - 1]);
  flat.x.dtype = flat.y.dtype = x->dtype;
  return cpu__passes_prepare(op, &cpu__linear_algos, &flat, like, info);
}

const cpu__op_kind_t cpu__linear = {
    .size = sizeof(cpu__passes_op_t),
    .bf16 = 1,
    .plain = 1,
    .stores = linear_stores,
    .supports = linear_supports,
    .prepare = linear_prepare,
    .run = cpu__passes_run,
    .clear = cpu__passes_clear,
    .pack = cpu__passes_pack,
    .unpack = cpu__passes_unpack,
};
