/* int8 in the form that runtimes expect: the graph is float, with QuantizeLinear and
 * DequantizeLinear pairs where values are quantized ("QDQ"). Runtimes replace a node between such
 * pairs by integer arithmetic; others compute the same in float. */
#include "onnx/onnx.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"

#define IN  CT__ONNX_LIST
#define OUT CT__ONNX_LIST

/* Scale and zero point of a layer's output; -1 is the network's input. */
static const ct_quant_params_t *qp_of(const ct__onnx_t *o, int layer)
{
  static const ct_quant_params_t none;
  if (!o->quant) return &none;
  return layer < 0 ? &o->quant->input : &o->quant->out[layer];
}

/* Returns 1 if a layer's weights are int8: its input is quantized, statically or with a scale per
 * batch. */
static int has_steps(const ct__onnx_t *o, int layer)
{
  const ct_layer_t *l = &o->g->layer[layer];
  if (!o->quant) return 0;
  if (l->ops->op == CT_OP_LSTM || l->ops->op == CT_OP_ATTENTION) return o->quant->dynamic[layer];
  if (l->ops->op != CT_OP_CONV && l->ops->op != CT_OP_LINEAR) return 0;
  return o->quant->dynamic[layer] || qp_of(o, l->in[0])->scale > 0;
}

static const char *real(ct__onnx_t *o, const char *steps, const char *scale, const char *zero,
                        const char *y, int axis)
{
  ct__onnx_node(o, "DequantizeLinear", OUT(y), IN(steps, scale, zero));
  if (axis >= 0) ct__onnx_int(o, "axis", axis);
  return y;
}

static int64_t channels_of(const ct__onnx_t *o, int layer, int slot)
{
  return o->g->param[o->g->layer[layer].param[slot]].spec.shape.dim[0];
}

static const char *zeros(ct__onnx_t *o, int layer, int slot, int64_t channels)
{
  const char *word = slot ? "zeros_2" : "zeros";
  void *none = ct_mem_array(channels, 1, "zeros");
  if (!none && o->rc == CT_OK) o->rc = CT_ERR_NOMEM;
  if (!none) return word;
  const char *name = ct__onnx_constant(o, layer, word, CT__ONNX_INT8, 1, &channels, none);
  ct_mem_free(none);
  return name;
}

const char *ct__onnx_weight(ct__onnx_t *o, int layer, int slot, ct__onnx_how_t how,
                            const char *word, int axis, int ndim, const int64_t dim[])
{
  if (!has_steps(o, layer))
    return how == CT__ONNX_PARAM ? ct__onnx_param(o, layer, slot)
                                 : ct__onnx_made(o, layer, slot, how, word, ndim, dim);
  int64_t channels = channels_of(o, layer, slot);
  const char *steps =
      ct__onnx_part(o, layer, slot, CT__ONNX_STEPS, CT__ONNX_INT8, how, "int8", ndim, dim);
  const char *scale =
      ct__onnx_part(o, layer, slot, CT__ONNX_SCALES, CT__ONNX_FLOAT, how, "scale", 1, &channels);
  const char *zero = zeros(o, layer, slot, channels);
  return real(o, steps, scale, zero, ct__onnx_name(o, layer, slot ? "weight_2" : "weight"), axis);
}

const char *ct__onnx_bias(ct__onnx_t *o, int layer, int slot)
{
  if (!has_steps(o, layer) || !(qp_of(o, o->g->layer[layer].in[0])->scale > 0))
    return ct__onnx_param(o, layer, slot);
  int64_t channels = channels_of(o, layer, slot);
  const char *steps = ct__onnx_part(o, layer, slot, CT__ONNX_BIAS_STEPS, CT__ONNX_INT32,
                                    CT__ONNX_PARAM, "int32", 1, &channels);
  const char *scale = ct__onnx_part(o, layer, slot, CT__ONNX_BIAS_SCALES, CT__ONNX_FLOAT,
                                    CT__ONNX_PARAM, "scale", 1, &channels);
  return real(o, steps, scale, NULL, ct__onnx_name(o, layer, "bias"), 0);
}

/* Returns 1 if the only reader is a ReLU, which runtimes fuse into the preceding node: no nodes may
 * be inserted between them. */
static int only_a_clip_reads(const ct__onnx_t *o, int layer)
{
  int readers = 0, clips = 0;
  for (int i = layer + 1; i < o->g->layers; i++) {
    const ct_layer_t *l = &o->g->layer[i];
    if (l->in[0] != layer && (l->inputs < 2 || l->in[1] != layer)) continue;
    ct_op_desc_t d;
    ct_graph_op(o->g, i, 1, &d);
    readers++;
    clips += qp_of(o, i)->scale > 0 &&
             (d.kind == CT_OP_RELU || (d.kind == CT_OP_ACT && d.u.act.kind == CT_ACT_RELU6));
  }
  return readers == 1 && clips == 1;
}

const char *ct__onnx_rounded(ct__onnx_t *o, int layer, const char *x)
{
  const ct_quant_params_t *qp = qp_of(o, layer);
  if (!(qp->scale > 0) || (layer >= 0 && only_a_clip_reads(o, layer))) return x;
  const uint8_t zero = (uint8_t)qp->zero;
  const char *scale = ct__onnx_scalar(o, layer, "int8_scale", qp->scale);
  const char *none = ct__onnx_constant(o, layer, "int8_zero", CT__ONNX_UINT8, 0, NULL, &zero);
  const char *steps = ct__onnx_name(o, layer, "int8");
  ct__onnx_node(o, "QuantizeLinear", OUT(steps), IN(x, scale, none));
  return real(o, steps, scale, none, ct__onnx_name(o, layer, "rounded"), -1);
}
