/* Mixed precision: chooses the ops that compute in bf16 or fp16, each ahead of time.  One rule: an
 * op reads and writes reduced precision if the backend supports it.  Inside such an op sums,
 * statistics and the parameters of a normalization are float32, so that layer normalization needs
 * no float32 copy of its input, unlike in torch.autocast.  The loss stays in float32 (CT_KIND_F32).
 * Convolutions and GEMMs are the reason for mixed precision: it is an error if the backend does not
 * support them in reduced precision. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct casting {
  ct_plan_t *p;
  int *cast; /* per lowered value: its cast value; -1: none yet */
} casting_t;

static int can_do_in(const ct_plan_t *p, const ct_plan_op_t *op, ct_dtype_t t, char why[128])
{
  ct_op_desc_t d = op->desc;
  d.passes = ct__plan_passes(p, op);
  ct_op_desc_type(&d, t);
  return p->be->op->supports(p->dev, &d, why);
}

static int precision_refuse(const ct_plan_t *p, const ct_plan_op_t *op, const char *why)
{
  char text[160], none[128];
  int bf16 = p->o.compute == CT_F16 && can_do_in(p, op, CT_BF16, none);
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__,
                    "layer %s: backend %s cannot compute '%s' in %s: %s; set train.amp to %s",
                    p->graph->layer[op->layer].name, p->be->name,
                    ct_op_text(&op->desc, text, sizeof text), ct_dtype_name(p->o.compute), why,
                    bf16 ? "bf16" : "off");
}

/* Returns 1 for an op that only moves data of float32: a parameter or a value. */
static int source_is_float(const ct_plan_t *p, const ct_plan_op_t *op)
{
  ct_op_kind_t kind = op->desc.kind;
  if (kind == CT_OP_ROWS) return op->in[1] < 0 || p->value[op->in[1]].shape.dtype == CT_F32;
  return (kind == CT_OP_REORDER || kind == CT_OP_STRIDED) &&
         p->value[op->in[0]].shape.dtype == CT_F32;
}

static int precision_choose(const ct_plan_t *p, const ct_plan_op_t *op, ct_dtype_t *out)
{
  char why[128] = "";
  *out = CT_F32;
  if (ct_op_is(op->desc.kind, CT_KIND_F32)) return CT_OK;
  if (op->out >= 0 && p->value[op->out].exact) return CT_OK;
  /* do not round data that is only moved */
  if (source_is_float(p, op)) return CT_OK;
  if (can_do_in(p, op, p->o.compute, why))
    *out = p->o.compute;
  else if (ct_op_is(op->desc.kind, CT_KIND_GEMM))
    return precision_refuse(p, op, why);
  return CT_OK;
}

int ct__plan_cast(ct_plan_t *p, int *cast, ct_dtype_t t, int *v)
{
  int rc = CT_OK;
  const ct_quant_params_t qp = p->value[*v].qp, none = {0};
  if (p->value[*v].shape.dtype == t) return CT_OK;
  if (cast[*v] < 0) {
    ct_plan_op_t op = {.layer = -1, .saved = -1, .in = {*v, -1, -1}};
    ct_shape_t x = p->value[*v].shape, y = x;
    y.dtype = t;
    ct_op_desc_init(&op.desc, CT_OP_REORDER, &x, &y);
    op.desc.training = p->o.training;
    op.desc.q.x = x.dtype == CT_U8 ? qp : none;
    op.desc.q.y = t == CT_U8 ? qp : none;
    op.out = ct__plan_value(p, &y, p->value[*v].grad);
    CT_TRY(op.out < 0 || ct__plan_op(p, &op) < 0 ? CT_ERR_NOMEM : CT_OK);
    p->value[op.out].qp = qp;
    cast[*v] = op.out;
  }
  *v = cast[*v];
out:
  return rc;
}

/* Chooses the output type of the op that converts uint8 samples, op[0] of n ops: the type of its
 * readers, if all have the same. */
static int type_of_bytes(const ct_plan_t *p, const ct_plan_op_t *op, int n, ct_dtype_t *out)
{
  int rc = CT_OK;
  char why[128];
  ct_op_desc_t reduced = op->desc;
  reduced.passes = CT_FWD;
  reduced.y.dtype = p->o.compute;
  *out = CT_F32;
  if (!p->be->op->supports(p->dev, &reduced, why)) return CT_OK;
  for (int i = 1; i < n; i++) {
    ct_dtype_t t;
    const int *in = op[i].in;
    if (in[0] != op->out && in[1] != op->out && in[2] != op->out) continue;
    CT_TRY(precision_choose(p, &op[i], &t));
    if (t == CT_F32) return CT_OK;
  }
  *out = p->o.compute;
out:
  return rc;
}

static int retype_bytes(casting_t *c, const ct_plan_op_t *rest, int n)
{
  int rc = CT_OK;
  ct_plan_t *p = c->p;
  ct_plan_op_t op = *rest;
  CT_TRY(type_of_bytes(p, rest, n, &op.desc.y.dtype));
  p->value[op.out].shape.dtype = op.desc.y.dtype;
  p->value[op.out].bytes = ct_shape_bytes(&p->value[op.out].shape);
  CT_TRY(ct__plan_op(p, &op) < 0 ? CT_ERR_NOMEM : CT_OK);
out:
  return rc;
}

static int retype_op(casting_t *c, const ct_plan_op_t *rest, int n)
{
  int rc = CT_OK;
  ct_plan_t *p = c->p;
  ct_plan_op_t op = *rest;
  ct_dtype_t t;
  if (op.desc.x.dtype == CT_U8) return retype_bytes(c, rest, n);
  CT_TRY(precision_choose(p, &op, &t));
  for (int k = 0; k < CT_OP_INPUTS; k++) {
    ct_dtype_t own = ct_op_indices(&op.desc) >> k & 1 ? CT_F32 : t;
    if (op.in[k] >= 0) CT_TRY(ct__plan_cast(p, c->cast, own, &op.in[k]));
  }
  ct_op_desc_type(&op.desc, t);
  if (op.out >= 0) {
    p->value[op.out].shape.dtype = t;
    p->value[op.out].bytes = ct_shape_bytes(&p->value[op.out].shape);
  }
  CT_TRY(ct__plan_op(p, &op) < 0 ? CT_ERR_NOMEM : CT_OK);
out:
  return rc;
}

/* Marks the values from which indices are computed: rounding would change them. */
static void note_exact(ct_plan_t *p)
{
  for (int o = p->ops - 1; o >= 0; o--) {
    const ct_plan_op_t *op = &p->op[o];
    int all = op->out >= 0 && p->value[op->out].exact;
    for (int k = 0; k < CT_OP_INPUTS; k++)
      if (op->in[k] >= 0 && (all || ct_op_indices(&op->desc) >> k & 1))
        p->value[op->in[k]].exact = 1;
  }
}

int ct__plan_precision(ct_plan_t *p)
{
  int rc = CT_OK, n = p->ops;
  ct_plan_op_t *lowered = p->op;
  if (p->o.compute == CT_F32) return CT_OK;
  casting_t c = {p, ct_mem_array(p->values, sizeof *c.cast, "plan")};
  CT_TRY(c.cast ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < p->values; i++)
    c.cast[i] = -1;
  note_exact(p);
  p->op = NULL;
  p->ops = 0;
  p->cap_ops = 0;
  for (int i = 0; i < n; i++)
    CT_TRY(retype_op(&c, &lowered[i], n - i));
  ct__plan_note_outputs(p);
out:
  if (p->op != lowered) ct_mem_free(lowered);
  ct_mem_free(c.cast);
  return rc;
}
