/* Which nodes have an effect on the outputs, what each value depends on, and whether the shapes
 * that matter can be represented. */
#include <string.h>

#include "base/ct_mem.h"
#include "pt2/pt2.h"

int ct__pt2_shape_only(const ct_pt2_node_t *node, const ct_pt2_arg_t *arg)
{
  static const struct {
    const char *op, *arg;
  } known[] = {{"aten.zeros_like", "self"},        {"aten.ones_like", "self"},
               {"aten.full_like", "self"},         {"aten.empty_like", "self"},
               {"aten.new_zeros", "self"},         {"aten.new_ones", "self"},
               {"aten.new_full", "self"},          {"aten.new_empty", "self"},
               {"aten.rand_like", "self"},         {"aten.randn_like", "self"},
               {"aten.expand_as", "other"},        {"aten.view_as", "other"},
               {"aten.randint_like", "self"},      {"aten.reshape_as", "other"},
               {"aten.type_as", "other"},          {"aten.uniform", "self"},
               {"aten.normal_functional", "self"}, {"aten.bernoulli.p", "self"},
               {"aten.to.other", "other"}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if ((ct_pt2_is(node, known[i].op) || strcmp(node->op, known[i].op) == 0) &&
        strcmp(arg->name, known[i].arg) == 0)
      return 1;
  return 0;
}

static int is_random(const ct_pt2_node_t *node)
{
  static const char *const ops[] = {"aten.rand",      "aten.randn",       "aten.randint",
                                    "aten.rand_like", "aten.randn_like",  "aten.randperm",
                                    "aten.bernoulli", "aten.uniform",     "aten.multinomial",
                                    "aten.normal",    "aten.geometric",   "aten.normal_functional",
                                    "aten.poisson",   "aten.randint_like"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (ct_pt2_is(node, ops[i])) return 1;
  return 0;
}

/* ---- effects ---- */

/* Marks the nodes that are needed, from the last one back; uses counts the uses of each value. */
static void mark_needed(ct__pt2_t *p)
{
  for (int v = 0; v < p->g.values; v++)
    p->value[v].uses = 0;
  for (int i = 0; i < p->g.outputs; i++)
    if (p->g.output[i].value >= 0) p->value[p->g.output[i].value].uses++;
  for (int i = p->g.nodes - 1; i >= 0; i--) {
    ct_pt2_node_t *node = &p->node[i];
    node->live = 0;
    for (int k = 0; k < node->outs && !node->live; k++)
      node->live = node->out[k] >= 0 && p->value[node->out[k]].uses > 0;
    if (!node->live) continue;
    for (int a = 0; a < node->args; a++) {
      if (ct__pt2_shape_only(node, &node->arg[a])) continue;
      for (int k = 0; node->arg[a].tensor && k < node->arg[a].n; k++)
        if (node->arg[a].tensor[k] >= 0) p->value[node->arg[a].tensor[k]].uses++;
    }
  }
}

static unsigned node_on(const ct__pt2_t *p, const ct_pt2_node_t *node)
{
  unsigned on = is_random(node) ? CT_PT2_ON_RANDOM : 0;
  for (int a = 0; a < node->args; a++) {
    const ct_pt2_arg_t *arg = &node->arg[a];
    if (ct__pt2_shape_only(node, arg)) continue;
    for (int k = 0; arg->tensor && k < arg->n; k++)
      if (arg->tensor[k] >= 0) on |= p->value[arg->tensor[k]].on;
  }
  return on;
}

void ct__pt2_mark_live(ct__pt2_t *p)
{
  static const unsigned own[] = {[CT_PT2_INPUT] = CT_PT2_ON_INPUT,
                                 [CT_PT2_PARAMETER] = CT_PT2_ON_PARAMETER,
                                 [CT_PT2_BUFFER] = CT_PT2_ON_BUFFER,
                                 [CT_PT2_FOLDED] = 0};
  mark_needed(p);
  for (int v = 0; v < p->g.values; v++)
    p->value[v].on = own[p->value[v].kind];
  for (int i = 0; i < p->g.nodes; i++) {
    unsigned on = node_on(p, &p->node[i]);
    for (int k = 0; k < p->node[i].outs; k++)
      if (p->node[i].out[k] >= 0) p->value[p->node[i].out[k]].on = on;
  }
}

/* ---- shapes ---- */

static int check_value(const ct__pt2_t *p, const ct_pt2_node_t *node, int v)
{
  char text[200];
  const ct_pt2_value_t *is = &p->value[v];
  for (int i = 0; i < is->ndim; i++) {
    if (is->dim[i].batch != CT__PT2_UNCLEAR) continue;
    if (is->kind == CT_PT2_INPUT)
      return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__,
                        "%s: input '%s' has dims that vary independently of each other (%s, dim "
                        "%d): export the model with one dynamic size, the batch",
                        p->g.path, is->name, ct_pt2_shape(is, text, sizeof text), i);
    return ct_pt2_refuse(&p->g, node, CT_ERR_UNSUP,
                         "the size of '%s' in dim %d is neither a number nor a multiple of the "
                         "batch size N (%s)",
                         is->name, i, ct_pt2_shape(is, text, sizeof text));
  }
  return CT_OK;
}

/* A constant along the batch is refused, unless all its elements along the batch are equal: then it
 * was computed. */
static int check_constant(const ct__pt2_t *p, const ct_pt2_node_t *node)
{
  static const char *const ops[] = {"aten.arange",   "aten.linspace",     "aten.eye",
                                    "aten.randperm", "aten.tril_indices", "aten.triu_indices"};
  for (int k = 0; k < node->args; k++)
    for (size_t i = 0; i < sizeof ops / sizeof *ops && node->arg[k].dim; i++)
      if (ct_pt2_is(node, ops[i]) && node->arg[k].n > 0 && node->arg[k].dim[0].batch)
        return ct_pt2_refuse(&p->g, node, CT_ERR_UNSUP,
                             "makes numbers that depend on the position in the batch, which is not "
                             "supported");
  return CT_OK;
}

int ct__pt2_check_shapes(ct__pt2_t *p)
{
  int rc = CT_OK;
  static const ct_pt2_node_t none = {.op = "forward()", .module = ""};
  for (int i = 0; i < p->g.inputs; i++)
    CT_TRY(check_value(p, &none, p->g.input[i]));
  for (int i = 0; i < p->g.nodes; i++) {
    const ct_pt2_node_t *node = &p->node[i];
    if (!node->live) continue;
    CT_TRY(check_constant(p, node));
    for (int k = 0; k < node->outs; k++)
      if (node->out[k] >= 0 && p->value[node->out[k]].uses)
        CT_TRY(check_value(p, node, node->out[k]));
  }
out:
  return rc;
}
