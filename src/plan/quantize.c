/* Chooses the ops that compute in int8, op by op in order.  Convolutions and linear layers compute
 * in int8 wherever the backend supports it, because int8 is much faster for them; other ops do if
 * their input is uint8 already.  Unsupported ops stay float32, so a quantized model runs on every
 * backend. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Returns 1 if the op only selects input values, so the scale and zero point stay the same. */
static int keeps_qp(const ct_op_desc_t *d)
{
  int average = ct_op_averages(d);
  return d->kind == CT_OP_SELECT || d->kind == CT_OP_REORDER || (d->kind == CT_OP_POOL && !average);
}

static int inputs_fit(const ct_plan_t *p, const ct_plan_op_t *op)
{
  if (op->in[0] < 0) return 0;
  for (int k = 0; k < CT_OP_INPUTS; k++) {
    if (op->in[k] < 0) continue;
    const ct_value_t *v = &p->value[op->in[k]];
    if (!(v->qp.scale > 0)) return 0;
    if (!ct_op_is(op->desc.kind, CT_KIND_GEMM) && v->shape.dtype != CT_U8) return 0;
  }
  return 1;
}

static int can_do(const ct_plan_t *p, const ct_op_desc_t *d)
{
  char why[128];
  return p->be->op->supports(p->dev, d, why);
}

static int is_output(const ct_plan_t *p, int value)
{
  for (int k = 0; k < CT_OUTPUTS; k++)
    if (p->output[k] == value) return 1;
  return 0;
}

/* Returns 1 if it changed op->desc to int8. */
static int choose_static(ct_plan_t *p, ct_plan_op_t *op)
{
  const ct_quant_params_t none = {0};
  ct_op_desc_t *d = &op->desc, wide = *d;
  if (op->out < 0 || !inputs_fit(p, op)) return 0;
  if (keeps_qp(d)) p->value[op->out].qp = p->value[op->in[0]].qp;
  d->x.dtype = CT_U8;
  d->q.x = p->value[op->in[0]].qp;
  if (op->in[1] >= 0) d->q.x2 = p->value[op->in[1]].qp;
  d->q.y = p->value[op->out].qp;
  if (d->q.y.scale > 0 && !is_output(p, op->out)) {
    d->y.dtype = CT_U8;
    if (can_do(p, d)) return 1;
  }
  d->y.dtype = CT_F32;
  d->q.y = none;
  if (can_do(p, d)) return 1;
  *d = wide;
  return 0;
}

static int append(ct_plan_t *p, const ct_plan_op_t *op)
{
  return ct__plan_op(p, op) < 0 ? CT_ERR_NOMEM : CT_OK;
}

/* Appends a convolution that is float32 after all, and an op for the ReLU6 that was fused into it:
 * float32 convolutions do not support a fused ReLU6. */
static int append_with_relu6(ct_plan_t *p, ct_plan_op_t *conv)
{
  int rc = CT_OK;
  ct_plan_op_t act = {.layer = -1, .saved = -1, .in = {-1, -1, -1}, .out = conv->out};
  conv->desc.u.conv.relu = 0;
  conv->out = act.in[0] = ct__plan_value(p, &conv->desc.y, 0);
  ct_op_desc_init(&act.desc, CT_OP_ACT, &conv->desc.y, &conv->desc.y);
  act.desc.u.act.kind = CT_ACT_RELU6;
  CT_TRY(conv->out < 0 ? CT_ERR_NOMEM : append(p, conv));
  CT_TRY(append(p, &act));
out:
  return rc;
}

static int is_dynamic(const ct_plan_t *p, const ct_plan_op_t *op)
{
  return op->layer >= 0 && p->o.quant->dynamic[op->layer] &&
         (op->desc.kind == CT_OP_LINEAR || op->desc.kind == CT_OP_LSTM);
}

static int retype(ct_plan_t *p, int *cast, const ct_plan_op_t *lowered)
{
  int rc = CT_OK;
  ct_plan_op_t op = *lowered;
  ct_dtype_t x = op.desc.x.dtype; /* does not apply to uint8 samples */
  if (is_dynamic(p, &op)) {
    op.desc.q.dynamic = 1;
    if (!can_do(p, &op.desc)) op.desc.q.dynamic = 0;
  } else if (x == CT_F32 && choose_static(p, &op)) {
    x = CT_U8;
  }
  for (int k = 0; k < CT_OP_INPUTS; k++)
    if (op.in[k] >= 0) CT_TRY(ct__plan_cast(p, cast, x, &op.in[k]));
  if (op.out >= 0) {
    p->value[op.out].shape.dtype = op.desc.y.dtype;
    p->value[op.out].bytes = ct_shape_bytes(&p->value[op.out].shape);
  }
  if (op.desc.kind == CT_OP_CONV && op.desc.u.conv.relu == CT_RELU6 && !ct_op_is_int8(&op.desc))
    CT_TRY(append_with_relu6(p, &op));
  else
    CT_TRY(append(p, &op));
out:
  return rc;
}

int ct__plan_quantize(ct_plan_t *p)
{
  int rc = CT_OK, n = p->ops, *cast = NULL;
  ct_plan_op_t *lowered = p->op;
  if (!p->o.quant) return CT_OK;
  if (p->o.training || p->o.compute != CT_F32)
    CT_FAIL(CT_ERR_USAGE, "int8 is for evaluation without mixed precision");
  if (p->o.quant->layers != p->graph->layers)
    CT_FAIL(CT_ERR_SHAPE, "the int8 parameters are for %d layers, but the model has %d",
            p->o.quant->layers, p->graph->layers);
  cast = ct_mem_array(p->values, sizeof *cast, "plan");
  CT_TRY(cast ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < p->values; i++)
    cast[i] = -1;
  p->op = NULL;
  p->ops = 0;
  p->cap_ops = 0;
  for (int i = 0; i < n; i++)
    CT_TRY(retype(p, cast, &lowered[i]));
  ct__plan_note_outputs(p);
out:
  if (p->op != lowered) ct_mem_free(lowered);
  ct_mem_free(cast);
  return rc;
}
