/* Removes nodes that return their first argument: their users use the argument. */
#include "pt2/pt2.h"

/* Whether two values have the same shape; unclear sizes are not the same. */
static int same_shape(const ct__pt2_t *p, int v, int w)
{
  const ct_pt2_value_t *x = &p->value[v], *y = &p->value[w];
  int same = x->ndim == y->ndim;
  for (int i = 0; i < x->ndim && same; i++)
    same = x->dim[i].n == y->dim[i].n && x->dim[i].batch == y->dim[i].batch &&
           x->dim[i].batch != CT__PT2_UNCLEAR;
  return same;
}

static int find_op(const ct_pt2_node_t *node, const char *const *ops)
{
  for (; *ops; ops++)
    if (ct_pt2_is(node, *ops)) return 1;
  return 0;
}

static int step_is_1(const ct_pt2_node_t *node)
{
  const ct_pt2_arg_t *step = ct_pt2_arg(node, "step");
  return !step || step->kind == CT_PT2_NONE || (step->kind == CT_PT2_INT && step->dim[0].n == 1);
}

/* A tensor argument; -1: there is none of this name. */
static int tensor_of(const ct_pt2_node_t *node, const char *name)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  return a && a->kind == CT_PT2_TENSOR ? a->tensor[0] : -1;
}

static int same_number(const ct_pt2_arg_t *a, const ct_pt2_arg_t *b)
{
  if (!a || !b || a->kind != b->kind) return !a && !b;
  return a->kind == CT_PT2_NONE || (a->kind == CT_PT2_INT && a->dim[0].n == b->dim[0].n &&
                                    a->dim[0].batch == 0 && b->dim[0].batch == 0);
}

/* The node that made `whole`, if it put something into the part of it that `node` names, by
 * slice_scatter or select_scatter; NULL: it did not. */
static const ct_pt2_node_t *same_part(const ct__pt2_t *p, const ct_pt2_node_t *node, int whole)
{
  static const char *const names[] = {"dim", "start", "end", "step", "index"};
  int select = ct_pt2_is(node, "aten.select") || ct_pt2_is(node, "aten.select_scatter");
  int by = p->value[whole].node;
  if (by < 0 || !ct_pt2_is(&p->node[by], select ? "aten.select_scatter" : "aten.slice_scatter"))
    return NULL;
  for (int i = 0; i < 5; i++)
    if (!same_number(ct_pt2_arg(node, names[i]), ct_pt2_arg(&p->node[by], names[i]))) return NULL;
  return &p->node[by];
}

/* The part that was put into a value and is read from it, or the value into which the same part was
 * put before; -1: none. */
static int equal_part(const ct__pt2_t *p, const ct_pt2_node_t *node, int whole)
{
  int reads = ct_pt2_is(node, "aten.slice") || ct_pt2_is(node, "aten.select");
  int puts = ct_pt2_is(node, "aten.slice_scatter") || ct_pt2_is(node, "aten.select_scatter");
  const ct_pt2_node_t *by = reads || puts ? same_part(p, node, whole) : NULL;
  if (!by) return -1;
  if (reads) return p->more[tensor_of(by, "src")].now;
  return p->more[tensor_of(by, "src")].now == tensor_of(node, "src") ? whole : -1;
}

/* The value that the only output of a node is equal to; -1: none. */
static int equal_value(const ct__pt2_t *p, const ct_pt2_node_t *node)
{
  static const char *const same[] = {"aten.alias",       "aten.clone",
                                     "aten.contiguous",  "aten.lift",
                                     "aten.lift_fresh",  "aten.lift_fresh_copy",
                                     "aten.positive",    "aten.resolve_conj",
                                     "aten.resolve_neg", NULL};
  static const char *const shapes[] = {"aten.view",
                                       "aten.reshape",
                                       "aten.expand",
                                       "aten.flatten",
                                       "aten.squeeze",
                                       "aten.unflatten",
                                       "aten.view_as",
                                       "aten.expand_as",
                                       "aten._unsafe_view",
                                       "aten.reshape_as",
                                       "aten.sum_to_size",
                                       "aten.broadcast_to",
                                       NULL};
  static const char *const types[] = {"aten.to", "aten._to_copy", "aten.type_as", NULL};
  int x = node->args > 0 && node->arg[0].kind == CT_PT2_TENSOR ? node->arg[0].tensor[0] : -1;
  int y = node->outs == 1 ? node->out[0] : -1, src = tensor_of(node, "src");
  if (x < 0 || y < 0 || !node->known || p->value[x].type != p->value[y].type) return -1;
  int part = equal_part(p, node, x);
  if (part >= 0 && same_shape(p, part, y) && p->value[part].type == p->value[y].type) return part;
  if (ct_pt2_is(node, "aten.slice_scatter"))
    return src >= 0 && p->value[src].type == p->value[y].type && same_shape(p, src, y) &&
                   step_is_1(node)
               ? src
               : -1;
  if (!same_shape(p, x, y)) return -1;
  if (find_op(node, same) || find_op(node, shapes) || find_op(node, types)) return x;
  if (ct_pt2_is(node, "aten.slice") && step_is_1(node)) return x;
  if (ct_pt2_is(node, "aten.detach") && !(p->value[x].on & CT_PT2_ON_PARAMETER)) return x;
  if (ct_pt2_is(node, "aten.dropout")) {
    const ct_pt2_arg_t *a = ct_pt2_arg(node, "p");
    if (a && a->kind == CT_PT2_FLOAT && a->number[0] == 0) return x;
  }
  return -1;
}

static int simplify_now(ct__pt2_t *p, const ct_pt2_node_t *node, int v, int *out)
{
  (void)node;
  *out = p->more[v].now;
  return CT_OK;
}

int ct__pt2_simplify(ct__pt2_t *p)
{
  int rc = CT_OK;
  ct_pt2_output_t *list = ct__pt2_alloc(p, p->g.outputs, sizeof *list);
  if (!list) CT_TRY(CT_ERR_NOMEM);
  for (int v = 0; v < p->g.values; v++)
    p->more[v].now = v;
  for (int i = 0; i < p->g.nodes; i++) {
    CT_TRY(ct__pt2_set_tensors(p, &p->node[i], simplify_now));
    int same = equal_value(p, &p->node[i]);
    if (same >= 0) p->more[p->node[i].out[0]].now = same;
  }
  for (int i = 0; i < p->g.outputs; i++) {
    list[i] = p->g.output[i];
    if (list[i].value >= 0) list[i].value = p->more[list[i].value].now;
  }
  p->g.output = list;
  for (int v = 0; v < p->g.values; v++)
    if (p->value[v].becomes >= 0) p->value[v].becomes = p->more[p->value[v].becomes].now;
out:
  return rc;
}
