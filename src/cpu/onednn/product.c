#include "cpu/onednn/product.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include <string.h>

static size_t align64(size_t bytes)
{
  return (bytes + 63) & ~(size_t)63;
}

static size_t wants_scratch(const cpu__prim_t *prim)
{
  const cpu__md_t *md = cpu__prim_md(prim, CPU__SCRATCH);
  return md ? cpu__md_bytes(md) : 0;
}

/* The tensor that a pass writes. */
static cpu__role_t result_of(int pass)
{
  return pass == CT_FWD ? CPU__Y : pass == CT_BWD_DATA ? CPU__X : CPU__W;
}

int cpu__product_add(cpu__product_op_t *op, int pass, cpu__prim_t *main, ct_op_info_t *info)
{
  int rc = CT_OK;
  static const cpu__role_t tensors[] = {CPU__X, CPU__W, CPU__Y};
  cpu__dnnl_t *dnnl = op->head.dev->dnnl;
  cpu__pass_t *p = &op->pass[pass == CT_FWD ? 0 : pass == CT_BWD_DATA ? 1 : 2];
  size_t at = 0, own = wants_scratch(main);
  p->pass = pass;
  p->main = main;
  CT_TRY(cpu__prim_build(dnnl, main));
  for (int i = 0; i < 3; i++) {
    cpu__role_t r = tensors[i];
    const cpu__md_t *outer = op->md[r], *inner = cpu__prim_md(main, r);
    int out = r == result_of(pass);
    if (cpu__md_same(outer, inner)) continue;
    CT_TRY(cpu__prim_reorder(dnnl, out ? inner : outer, out ? outer : inner, &p->reorder[r]));
    if (wants_scratch(p->reorder[r]) > own) own = wants_scratch(p->reorder[r]);
    p->offset[r] = at;
    at += align64(cpu__md_bytes(inner));
  }
  p->offset[CPU__SCRATCH] = at;
  if (at + own > info->scratch) info->scratch = at + own;
out:
  return rc;
}

void cpu__product_info(const cpu__product_op_t *op, ct_op_info_t *info)
{
  const ct_op_desc_t *d = &op->head.desc;
  int bias = d->kind == CT_OP_CONV ? d->u.conv.bias : d->u.linear.bias;
  info->param_bytes[0] = cpu__md_bytes(op->md[CPU__W]);
  info->param_layout = ct_hash_int(bias, cpu__md_hash(op->md[CPU__W]));
}

static int run_reorder(cpu__dnnl_t *dnnl, cpu__prim_t *reorder, void *from, void *to, void *scratch)
{
  void *at[CPU__ROLES] = {[CPU__X] = from, [CPU__Y] = to, [CPU__SCRATCH] = scratch};
  return cpu__prim_run(dnnl, reorder, at);
}

/* at[]: the tensors of the graph and the arena; becomes what the primitive sees. */
static int run_pass(cpu__dnnl_t *dnnl, const cpu__pass_t *p, void *at[CPU__ROLES], char *scratch)
{
  int rc = CT_OK;
  cpu__role_t result = result_of(p->pass);
  void *own = scratch + p->offset[CPU__SCRATCH], *target = at[result];
  for (cpu__role_t r = 0; r < CPU__SCRATCH; r++) {
    if (!p->reorder[r]) continue;
    void *copy = scratch + p->offset[r];
    if (r != result) CT_TRY(run_reorder(dnnl, p->reorder[r], at[r], copy, own));
    at[r] = copy;
  }
  at[CPU__SCRATCH] = own;
  CT_TRY(cpu__prim_run(dnnl, p->main, at));
  if (p->reorder[result]) CT_TRY(run_reorder(dnnl, p->reorder[result], at[result], target, own));
out:
  return rc;
}

/* oneDNN's memory objects are not const, even of what is only read. */
static void *readable(const void *p)
{
  return (void *)(uintptr_t)p;
}

static void zero_gradients(const cpu__product_op_t *op, const ct_op_args_t *a)
{
  for (int i = 0; i < 2 && a->pass & CT_BWD_PARAM; i++)
    if (op->head.param_bytes[i]) memset(a->dw[i], 0, op->head.param_bytes[i]);
}

static int has_relu(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONV ? d->u.conv.relu : d->u.linear.relu;
}

/* oneDNN's own ReLU makes 0 of NaN, unlike PyTorch's: it is done apart. */
int cpu__product_run(ct_op_t *head, const ct_op_args_t *a)
{
  int rc = CT_OK;
  cpu__product_op_t *op = (cpu__product_op_t *)head;
  if (head->desc.x.dim[0] == 0) {
    zero_gradients(op, a);
    return rc;
  }
  for (int i = 0; i < 3; i++) {
    const cpu__pass_t *p = &op->pass[i];
    if (!(a->pass & 1 << i)) continue;
    void *at[CPU__ROLES] = {readable(a->x), a->w[0], a->w[1], readable(a->dy), NULL};
    if (i == 0) at[CPU__Y] = a->y;
    if (i == 1) at[CPU__X] = a->dx;
    if (i == 2) {
      at[CPU__W] = a->dw[0];
      at[CPU__BIAS] = a->dw[1];
    }
    CT_TRY(run_pass(head->dev->dnnl, p, at, a->scratch));
    if (i == 0 && has_relu(&head->desc)) cpu__relu_of(head->dev, &head->desc.y, a->y);
  }
out:
  return rc;
}

void cpu__product_clear(ct_op_t *head)
{
  cpu__product_op_t *op = (cpu__product_op_t *)head;
  for (int i = 0; i < 3; i++) {
    cpu__prim_free(op->pass[i].main);
    for (cpu__role_t r = 0; r < CPU__ROLES; r++)
      cpu__prim_free(op->pass[i].reorder[r]);
  }
  for (cpu__role_t r = 0; r < CPU__ROLES; r++)
    cpu__md_free(op->md[r]);
}

/* Copies weights between the plain layout and the op's own, to or fro. */
static int convert(cpu__product_op_t *op, int param, void *plain, void *own, int to_own)
{
  int rc = CT_OK;
  cpu__dnnl_t *dnnl = op->head.dev->dnnl;
  cpu__md_t *md = NULL, *w = op->md[CPU__W];
  cpu__prim_t *reorder = NULL;
  void *scratch = NULL;
  if (param == 1) {
    size_t bytes = op->head.param_bytes[1];
    memcpy(to_own ? own : plain, to_own ? plain : own, bytes);
    return CT_OK;
  }
  CT_TRY(cpu__md_plain(w, &md));
  CT_TRY(cpu__prim_reorder(dnnl, to_own ? md : w, to_own ? w : md, &reorder));
  if (wants_scratch(reorder) && !(scratch = ct_mem_alloc(wants_scratch(reorder), "reorder"))) {
    rc = CT_ERR_NOMEM;
    goto out;
  }
  CT_TRY(run_reorder(dnnl, reorder, to_own ? plain : own, to_own ? own : plain, scratch));
out:
  ct_mem_free(scratch);
  cpu__prim_free(reorder);
  cpu__md_free(md);
  return rc;
}

int cpu__product_pack(ct_op_t *op, int param, const float *plain, void *own)
{
  return convert((cpu__product_op_t *)op, param, readable(plain), own, 1);
}

int cpu__product_unpack(ct_op_t *op, int param, const void *own, float *plain)
{
  return convert((cpu__product_op_t *)op, param, plain, readable(own), 0);
}
