/* Lowering: layers -> ops.  One layer becomes one op, except that
 *   - a ReLU is fused into the conv, linear, batchnorm or add before it, or into the max-pool
 *     after it;
 *   - a residual add is fused into the batchnorm that feeds it, and if the backend supports it into
 *     a linear layer, and for inference into a convolution;
 *   - dropout is dropped outside training.
 * Windows over sequences N x C x L become windows over images N x C x 1 x L, and so do the layers
 * after them that treat all pixels alike; other layers read such a value as N x C x L again.
 * A uint8 input gets a conversion op first. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <stdio.h>
#include <string.h>

typedef struct lowering {
  ct_plan_t *p;
  int input;  /* value that replaces the network's (first) input for its readers */
  int *value; /* per layer: the value of its output */
  int *maker; /* per layer: the op that makes this value, if it can still be fused into; -1: none */
  int *uses;  /* per layer: number of its readers (as an output it has one more) */
  int *relu;  /* per layer: 1 = a max-pool that applies the ReLU before it */
  int *tall;  /* per layer: 1 = its value is an image of height 1 instead of a sequence */
  int *flat;  /* per layer that is tall: its value as a sequence; 0: none yet */
} lowering_t;

static int value_of(const lowering_t *lo, int layer)
{
  int k = ct_graph_extra(layer);
  if (k >= 0) return lo->p->extra[k];
  return layer < 0 ? lo->input : lo->value[layer];
}

static int is_tall(const lowering_t *lo, int layer)
{
  return layer >= 0 && lo->tall[layer];
}

/* Adds an op that makes value \a v the shape \a y; returns the new value, or -1. */
static int reshaped(lowering_t *lo, int v, const ct_shape_t *y)
{
  ct_plan_t *p = lo->p;
  ct_plan_op_t op = {.layer = -1, .saved = -1, .in = {v, -1, -1}};
  ct_op_desc_init(&op.desc, CT_OP_REORDER, &p->value[v].shape, y);
  op.desc.training = p->o.training;
  op.out = ct__plan_value(p, y, p->value[v].grad);
  if (op.out < 0 || ct__plan_op(p, &op) < 0) return -1;
  p->value[op.out].qp = p->value[v].qp;
  return op.out;
}

/* Returns the value of a layer as a sequence, or as an image if \a tall; -1: out of memory. */
static int shaped(lowering_t *lo, int layer, int tall)
{
  int v = value_of(lo, layer);
  ct_shape_t s = lo->p->value[v].shape;
  if (is_tall(lo, layer) == tall) return v;
  if (tall && s.ndim != 3) return v; /* the bias of a convolution */
  if (tall) {
    ct_shape_t image = ct_shape(4, s.dim[0], s.dim[1], 1, s.dim[2]);
    return reshaped(lo, v, &image);
  }
  ct_shape_t sequence = ct_shape(3, s.dim[0], s.dim[1], s.dim[3]);
  if (!lo->flat[layer]) lo->flat[layer] = reshaped(lo, v, &sequence);
  return lo->flat[layer];
}

/* Returns the op of \a layer if the layer's output has only one reader, else NULL. */
static ct_plan_op_t *fusable(const lowering_t *lo, int layer)
{
  if (layer < 0 || lo->uses[layer] != 1 || lo->maker[layer] < 0) return NULL;
  return &lo->p->op[lo->maker[layer]];
}

/* int8: sets the scale and zero point of a value to those of the last layer that is fused into the
 * value's op. */
static void note_pair(const lowering_t *lo, int layer, int value)
{
  const ct_quant_t *q = lo->p->o.quant;
  if (q) lo->p->value[value].qp = layer < 0 ? q->input : q->out[layer];
}

static void become(lowering_t *lo, int layer, int other)
{
  if (other >= 0) note_pair(lo, layer, lo->value[other]);
  lo->value[layer] = value_of(lo, other);
  lo->maker[layer] = other < 0 ? -1 : lo->maker[other];
  lo->tall[layer] = is_tall(lo, other);
}

static int only_reader(const ct_graph_t *g, int layer)
{
  for (int i = layer + 1; i < g->layers; i++)
    for (int k = 0; k < g->layer[i].inputs; k++)
      if (g->layer[i].in[k] == layer) return i;
  return -1;
}

static int fuse_relu(lowering_t *lo, int i)
{
  const ct_graph_t *g = lo->p->graph;
  int j = g->layer[i].in[0];
  ct_plan_op_t *op = fusable(lo, j);
  if (!op) return 0;
  int *relu = NULL;
  switch (op->desc.kind) {
  case CT_OP_CONV:
    relu = &op->desc.u.conv.relu;
    break;
  case CT_OP_LINEAR:
    relu = &op->desc.u.linear.relu;
    break;
  case CT_OP_BNORM:
    relu = &op->desc.u.bnorm.relu;
    break;
  case CT_OP_ADD:
    relu = &op->desc.u.add.relu;
    break;
  default:
    return 0;
  }
  if (*relu) return 0;
  /* max(relu(x)) == relu(max(x)), and the pooled tensor is smaller */
  int next = lo->uses[i] == 1 ? only_reader(g, i) : -1;
  if (op->desc.kind == CT_OP_CONV && next >= 0 && strcmp(g->layer[next].ops->kind, "maxpool") == 0)
    lo->relu[next] = 1;
  else
    *relu = 1;
  become(lo, i, j);
  if (next >= 0 && lo->relu[next]) lo->maker[i] = -1;
  return 1;
}

/* Fuses a ReLU6 into a batchnorm, or into an int8 convolution, which clamps its results in any
 * case. If the convolution turns out to be float32, quantize.c adds an op for the ReLU6 again. */
static int fuse_relu6(lowering_t *lo, int i)
{
  int j = lo->p->graph->layer[i].in[0];
  ct_plan_op_t *op = fusable(lo, j);
  if (op && lo->p->o.quant && op->desc.kind == CT_OP_CONV && !op->desc.u.conv.relu) {
    op->desc.u.conv.relu = CT_RELU6;
    become(lo, i, j);
    return 1;
  }
  if (!op || op->desc.kind != CT_OP_BNORM || op->desc.u.bnorm.relu) return 0;
  op->desc.u.bnorm.relu = CT_RELU6;
  become(lo, i, j);
  return 1;
}

static int made_by(const lowering_t *lo, int value)
{
  for (int o = 0; o < lo->p->ops; o++)
    if (lo->p->op[o].out == value) return o;
  return -1; /* the network's input */
}

/* Returns the flag in the descriptor that makes the op add a second input; NULL if the op
 * cannot. */
static int *adds(const lowering_t *lo, ct_plan_op_t *op)
{
  char why[128];
  const ct_plan_t *p = lo->p;
  ct_op_desc_t with = op->desc;
  if (op->desc.kind == CT_OP_BNORM) return op->desc.u.bnorm.relu ? NULL : &op->desc.u.bnorm.add;
  if (op->desc.kind == CT_OP_LINEAR || op->desc.kind == CT_OP_ATTENTION) {
    int linear = op->desc.kind == CT_OP_LINEAR;
    if ((linear && op->desc.u.linear.relu) || p->o.quant) return NULL;
    *(linear ? &with.u.linear.add : &with.u.attention.add) = 1;
    if (!p->be->op->supports(p->dev, &with, why)) return NULL;
    return linear ? &op->desc.u.linear.add : &op->desc.u.attention.add;
  }
  if (op->desc.kind != CT_OP_CONV || op->desc.u.conv.relu) return NULL;
  if ((!p->o.inference && !p->o.quant) || p->o.compute != CT_F32) return NULL;
  with.u.conv.add = 1;
  return p->be->op->supports(p->dev, &with, why) ? &op->desc.u.conv.add : NULL;
}

static int fuse_add(lowering_t *lo, int i)
{
  const ct_layer_t *l = &lo->p->graph->layer[i];
  int best = -1;
  if (l->in[0] == l->in[1] || is_tall(lo, l->in[0]) != is_tall(lo, l->in[1])) return 0;
  for (int k = 0; k < 2; k++) {
    ct_plan_op_t *op = fusable(lo, l->in[k]);
    const int *add = op ? adds(lo, op) : NULL;
    if (!add || *add) continue;
    if (made_by(lo, value_of(lo, l->in[1 - k])) > lo->maker[l->in[k]])
      continue; /* not computed yet
                                                                                    at that op */
    if (best < 0 || lo->maker[l->in[k]] > lo->maker[l->in[best]]) best = k;
  }
  if (best < 0) return 0;
  ct_plan_op_t *op = &lo->p->op[lo->maker[l->in[best]]];
  *adds(lo, op) = 1;
  op->in[1] = value_of(lo, l->in[1 - best]);
  if (lo->p->value[op->in[1]].grad) lo->p->value[op->out].grad = 1;
  become(lo, i, l->in[best]);
  return 1;
}

/* ---- a linear layer or 1x1 convolution before the loss ---- */

/* A head with fewer classes, or a sample with fewer logits, is not fused with its loss: the outputs
 * are small. */
enum { FUSED_CLASSES = 1024, FUSED_LOGITS = 1 << 18 };

/* Returns 1 for a linear layer over places that may be fused with the loss of its output.  It does
 * not depend on the plan: the layer has the same weight layout whether it is fused or not. */
static int is_head(const ct_graph_t *g, int i)
{
  const ct_layer_t *l = &g->layer[i];
  int is = ct_graph_outputs(g) == 1 && ct_graph_output(g, 0) == i;
  return is && strcmp(l->ops->kind, "linear") == 0 && l->out.ndim > 2 &&
         l->out.dim[l->out.ndim - 1] >= FUSED_CLASSES;
}

/* Returns 1 for a 1x1 convolution that may be fused with the loss of its output, which is at least
 * as large as its input.  It does not depend on the plan, for the same reason. */
static int is_pixel_head(const ct_graph_t *g, int i)
{
  ct_op_desc_t d;
  const ct_layer_t *l = &g->layer[i];
  if (ct_graph_outputs(g) != 1 || ct_graph_output(g, 0) != i) return 0;
  ct_graph_op(g, i, 1, &d);
  if (d.kind != CT_OP_CONV || d.u.conv.groups != 1 || g->param[l->param[0]].uses > 1) return 0;
  for (int k = 0; k < d.x.ndim - 2; k++)
    if (d.u.conv.kernel[k] != 1 || d.u.conv.stride[k] != 1 || d.u.conv.pad[k]) return 0;
  return d.y.dim[1] >= d.x.dim[1] && ct_shape_sample(&d.y) >= FUSED_LOGITS;
}

/* Returns 1 if the weight of linear layer i must be plain, for other ops that use it. */
static int has_plain_weight(const ct_graph_t *g, int i)
{
  const ct_layer_t *l = &g->layer[i];
  int plain = is_head(g, i);
  for (int j = 0; j < g->layers && g->param[l->param[0]].uses > 1; j++)
    for (int k = 0; k < g->layer[j].params; k++)
      if (g->layer[j].param[k] == l->param[0]) plain |= g->layer[j].ops != l->ops || is_head(g, j);
  return plain;
}

static int has_trained(const ct_graph_t *g, int layer)
{
  const ct_layer_t *l = &g->layer[layer];
  for (int i = 0; i < l->params; i++) {
    const ct_param_t *p = &g->param[l->param[i]];
    if (!p->spec.buffer && !p->frozen) return 1;
  }
  return 0;
}

/* Returns 1 if a layer over sequences becomes one over images of height 1. */
static int grows_tall(const lowering_t *lo, const ct_layer_t *l, const ct_op_desc_t *d)
{
  if (d->x.ndim != 3 || d->y.ndim != 3) return 0;
  switch (d->kind) {
  case CT_OP_CONV:
  case CT_OP_CONVT:
  case CT_OP_CONVOLVE:
  case CT_OP_POOL:
  case CT_OP_UPSAMPLE:
    return 1;
  case CT_OP_BNORM:
  case CT_OP_GNORM:
  case CT_OP_RELU:
  case CT_OP_ACT:
  case CT_OP_ADD:
  case CT_OP_DROPOUT:
    return is_tall(lo, l->in[0]);
  default:
    return 0;
  }
}

static int emit(lowering_t *lo, int i, ct_plan_op_t *op)
{
  ct_plan_t *p = lo->p;
  const ct_layer_t *l = &p->graph->layer[i];
  op->layer = i;
  op->saved = -1;
  op->trained = has_trained(p->graph, i);
  int grad = op->trained;
  int tall = grows_tall(lo, l, &op->desc);
  if (tall) ct_op_heighten(&op->desc);
  lo->tall[i] = tall;
  for (int k = 0; k < CT_OP_INPUTS; k++) {
    op->in[k] = k < l->inputs ? shaped(lo, l->in[k], tall) : -1;
    if (k < l->inputs && op->in[k] < 0) return CT_ERR_NOMEM;
    /* no gradient passes through an index */
    if (op->in[k] >= 0 && !(ct_op_indices(&op->desc) >> k & 1)) grad |= p->value[op->in[k]].grad;
  }
  op->out = ct__plan_value(p, &op->desc.y, grad);
  int o = op->out < 0 ? -1 : ct__plan_op(p, op);
  if (o < 0) return CT_ERR_NOMEM;
  note_pair(lo, i, op->out);
  lo->value[i] = op->out;
  lo->maker[i] = o;
  return CT_OK;
}

static int lower_bytes(lowering_t *lo)
{
  ct_plan_t *p = lo->p;
  ct_plan_op_t op = {.layer = -1, .saved = -1, .in = {p->input, -1, -1}};
  ct_shape_t x = p->value[p->input].shape, y = p->graph->input;
  if (!p->o.bytes) return CT_OK;
  y.dim[0] = p->o.n;
  ct_op_desc_init(&op.desc, CT_OP_REORDER, &x, &y);
  op.desc.training = p->o.training;
  lo->input = op.out = ct__plan_value(p, &y, 0);
  return op.out < 0 || ct__plan_op(p, &op) < 0 ? CT_ERR_NOMEM : CT_OK;
}

static int lower_layer(lowering_t *lo, int i)
{
  ct_plan_t *p = lo->p;
  const ct_layer_t *l = &p->graph->layer[i];
  ct_plan_op_t op = {0};
  ct_graph_op(p->graph, i, p->o.n, &op.desc);
  op.desc.training = p->o.training && !l->keeps_stats;
  if (op.desc.kind == CT_OP_BNORM) {
    op.desc.u.bnorm.sync = op.desc.training && p->o.sync_bn;
    op.desc.training |= op.desc.u.bnorm.untracked;
  }
  if (op.desc.kind == CT_OP_RELU && fuse_relu(lo, i)) return CT_OK;
  int relu6 = op.desc.kind == CT_OP_ACT && op.desc.u.act.kind == CT_ACT_RELU6;
  if (relu6 && fuse_relu6(lo, i)) return CT_OK;
  if (op.desc.kind == CT_OP_ADD && fuse_add(lo, i)) return CT_OK;
  if (op.desc.kind == CT_OP_DROPOUT && (!p->o.training || op.desc.u.dropout.p == 0)) {
    become(lo, i, l->in[0]);
    lo->maker[i] = -1;
    return CT_OK;
  }
  if (op.desc.kind == CT_OP_POOL && lo->relu[i]) op.desc.u.pool.relu = 1;
  if (op.desc.kind == CT_OP_LINEAR) op.desc.u.linear.plain = has_plain_weight(p->graph, i);
  if (op.desc.kind == CT_OP_CONV) op.desc.u.conv.plain = !p->o.quant && is_pixel_head(p->graph, i);
  return emit(lo, i, &op);
}

static void count_uses(lowering_t *lo)
{
  const ct_graph_t *g = lo->p->graph;
  for (int i = 0; i < g->layers; i++)
    for (int k = 0; k < g->layer[i].inputs; k++)
      if (g->layer[i].in[k] >= 0) lo->uses[g->layer[i].in[k]]++;
  for (int k = 0; k < ct_graph_outputs(g); k++)
    lo->uses[ct_graph_output(g, k)]++;
}

/* Appends the op of a loss; \a head -1: of an output that has none, see ct_plan_op_t. */
static int lower_loss(lowering_t *lo, int head, int output, const ct_loss_spec_t *loss)
{
  ct_plan_t *p = lo->p;
  int layer = ct_graph_output(p->graph, output);
  ct_plan_op_t op = {.layer = -1,
                     .saved = -1,
                     .head = head,
                     .output = output,
                     .in = {shaped(lo, layer, 0), -1, -1},
                     .out = -1};
  if (op.in[0] < 0) return CT_ERR_NOMEM;
  ct_shape_t x = p->graph->layer[layer].out;
  x.dim[0] = p->o.n;
  x.batch = 0;
  ct_op_desc_init(&op.desc, CT_OP_LOSS, &x, &x);
  op.desc.training = p->o.training;
  op.desc.u.loss = *loss;
  return ct__plan_op(p, &op) < 0 ? CT_ERR_NOMEM : CT_OK;
}

/* Returns 1 if the op computes the outputs and nothing else; *bias: it has one. */
static int is_bare(const ct_plan_op_t *op, ct_op_kind_t kind, int *bias)
{
  if (!op || op->desc.kind != kind) return 0;
  int conv = kind == CT_OP_CONV;
  *bias = conv ? op->desc.u.conv.bias : op->desc.u.linear.bias;
  return conv ? !op->desc.u.conv.relu && !op->desc.u.conv.add
              : !op->desc.u.linear.relu && !op->desc.u.linear.add;
}

/* Returns why the last layer, of the kind is_head() or is_pixel_head(), is not fused with its loss;
 * NULL: it is. */
static const char *why_unfused(const lowering_t *lo, const ct_heads_t *heads, ct_op_desc_t *fused,
                               char why[128])
{
  const ct_plan_t *p = lo->p;
  int layer = ct_graph_output(p->graph, 0), last = !is_pixel_head(p->graph, layer), bias;
  const ct_plan_op_t *op = fusable(lo, layer);
  if (p->o.quant) return "int8";
  if (p->o.inference || !p->o.outputs_unread) return "the outputs are read";
  if (heads->n > 1) return "there are several losses";
  if (heads->of[0].loss.kind != CT_LOSS_CROSS_ENTROPY) return "the loss is not cross_entropy";
  if (!heads->of[0].loss.classes_last != !last)
    return last ? "the classes are not the last dim" : "the classes are the last dim";
  if (!is_bare(op, last ? CT_OP_LINEAR : CT_OP_CONV, &bias))
    return "other layers read or change its output";
  ct_op_desc_init(fused, CT_OP_HEAD_LOSS, &op->desc.x, &op->desc.y);
  fused->training = p->o.training;
  fused->u.head_loss.loss = heads->of[0].loss;
  fused->u.head_loss.bias = bias;
  return p->be->op->supports(p->dev, fused, why) ? NULL : why;
}

/* Replaces the layer before the loss by an op for both. */
static int fuse_head(lowering_t *lo, const ct_heads_t *heads)
{
  ct_plan_t *p = lo->p;
  ct_op_desc_t d;
  char why[128];
  int layer = ct_graph_output(p->graph, 0), m = lo->maker[layer];
  if (!is_head(p->graph, layer) && !is_pixel_head(p->graph, layer)) return 0;
  const char *reason = why_unfused(lo, heads, &d, why);
  if (reason) {
    snprintf(p->unfused, sizeof p->unfused, "%s", reason);
    return 0;
  }
  ct_plan_op_t op = p->op[m];
  memmove(&p->op[m], &p->op[m + 1], (size_t)(p->ops - m - 1) * sizeof op);
  memcpy(&op.desc, &d, sizeof d);
  op.out = -1;
  op.head = op.output = 0;
  p->op[p->ops - 1] = op;
  return 1;
}

/* Appends the losses in their order, and outside of training the other outputs. */
static int lower_losses(lowering_t *lo)
{
  int rc = CT_OK;
  ct_plan_t *p = lo->p;
  const ct_loss_spec_t none = {.kind = CT_LOSS_MSE};
  const ct_heads_t heads = ct_plan_heads(&p->o);
  int has_loss[CT_OUTPUTS] = {0};
  int fused = heads.of[0].output == 0 && fuse_head(lo, &heads);
  for (int k = 0; k < heads.n && !fused; k++) {
    const ct_head_t *h = &heads.of[k];
    if (h->output < 0 || h->output >= ct_graph_outputs(p->graph))
      CT_FAIL(CT_ERR_ARG, "loss %d is of output %d, which does not exist", k, h->output);
    has_loss[h->output] = 1;
    CT_TRY(lower_loss(lo, k, h->output, &h->loss));
  }
  for (int k = 0; k < ct_graph_outputs(p->graph) && !p->o.training && !fused; k++)
    if (!has_loss[k]) CT_TRY(lower_loss(lo, -1, k, &none));
  ct__plan_note_outputs(p);
out:
  return rc;
}

int ct__plan_lower(ct_plan_t *p)
{
  int rc = CT_OK, n = p->graph->layers;
  int *tables = ct_mem_array(6 * (int64_t)n, sizeof *tables, "plan");
  if (!tables) return CT_ERR_NOMEM;
  lowering_t lo = {p,
                   p->input,
                   tables,
                   tables + n,
                   tables + 2 * n,
                   tables + 3 * n,
                   tables + 4 * n,
                   tables + 5 * n};
  count_uses(&lo);
  CT_TRY(lower_bytes(&lo));
  note_pair(&lo, -1, lo.input);
  for (int i = 0; i < n; i++)
    CT_TRY(lower_layer(&lo, i));
  CT_TRY(lower_losses(&lo));
out:
  ct_mem_free(tables);
  return rc;
}
