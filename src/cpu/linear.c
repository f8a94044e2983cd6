/* Fully connected layers over the last dim: oneDNN's inner product of all rows.  x and y are plain;
 * the weights lie in the blocks that its kernels want, the same for all passes and batch sizes. */
#include "cpu/kinds.h"
#include "cpu/product/primitive.h"
#include "cpu/product/product.h"
#include "base/ct_err.h"

/* In bfloat16 each pass makes a copy of the weights, which pays if a sample has many rows. */
static int linear_stores(ct_dev_t *dev, const ct_op_desc_t *d)
{
  int64_t rows = ct_shape_sample(&d->x) / d->x.dim[d->x.ndim - 1];
  return dev->bf16_rate <= 1 || rows < 16;
}

static int can(const cpu__job_t *job, ct_dtype_t dtype, cpu__cost_t *cost, char why[128])
{
  if (job->desc->x.dtype != dtype) return cpu__refuse(why, "another type of activations");
  if (dtype == CT_BF16 && job->dev->bf16_rate == 0)
    return cpu__refuse(why, "the processor does not multiply bfloat16");
  *cost = (cpu__cost_t){ct_op_flops(job->desc, job->pass) / 2, 0};
  return 1;
}

static int f32_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  return can(job, CT_F32, cost, why);
}

static int bf16_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  return can(job, CT_BF16, cost, why);
}

/* Each pass has a copy of its own. */
static int bf16_stored(const cpu__job_t *job, cpu__md_t **out)
{
  return cpu__md_new(2, (int64_t[]){job->desc->y.dim[1], job->desc->x.dim[1]}, CT_PLAIN, out);
}

static const cpu__way_t inner_product = {.name = "inner product",
                                         .can = f32_can,
                                         .stored = cpu__primitive_format,
                                         .prepare = cpu__primitive_prepare,
                                         .run = cpu__primitive_run,
                                         .clear = cpu__primitive_clear};

static const cpu__way_t bf16 = {.name = "bf16",
                                .can = bf16_can,
                                .stored = bf16_stored,
                                .prepare = cpu__primitive_prepare,
                                .run = cpu__primitive_run,
                                .clear = cpu__primitive_clear};

const cpu__ways_t cpu__linear_ways = {
    .way = {&inner_product, &cpu__linear_bf16, &bf16}, .pair = {{CT_PLAIN, CT_PLAIN}}, .pairs = 1};

/* The ways see one row after the other. */
static int linear_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  ct_op_desc_t flat = op->desc;
  const ct_shape_t *x = &op->desc.x, *y = &op->desc.y;
  int64_t in = x->dim[x->ndim - 1], rows = x->dim[0] > 0 ? ct_shape_count(x) / in : 1;
  flat.x = ct_shape(2, rows, in);
  flat.y = ct_shape(2, rows, y->dim[y->ndim - 1]);
  flat.x.dtype = flat.y.dtype = x->dtype;
  return cpu__product_prepare(op, &cpu__linear_ways, &flat, like, info);
}

const cpu__op_kind_t cpu__linear = {
    .size = sizeof(cpu__product_op_t),
    .bf16 = 1,
    .plain = 1,
    .stores = linear_stores,
    .prepare = linear_prepare,
    .run = cpu__product_run,
    .clear = cpu__product_clear,
    .pack = cpu__product_pack,
    .unpack = cpu__product_unpack,
};
