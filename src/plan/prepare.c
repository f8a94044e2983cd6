/* Prepares the ops in order: each op gets its input in its preferred layout (with a reorder before
 * it if necessary), is prepared, and determines the layout of its output. */
#include "plan/passes.h"
#include "backend/ct_strided.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

static int prepare_one(ct_plan_t *p, ct_plan_op_t *op, const ct_op_t *like)
{
  int rc = CT_OK;
  char why[128] = "", text[160];
  const char *name = op->layer >= 0 ? p->graph->layer[op->layer].name : "helper";
  if (!p->be->op->supports(p->dev, &op->desc, why))
    CT_FAIL(CT_ERR_UNSUP, "layer %s: backend %s cannot do '%s': %s%s", name, p->be->name,
            ct_op_text(&op->desc, text, sizeof text), why,
            p->be->in_place ? "" : "; set device: cpu for this model");
  ct_heartbeat_progress(); /* prepare may time algorithms */
  CT_TRY(p->be->op->prepare(p->dev, &op->desc, like, &op->op, &op->info));
  if (op->info.scratch > p->scratch_bytes) p->scratch_bytes = op->info.scratch;
out:
  return rc;
}

/* Prepares the op that a rank with an empty batch runs for a SyncBN's forward pass. */
static int prepare_empty(ct_plan_t *p, ct_plan_op_t *op)
{
  int rc = CT_OK;
  ct_op_desc_t d = op->desc;
  ct_op_info_t info;
  if (d.kind != CT_OP_BNORM || !d.u.bnorm.sync) return CT_OK;
  d.passes = CT_FWD | CT_FWD_STATS;
  d.x.dim[0] = d.y.dim[0] = 0;
  CT_TRY(p->be->op->prepare(p->dev, &d, op->op, &op->empty, &info));
  if (info.scratch > p->scratch_bytes) p->scratch_bytes = info.scratch;
out:
  return rc;
}

static int add_saved(ct_plan_t *p, ct_plan_op_t *op)
{
  op->saved = -1;
  if (!op->info.saved) return CT_OK;
  ct_shape_t none = {0};
  op->saved = ct__plan_value(p, &none, 0);
  if (op->saved < 0) return CT_ERR_NOMEM;
  p->value[op->saved].bytes = op->info.saved;
  return CT_OK;
}

/* Appends a reorder of value \a v to another layout; *out: its output. */
static int reordered(ct_plan_t *p, int v, const ct_shape_t *as, ct_layout_t layout, int *out)
{
  int rc = CT_OK;
  ct_plan_op_t op = {.layer = -1, .saved = -1, .in = {v, -1, -1}};
  ct_shape_t x = *as, y = *as;
  x.layout = p->value[v].shape.layout;
  y.layout = layout;
  ct_op_desc_init(&op.desc, CT_OP_REORDER, &x, &y);
  if (x.dtype == CT_U8) op.desc.q.x = op.desc.q.y = p->value[v].qp;
  op.desc.training = p->o.training;
  op.desc.passes = ct__plan_passes(p, &op);
  CT_TRY(prepare_one(p, &op, NULL));
  op.out = ct__plan_value(p, &y, p->value[v].grad);
  CT_TRY(op.out < 0 || ct__plan_op(p, &op) < 0 ? CT_ERR_NOMEM : CT_OK);
  p->value[op.out].qp = p->value[v].qp;
  *out = op.out;
  op.op = NULL;
out:
  if (op.op) p->be->op->release(op.op);
  return rc;
}

/* Chooses the layouts of the inputs of an op whose descriptor has their shapes. An input with
 * another number of dims than the output stays plain: the layouts are of images. */
static int with_free_layouts(ct_plan_t *p, ct_plan_op_t *op)
{
  int rc = CT_OK;
  ct_shape_t *shape[] = {&op->desc.x, &op->desc.x2, &op->desc.x3};
  for (int k = 0; k < CT_OP_INPUTS; k++)
    if (op->in[k] >= 0) shape[k]->layout = p->value[op->in[k]].shape.layout;
  ct_layout_t want = p->be->op->wants(p->dev, &op->desc);
  for (int k = 0; k < CT_OP_INPUTS; k++) {
    if (op->in[k] < 0) continue;
    ct_layout_t own = ct_op_takes_layout(&op->desc, k) ? want : CT_PLAIN;
    if (shape[k]->layout != own) CT_TRY(reordered(p, op->in[k], shape[k], own, &op->in[k]));
    shape[k]->layout = own;
  }
out:
  return rc;
}

/* Returns the shape of the second input as the op reads it; its value has other dims if it was
 * reshaped. */
static ct_shape_t second_of(const ct_plan_t *p, const ct_plan_op_t *op)
{
  ct_shape_t second = ct_op_second(&op->desc);
  second.dtype = p->value[op->in[1]].shape.dtype;
  return second;
}

static int with_layouts(ct_plan_t *p, ct_plan_op_t *op)
{
  int rc = CT_OK;
  if (op->in[0] < 0) return CT_OK;
  if (ct_op_is(op->desc.kind, CT_KIND_SHAPES)) return with_free_layouts(p, op);
  op->desc.x.layout = p->value[op->in[0]].shape.layout;
  ct_layout_t want = p->be->op->wants(p->dev, &op->desc);
  if (want != op->desc.x.layout) {
    CT_TRY(reordered(p, op->in[0], &op->desc.x, want, &op->in[0]));
    op->desc.x.layout = want;
  }
  if (op->desc.kind == CT_OP_CONV) return CT_OK; /* the second input has the layout of its output */
  if (op->in[1] >= 0 && p->value[op->in[1]].shape.layout != want) {
    ct_shape_t second = second_of(p, op);
    CT_TRY(reordered(p, op->in[1], &second, want, &op->in[1]));
  }
out:
  return rc;
}

/* Returns the op of the layer in another plan; or in this plan, before the layer's own op is made,
 * the op of an earlier layer with the same parameters. */
static const ct_op_t *twin(const ct_plan_t *p, const ct_plan_t *like, int layer, ct_op_kind_t kind)
{
  if (layer < 0) return NULL;
  if (like && like->layer_op[layer] < 0) return NULL;
  if (like) { /* of a head that is fused with its loss, the weights are plain in any case */
    const ct_plan_op_t *op = &like->op[like->layer_op[layer]];
    return op->desc.kind == kind ? op->op : NULL;
  }
  const ct_layer_t *l = &p->graph->layer[layer];
  int owner = l->params ? p->graph->param[l->param[0]].layer : layer;
  if (owner == layer || p->graph->layer[owner].ops != l->ops) return NULL;
  const ct_plan_op_t *op = &p->op[p->layer_op[owner]];
  return op->desc.kind == kind ? op->op : NULL;
}

/* Checks that an op has the parameters that it shares in the layout of their owner. */
static int check_shared(const ct_plan_t *p, const ct_plan_op_t *op)
{
  int rc = CT_OK;
  const ct_graph_t *g = p->graph;
  for (int k = 0; op->layer >= 0 && k < g->layer[op->layer].params; k++) {
    const ct_param_t *par = &g->param[g->layer[op->layer].param[k]];
    if (par->layer == op->layer || par->spec.buffer) continue;
    const ct_op_info_t *own = &p->op[p->layer_op[par->layer]].info;
    if (own->param_bytes[par->slot] != op->info.param_bytes[k] ||
        own->param_layout != op->info.param_layout)
      CT_FAIL(CT_ERR_UNSUP,
              "layer %s: backend %s cannot share %s with layer %s, as the two want it in different "
              "layouts: make it a `parameter` layer that both read",
              g->layer[op->layer].name, p->be->name, par->name, g->layer[par->layer].name);
  }
out:
  return rc;
}

static int is_cast(const ct_plan_op_t *op)
{
  return op->desc.kind == CT_OP_REORDER && op->desc.x.dtype != op->desc.y.dtype;
}

/* Returns the output layout of a cast: the layout that its first reader prefers, if the backend can
 * change type and layout at once. */
static ct_layout_t layout_of_cast(const ct_plan_t *p, const ct_plan_op_t *cast,
                                  const ct_plan_op_t *rest, int n)
{
  char why[128];
  int samples = cast->desc.x.dtype == CT_U8 && !ct_op_is_int8(&cast->desc);
  ct_layout_t own = samples ? CT_PLAIN : cast->desc.x.layout;
  for (int i = 1; i < n; i++) {
    if (rest[i].in[0] != cast->out) continue;
    ct_op_desc_t reader = rest[i].desc, both = cast->desc;
    if (reader.kind == CT_OP_REORDER) break;
    reader.x.layout = own;
    both.y.layout = p->be->op->wants(p->dev, &reader);
    if (p->be->op->supports(p->dev, &both, why)) return both.y.layout;
    break;
  }
  return own;
}

/* Returns 1 if an op computes element by element in the layout of its input. */
static int keeps_layout(const ct_plan_op_t *op, const ct_shape_t *image)
{
  ct_op_kind_t k = op->desc.kind;
  if (k != CT_OP_EXPR && k != CT_OP_DROPOUT && k != CT_OP_ADD && k != CT_OP_ACT) return 0;
  return ct_shape_same(&op->desc.y, image);
}

/* Returns the layout that the readers of a strided copy prefer: that of the other summand or of the
 * next convolution, if ops between compute element by element. */
static ct_layout_t layout_of_copy(const ct_plan_t *p, const ct_plan_op_t *rest, int n,
                                  const int *alias)
{
  int v = rest->out;
  for (int i = 1; i < n; i++) {
    const ct_plan_op_t *next = &rest[i];
    ct_op_desc_t d = next->desc;
    int k = 0;
    while (k < CT_OP_INPUTS && next->in[k] != v)
      k++;
    if (k == CT_OP_INPUTS) continue;
    d.x.layout = CT_PLAIN;
    if (d.kind == CT_OP_CONV) return p->be->op->wants(p->dev, &d);
    if (!keeps_layout(next, &rest->desc.y)) return CT_PLAIN;
    ct_layout_t other =
        d.kind == CT_OP_ADD ? p->value[alias[next->in[1 - k]]].shape.layout : CT_PLAIN;
    if (other != CT_PLAIN) return other;
    v = next->out;
  }
  return CT_PLAIN;
}

/* Returns 1 if the output of an op on a plain tensor is this tensor: flatten, reshape, and a
 * permute that moves only dims of size 1. */
static int is_itself(const ct_plan_op_t *op)
{
  if (op->desc.kind == CT_OP_STRIDED) return ct_strided_keeps(&op->desc);
  return op->desc.kind == CT_OP_REORDER && !is_cast(op);
}

static void place(const ct_plan_t *p, ct_plan_op_t *rest, int n, const int *alias)
{
  ct_op_desc_t d = rest->desc;
  d.x.layout = p->value[alias[rest->in[0]]].shape.layout;
  ct__plan_place(p, rest, n, p->be->op->wants(p->dev, &d));
}

/* Prepares rest[0], the next of n ops.  alias[v]: the value that replaces v (flatten of a plain
 * tensor is the tensor itself). */
static int prepare_next(ct_plan_t *p, ct_plan_op_t *rest, int n, int *alias, const ct_plan_t *like)
{
  int rc = CT_OK;
  if (rest->desc.kind == CT_OP_CONCAT) place(p, rest, n, alias);
  ct_plan_op_t op = *rest;
  op.op = op.empty = NULL;
  for (int k = 0; k < CT_OP_INPUTS; k++)
    if (op.in[k] >= 0) op.in[k] = alias[op.in[k]];
  int plain = op.in[0] >= 0 && p->value[op.in[0]].shape.layout == CT_PLAIN;
  if (plain && is_itself(&op)) {
    alias[op.out] = op.in[0];
    return CT_OK;
  }
  op.desc.passes = ct__plan_passes(p, &op);
  if (op.desc.kind == CT_OP_REORDER)
    op.desc.x.layout = p->value[op.in[0]].shape.layout;
  else
    CT_TRY(with_layouts(p, &op));
  if (is_cast(&op)) op.desc.y.layout = layout_of_cast(p, &op, rest, n);
  if (op.desc.kind == CT_OP_STRIDED) {
    op.desc.y.layout = layout_of_copy(p, rest, n, alias);
    op.desc.y.layout = (ct_layout_t)ct_strided_layout(&op.desc);
  }
  CT_TRY(prepare_one(p, &op, twin(p, like, op.layer, op.desc.kind)));
  CT_TRY(check_shared(p, &op));
  op.desc.y.layout = op.info.y_layout;
  if (op.in[1] >= 0 && op.desc.kind == CT_OP_CONV &&
      p->value[op.in[1]].shape.layout != op.info.y_layout) {
    ct_shape_t second = second_of(p, &op);
    CT_TRY(reordered(p, op.in[1], &second, op.info.y_layout, &op.in[1]));
  }
  if (op.out >= 0) {
    p->value[op.out].shape = op.desc.y;
    ct_shape_t around = ct_op_around_y(&op.desc);
    p->value[op.out].bytes = ct_shape_bytes(&around);
  }
  CT_TRY(prepare_empty(p, &op));
  CT_TRY(add_saved(p, &op));
  int o = ct__plan_op(p, &op);
  CT_TRY(o < 0 ? CT_ERR_NOMEM : CT_OK);
  if (op.layer >= 0) p->layer_op[op.layer] = o;
  op.op = op.empty = NULL;
out:
  p->be->op->release(op.op);
  p->be->op->release(op.empty);
  return rc;
}

int ct__plan_prepare(ct_plan_t *p, const ct_plan_t *like)
{
  int rc = CT_OK, n = p->ops, values = p->values;
  ct_plan_op_t *lowered = p->op;
  int *alias = ct_mem_array(values, sizeof *alias, "plan");
  p->op = NULL;
  p->ops = 0;
  p->cap_ops = 0;
  CT_TRY(alias ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < values; i++)
    alias[i] = i;
  for (int i = 0; i < p->graph->layers; i++)
    p->layer_op[i] = -1;
  for (int i = 0; i < n; i++)
    CT_TRY(prepare_next(p, &lowered[i], n - i, alias, like));
  ct__plan_note_outputs(p);
out:
  ct_mem_free(alias);
  ct_mem_free(lowered);
  return rc;
}

int ct_plan_whole_loss(const ct_plan_t *p, int n, ct_op_t **op, size_t *scratch)
{
  int rc = CT_OK;
  ct_op_info_t info;
  ct_op_desc_t d = p->op[p->launch[p->loss_launch].op].desc;
  d.x.dim[0] = d.y.dim[0] = n;
  *op = NULL;
  CT_TRY(p->be->op->prepare(p->dev, &d, NULL, op, &info));
  *scratch = info.scratch;
out:
  return rc;
}

int ct__plan_prepare_helpers(ct_plan_t *p)
{
  int rc = CT_OK;
  for (int i = 0; i < p->ops; i++)
    if (!p->op[i].op) CT_TRY(prepare_one(p, &p->op[i], NULL));
out:
  return rc;
}
