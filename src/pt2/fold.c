/* Computes the values of a program that depend neither on an input nor on a parameter, such as
 * masks and positions.
 *
 * Live nodes are tried in order; those whose arguments are known and whose op is in a table are
 * computed.  Results that other nodes or outputs use become values of kind CT_PT2_FOLDED; all
 * others are freed after their last use.  A view of a buffer stays a node, since the buffer is in
 * the state dict. */
#include "pt2/fold.h"

#include <string.h>

#include "base/ct_mem.h"

enum {
  MOST_BUFFER = 1 << 20, /* elements of a result that depends on a buffer */
  MOST_PARTS = 4096      /* outputs of a node */
};

/* The state of the pass. */
typedef struct folding {
  ct__pt2_t *p;
  int *left;      /* [values] uses by nodes that are not tried yet */
  char *kept;     /* [values] 1: used by a node that stays */
  char *moves;    /* [values] 1: a buffer that training changes, or a view of a buffer */
  int64_t budget; /* elements that may still be computed */
  int folded;     /* number of folded values so far */
  json_t *names;  /* of parameters, buffers and constants */
} folding_t;

/* ---- single nodes ---- */

static const ct__fold_op_t *fold_find(const ct_pt2_node_t *node)
{
  static const ct__fold_op_t *const tables[] = {ct__fold_math, ct__fold_shapes, ct__fold_lists};
  for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
    for (const ct__fold_op_t *op = tables[t]; op->op; op++)
      if (ct_pt2_is(node, op->op)) return op;
  return NULL;
}

/* Reads a constant or buffer when it is used first; *known: it has numbers now. */
static int fold_load(folding_t *d, int v, int *known)
{
  int rc = CT_OK;
  const ct_pt2_value_t *is = &d->p->value[v];
  ct__array_t a;
  *known = d->p->more[v].data != NULL;
  if (*known || is->kind == CT_PT2_NODE || is->kind == CT_PT2_INPUT ||
      is->kind == CT_PT2_PARAMETER || d->moves[v] || is->becomes >= 0 || d->p->more[v].item < 0 ||
      !ct__fold_shape(d->p, v, &a) || a.along || a.count > MOST_BUFFER)
    return CT_OK;
  double *x = ct_mem_array(a.count + 1, sizeof *x, "a constant of the program");
  if (!x) CT_TRY(CT_ERR_NOMEM);
  d->p->more[v].data = x;
  d->p->more[v].count = a.count;
  CT_TRY(ct_pt2_doubles(&d->p->g, v, x));
  *known = 1;
out:
  return rc;
}

/* Whether all arguments of a node are known; *buffers: it depends on buffers. */
static int fold_known(folding_t *d, const ct_pt2_node_t *node, int *all)
{
  int rc = CT_OK;
  *all = 1;
  for (int a = 0; a < node->args && *all; a++) {
    if (ct__pt2_shape_only(node, &node->arg[a])) continue;
    for (int k = 0; node->arg[a].tensor && k < node->arg[a].n && *all; k++)
      if (node->arg[a].tensor[k] >= 0) CT_TRY(fold_load(d, node->arg[a].tensor[k], all));
  }
out:
  return rc;
}

/* Whether an argument is the place in the batch, which only few ops can use. */
static int fold_position(const folding_t *d, const ct_pt2_node_t *node)
{
  for (int a = 0; a < node->args; a++) {
    if (ct__pt2_shape_only(node, &node->arg[a])) continue;
    for (int k = 0; node->arg[a].tensor && k < node->arg[a].n; k++)
      if (node->arg[a].tensor[k] >= 0 && d->p->more[node->arg[a].tensor[k]].position) return 1;
  }
  return 0;
}

/* Computes one output of a node, if it is possible. */
static int fold_part(folding_t *d, const ct_pt2_node_t *node, const ct__fold_op_t *op, int k,
                     int *done)
{
  int rc = CT_OK, v = node->out[k];
  ct__fold_t f = {.p = d->p, .node = node, .part = k};
  *done = 0;
  if (v < 0 || !ct__fold_shape(d->p, v, &f.o) || (node->outs > 1 && f.o.along)) goto out;
  if ((d->p->value[v].on & CT_PT2_ON_BUFFER) && f.o.count > MOST_BUFFER) goto out;
  if (f.o.count > d->budget)
    CT_TRY(ct_pt2_refuse(&d->p->g, node, CT_ERR_UNSUP,
                         "constants that the program computes have more than %lld elements in all",
                         (long long)CT__FOLD_MOST));
  d->budget -= f.o.count;
  f.y = ct_mem_array(f.o.count + 1, sizeof *f.y, "a constant of the program");
  if (!f.y) CT_TRY(CT_ERR_NOMEM);
  *done = op->run(&f, op);
  if (*done) {
    d->p->more[v].data = f.y;
    d->p->more[v].count = f.o.count;
    d->p->more[v].position = f.position || (op->view == 2 && fold_position(d, node));
    f.y = NULL;
  }
out:
  ct_mem_free(f.y);
  return rc;
}

static void fold_free(folding_t *d, int v)
{
  ct_mem_free(d->p->more[v].data);
  d->p->more[v].data = NULL;
}

/* Tries a node, and marks its arguments as kept if it stays. */
static int fold_node(folding_t *d, const ct_pt2_node_t *node)
{
  int rc = CT_OK, done = 0, stays;
  const ct__fold_op_t *op = fold_find(node);
  if (op && node->outs <= MOST_PARTS) CT_TRY(fold_known(d, node, &done));
  if (done && op->view != 2 && !ct_pt2_is(node, "aten.index")) done = !fold_position(d, node);
  stays = !done;
  for (int k = 0; k < node->outs && done; k++)
    CT_TRY(fold_part(d, node, op, k, &done));
  for (int k = 0; k < node->outs && !done && !stays; k++)
    if (node->out[k] >= 0) fold_free(d, node->out[k]);
  stays = !done;
  if (done && ((op->view && d->p->value[node->out[0]].on & CT_PT2_ON_BUFFER &&
                ct__fold_is_float(d->p->value[node->out[0]].type)) ||
               d->p->more[node->out[0]].position)) {
    stays = 1; /* a view of a buffer; the place in the batch */
    for (int k = 0; k < node->outs; k++)
      d->moves[node->out[k]] = 1;
  }
  for (int a = 0; a < node->args; a++) {
    if (ct__pt2_shape_only(node, &node->arg[a])) continue;
    for (int k = 0; node->arg[a].tensor && k < node->arg[a].n; k++) {
      int v = node->arg[a].tensor[k];
      if (v < 0) continue;
      if (stays) d->kept[v] = 1;
      if (--d->left[v] == 0 && !d->kept[v] && d->p->more[v].data) fold_free(d, v);
    }
  }
out:
  return rc;
}

/* ---- results ---- */

/* A name that no parameter, buffer or constant has. */
static const char *fold_name(folding_t *d)
{
  const char *name;
  do
    name = ct__pt2_format(d->p, "folded.%d", d->folded++);
  while (name && json_object_get(d->names, name));
  return name;
}

/* Makes output k of node i a folded value. */
static int fold_result(folding_t *d, int i, int k)
{
  int rc = CT_OK, v = d->p->node[i].out[k], made = v;
  ct__pt2_t *p = d->p;
  const ct_pt2_node_t node = p->node[i];
  ct__array_t a;
  ct__fold_shape(p, v, &a);
  if (a.along) { /* the value is expanded from a folded one */
    ct_pt2_dim_t *dim = ct__pt2_alloc(p, a.ndim, sizeof *dim);
    if (!dim) CT_TRY(CT_ERR_NOMEM);
    for (int q = 0; q < a.ndim; q++)
      dim[q].n = a.dim[q];
    CT_TRY(ct__pt2_new_value(p, v, v, v, &made));
    p->value[made].dim = dim;
    p->more[made].data = p->more[v].data;
    p->more[made].count = p->more[v].count;
    p->more[v].data = NULL;
    ct__pt2_make_t m = ct__pt2_make("aten.expand.default", &node);
    ct__pt2_make_tensor(p, &m, "self", made);
    ct__pt2_make_dims(p, &m, "size", p->value[v].dim, a.ndim);
    CT_TRY(ct__pt2_make_end(p, &m, v));
    p->node[i] = p->node[--p->g.nodes]; /* in place of the node that made the value */
    p->node[i].live = 1;
    p->value[v].node = i;
  } else {
    ((int *)node.out)[k] = -1; /* a list of ct__pt2_alloc(), of this node alone */
    p->value[v].node = -1;
  }
  p->value[made].kind = CT_PT2_FOLDED;
  p->value[made].state = fold_name(d);
  if (!p->value[made].state) CT_TRY(CT_ERR_NOMEM);
out:
  return rc;
}

/* Makes the results that are used folded values, and frees all others. */
static int fold_results(folding_t *d, int values)
{
  int rc = CT_OK;
  for (int i = 0; i < d->p->g.nodes; i++) {
    int n = d->p->node[i].live ? d->p->node[i].outs : 0;
    for (int k = 0; k < n; k++) {
      int v = d->p->node[i].out[k];
      if (v >= 0 && d->kept[v] && d->p->more[v].data && !d->moves[v]) CT_TRY(fold_result(d, i, k));
    }
  }
  for (int v = 0; v < values; v++)
    if (d->p->value[v].kind != CT_PT2_FOLDED) fold_free(d, v);
out:
  return rc;
}

/* Marks the buffers that training changes, although no node does: batch norm's statistics. */
static void mark_statistics(folding_t *d)
{
  static const char *const names[] = {"running_mean", "running_var"};
  for (int i = 0; i < d->p->g.nodes; i++)
    for (int k = 0; k < 2; k++) {
      const ct_pt2_arg_t *a = ct_pt2_arg(&d->p->node[i], names[k]);
      if (a && a->kind == CT_PT2_TENSOR) d->moves[a->tensor[0]] = 1;
    }
}

static int fold_start(folding_t *d)
{
  int rc = CT_OK, n = d->p->g.values;
  d->left = ct_mem_array(n + 1, sizeof *d->left, "a list of values");
  d->kept = ct_mem_array(n + 1, 1, "a list of values");
  d->moves = ct_mem_array(n + 1, 1, "a list of values");
  d->names = json_object();
  if (!d->left || !d->kept || !d->moves) CT_TRY(CT_ERR_NOMEM);
  for (int v = 0; v < n; v++) {
    const ct_pt2_value_t *is = &d->p->value[v];
    d->left[v] = is->uses;
    if (is->state && json_object_set_new(d->names, is->state, json_null()) != 0)
      CT_FAIL(CT_ERR_NOMEM, "%s: no memory for the names of tensors", d->p->g.path);
  }
  for (int i = 0; i < d->p->g.outputs; i++)
    if (d->p->g.output[i].value >= 0) d->kept[d->p->g.output[i].value] = 1;
  mark_statistics(d);
out:
  return rc;
}

int ct__pt2_fold(ct__pt2_t *p)
{
  int rc = CT_OK, values = p->g.values;
  folding_t d = {.p = p, .budget = CT__FOLD_MOST};
  CT_TRY(fold_start(&d));
  for (int i = 0; i < p->g.nodes; i++)
    if (p->node[i].live) CT_TRY(fold_node(&d, &p->node[i]));
  CT_TRY(fold_results(&d, values));
out:
  ct_mem_free(d.left);
  ct_mem_free(d.kept);
  ct_mem_free(d.moves);
  json_decref(d.names);
  return rc;
}
