/* Fully connected layers over the last dim: oneDNN's inner product of all rows.  x and y are plain; the
 * weights lie in the blocks that its kernels want, the same for all passes and batch sizes. */
#include "cpu/kinds.h"
#include "cpu/onednn/product.h"
#include "base/ct_err.h"

static ct_layout_t linear_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  (void)d;
  return CT_PLAIN;
}

/* In bfloat16 each pass makes a copy of the weights, which pays if a sample has many rows. */
static int linear_stores(ct_dev_t *dev, const ct_op_desc_t *d)
{
  int64_t rows = ct_shape_sample(&d->x) / d->x.dim[d->x.ndim - 1];
  return dev->bf16_rate <= 1 || rows < 16;
}

static int add_pass(cpu__product_op_t *op, int pass, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->head.desc;
  const int64_t w[2] = {d->y.dim[d->y.ndim - 1], d->x.dim[d->x.ndim - 1]};
  cpu__md_t *any = NULL;
  const cpu__md_t *own = like ? ((const cpu__product_op_t *)like)->md[CPU__W] : NULL;
  cpu__prim_t *main = NULL;
  cpu__product_t p = {.pass = pass,
                      .desc = &op->head.desc,
                      .x = op->md[CPU__X],
                      .y = op->md[CPU__Y],
                      .forward = op->pass[0].main};
  CT_TRY(cpu__md_typed(pass == CT_BWD_PARAM ? CT_F32 : d->x.dtype, 2, w, CPU__ANY, &any));
  p.w = any;
  CT_TRY(cpu__prim_product(op->head.dev->dnnl, &p, &main));
  if (!main) CT_FAIL(CT_ERR_UNSUP, "oneDNN has no inner product for a linear op");
  if (pass == CT_FWD && !own && d->x.dtype == CT_BF16)
    CT_TRY(cpu__md_new(2, w, CT_PLAIN, &op->md[CPU__W])); /* each pass has a copy of its own */
  else if (pass == CT_FWD)
    CT_TRY(cpu__md_copy(own ? own : cpu__prim_md(main, CPU__W), &op->md[CPU__W]));
  rc = cpu__product_add(op, pass, main, info);
  main = NULL;
out:
  cpu__md_free(any);
  cpu__prim_free(main);
  return rc;
}

static int linear_prepare(ct_op_t *head, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  cpu__product_op_t *op = (cpu__product_op_t *)head;
  const ct_op_desc_t *d = &head->desc;
  const int64_t in = d->x.dim[d->x.ndim - 1], out = d->y.dim[d->y.ndim - 1];
  const int64_t n = d->x.dim[0] > 0 ? ct_shape_count(&d->x) / in : 1;
  ct_dtype_t t = d->x.dtype;
  CT_TRY(cpu__md_typed(t, 2, (int64_t[]){n, in}, CT_PLAIN, &op->md[CPU__X]));
  CT_TRY(cpu__md_typed(t, 2, (int64_t[]){n, out}, CT_PLAIN, &op->md[CPU__Y]));
  for (int pass = CT_FWD; pass <= CT_BWD_PARAM; pass <<= 1)
    if (pass == CT_FWD || d->passes & pass) CT_TRY(add_pass(op, pass, like, info));
  cpu__product_info(op, info);
  info->y_layout = CT_PLAIN;
  info->algorithm = t == CT_BF16 ? "bf16" : "inner product";
out:
  return rc;
}

const cpu__op_kind_t cpu__linear = {
    .size = sizeof(cpu__product_op_t),
    .bf16 = 1,
    .plain = 1,
    .stores = linear_stores,
    .wants = linear_wants,
    .prepare = linear_prepare,
    .run = cpu__product_run,
    .clear = cpu__product_clear,
    .pack = cpu__product_pack,
    .unpack = cpu__product_unpack,
};
