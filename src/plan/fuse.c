/* Fuses chains of elementwise ops: a program whose only reader is another program is put into it,
 * if steps, constants and inputs fit.  Only results of the reader's full shape: a smaller one would
 * be computed again for each element.  An activation before a program becomes part of it too; it is
 * still an op of its own here only if it was not fused into the op before it (lower.c). */
#include "backend/ct_expr_view.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "plan/passes.h"

#include <string.h>

/* Writes an op as a program.  Returns 0 if it is none. */
static int program_of(const ct_op_desc_t *d, ct_expr_t *e)
{
  static const ct_fn_t fn[CT_ACT_COUNT] = {[CT_ACT_LEAKY_RELU] = CT_FN_LEAKY_RELU,
                                           [CT_ACT_RELU6] = CT_FN_HARDTANH,
                                           [CT_ACT_GELU] = CT_FN_GELU,
                                           [CT_ACT_SIGMOID] = CT_FN_SIGMOID,
                                           [CT_ACT_TANH] = CT_FN_TANH,
                                           [CT_ACT_SILU] = CT_FN_SILU};
  ct_expr_init(e);
  if (d->kind == CT_OP_EXPR) {
    memcpy(e, &d->u.expr, sizeof *e);
    return !e->weight;
  }
  if (d->kind == CT_OP_RELU) return ct_expr_add(e, CT_FN_RELU, 0, 0, 0) != CT_EXPR_FULL;
  if (d->kind != CT_OP_ACT) return 0;
  int b = 0, c = 0;
  if (d->u.act.kind == CT_ACT_LEAKY_RELU) b = ct_expr_const(e, d->u.act.alpha);
  if (d->u.act.kind == CT_ACT_RELU6) {
    b = ct_expr_const(e, 0);
    c = ct_expr_const(e, 6);
  }
  int v = ct_expr_add(e, fn[d->u.act.kind], 0, b, c);
  if (d->u.act.kind == CT_ACT_TANH && d->u.act.alpha != 1)
    ct_expr_add(e, CT_FN_MUL, v, ct_expr_const(e, d->u.act.alpha), 0);
  return 1;
}

/* The inputs of a fused op: different values, and their shapes. */
typedef struct joined {
  int value[CT_OP_INPUTS], n;
  ct_shape_t shape[CT_OP_INPUTS];
} joined_t;

/* Returns the number of a value among the inputs, or -1 if there is no room. */
static int join(joined_t *j, int value, const ct_shape_t *shape)
{
  for (int i = 0; i < j->n; i++)
    if (j->value[i] == value) return i;
  if (j->n == CT_OP_INPUTS) return -1;
  j->value[j->n] = value;
  j->shape[j->n] = *shape;
  return j->n++;
}

/* Joins the inputs of an op, except input `without`; number[k]: the number of input k. */
static int join_all(joined_t *j, const ct_plan_op_t *op, int without, int number[CT_OP_INPUTS])
{
  for (int k = 0; k < CT_OP_INPUTS; k++) {
    number[k] = 0;
    if (k == without || op->in[k] < 0) continue;
    number[k] = join(j, op->in[k], ct_expr_shape(&op->desc, k));
    if (number[k] < 0) return 0;
  }
  return 1;
}

/* Puts the op `from`, which computes input k of the program `op`, into it.  Returns 0 if it does
 * not fit. */
static int put_into(ct_plan_op_t *op, int k, const ct_plan_op_t *from)
{
  joined_t j = {.n = 0};
  ct_expr_t inner, outer, both;
  int own[CT_OP_INPUTS], inputs[CT_OP_INPUTS];
  if (!program_of(&from->desc, &inner) || !program_of(&op->desc, &outer)) return 0;
  if (!ct_shape_same(&from->desc.y, &op->desc.y)) return 0;
  if (!join_all(&j, from, -1, inputs) || !join_all(&j, op, k, own)) return 0;
  ct_expr_init(&both);
  own[k] = ct_expr_append(&both, &inner, inputs);
  if (own[k] == CT_EXPR_FULL) return 0;
  int last = ct_expr_append(&both, &outer, own);
  if (last != CT_EXPR_STEP + both.steps - 1) return 0; /* no room, or a step that exists already */
  ct_op_desc_t d;
  ct_op_desc_init(&d, CT_OP_EXPR, &j.shape[0], &op->desc.y);
  ct_op_desc_more(&d, j.n > 1 ? &j.shape[1] : NULL, j.n > 2 ? &j.shape[2] : NULL);
  d.training = op->desc.training;
  d.u.expr = both;
  memcpy(&op->desc, &d, sizeof d);
  for (int i = 0; i < CT_OP_INPUTS; i++)
    op->in[i] = i < j.n ? j.value[i] : -1;
  return 1;
}

/* Fuses the ops that compute the inputs of op o, until none fits. */
static void fuse_inputs(ct_plan_t *p, int o, const int *readers, int *maker)
{
  ct_plan_op_t *op = &p->op[o];
  for (int k = 0; k < CT_OP_INPUTS; k++) {
    int v = op->in[k], m = v < 0 ? -1 : maker[v];
    if (m < 0 || readers[v] != 1 || !put_into(op, k, &p->op[m])) continue;
    p->op[m].out = -1; /* removed below */
    maker[v] = -1;
    k = -1; /* the inputs are others now */
  }
}

void ct__plan_remove(ct_plan_t *p)
{
  int n = 0;
  for (int o = 0; o < p->ops; o++)
    if (p->op[o].out >= 0 || ct_op_is_loss(p->op[o].desc.kind)) p->op[n++] = p->op[o];
  p->ops = n;
}

void ct__plan_readers(const ct_plan_t *p, int *readers, int *maker)
{
  for (int v = 0; v < p->values; v++)
    maker[v] = -1;
  for (int o = 0; o < p->ops; o++) {
    for (int k = 0; k < CT_OP_INPUTS; k++)
      if (p->op[o].in[k] >= 0) readers[p->op[o].in[k]]++;
    if (p->op[o].out >= 0) maker[p->op[o].out] = o;
  }
}

int ct__plan_fuse(ct_plan_t *p)
{
  if (p->o.quant) return CT_OK; /* int8 has scales for the values between */
  int *readers = ct_mem_array(2 * (int64_t)p->values, sizeof *readers, "plan");
  if (!readers) return CT_ERR_NOMEM;
  int *maker = readers + p->values;
  ct__plan_readers(p, readers, maker);
  for (int o = 0; o < p->ops; o++)
    if (p->op[o].desc.kind == CT_OP_EXPR) fuse_inputs(p, o, readers, maker);
  ct__plan_remove(p);
  ct_mem_free(readers);
  return CT_OK;
}
