/* Computes the values of a program that depend neither on an input nor on a parameter, such as
 * masks and positions.
 *
 * Live nodes are tried in order; those whose arguments are known and whose op is in a table are
 * computed.  Results that other nodes or outputs use become values of kind CT_PT2_FOLDED; all
 * others are freed after their last use.  A view of a buffer stays a node, since the buffer is in
 * the state dict. */
#include "pt2/fold.h"

#include <math.h>
#include <string.h>

#include "base/ct_mem.h"

enum {
  MOST_BUFFER = 1 << 20, /* elements of a result that depends on a buffer */
  MOST_PARTS = 4096      /* outputs of a node */
};
static const int64_t MOST_ELEMENTS = (int64_t)1 << 26; /* computed in all */

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

/* ---- arguments ---- */

int ct__fold_is_float(ct_elem_t type)
{
  return type == CT_ELEM_F16 || type == CT_ELEM_BF16 || type == CT_ELEM_F32 || type == CT_ELEM_F64;
}

int ct__fold_shape(const ct__pt2_t *p, int value, ct__array_t *a)
{
  const ct_pt2_value_t *v = &p->value[value];
  *a = (ct__array_t){.x = p->more[value].data, .type = v->type, .ndim = v->ndim, .count = 1};
  if (v->type == CT_ELEMS || !ct_elem_has_numbers(v->type) || v->ndim > CT__PT2_DIMS) return 0;
  for (int i = 0; i < v->ndim; i++) {
    if (v->dim[i].batch == CT__PT2_UNCLEAR) return 0;
    a->dim[i] = v->dim[i].batch ? 1 : v->dim[i].n;
    a->along |= (uint64_t)(v->dim[i].batch != 0) << i;
    a->count *= a->dim[i]; /* its overflow was checked when it was read */
  }
  return a->count <= MOST_ELEMENTS;
}

int ct__fold_in(const ct__fold_t *f, const char *name, ct__array_t *a)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  if (!arg || arg->kind != CT_PT2_TENSOR) return 0;
  return ct__fold_shape(f->p, arg->tensor[0], a) && a->x;
}

int ct__fold_in_list(const ct__fold_t *f, const char *name, int k, ct__array_t *a)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  if (!arg || arg->kind != CT_PT2_TENSORS || k >= arg->n || arg->tensor[k] < 0) return 0;
  return ct__fold_shape(f->p, arg->tensor[k], a) && a->x;
}

int ct__fold_number(const ct__fold_t *f, const char *name, double *x)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  ct__array_t a;
  if (!arg) return 0;
  if (arg->kind == CT_PT2_TENSOR) {
    if (!ct__fold_in(f, name, &a) || a.count != 1 || a.along) return 0;
    *x = a.x[0];
    return 1;
  }
  if (arg->kind == CT_PT2_FLOAT) {
    *x = arg->number[0];
    return 1;
  }
  if ((arg->kind != CT_PT2_INT && arg->kind != CT_PT2_BOOL) || arg->dim[0].batch) return 0;
  *x = (double)arg->dim[0].n;
  return fabs(*x) <= 0x1p53;
}

int ct__fold_int(const ct__fold_t *f, const char *name, int64_t other, int64_t *x)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  *x = other;
  if (!arg || arg->kind == CT_PT2_NONE) return 1;
  if ((arg->kind != CT_PT2_INT && arg->kind != CT_PT2_BOOL) || arg->dim[0].batch) return 0;
  *x = arg->dim[0].n;
  return 1;
}

int ct__fold_dim(const ct__fold_t *f, const char *name, int ndim, int *dim)
{
  int64_t d;
  if (!ct__fold_int(f, name, 0, &d)) return 0;
  if (d < 0) d += ndim;
  *dim = (int)d;
  return d >= 0 && d < ndim;
}

/* ---- rounding ---- */

/* Rounds to a format with `digits` binary digits and the least exponent `least`. */
static double round_digits(double x, int digits, int least)
{
  int e;
  if (x == 0 || !isfinite(x)) return x;
  frexp(x, &e);
  int shift = digits - (e < least ? least : e);
  return ldexp(nearbyint(ldexp(x, shift)), -shift);
}

int ct__fold_round(ct_elem_t type, double x, double *y)
{
  static const struct {
    ct_elem_t type;
    double least, most;
  } whole[] = {{CT_ELEM_U8, 0, 255},
               {CT_ELEM_I8, -128, 127},
               {CT_ELEM_I16, -32768, 32767},
               {CT_ELEM_U16, 0, 65535},
               {CT_ELEM_I32, -0x1p31, 0x1p31 - 1},
               {CT_ELEM_U32, 0, 0x1p32 - 1},
               {CT_ELEM_I64, -0x1p53, 0x1p53},
               {CT_ELEM_U64, 0, 0x1p53}};
  *y = x;
  if (type == CT_ELEM_F64) return 1;
  if (type == CT_ELEM_F32) *y = (double)(float)x;
  if (type == CT_ELEM_F16) {
    *y = round_digits(x, 11, -13);
    if (fabs(*y) > 65504 && isfinite(*y)) *y = copysign(INFINITY, x);
  }
  if (type == CT_ELEM_BF16) *y = round_digits((double)(float)x, 8, -125);
  if (ct__fold_is_float(type)) return 1;
  if (type == CT_ELEM_BOOL) *y = x != 0;
  if (type == CT_ELEM_BOOL) return 1;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (whole[i].type == type) {
      *y = trunc(x);
      return *y >= whole[i].least && *y <= whole[i].most;
    }
  return 0;
}

/* ---- walking ---- */

void ct__fold_steps(const ct__array_t *a, int64_t *step)
{
  int64_t n = 1;
  for (int i = a->ndim - 1; i >= 0; i--) {
    step[i] = a->dim[i] == 1 ? 0 : n;
    n *= a->dim[i];
  }
}

void ct__walk_start(ct__walk_t *w, const ct__array_t *of)
{
  memset(w, 0, sizeof *w);
  w->ndim = of->ndim;
  memcpy(w->dim, of->dim, (size_t)of->ndim * sizeof *w->dim);
}

int ct__walk_broadcast(ct__walk_t *w, int k, const ct__array_t *a)
{
  int64_t step[CT__PT2_DIMS];
  int shift = w->ndim - a->ndim;
  if (shift < 0) return 0;
  ct__fold_steps(a, step);
  for (int i = 0; i < a->ndim; i++) {
    if (a->dim[i] != 1 && a->dim[i] != w->dim[shift + i]) return 0;
    w->step[k][shift + i] = step[i];
  }
  return 1;
}

void ct__walk_next(ct__walk_t *w)
{
  for (int i = w->ndim - 1; i >= 0; i--) {
    w->at[i]++;
    for (int k = 0; k < 3; k++)
      w->off[k] += w->step[k][i];
    if (w->at[i] < w->dim[i]) return;
    for (int k = 0; k < 3; k++)
      w->off[k] -= w->step[k][i] * w->dim[i];
    w->at[i] = 0;
  }
}

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
                         (long long)MOST_ELEMENTS));
  d->budget -= f.o.count;
  f.y = ct_mem_array(f.o.count + 1, sizeof *f.y, "a constant of the program");
  if (!f.y) CT_TRY(CT_ERR_NOMEM);
  *done = op->run(&f, op);
  if (*done) {
    d->p->more[v].data = f.y;
    d->p->more[v].count = f.o.count;
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
  stays = !done;
  for (int k = 0; k < node->outs && done; k++)
    CT_TRY(fold_part(d, node, op, k, &done));
  for (int k = 0; k < node->outs && !done && !stays; k++)
    if (node->out[k] >= 0) fold_free(d, node->out[k]);
  stays = !done;
  if (done && op->view && d->p->value[node->out[0]].on & CT_PT2_ON_BUFFER &&
      ct__fold_is_float(d->p->value[node->out[0]].type)) {
    stays = 1; /* a view of a buffer */
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
  folding_t d = {.p = p, .budget = MOST_ELEMENTS};
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
