/* Makes the program functional: no node changes a value.
 *
 * An op that changes its first argument ("aten.relu_") becomes the op that makes a new value
 * ("aten.relu"), and the value's users get the new one from there on: more.now.  If the argument is
 * a view, the new content goes back into the tensor that it is a view of, step by step up to the
 * root, which owns the memory.  Each change of a root is counted; another view of the root whose
 * count is behind is made again before its next use.  This is what torch.func.functionalize() does.
 *
 * Whether some ops, such as reshape of a tensor with gaps, return a view is decided by PyTorch at
 * run time.  Roots that may share memory for this reason are a group; a use of one of them after a
 * change of another is refused. */
#include <string.h>

#include "base/ct_mem.h"
#include "pt2/pt2.h"

enum { MOST_NESTED = 64 /* views of views */ };

/* ---- the current content of a value ---- */

/* Refuses the use of a value that may have been changed with another one. */
static int check_suspect(const ct__pt2_t *p, const ct_pt2_node_t *node, int v)
{
  const ct__pt2_more_t *root = &p->more[p->more[v].root], *group = &p->more[root->group];
  if (group->suspect < 0 || group->suspect == p->more[v].root || root->born >= group->suspect_at)
    return CT_OK;
  return ct_pt2_refuse(
      &p->g, node, CT_ERR_UNSUP,
      "uses '%s', which may share memory with a tensor that an op in place changed "
      "before; use the op that is not in place",
      p->value[v].name);
}

/* Finds the content of a value now; appends nodes that make views again. */
static int change_now(ct__pt2_t *p, const ct_pt2_node_t *node, int v, int *out)
{
  int rc = CT_OK, chain[MOST_NESTED], n = 0, w = v;
  const int root = p->more[v].root, *made;
  CT_TRY(check_suspect(p, node, v));
  for (; p->more[w].age != p->more[root].changes; w = p->more[w].view_of) {
    if (n == MOST_NESTED)
      CT_TRY(ct_pt2_refuse(&p->g, node, CT_ERR_UNSUP, "more than %d views of views", MOST_NESTED));
    chain[n++] = w;
  }
  while (n-- > 0) {
    int of = p->more[w].now, again = p->more[chain[n]].view_node;
    w = chain[n];
    if (again >= 0) {
      CT_TRY(ct__pt2_make_again(p, again, of, &made));
      of = made[p->more[w].part];
    }
    p->more[w].now = of;
    p->more[w].age = p->more[root].changes;
  }
  *out = p->more[v].now;
out:
  return rc;
}

/* Gives a value, and all that it is a view of, new content. */
static int change_write(ct__pt2_t *p, const ct_pt2_node_t *node, int v, int content, int at)
{
  int rc = CT_OK, whole;
  const int root = p->more[v].root, changes = p->more[root].changes + 1;
  if (p->value[root].kind == CT_PT2_PARAMETER)
    CT_TRY(ct_pt2_refuse(&p->g, node, CT_ERR_UNSUP, "changes the parameter '%s' in forward()",
                         p->value[root].state));
  for (int w = v; w != root; w = p->more[w].view_of) {
    CT_TRY(change_now(p, node, p->more[w].view_of, &whole));
    p->more[w].now = content;
    p->more[w].age = changes;
    CT_TRY(ct__pt2_put_back(p, node, w, whole, content, &content));
  }
  p->more[root].now = content;
  p->more[root].age = p->more[root].changes = changes;
  p->more[p->more[root].group].suspect = root;
  p->more[p->more[root].group].suspect_at = at;
out:
  return rc;
}

/* ---- ops that change their first argument ---- */

/* Whether an op changes its first argument: its name ends in '_', but not in "__".  *mark: the '_'
 * of "relu_.default". */
static int changes_first(const ct_pt2_node_t *node, const char **mark)
{
  const char *dot = strncmp(node->op, "aten.", 5) == 0 ? strchr(node->op + 5, '.') : NULL;
  *mark = dot ? dot - 1 : NULL;
  return dot && dot - node->op > 6 && dot[-1] == '_' && dot[-2] != '_';
}

static int changes_shape(const ct_pt2_node_t *node)
{
  static const char *const ops[] = {
      "aten.squeeze_",  "aten.unsqueeze_", "aten.transpose_", "aten.t_",          "aten.swapaxes_",
      "aten.swapdims_", "aten.resize_",    "aten.resize_as_", "aten.as_strided_", "aten.set_"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (ct_pt2_is(node, ops[i])) return 1;
  return 0;
}

/* Appends the nodes that make `value` of `from`, which is broadcast and converted.  *out: `from`
 * itself, if it needs neither. */
static int make_like(ct__pt2_t *p, const ct_pt2_node_t *node, int from, int value, int *out)
{
  int rc = CT_OK, same = p->value[from].ndim == p->value[value].ndim, wide = from;
  int type = p->value[from].type == p->value[value].type;
  for (int i = 0; i < p->value[value].ndim && same; i++) {
    const ct_pt2_dim_t *x = &p->value[from].dim[i], *y = &p->value[value].dim[i];
    same = x->n == y->n && x->batch == y->batch && x->batch != CT__PT2_UNCLEAR;
  }
  *out = same && type ? from : value;
  if (!same) {
    ct__pt2_make_t m = ct__pt2_make("aten.expand.default", node);
    if (type)
      wide = value;
    else
      CT_TRY(ct__pt2_new_value(p, value, value, from, &wide));
    ct__pt2_make_tensor(p, &m, "self", from);
    ct__pt2_make_dims(p, &m, "size", p->value[value].dim, p->value[value].ndim);
    CT_TRY(ct__pt2_make_end(p, &m, wide));
  }
  if (!type) {
    ct__pt2_make_t m = ct__pt2_make("aten._to_copy.default", node);
    ct__pt2_make_tensor(p, &m, "self", wide);
    ct__pt2_make_type(p, &m, "dtype", p->value[value].type);
    CT_TRY(ct__pt2_make_end(p, &m, value));
  }
out:
  return rc;
}

/* The name of an op that does the same but makes a new value; NULL: CT_ERR_NOMEM is recorded. */
static const char *functional_name(ct__pt2_t *p, const char *op, const char *mark)
{
  static const struct {
    const char *from, *to;
  } other[] = {{"aten.bernoulli_.float", "aten.bernoulli.p"},
               {"aten.normal_.default", "aten.normal_functional.default"}};
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    if (strcmp(op, other[i].from) == 0) return other[i].to;
  return ct__pt2_format(p, "%.*s%s", (int)(mark - op), op, mark + 1);
}

/* Appends the op that makes a new value, with the same arguments. */
static int make_functional(ct__pt2_t *p, const ct_pt2_node_t *node, const char *mark, int value)
{
  int rc = CT_OK;
  ct_pt2_node_t made = *node;
  ct_pt2_arg_t *list = ct__pt2_alloc(p, node->args, sizeof *list);
  made.op = functional_name(p, node->op, mark);
  if (!list || !made.op) CT_TRY(CT_ERR_NOMEM);
  memcpy(list, node->arg, (size_t)node->args * sizeof *list);
  list[0].name = ct__pt2_first_name(p, made.op, list[0].name); /* "input" for "self" */
  if (!list[0].name) CT_TRY(CT_ERR_NOMEM);
  made.arg = list;
  made.known = 0;
  CT_TRY(ct__pt2_complete(p, &made));
  p->value[value].node = p->g.nodes;
  CT_TRY(ct__pt2_add_node(p, &made));
out:
  return rc;
}

/* Appends the nodes of the new content of an op's first argument; *out: the content.  `value` is
 * the op's output. */
static int make_content(ct__pt2_t *p, const ct_pt2_node_t *node, const char *mark, int value,
                        int *out)
{
  int rc = CT_OK, from, zero = ct_pt2_is(node, "aten.zero_");
  *out = value;
  if (ct_pt2_is(node, "aten.copy_") || strcmp(node->op, "aten.fill_.Tensor") == 0) {
    CT_TRY(ct_pt2_tensor(&p->g, node, ct_pt2_is(node, "aten.copy_") ? "src" : "value", 0, &from));
    CT_TRY(make_like(p, node, from, value, out));
  } else if (zero || strcmp(node->op, "aten.fill_.Scalar") == 0) {
    ct__pt2_make_t m =
        ct__pt2_make(zero ? "aten.zeros_like.default" : "aten.full_like.default", node);
    const ct_pt2_arg_t *fill = ct_pt2_arg(node, "value");
    ct__pt2_make_tensor(p, &m, "self", node->arg[0].tensor[0]);
    if (!zero && fill) ct__pt2_make_copy(&m, "fill_value", fill);
    CT_TRY(ct__pt2_make_end(p, &m, value));
  } else {
    CT_TRY(make_functional(p, node, mark, value));
  }
out:
  return rc;
}

/* A node that changes its first argument. */
static int change_in_place(ct__pt2_t *p, const ct_pt2_node_t *file, ct_pt2_node_t *node,
                           const char *mark, int at)
{
  int rc = CT_OK, content, value = node->outs == 1 ? node->out[0] : -1, v;
  int tensor = file->args > 0 && file->arg[0].kind == CT_PT2_TENSOR;
  if (!tensor || value < 0)
    CT_TRY(ct_pt2_refuse(&p->g, node, CT_ERR_UNSUP, "changes something else than one tensor"));
  if (changes_shape(node))
    CT_TRY(ct_pt2_refuse(&p->g, node, CT_ERR_UNSUP,
                         "changes the shape of a tensor in place, which is not supported"));
  v = file->arg[0].tensor[0]; /* the value of the file, not what it is now */
  p->more[value].packed = p->more[v].packed;
  p->value[value].node = -1; /* the content may be another value */
  CT_TRY(make_content(p, node, mark, value, &content));
  CT_TRY(change_write(p, node, v, content, at));
  ct__pt2_more_t *m = &p->more[value];
  m->view_of = v;
  m->root = p->more[v].root;
  m->now = content;
  m->age = p->more[m->root].changes;
out:
  return rc;
}

/* ---- the pass ---- */

static int change_node(ct__pt2_t *p, const ct_pt2_node_t *file, int at)
{
  int rc = CT_OK;
  const char *mark;
  ct_pt2_node_t node = *file;
  int first = file->args > 0 && file->arg[0].kind == CT_PT2_TENSOR ? file->arg[0].tensor[0] : -1;
  CT_TRY(ct__pt2_set_tensors(p, &node, change_now));
  if (changes_first(&node, &mark)) return change_in_place(p, file, &node, mark, at);
  for (int k = 0; k < node.outs; k++)
    if (node.out[k] >= 0) p->value[node.out[k]].node = p->g.nodes;
  CT_TRY(ct__pt2_add_node(p, &node));
  ct__pt2_share(p, p->g.nodes - 1, first, at);
out:
  return rc;
}

/* The outputs, and what inputs, buffers and constants have become. */
static int change_ends(ct__pt2_t *p)
{
  static const ct_pt2_node_t none = {.op = "the output", .module = ""};
  int rc = CT_OK;
  ct_pt2_output_t *list = ct__pt2_alloc(p, p->g.outputs, sizeof *list);
  if (!list) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < p->g.outputs; i++) {
    list[i] = p->g.output[i];
    if (list[i].value >= 0) CT_TRY(change_now(p, &none, list[i].value, &list[i].value));
  }
  p->g.output = list;
  for (int v = 0; v < p->g.values; v++) {
    if (p->value[v].kind == CT_PT2_NODE) continue;
    if (p->value[v].becomes >= 0)
      CT_TRY(change_now(p, &none, p->value[v].becomes, &p->value[v].becomes));
    if (p->more[v].now != v) p->value[v].becomes = p->more[v].now;
  }
out:
  return rc;
}

int ct__pt2_functional(ct__pt2_t *p)
{
  int rc = CT_OK, n = p->g.nodes;
  ct_pt2_node_t *file = p->node;
  p->node = NULL;
  p->g.node = NULL;
  p->g.nodes = 0;
  p->node_cap = 0;
  for (int i = 0; i < n; i++)
    CT_TRY(change_node(p, &file[i], i));
  CT_TRY(change_ends(p));
out:
  ct_mem_free(file);
  return rc;
}
