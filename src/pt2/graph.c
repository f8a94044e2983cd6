/* Nodes of a program and the values that they make.  A name must be defined before it is used, so
 * the nodes can run in the order of the file and there are no cycles. */
#include <string.h>

#include "pt2/pt2.h"

enum {
  MOST_NAME = 400, /* bytes of a name, and of a module's path */
  MOST_NESTED = 8  /* subgraphs in subgraphs */
};

/* ---- the user's module ---- */

/* Finds the n-th comma outside of brackets; the end of the text if there are fewer. */
static const char *after_commas(const char *text, const char *end, int n)
{
  int nested = 0;
  for (; text < end; text++) {
    if (*text == '[' || *text == '(') nested++;
    if (*text == ']' || *text == ')') nested--;
    if (*text == ',' && nested == 0 && --n == 0) return text;
  }
  return end;
}

/* Copies a module's path: "L['self'].layers[0].norm" becomes "layers.0.norm". */
static const char *module_path(ct__pt2_t *p, const char *text, size_t n)
{
  static const char *const drop[] = {"L['self']", "L__self__", "_modules["};
  char path[MOST_NAME + 2];
  size_t used = 0;
  for (size_t i = 0; i < n && used < MOST_NAME;) {
    size_t skip = 0;
    for (int k = 0; k < 3 && !skip; k++)
      if (strncmp(text + i, drop[k], strlen(drop[k])) == 0 && (k == 2 || i == 0))
        skip = strlen(drop[k]);
    char c = text[i] == '[' ? '.' : text[i];
    i += skip ? skip : 1;
    if (skip || strchr("]'\"", c)) continue;
    if (c == '.' && (used == 0 || path[used - 1] == '.')) continue;
    path[used++] = c;
  }
  path[used] = '\0';
  return ct__pt2_copy(p, path);
}

/* Sets the path and class of the innermost module from the text "key,path,class;key,path,class". */
static int graph_module(ct__pt2_t *p, const json_t *meta, ct_pt2_node_t *node)
{
  int rc = CT_OK;
  const json_t *stack = json_object_get(meta, "nn_module_stack");
  const char *text = json_string_value(stack), *from, *end, *type;
  node->module = node->type = "";
  if (!text || !ct_text_is_utf8(text)) goto out;
  for (const char *c = text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) goto out;
  from = strrchr(text, ';') ? strrchr(text, ';') + 1 : text;
  end = from + strlen(from);
  if (strncmp(from, "_empty_nn_module_stack", 22) == 0) goto out;
  from = after_commas(from, end, 1);
  if (from == end) goto out;
  from++;
  type = after_commas(from, end, 1);
  node->module = module_path(p, from, (size_t)(type - from));
  node->type = type < end && end - type <= MOST_NAME ? ct__pt2_copy(p, type + 1) : "";
  if (!node->module || !node->type) CT_TRY(CT_ERR_NOMEM);
out:
  return rc;
}

/* ---- nodes ---- */

/* Defines the values that a node makes.  Those that are not tensors are -1. */
static int node_outputs(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *outs, ct_pt2_node_t *node)
{
  int rc = CT_OK;
  int64_t most = 0, n = 0;
  for (size_t i = 0; i < json_array_size(outs); i++) {
    int64_t list = (int64_t)json_array_size(json_object_get(json_array_get(outs, i), "as_tensors"));
    most += list ? list : 1;
  }
  int *out = ct__pt2_alloc(p, most, sizeof *out);
  if (!out) CT_TRY(CT_ERR_NOMEM);
  for (size_t i = 0; i < json_array_size(outs); i++) {
    const json_t *o = json_array_get(outs, i), *list = json_object_get(o, "as_tensors");
    const json_t *one = json_object_get(o, "as_tensor");
    size_t parts = json_array_size(list);
    out[n] = -1;
    if (parts == 0 && one)
      CT_TRY(ct__pt2_define(p, s, json_object_get(one, "name"), CT_PT2_NODE, &out[n]));
    if (parts == 0) n++;
    for (size_t k = 0; k < parts; k++, n++)
      CT_TRY(ct__pt2_define(p, s, json_object_get(json_array_get(list, k), "name"), CT_PT2_NODE,
                            &out[n]));
  }
  node->out = out;
  node->outs = (int)n;
out:
  return rc;
}

/* Python's operators on tensors have names of their own. */
static const char *plain_name(const char *op)
{
  static const char *const names[][2] = {
      {"aten.__and__.", "aten.bitwise_and."}, {"aten.__or__.", "aten.bitwise_or."},
      {"aten.__xor__.", "aten.bitwise_xor."}, {"aten.__iand__.", "aten.bitwise_and_."},
      {"aten.__ior__.", "aten.bitwise_or_."}, {"aten.__ixor__.", "aten.bitwise_xor_."}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strncmp(op, names[i][0], strlen(names[i][0])) == 0) return names[i][1];
  return NULL;
}

/* Sets the op's name and the module. */
static int node_head(ct__pt2_t *p, const json_t *o, ct_pt2_node_t *node)
{
  static const char prefix[] = "torch.ops.";
  int rc = CT_OK;
  const json_t *target = json_object_get(o, "target");
  const char *op = json_string_value(target);
  if (!ct__pt2_is_name(target)) CT_TRY(ct__pt2_damaged(p, "expected the op of each node"));
  if (strncmp(op, prefix, strlen(prefix)) == 0) op += strlen(prefix);
  const char *plain = plain_name(op);
  node->op = plain ? ct__pt2_format(p, "%s%s", plain, strrchr(op, '.') + 1) : ct__pt2_copy(p, op);
  if (!node->op) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(graph_module(p, json_object_get(o, "metadata"), node));
out:
  return rc;
}

static int read_node(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *o)
{
  int rc = CT_OK;
  ct_pt2_node_t node = {0};
  CT_TRY(node_head(p, o, &node));
  CT_TRY(ct__pt2_read_args(p, s, json_object_get(o, "inputs"), &node));
  CT_TRY(ct__pt2_complete(p, &node));
  CT_TRY(node_outputs(p, s, json_object_get(o, "outputs"), &node));
  for (int i = 0; i < node.outs; i++)
    if (node.out[i] >= 0) p->value[node.out[i]].node = p->g.nodes;
  CT_TRY(ct__pt2_add_node(p, &node));
out:
  return rc;
}

/* ---- subgraphs ---- */

/* How the subgraph of a node runs. */
typedef struct wrapper {
  const json_t *graph; /* NULL: not a subgraph that can become part of the graph */
  size_t first;        /* index of the first argument of the subgraph */
  int no_grad, autocast;
} wrapper_t;

static wrapper_t find_wrapper(const json_t *o)
{
  static const struct {
    const char *op;
    size_t at; /* index of the graph among the inputs */
  } known[] = {{"torch.ops.higher_order.wrap_with_set_grad_enabled", 1},
               {"torch.ops.higher_order.wrap_with_autocast", 4}};
  const char *op = json_string_value(json_object_get(o, "target"));
  const json_t *inputs = json_object_get(o, "inputs");
  wrapper_t w = {0};
  for (int k = 0; op && k < 2; k++) {
    if (strcmp(op, known[k].op) != 0) continue;
    const json_t *in = json_object_get(json_array_get(inputs, known[k].at), "arg");
    const json_t *on = json_object_get(json_array_get(inputs, k ? 2 : 0), "arg");
    w.graph = json_object_get(json_object_get(in, "as_graph"), "graph");
    w.first = known[k].at + 1;
    w.no_grad = k == 0 && json_is_false(json_object_get(on, "as_bool"));
    w.autocast = k == 1 && json_is_true(json_object_get(on, "as_bool"));
  }
  return w;
}

/* Gives the inputs of a subgraph the values of the arguments. */
static int bind_inputs(ct__pt2_t *p, const ct__pt2_scope_t *outer, ct__pt2_scope_t *s,
                       const json_t *inputs, const wrapper_t *w)
{
  int rc = CT_OK, v;
  const json_t *list = json_object_get(w->graph, "inputs");
  if (json_array_size(list) + w->first != json_array_size(inputs))
    CT_TRY(ct__pt2_damaged(p, "a subgraph has %zu inputs, expected %zu", json_array_size(list),
                           json_array_size(inputs) - w->first));
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *in = json_object_get(json_array_get(list, i), "as_tensor");
    const json_t *arg = json_object_get(json_array_get(inputs, w->first + i), "arg");
    const json_t *name = json_object_get(in, "name");
    if (!in) continue;
    CT_TRY(ct__pt2_find(p, outer, json_object_get(json_object_get(arg, "as_tensor"), "name"), &v));
    if (!ct__pt2_is_name(name) || json_object_get(s->names, json_string_value(name)))
      CT_TRY(ct__pt2_damaged(p, "a subgraph has an input without a name of its own"));
    if (json_object_set_new(s->names, json_string_value(name), json_integer(v)) != 0)
      CT_FAIL(CT_ERR_NOMEM, "%s: no memory for the names of values", p->g.path);
  }
out:
  return rc;
}

/* Makes the outputs of the node that has a subgraph from those of the subgraph: by
 * aten.detach.default after no_grad(), else by aten.alias.default. */
static int bind_outputs(ct__pt2_t *p, const ct__pt2_scope_t *s, ct_pt2_node_t *node,
                        const wrapper_t *w)
{
  int rc = CT_OK, *from;
  const json_t *list = json_object_get(w->graph, "outputs");
  if (json_array_size(list) != (size_t)node->outs)
    CT_TRY(ct__pt2_damaged(p, "a subgraph has %zu outputs, expected %d", json_array_size(list),
                           node->outs));
  for (int i = 0; i < node->outs; i++) {
    const json_t *o = json_object_get(json_array_get(list, (size_t)i), "as_tensor");
    ct_pt2_node_t one = {.op = w->no_grad ? "aten.detach.default" : "aten.alias.default",
                         .module = node->module,
                         .type = node->type,
                         .args = 1,
                         .known = 1,
                         .out = node->out + i,
                         .outs = 1};
    ct_pt2_arg_t *arg = ct__pt2_alloc(p, 1, sizeof *arg);
    from = ct__pt2_alloc(p, 1, sizeof *from);
    if (!arg || !from) CT_TRY(CT_ERR_NOMEM);
    if (node->out[i] < 0) continue;
    CT_TRY(ct__pt2_find(p, s, json_object_get(o, "name"), from));
    *arg = (ct_pt2_arg_t){.name = "self", .kind = CT_PT2_TENSOR, .n = 1, .tensor = from};
    one.arg = arg;
    p->value[node->out[i]].node = p->g.nodes;
    CT_TRY(ct__pt2_add_node(p, &one));
  }
out:
  return rc;
}

/* Makes the nodes of a subgraph part of the graph. */
static int read_wrapped(ct__pt2_t *p, ct__pt2_scope_t *outer, const json_t *o, const wrapper_t *w)
{
  int rc = CT_OK;
  ct_pt2_node_t node = {0};
  ct__pt2_scope_t s = {.tensors = json_object_get(w->graph, "tensor_values"),
                       .ints = json_object_get(w->graph, "sym_int_values"),
                       .names = json_object(),
                       .prefix = ct__pt2_format(p, "g%d.", ++p->scopes),
                       .depth = outer->depth + 1,
                       .no_grad = outer->no_grad || w->no_grad};
  if (!s.names || !s.prefix) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(node_head(p, o, &node));
  if (s.depth > MOST_NESTED || (outer->no_grad && !w->no_grad && !w->autocast))
    CT_TRY(ct_pt2_refuse(&p->g, &node, CT_ERR_UNSUP,
                         s.depth > MOST_NESTED ? "its subgraphs are nested too deeply"
                                               : "enable_grad() in no_grad() is not supported"));
  p->g.autocast |= w->autocast;
  CT_TRY(bind_inputs(p, outer, &s, json_object_get(o, "inputs"), w));
  CT_TRY(ct__pt2_read_nodes(p, &s, w->graph));
  CT_TRY(node_outputs(p, outer, json_object_get(o, "outputs"), &node));
  CT_TRY(bind_outputs(p, &s, &node, w));
out:
  json_decref(s.names);
  return rc;
}

int ct__pt2_read_nodes(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *graph)
{
  int rc = CT_OK;
  const json_t *nodes = json_object_get(graph, "nodes");
  if (!json_is_array(nodes)) CT_TRY(ct__pt2_damaged(p, "it has no list of nodes"));
  for (size_t i = 0; i < json_array_size(nodes); i++) {
    wrapper_t w = find_wrapper(json_array_get(nodes, i));
    if (w.graph)
      CT_TRY(read_wrapped(p, s, json_array_get(nodes, i), &w));
    else
      CT_TRY(read_node(p, s, json_array_get(nodes, i)));
  }
out:
  return rc;
}
