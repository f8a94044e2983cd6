/* Adds layers to a graph by name, and reads the YAML list `layers`; ct_graph.h describes its
 * syntax.  Errors give file and line, so everything that can be wrong in a model is checked during
 * reading. */
#include "model/graph_build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "conf/ct_opt_short.h"
#include "model/ct_layers.h"

/* A parsed item of the list. */
typedef struct item {
  const ct_yaml_t *node;
  const ct_layer_ops_t *ops;
  const ct_yaml_t *opts;    /* NULL: none */
  const char *name;         /* NULL: not given */
  const ct_yaml_t *from;    /* NULL: not given */
  const ct_yaml_t *weights; /* NULL: not given */
  const ct_yaml_t *share;   /* NULL: not given */
} item_t;

static int fail_at(const char *where, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail_at(const char *where, int line, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  int rc = ct_err_vset(CT_ERR_USAGE, __FILE__, __LINE__, fmt, args);
  va_end(args);
  return ct_err_location(rc, where, line);
}

/* ---- an item ---- */

/* Keeps in *best the candidate that is nearest to word. */
static void nearer(const char *word, const char *candidate, const char **best)
{
  const char *both[2] = {*best, candidate};
  const char *found = *best ? ct_text_nearest(word, both, 2) : ct_text_nearest(word, &candidate, 1);
  if (found) *best = found;
}

static int unknown_kind(const char *word, const char *where, int line)
{
  const char *best = NULL;
  char kinds[400] = "";
  size_t len = 0;
  for (int i = 0; ct_layer_kinds[i]; i++) {
    const char *kind = ct_layer_kinds[i]->kind;
    nearer(word, kind, &best);
    if (len < sizeof kinds)
      len += (size_t)snprintf(kinds + len, sizeof kinds - len, "%s%s", i ? ", " : "", kind);
  }
  nearer(word, "name", &best);
  nearer(word, "from", &best);
  nearer(word, "weights", &best);
  nearer(word, "share", &best);
  if (best)
    return fail_at(where, line,
                   "'%.100s' is neither a kind of layer nor 'name', 'from', 'weights' or 'share'; "
                   "did you mean '%s'?",
                   word, best);
  return fail_at(where, line, "'%.100s' is not a kind of layer; the kinds are %s", word, kinds);
}

static int take_kind(item_t *it, const char *word, const ct_yaml_t *opts, const char *where)
{
  int line = opts ? opts->line : it->node->line;
  const ct_layer_ops_t *ops = ct_layer_find(word);
  if (!ops) return unknown_kind(word, where, line);
  if (it->ops)
    return fail_at(where, line, "one layer cannot be both %s and %s: begin a new one with '- '",
                   it->ops->kind, word);
  it->ops = ops;
  it->opts = opts;
  return CT_OK;
}

static int take_item(const ct_yaml_t *node, const char *where, item_t *it)
{
  int rc = CT_OK;
  *it = (item_t){.node = node};
  if (node->kind == CT_YAML_LIST) return fail_at(where, node->line, "a layer is a map, not a list");
  if (node->kind == CT_YAML_SCALAR) CT_TRY(take_kind(it, node->text, NULL, where));
  for (const ct_yaml_t *n = node->child; n; n = n->next) {
    if (strcmp(n->key, "from") == 0) {
      it->from = n;
    } else if (strcmp(n->key, "name") == 0) {
      if (n->kind != CT_YAML_SCALAR) return fail_at(where, n->line, "name: expected a word");
      it->name = n->text;
    } else if (strcmp(n->key, "weights") == 0) {
      it->weights = n;
    } else if (strcmp(n->key, "share") == 0) {
      it->share = n;
    } else {
      CT_TRY(take_kind(it, n->key, n, where));
    }
  }
  if (!it->ops)
    return fail_at(where, node->line, "this layer has no kind (such as conv2d, linear, relu)");
out:
  return rc;
}

/* ---- its inputs and its name ---- */

static int unknown_input(const ct_graph_t *g, const ct_yaml_t *from, const char *where)
{
  char have[300];
  if (g->extra.n == 0)
    return fail_at(where, from->line,
                   "from: the data gives one input, 'input', and no '%s': name its array in "
                   "data.input",
                   from->text);
  return fail_at(where, from->line, "from: unknown input '%s'; the extra inputs of the data are %s",
                 from->text, ct_inputs_text(&g->extra, have, sizeof have));
}

/* Finds the layer that a value names. */
static int find_layer(const ct_graph_t *g, const ct_yaml_t *of, const char *where, int *layer)
{
  const char *best = NULL;
  for (int i = 0; i < g->layers; i++) {
    if (strcmp(g->layer[i].name, of->text) == 0) {
      *layer = i;
      return CT_OK;
    }
    nearer(of->text, g->layer[i].name, &best);
  }
  return fail_at(where, of->line, "%s: no layer before this one is called '%s'%s%s%s",
                 of->key ? of->key : "from", of->text, best ? "; did you mean '" : "",
                 best ? best : "", best ? "'?" : "");
}

static int find_input(const ct_graph_t *g, const ct_yaml_t *from, const char *where, int *in)
{
  if (from->kind != CT_YAML_SCALAR || !from->text[0])
    return fail_at(where, from->line, "from: expected the name of a layer, or a list of two");
  *in = -1;
  if (strcmp(from->text, "input") == 0) return CT_OK;
  for (int k = 0; k < g->extra.n && strncmp(from->text, "input.", 6) == 0; k++) {
    if (strcmp(g->extra.name[k], from->text + 6) != 0) continue;
    *in = CT__INPUT_EXTRA(k);
    return CT_OK;
  }
  if (strncmp(from->text, "input.", 6) == 0) return unknown_input(g, from, where);
  return find_layer(g, from, where, in);
}

/* Returns 1 for a kind that takes any number of inputs: as a chain of layers. */
static int is_chain(const ct_layer_ops_t *ops)
{
  static const char *const chains[] = {"add", "mul", "minimum", "maximum"};
  for (int i = 0; i < 4; i++)
    if (strcmp(ops->kind, chains[i]) == 0) return 1;
  return ops->op == CT_OP_CONCAT;
}

/* Returns the number of layers that an item of the list becomes. */
static int layers_of(const item_t *it)
{
  int inputs = it->from && it->from->kind == CT_YAML_LIST ? ct_yaml_count(it->from) : 1;
  return is_chain(it->ops) && inputs > it->ops->inputs ? inputs - it->ops->inputs + 1 : 1;
}

static int read_inputs(const ct_graph_t *g, const item_t *it, const char *where,
                       int in[CT_OP_INPUTS])
{
  int rc = CT_OK, n = 0;
  const ct_yaml_t *from = it->from;
  for (int i = 0; i < CT_OP_INPUTS; i++)
    in[i] = CT__NO_INPUT;
  /* by default the previous layer; for the first one the network's input, -1 */
  if (!from && it->ops->inputs) in[0] = g->layers - 1;
  if (!from) return CT_OK;
  if (from->kind != CT_YAML_LIST) return find_input(g, from, where, &in[0]);
  int most = is_chain(it->ops) ? it->ops->inputs : CT_OP_INPUTS;
  if (ct_yaml_count(from) < 1 || (ct_yaml_count(from) > most && !is_chain(it->ops)))
    return fail_at(where, from->line, "from: a list must have 1 to %d names, not %d", CT_OP_INPUTS,
                   ct_yaml_count(from));
  for (const ct_yaml_t *one = from->child; one && n < most; one = one->next)
    CT_TRY(find_input(g, one, where, &in[n++]));
  if (it->ops->swaps && n == 2) {
    int first = in[0];
    in[0] = in[1];
    in[1] = first;
  }
out:
  return rc;
}

/* Reads `weights`, the names of the parameters by slot. */
static int read_names(const item_t *it, const char *where, const char *names[CT_LAYER_PARAMS])
{
  int n = 0;
  const ct_yaml_t *list = it->weights;
  if (!list) return CT_OK;
  if (list->kind != CT_YAML_LIST || ct_yaml_count(list) > CT_LAYER_PARAMS)
    return fail_at(where, list->line, "weights: expected a list of up to %d names of parameters",
                   CT_LAYER_PARAMS);
  for (const ct_yaml_t *one = list->child; one; one = one->next) {
    if (one->kind != CT_YAML_SCALAR || !one->text[0])
      return fail_at(where, one->line, "weights: expected the name of a parameter");
    names[n++] = one->text;
  }
  return CT_OK;
}

/* Finds the layer whose parameters the item takes. */
static int find_owner(const ct_graph_t *g, const item_t *it, const char *where, int *owner)
{
  int rc = CT_OK;
  const ct_yaml_t *of = it->share;
  if (of->kind != CT_YAML_SCALAR || !of->text[0])
    return fail_at(where, of->line, "share: expected the name of a layer");
  if (it->weights) return fail_at(where, of->line, "share: the layer has `weights` already");
  CT_TRY(find_layer(g, of, where, owner));
  for (int i = *owner - 1; i >= 0 && g->layer[i].inserted && g->layer[*owner].ops != it->ops; i--)
    if (g->layer[i].ops == it->ops) *owner = i; /* one of the layers that it stands for */
  const ct_layer_t *l = &g->layer[*owner];
  if (l->ops != it->ops)
    return fail_at(where, of->line, "share: layer '%s' is of the kind %s, not %s", l->name,
                   l->ops->kind, it->ops->kind);
  if (!l->params)
    return fail_at(where, of->line, "share: layer '%s' (%s) has no parameters", l->name,
                   l->ops->kind);
out:
  return rc;
}

static int is_name(const ct_graph_t *g, const char *name)
{
  for (int i = 0; i < g->layers; i++)
    if (strcmp(g->layer[i].name, name) == 0) return 1;
  return 0;
}

/* Makes the default name of a layer: its kind and a running number.  Layers that stand for others
 * are not counted, but the last of those has the name. */
static void number_name(const ct_graph_t *g, const ct_layer_ops_t *ops, char *buf, size_t cap)
{
  int n = 1;
  for (int i = 0; i < g->layers; i++)
    n += g->layer[i].ops == ops;
  snprintf(buf, cap, "%s%d", ops->kind, n);
  while (ops->expands && is_name(g, buf))
    snprintf(buf, cap, "%s%d", ops->kind, ++n);
}

/* Appends layer `at` of the `all` of an item, whose first inputs are in[]. */
static int append_one(ct_graph_t *g, const item_t *it, const char *name, int at, int all,
                      const int inputs[CT_OP_INPUTS], const char *where)
{
  int rc = CT_OK, id, owner = -1, in[] = {inputs[0], inputs[1], inputs[2]};
  const char *names[CT_LAYER_PARAMS] = {NULL};
  char own[2 * CT_NAME_MAX], shared[CT_LAYER_PARAMS][CT_NAME_MAX];
  void *opts;
  ct_yaml_t none = {.kind = CT_YAML_MAP, .line = it->node->line};
  CT_TRY(read_names(it, where, names));
  if (it->share) CT_TRY(find_owner(g, it, where, &owner));
  for (int k = 0; owner >= 0 && k < g->layer[owner].params; k++) {
    ct_text_fit(shared[k], sizeof shared[k], "%s", g->param[g->layer[owner].param[k]].name);
    names[k] = shared[k];
  }
  CT_TRY(ct__layer_options(it->ops, it->opts ? it->opts : &none, where, &opts));
  if (at < all - 1)
    snprintf(own, sizeof own, "%.*s.%d", CT_NAME_MAX, name, at + 1);
  else
    snprintf(own, sizeof own, "%.*s", CT_NAME_MAX, name);
  rc = ct__graph_expand(g, &id, own, it->ops, opts, in, names);
  if (rc != CT_OK) return ct_err_location(rc, where, it->node->line);
  g->layer[id].inserted = at < all - 1;
  if (owner >= 0 && !it->ops->expands && g->layer[owner].params != g->layer[id].params)
    return fail_at(where, it->share->line, "share: layer '%s' has %d parameters, '%s' has %d",
                   g->layer[owner].name, g->layer[owner].params, own, g->layer[id].params);
out:
  return rc;
}

static int read_layer(ct_graph_t *g, const ct_yaml_t *node, const char *where)
{
  int rc = CT_OK, in[CT_OP_INPUTS];
  item_t it;
  char name[CT_NAME_MAX];
  CT_TRY(take_item(node, where, &it));
  CT_TRY(read_inputs(g, &it, where, in));
  if (!it.name) number_name(g, it.ops, name, sizeof name);
  int all = layers_of(&it);
  const ct_yaml_t *more = all > 1 ? it.from->child : NULL;
  for (int i = 0; more && i < it.ops->inputs; i++)
    more = more->next;
  for (int i = 0; i < all; i++) {
    CT_TRY(append_one(g, &it, it.name ? it.name : name, i, all, in, where));
    if (!more) break;
    in[0] = g->layers - 1;
    CT_TRY(find_input(g, more, where, &in[1]));
    more = more->next;
  }
out:
  return rc;
}

/* Writes the name of an input of a layer. */
static void input_name(const ct_graph_t *g, int in, char name[CT_NAME_MAX])
{
  int k = ct_graph_extra(in);
  ct_text_fit(name, CT_NAME_MAX, "%s%s%s", in < 0 ? "input" : g->layer[in].name, k < 0 ? "" : ".",
              k < 0 ? "" : g->extra.name[k]);
}

/* Appends the layers of a text; the names of all but the last one are inner ones. */
static int read_text(ct_graph_t *g, const ct_str_t *text, int *id)
{
  int rc = CT_OK, first = g->layers;
  CT_TRY(ct_graph_add_text(g, text->data));
  *id = g->layers - 1;
  for (int i = first; i < *id; i++)
    g->layer[i].inserted = 1;
out:
  return rc;
}

int ct__graph_expand(ct_graph_t *g, int *id, const char *name, const ct_layer_ops_t *ops,
                     void *opts, const int in[CT_OP_INPUTS], const char *const *names)
{
  int rc = CT_OK;
  char from[CT_OP_INPUTS][CT_NAME_MAX];
  ct_shape_t x[CT_OP_INPUTS] = {{.ndim = 0}};
  ct_str_t text = {0};
  for (int k = 0; ops->expands && k < CT_OP_INPUTS && in[k] != CT__NO_INPUT; k++) {
    const ct_shape_t *shape = ct__graph_shape(g, in[k]);
    if (!shape) break;
    x[k] = *shape;
    input_name(g, in[k], from[k]);
  }
  if (!x[0].ndim) return ct__graph_append(g, id, name, ops, opts, in, names);
  rc = ops->expands(opts, x, name, from[0], names, &text);
  if (rc != CT_OK) ct_err_prefix(rc, "layer '%.*s' (%s): ", CT_NAME_MAX, name, ops->kind);
  if (rc == CT_OK && !text.data) return ct__graph_append(g, id, name, ops, opts, in, names);
  ct__layer_options_free(ops, opts);
  CT_TRY(rc);
  CT_TRY(read_text(g, &text, id));
out:
  ct_str_clear(&text);
  return rc;
}

/* ---- a layer of a family ---- */

/* Parses the options text of ct_graph_add() into a map. */
static int parse_options(const char *fmt, va_list args, const char *name, ct_yaml_t **out)
{
  char text[256];
  int n = vsnprintf(text + 1, sizeof text - 2, fmt, args);
  if (n < 0 || (size_t)n >= sizeof text - 2)
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "the options are too long");
  text[0] = '{';
  text[n + 1] = '}';
  text[n + 2] = '\0';
  return ct_yaml_parse(text, (size_t)n + 2, name, out);
}

int ct_graph_add_text(ct_graph_t *g, const char *text)
{
  int rc = CT_OK;
  ct_yaml_t *list = NULL;
  CT_TRY(ct_yaml_parse(text, strlen(text), "layers", &list));
  for (const ct_yaml_t *node = list->child; node; node = node->next)
    CT_TRY(read_layer(g, node, NULL));
out:
  ct_yaml_free(list);
  return rc;
}

int ct_graph_prefix(ct_graph_t *g, const char *words, ...)
{
  va_list args;
  va_start(args, words);
  int n = words ? vsnprintf(g->prefix, sizeof g->prefix, words, args) : 0;
  va_end(args);
  if (!words) g->prefix[0] = '\0';
  if (n >= 0 && n < CT_NAME_MAX) return CT_OK;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a layer's prefix is too long");
}

int ct_graph_add(ct_graph_t *g, int *id, const char *name, const char *kind, int in, int in2,
                 const char *opts, ...)
{
  int rc = CT_OK;
  void *values;
  char full[CT_NAME_MAX];
  ct_yaml_t *map = NULL;
  const ct_layer_ops_t *ops = ct_layer_find(kind);
  CT_TRY(ct_text_format(full, sizeof full, "%s%s", g->prefix, name));
  if (!ops) CT_FAIL(CT_ERR_ARG, "layer '%s': unknown kind '%s'", name, kind);
  if (opts) {
    va_list args;
    va_start(args, opts);
    rc = parse_options(opts, args, name, &map);
    va_end(args);
    CT_TRY(rc);
  }
  CT_TRY(ct__layer_options(ops, map, NULL, &values));
  CT_TRY(ct__graph_expand(g, id, full, ops, values,
                          (const int[CT_OP_INPUTS]){in, in2, CT__NO_INPUT}, NULL));
out:
  ct_yaml_free(map);
  return rc;
}

/* ---- the list ---- */

static int is_used(const ct_graph_t *g, int layer)
{
  for (int j = layer + 1; j < g->layers; j++)
    for (int k = 0; k < g->layer[j].inputs; k++)
      if (g->layer[j].in[k] == layer) return 1;
  return ct_graph_is_output(g, layer);
}

/* Refuses layers that nothing reads: their parameters would have no gradients.  A parameter or
 * buffer may stand alone, to be kept for state dicts; it is not trained. */
static int check_used(ct_graph_t *g, const ct_yaml_t *list, const char *where)
{
  const ct_yaml_t *node = list->child;
  for (int i = 0; i < g->layers; i++) {
    const ct_layer_t *l = &g->layer[i];
    const ct_yaml_t *at = node;
    if (!l->inserted) node = node->next;
    if (l->inserted || is_used(g, i)) continue;
    if (l->ops->op != CT_OP_OPERAND)
      return fail_at(where, at->line, "layer '%s' (%s): no other layer uses its output%s", l->name,
                     l->ops->kind, g->outputs ? ", and model.outputs does not name it" : "");
    if (g->param[l->param[0]].uses == 1) g->param[l->param[0]].frozen = 1;
  }
  return CT_OK;
}

static const ct_opt_t *options_of(const char *kind)
{
  const ct_layer_ops_t *ops = ct_layer_find(kind);
  return ops ? ops->opts : NULL;
}

int ct_layers_expand(ct_yaml_t *list)
{
  return ct_opt_expand(list, options_of);
}

int ct__graph_read(ct_graph_t *g, const ct_yaml_t *list, const ct_opt_texts_t *outputs,
                   int64_t classes, const char *where)
{
  int rc = CT_OK, line = list->line;
  CT_TRY(ct_layers_expand((ct_yaml_t *)(uintptr_t)list)); /* expands abbreviations in place */
  where = where ? ct_yaml_file(list, where) : NULL;
  if (list->kind != CT_YAML_LIST || !list->child)
    return fail_at(where, line, "model.layers: expected a list of layers");
  for (const ct_yaml_t *node = list->child; node; node = node->next) {
    line = node->line;
    CT_TRY(read_layer(g, node, where));
  }
  rc = ct__graph_set_outputs(g, outputs);
  if (rc != CT_OK) return ct_err_location(rc, where, list->line);
  CT_TRY(check_used(g, list, where));
  rc = ct__graph_check_output(g, classes);
  if (rc != CT_OK) ct_err_location(rc, where, line);
out:
  return rc;
}
