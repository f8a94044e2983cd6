/* Fully connected layers: oneDNN's inner product.  x and y are plain; the weights lie in the blocks
 * that its kernels want, the same for all passes and batch sizes. */
#include "cpu/cpu_product.h"
#include "base/ct_err.h"
#include <stdio.h>

static int linear_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->x.ndim == 2 && d->y.ndim == 2 && d->x.layout == CT_PLAIN && d->x.dim[0] == d->y.dim[0])
    return 1;
  snprintf(why, 128, "a linear op takes x of N x in and gives N x out, both plain");
  return 0;
}

static ct_layout_t linear_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  (void)d;
  return CT_PLAIN;
}

static int add_pass(cpu__product_op_t *op, int pass, const cpu__md_t *any, const ct_op_t *like,
                    ct_op_info_t *info)
{
  int rc = CT_OK;
  const cpu__md_t *own = like ? ((const cpu__product_op_t *)like)->md[CPU__W] : NULL;
  cpu__prim_t *main = NULL;
  cpu__product_t p = {.pass = pass,
                      .desc = &op->head.desc,
                      .x = op->md[CPU__X],
                      .w = any,
                      .y = op->md[CPU__Y],
                      .forward = op->pass[0].main};
  CT_TRY(cpu__prim_product(op->head.dev->dnnl, &p, &main));
  if (!main) CT_FAIL(CT_ERR_UNSUP, "oneDNN has no inner product for a linear op");
  if (pass == CT_FWD) CT_TRY(cpu__md_copy(own ? own : cpu__prim_md(main, CPU__W), &op->md[CPU__W]));
  rc = cpu__product_add(op, pass, main, info);
  main = NULL;
out:
  cpu__prim_free(main);
  return rc;
}

static int linear_prepare(ct_op_t *head, const ct_op_t *like, ct_op_info_t *info)
{
  int rc = CT_OK;
  cpu__product_op_t *op = (cpu__product_op_t *)head;
  const ct_op_desc_t *d = &head->desc;
  const int64_t w[2] = {d->y.dim[1], d->x.dim[1]}, n = d->x.dim[0] > 0 ? d->x.dim[0] : 1;
  cpu__md_t *any = NULL;
  CT_TRY(cpu__md_new(2, (int64_t[]){n, d->x.dim[1]}, CT_PLAIN, &op->md[CPU__X]));
  CT_TRY(cpu__md_new(2, (int64_t[]){n, d->y.dim[1]}, CT_PLAIN, &op->md[CPU__Y]));
  CT_TRY(cpu__md_new(2, w, CPU__ANY, &any));
  for (int pass = CT_FWD; pass <= CT_BWD_PARAM; pass <<= 1)
    if (pass == CT_FWD || d->passes & pass) CT_TRY(add_pass(op, pass, any, like, info));
  cpu__product_info(op, info);
  info->y_layout = CT_PLAIN;
  info->algorithm = "inner product";
out:
  cpu__md_free(any);
  return rc;
}

const cpu__op_kind_t cpu__linear = {
    .size = sizeof(cpu__product_op_t),
    .supports = linear_supports,
    .wants = linear_wants,
    .prepare = linear_prepare,
    .run = cpu__product_run,
    .clear = cpu__product_clear,
    .pack = cpu__product_pack,
    .unpack = cpu__product_unpack,
};
