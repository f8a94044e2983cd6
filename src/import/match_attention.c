/* Self-attention as one layer: linear (queries, keys and values at once), attention, linear.
 *
 * Modules reach the same result by many ways: torch.nn.MultiheadAttention works on T x N x D and
 * splits by unflatten, transpose and select; timm by reshape, permute and unbind; others by split
 * or chunk.  So it is not the ops that are compared.  Numbers, one for each element of the first
 * linear's output, are sent through all views, and it is checked where they arrive. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_mem.h"
#include "import/import.h"

enum { ATT_BATCH = 2, ATT_VIEWS = 24, ATT_MOST = 1 << 25 };

/* ---- elements and their places ---- */

/* A tensor of numbers that say which element came from where. */
typedef struct places {
  int ndim;
  int64_t dim[CT_MAX_DIMS], count;
  int32_t *v;
} places_t;

/* Takes the shape of a value for a batch of ATT_BATCH. */
static int att_shape(const ct__im_t *t, int value, places_t *p)
{
  const ct_pt2_value_t *v = &t->g->value[value];
  p->ndim = v->ndim;
  p->count = 1;
  if (v->ndim > CT_MAX_DIMS) return 0;
  for (int i = 0; i < v->ndim; i++) {
    p->dim[i] = v->dim[i].n * (v->dim[i].batch ? ATT_BATCH : 1);
    if (p->dim[i] < 1 || p->dim[i] > ATT_MOST) return 0;
    p->count *= p->dim[i];
    if (p->count > ATT_MOST) return 0;
  }
  return 1;
}

/* Copies a part: `from` begins at start[d] in each dim and walks in the order of perm. */
static void att_move(const places_t *from, const int *perm, const int64_t *start,
                     const int64_t *step, const int64_t *dim, places_t *to)
{
  int64_t stride[CT_MAX_DIMS], at = 0, index[CT_MAX_DIMS] = {0}, all = 1;
  for (int i = from->ndim - 1; i >= 0; i--) {
    stride[i] = all;
    all *= from->dim[i];
    at += start[i] * stride[i];
  }
  for (int64_t k = 0; k < to->count; k++) {
    to->v[k] = from->v[at];
    for (int i = from->ndim - 1; i >= 0; i--) {
      int64_t hop = stride[perm[i]] * step[perm[i]];
      at += hop;
      if (++index[i] < dim[i]) break;
      at -= hop * dim[i];
      index[i] = 0;
    }
  }
}

/* ---- views ---- */

/* What a view does: takes a part of each dim, orders the dims anew, then reshapes. */
typedef struct view {
  int perm[CT_MAX_DIMS];
  int64_t start[CT_MAX_DIMS], step[CT_MAX_DIMS], dim[CT_MAX_DIMS]; /* dim: in the new order */
} view_t;

static int att_int(const ct__im_t *t, const ct_pt2_node_t *n, const char *name, int64_t *v)
{
  return ct_pt2_int(t->g, n, name, v) == CT_OK;
}

/* Reads an argument that is a dim. */
static int att_dim(const ct__im_t *t, const ct_pt2_node_t *n, const char *name, int ndim, int *d)
{
  int64_t v;
  if (!att_int(t, n, name, &v)) return 0;
  *d = (int)(v < 0 ? v + ndim : v);
  return *d >= 0 && *d < ndim;
}

static int att_permutation(const ct__im_t *t, const ct_pt2_node_t *n, const places_t *x, view_t *w)
{
  int64_t list[CT_MAX_DIMS];
  int a, b;
  if (ct_pt2_is(n, "aten.permute")) {
    if (ct_pt2_ints(t->g, n, "dims", x->ndim, list) != CT_OK) return 0;
    for (int i = 0; i < x->ndim; i++)
      w->perm[i] = (int)(list[i] < 0 ? list[i] + x->ndim : list[i]);
  } else {
    if (!att_dim(t, n, "dim0", x->ndim, &a) || !att_dim(t, n, "dim1", x->ndim, &b)) return 0;
    w->perm[a] = b;
    w->perm[b] = a;
  }
  for (int i = 0; i < x->ndim; i++)
    w->dim[i] = x->dim[w->perm[i]];
  return 1;
}

/* A part of one dim; out: which output of the node. */
static int att_part(const ct__im_t *t, const ct_pt2_node_t *n, const places_t *x, int out,
                    view_t *w)
{
  int d;
  int64_t start = 0, length = 1, step = 1;
  places_t part;
  if (!att_dim(t, n, "dim", x->ndim, &d)) return 0;
  if (ct_pt2_is(n, "aten.select")) {
    if (!att_int(t, n, "index", &start)) return 0;
  } else if (ct_pt2_is(n, "aten.unbind")) {
    start = out;
  } else if (ct_pt2_is(n, "aten.slice")) {
    if (!ct_pt2_is_none(n, "start") && !att_int(t, n, "start", &start)) return 0;
    if (!att_int(t, n, "step", &step) || !att_shape(t, n->out[0], &part)) return 0;
    length = part.dim[d];
  } else {
    for (int i = 0; i <= out; i++) {
      if (n->out[i] < 0 || !att_shape(t, n->out[i], &part)) return 0;
      length = part.dim[d];
      if (i < out) start += length;
    }
  }
  if (start < 0) start += x->dim[d];
  if (start < 0 || start + (length - 1) * step >= x->dim[d]) return 0;
  w->start[d] = start;
  w->step[d] = step;
  w->dim[d] = length;
  return 1;
}

/* Returns what kind of view a node is: 0: none; 1: the same elements in their order; 2: in another
 * order; 3: a part. */
static int att_kind(const ct_pt2_node_t *n)
{
  static const char *const same[] = {"view",    "reshape",   "_unsafe_view", "flatten", "unflatten",
                                     "squeeze", "unsqueeze", "contiguous",   "clone"};
  static const char *const part[] = {"select", "unbind",           "slice",
                                     "split",  "split_with_sizes", "chunk"};
  char name[40] = "aten.";
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    if (ct_pt2_is(n, strcat(strcpy(name, "aten."), same[i]))) return 1;
  if (ct_pt2_is(n, "aten.permute") || ct_pt2_is(n, "aten.transpose")) return 2;
  for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
    if (ct_pt2_is(n, strcat(strcpy(name, "aten."), part[i]))) return 3;
  return 0;
}

/* Applies a view to places; to->v is allocated. */
static int att_apply(const ct__im_t *t, const ct_pt2_node_t *n, int out, const places_t *x,
                     places_t *to)
{
  view_t w = {0};
  int kind = att_kind(n);
  if (!att_shape(t, n->out[out], to)) return 0;
  for (int i = 0; i < CT_MAX_DIMS; i++) {
    w.perm[i] = i;
    w.step[i] = 1;
    w.dim[i] = i < x->ndim ? x->dim[i] : 1;
  }
  if (kind == 2 && !att_permutation(t, n, x, &w)) return 0;
  if (kind == 3 && !att_part(t, n, x, out, &w)) return 0;
  int64_t count = 1;
  for (int i = 0; i < x->ndim; i++)
    count *= w.dim[i];
  if (count != to->count) return 0;
  to->v = ct_mem_array(to->count, sizeof *to->v, "places of elements");
  if (!to->v) return 0;
  att_move(x, w.perm, w.start, w.step, w.dim, to);
  return 1;
}

/* ---- chains of views ---- */

/* The views from a value, root, to another. */
typedef struct chain {
  int root, views;
  int value[ATT_VIEWS]; /* after each view; the last one first */
} chain_t;

static void att_trace(const ct__im_t *t, int value, chain_t *c)
{
  c->views = 0;
  for (; c->views < ATT_VIEWS; value = c->root) {
    const ct_pt2_value_t *v = &t->g->value[value];
    c->root = value;
    if (v->kind != CT_PT2_NODE || v->node < 0 || !att_kind(&t->g->node[v->node])) return;
    const ct_pt2_arg_t *a = &t->g->node[v->node].arg[0];
    if (a->kind != CT_PT2_TENSOR) return;
    c->value[c->views++] = value;
    c->root = a->tensor[0];
  }
  c->root = -1;
}

/* Sends numbers from the root through all views.  Returns 1, and out->v is allocated; or 0. */
static int att_send(const ct__im_t *t, const chain_t *c, places_t *out)
{
  places_t x;
  if (!att_shape(t, c->root, &x)) return 0;
  x.v = ct_mem_array(x.count, sizeof *x.v, "places of elements");
  if (!x.v) return 0;
  for (int64_t i = 0; i < x.count; i++)
    x.v[i] = (int32_t)i;
  for (int i = c->views - 1; i >= 0; i--) {
    const ct_pt2_node_t *n = &t->g->node[t->g->value[c->value[i]].node];
    int which = 0;
    places_t y = {0};
    while (n->out[which] != c->value[i])
      which++;
    int ok = att_apply(t, n, which, &x, &y);
    ct_mem_free(x.v);
    if (!ok) return 0;
    x = y;
  }
  *out = x;
  return 1;
}

/* ---- the form of an attention ---- */

typedef struct form {
  int64_t groups, heads, steps, width; /* groups: batch at ATT_BATCH; width: features of a head */
  int steps_first[2];                  /* before, after: T x N x D instead of N x T x D */
} form_t;

static int64_t att_row(const form_t *f, int side, int64_t n, int64_t t)
{
  return f->steps_first[side] ? t * f->groups + n : n * f->steps + t;
}

/* Checks that queries (part 0), keys (1) or values (2) have their elements from the right places of
 * the projection. */
static int att_check_part(const ct__im_t *t, const chain_t *c, const form_t *f, int part)
{
  places_t p = {0};
  int64_t d = f->heads * f->width, k = 0;
  int ok = att_send(t, c, &p) && p.count == f->groups * f->heads * f->steps * f->width;
  for (int64_t n = 0; ok && n < f->groups; n++)
    for (int64_t h = 0; h < f->heads; h++)
      for (int64_t s = 0; s < f->steps; s++)
        for (int64_t i = 0; i < f->width; i++, k++)
          ok &= p.v[k] == att_row(f, 0, n, s) * 3 * d + part * d + h * f->width + i;
  ct_mem_free(p.v);
  return ok;
}

/* Checks that the heads of a step are side by side after the attention. */
static int att_check_out(const ct__im_t *t, const chain_t *c, const form_t *f)
{
  places_t p = {0};
  int64_t d = f->heads * f->width;
  int ok = att_send(t, c, &p) && p.count == f->groups * f->steps * d;
  for (int64_t n = 0; ok && n < f->groups; n++)
    for (int64_t s = 0; s < f->steps; s++)
      for (int64_t i = 0; i < d; i++) {
        int64_t from = ((n * f->heads + i / f->width) * f->steps + s) * f->width + i % f->width;
        ok &= p.v[att_row(f, 1, n, s) * d + i] == from;
      }
  ct_mem_free(p.v);
  return ok;
}

/* Reads the attention's options: 1: plain, without mask. */
static int att_is_plain(const ct__im_t *t, const ct_pt2_node_t *n, int64_t width)
{
  double p, scale, usual = 1 / sqrt((double)width);
  int causal;
  if (!ct_pt2_is_none(n, "attn_mask")) return 0;
  if (ct_pt2_number(t->g, n, "dropout_p", &p) != CT_OK || p != 0) return 0;
  if (ct_pt2_bool(t->g, n, "is_causal", &causal) != CT_OK || causal) return 0;
  if (ct_pt2_is_none(n, "scale")) return 1;
  return ct_pt2_number(t->g, n, "scale", &scale) == CT_OK && fabs(scale - usual) < 1e-6 * usual;
}

/* A linear layer whose weight and bias are its own parameters. */
typedef struct linear {
  int x, weight, bias;
  int64_t in, out;
} linear_t;

static int att_linear(const ct__im_t *t, const ct_pt2_node_t *n, linear_t *l)
{
  if (ct_pt2_tensor(t->g, n, "input", 0, &l->x) != CT_OK) return 0;
  if (ct_pt2_tensor(t->g, n, "weight", 0, &l->weight) != CT_OK) return 0;
  if (ct_pt2_tensor(t->g, n, "bias", 1, &l->bias) != CT_OK || l->bias < 0) return 0;
  if (!ct__im_owned(t, l->weight, CT__IM_LINEAR) || !ct__im_owned(t, l->bias, CT__IM_LINEAR))
    return 0;
  l->out = t->g->value[l->weight].dim[0].n;
  l->in = t->g->value[l->weight].dim[1].n;
  return 1;
}

static const ct_pt2_node_t *att_node(const ct__im_t *t, int value, const char *op)
{
  const ct_pt2_value_t *v = value >= 0 ? &t->g->value[value] : NULL;
  if (!v || v->kind != CT_PT2_NODE || v->node < 0) return NULL;
  return ct_pt2_is(&t->g->node[v->node], op) ? &t->g->node[v->node] : NULL;
}

/* Finds out whether a tensor has its steps or its batch first; -1: neither. */
static int att_order(const ct__im_t *t, int value)
{
  ct_shape_t s;
  if (ct__im_shape(t, value, &s) != CT_OK) return -1;
  if (s.batch == 1) return 0;
  return s.batch == 2 && s.ndim == 3 ? 1 : -1;
}

/* Finds the parts of an attention; 1: it has the form of the layer. */
static int att_find(const ct__im_t *t, const linear_t *last, linear_t *first, form_t *f)
{
  static const char *const arg[3] = {"query", "key", "value"};
  chain_t out, part[3];
  int value;
  att_trace(t, last->x, &out);
  const ct_pt2_node_t *a = att_node(t, out.root, "aten.scaled_dot_product_attention");
  if (!a) return 0;
  for (int i = 0; i < 3; i++) {
    if (ct_pt2_tensor(t->g, a, arg[i], 0, &value) != CT_OK) return 0;
    att_trace(t, value, &part[i]);
    if (part[i].root != part[0].root) return 0;
  }
  const ct_pt2_node_t *projection = att_node(t, part[0].root, "aten.linear");
  const ct_pt2_value_t *y = &t->g->value[out.root];
  if (!projection || !att_linear(t, projection, first) || y->ndim != 4 || y->dim[0].batch != 1)
    return 0;
  f->groups = y->dim[0].n * ATT_BATCH;
  f->heads = y->dim[1].n;
  f->steps = y->dim[2].n;
  f->width = y->dim[3].n;
  int64_t d = f->heads * f->width;
  if (first->out != 3 * d || first->in != d || last->in != d || last->out != d) return 0;
  if (!att_is_plain(t, a, f->width)) return 0;
  f->steps_first[0] = att_order(t, part[0].root);
  if (f->steps_first[0] < 0) return 0;
  for (int i = 0; i < 3; i++)
    if (!att_check_part(t, &part[i], f, i)) return 0;
  f->steps_first[1] = 0;
  if (att_check_out(t, &out, f)) return 1;
  f->steps_first[1] = 1;
  return att_check_out(t, &out, f);
}

int ct__im_match_attention(ct__im_t *t, const ct_pt2_node_t *n, int *done)
{
  static const int swap[3] = {1, 0, 2};
  int rc = CT_OK, x;
  linear_t first, last;
  form_t f;
  ct_shape_t result;
  *done = 0;
  if (!att_linear(t, n, &last) || !att_find(t, &last, &first, &f)) return CT_OK;
  CT_TRY(ct__im_operand(t, first.x, &x));
  ct_shape_t y = ct_shape(3, f.groups / ATT_BATCH, f.steps, first.in);
  y.batch = 1;
  if (f.steps_first[0]) CT_TRY(ct__im_permute(t, x, swap, &x));
  CT_TRY(ct__im_reshape(t, x, &y, &x));
  CT_TRY(ct__im_one(t, &x, "attention", &y, x, "heads: %" PRId64, f.heads));
  ct__im_weight(t, x, "in_proj_weight", first.weight);
  ct__im_weight(t, x, "in_proj_bias", first.bias);
  ct__im_weight(t, x, "out_proj.weight", last.weight);
  ct__im_weight(t, x, "out_proj.bias", last.bias);
  if (f.steps_first[1]) CT_TRY(ct__im_permute(t, x, swap, &x));
  CT_TRY(ct__im_result(t, n, &result));
  CT_TRY(ct__im_reshape(t, x, &result, &x));
  CT_TRY(ct__im_done(t, n, x));
  *done = 1;
out:
  return rc;
}
