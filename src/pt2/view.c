/* Memory that values share.  Many ops of PyTorch return a view: a change of the view changes the
 * tensor that it is a view of, and the other way round.  Here is the list of these ops, and how the
 * changed part goes back into the whole. */
#include <string.h>

#include "pt2/pt2.h"

enum { MOST_PARTS = 4096 };

typedef enum {
  VIEW_NONE,        /* memory of its own */
  VIEW_SAME,        /* the same tensor */
  VIEW_TYPE,        /* the same tensor, if it has the same type */
  VIEW_PACKED,      /* the same tensor, if it has no gaps */
  VIEW_UNUSED,      /* the same tensor, if it does not compute anything: dropout */
  VIEW_SHAPE,       /* the same elements in another shape */
  VIEW_SHAPE_MAYBE, /* ditto; memory of its own if the strides make this necessary */
  VIEW_PERMUTE,
  VIEW_SLICE,
  VIEW_SELECT,
  VIEW_PARTS, /* several slices */
  VIEW_EACH,  /* several selects */
  VIEW_OTHER  /* a view that cannot be put back */
} view_kind_t;

static const struct {
  const char *op;
  view_kind_t kind;
} views[] = {
    {"aten.adjoint", VIEW_OTHER},
    {"aten.alias", VIEW_SAME},
    {"aten.alpha_dropout", VIEW_UNUSED},
    {"aten.as_strided", VIEW_OTHER},
    {"aten.broadcast_to", VIEW_OTHER},
    {"aten.chunk", VIEW_PARTS},
    {"aten.conj", VIEW_OTHER},
    {"aten.contiguous", VIEW_PACKED},
    {"aten.detach", VIEW_SAME},
    {"aten.diagonal", VIEW_OTHER},
    {"aten.dropout", VIEW_UNUSED},
    {"aten.expand", VIEW_OTHER},
    {"aten.expand_as", VIEW_OTHER},
    {"aten.feature_alpha_dropout", VIEW_UNUSED},
    {"aten.feature_dropout", VIEW_UNUSED},
    {"aten.flatten", VIEW_SHAPE_MAYBE},
    {"aten.hsplit", VIEW_OTHER},
    {"aten.imag", VIEW_OTHER},
    {"aten.lift", VIEW_SAME},
    {"aten.lift_fresh", VIEW_SAME},
    {"aten.mH", VIEW_OTHER},
    {"aten.mT", VIEW_PERMUTE},
    {"aten.matrix_H", VIEW_OTHER},
    {"aten.meshgrid", VIEW_OTHER},
    {"aten.moveaxis", VIEW_OTHER},
    {"aten.movedim", VIEW_OTHER},
    {"aten.narrow", VIEW_SLICE},
    {"aten.numpy_T", VIEW_PERMUTE},
    {"aten.permute", VIEW_PERMUTE},
    {"aten.positive", VIEW_SAME},
    {"aten.ravel", VIEW_SHAPE_MAYBE},
    {"aten.real", VIEW_OTHER},
    {"aten.reshape", VIEW_SHAPE_MAYBE},
    {"aten.reshape_as", VIEW_SHAPE_MAYBE},
    {"aten.resolve_conj", VIEW_SAME},
    {"aten.resolve_neg", VIEW_SAME},
    {"aten.select", VIEW_SELECT},
    {"aten.slice", VIEW_SLICE},
    {"aten.split", VIEW_PARTS},
    {"aten.split_with_sizes", VIEW_PARTS},
    {"aten.squeeze", VIEW_SHAPE},
    {"aten.swapaxes", VIEW_PERMUTE},
    {"aten.swapdims", VIEW_PERMUTE},
    {"aten.t", VIEW_PERMUTE},
    {"aten.tensor_split", VIEW_PARTS},
    {"aten.to", VIEW_TYPE},
    {"aten.transpose", VIEW_PERMUTE},
    {"aten.type_as", VIEW_TYPE},
    {"aten.unbind", VIEW_EACH},
    {"aten.unflatten", VIEW_SHAPE},
    {"aten.unfold", VIEW_OTHER},
    {"aten.unsqueeze", VIEW_SHAPE},
    {"aten.view", VIEW_SHAPE},
    {"aten.view_as", VIEW_SHAPE},
    {"aten.view_as_complex", VIEW_OTHER},
    {"aten.view_as_real", VIEW_OTHER},
    {"aten.vsplit", VIEW_OTHER},
    {"aten._unsafe_view", VIEW_SHAPE},
};

static view_kind_t view_find(const ct_pt2_node_t *node)
{
  for (size_t i = 0; i < sizeof views / sizeof *views; i++)
    if (ct_pt2_is(node, views[i].op)) return views[i].kind;
  return VIEW_NONE;
}

/* Whether dropout returns its argument. */
static int view_unused(const ct_pt2_node_t *node)
{
  const ct_pt2_arg_t *p = ct_pt2_arg(node, "p"), *train = ct_pt2_arg(node, "train");
  if (train && train->kind == CT_PT2_BOOL && !train->dim[0].n) return 1;
  return p && p->kind == CT_PT2_FLOAT && p->number[0] == 0;
}

/* Whether a node asks for an order of the elements that is not row-major. */
static int other_format(const ct_pt2_node_t *node)
{
  const ct_pt2_arg_t *format = ct_pt2_arg(node, "memory_format");
  return format && format->kind == CT_PT2_FORMAT && format->dim[0].n != 1 && format->dim[0].n != 4;
}

/* The kind of the view that output `out` is, as far as the types and strides decide it. */
static view_kind_t view_decide(const ct__pt2_t *p, const ct_pt2_node_t *node, int of, int out)
{
  view_kind_t kind = view_find(node);
  const ct_pt2_arg_t *copy = ct_pt2_arg(node, "copy");
  int packed = p->more[of].packed, same = p->value[of].type == p->value[out].type;
  if ((kind == VIEW_TYPE || kind == VIEW_PACKED) && other_format(node) && same)
    return VIEW_SHAPE_MAYBE;
  if (kind == VIEW_TYPE && copy && copy->kind == CT_PT2_BOOL && copy->dim[0].n) return VIEW_NONE;
  if (kind == VIEW_TYPE) return same ? VIEW_SAME : VIEW_NONE;
  if (kind == VIEW_PACKED) return packed ? VIEW_SAME : VIEW_NONE;
  if (kind == VIEW_UNUSED) return view_unused(node) ? VIEW_SAME : VIEW_NONE;
  if (kind == VIEW_SHAPE_MAYBE && packed) return VIEW_SHAPE;
  if (kind == VIEW_SHAPE && !same) return VIEW_OTHER; /* the same bytes as another type */
  return kind;
}

void ct__pt2_share(ct__pt2_t *p, int node, int of, int at)
{
  const ct_pt2_node_t *is = &p->node[node];
  for (int k = 0; k < is->outs; k++) {
    int v = is->out[k];
    if (v < 0) continue;
    ct__pt2_more_t *m = &p->more[v];
    view_kind_t kind = of < 0 ? VIEW_NONE : view_decide(p, is, of, v);
    m->born = at;
    m->now = v;
    if (kind == VIEW_NONE) continue;
    int root = p->more[of].root;
    if (kind == VIEW_SHAPE_MAYBE) {
      m->group = p->more[root].group;
      continue;
    }
    m->view_of = of;
    m->view_node = node;
    m->part = k;
    m->root = root;
    m->age = p->more[root].changes;
  }
}

/* ---- putting a part back ---- */

/* The node that makes `whole` anew with a slice of it replaced. */
static int put_slice(ct__pt2_t *p, const ct_pt2_node_t *view, int k, int whole, int part, int to)
{
  int64_t dim = 0, from = 0, end = 0, length;
  ct__pt2_make_t m = ct__pt2_make("aten.slice_scatter.default", view);
  ct__pt2_make_tensor(p, &m, "self", whole);
  ct__pt2_make_tensor(p, &m, "src", part);
  if (ct_pt2_is(view, "aten.slice")) {
    static const char *const names[] = {"dim", "start", "end", "step"};
    for (int i = 0; i < 4; i++)
      if (ct_pt2_arg(view, names[i])) ct__pt2_make_copy(&m, names[i], ct_pt2_arg(view, names[i]));
    return ct__pt2_make_end(p, &m, to);
  }
  int rc = ct_pt2_int(&p->g, view, "dim", &dim), ndim = p->value[whole].ndim;
  if (rc == CT_OK && dim < 0) dim += ndim;
  if (rc == CT_OK && (dim < 0 || dim >= ndim))
    rc = ct_pt2_refuse(&p->g, view, CT_ERR_FORMAT, "argument 'dim' is out of range");
  if (rc != CT_OK) return rc;
  if (ct_pt2_is(view, "aten.narrow")) {
    rc = ct_pt2_int(&p->g, view, "start", &from);
    if (rc == CT_OK) rc = ct_pt2_int(&p->g, view, "length", &length);
    if (rc != CT_OK) return rc;
    if (__builtin_add_overflow(from, length, &end)) end = INT64_MAX;
  }
  for (int i = 0; i <= k && !ct_pt2_is(view, "aten.narrow"); i++) { /* behind the parts before */
    const ct_pt2_value_t *v = view->out[i] >= 0 ? &p->value[view->out[i]] : NULL;
    if (!v || k > MOST_PARTS || v->ndim != ndim || v->dim[dim].batch || end > INT64_MAX / 2)
      return ct_pt2_refuse(&p->g, view, CT_ERR_UNSUP,
                           "a change of one of its parts is not "
                           "supported");
    from = end;
    end += v->dim[dim].n;
  }
  ct__pt2_make_int(p, &m, "dim", dim);
  ct__pt2_make_int(p, &m, "start", from);
  ct__pt2_make_int(p, &m, "end", end);
  return ct__pt2_make_end(p, &m, to);
}

static int put_select(ct__pt2_t *p, const ct_pt2_node_t *view, int k, int whole, int part, int to)
{
  ct__pt2_make_t m = ct__pt2_make("aten.select_scatter.default", view);
  const ct_pt2_arg_t *dim = ct_pt2_arg(view, "dim"), *index = ct_pt2_arg(view, "index");
  ct__pt2_make_tensor(p, &m, "self", whole);
  ct__pt2_make_tensor(p, &m, "src", part);
  if (dim) ct__pt2_make_copy(&m, "dim", dim);
  if (index)
    ct__pt2_make_copy(&m, "index", index);
  else
    ct__pt2_make_int(p, &m, "index", k);
  return ct__pt2_make_end(p, &m, to);
}

int ct__pt2_permutation(const ct__pt2_t *p, const ct_pt2_node_t *view, int n, int *order)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(view, "dims");
  int64_t x = n - 2, y = n - 1; /* of mT, t */
  for (int i = 0; i < n; i++)
    order[i] = i;
  if (ct_pt2_is(view, "aten.numpy_T")) {
    for (int i = 0; i < n; i++)
      order[i] = n - 1 - i;
    return 1;
  }
  if (a) {
    uint64_t seen = 0;
    if (a->kind != CT_PT2_INTS || a->n != n) return 0;
    for (int i = 0; i < n; i++) {
      int64_t d = a->dim[i].n + (a->dim[i].n < 0 ? n : 0);
      if (d < 0 || d >= n || seen >> d & 1) return 0;
      seen |= (uint64_t)1 << d;
      order[i] = (int)d;
    }
    return 1;
  }
  if (ct_pt2_is(view, "aten.transpose") || ct_pt2_is(view, "aten.swapdims") ||
      ct_pt2_is(view, "aten.swapaxes")) {
    int axes = ct_pt2_is(view, "aten.swapaxes");
    if (ct_pt2_int(&p->g, view, axes ? "axis0" : "dim0", &x) != CT_OK ||
        ct_pt2_int(&p->g, view, axes ? "axis1" : "dim1", &y) != CT_OK)
      return 0;
  }
  x += x < 0 ? n : 0;
  y += y < 0 ? n : 0;
  if (n < 2) return n >= 0;
  if (x < 0 || y < 0 || x >= n || y >= n) return 0;
  order[x] = (int)y;
  order[y] = (int)x;
  return 1;
}

static int put_permute(ct__pt2_t *p, const ct_pt2_node_t *view, int part, int to)
{
  int order[CT__PT2_DIMS], n = p->value[part].ndim;
  ct_pt2_dim_t back[CT__PT2_DIMS] = {0};
  ct__pt2_make_t m = ct__pt2_make("aten.permute.default", view);
  if (!ct__pt2_permutation(p, view, n, order))
    return ct_pt2_refuse(&p->g, view, CT_ERR_FORMAT, "the order of its dims is not valid");
  for (int i = 0; i < n; i++)
    back[order[i]].n = i;
  ct__pt2_make_tensor(p, &m, "self", part);
  ct__pt2_make_dims(p, &m, "dims", back, n);
  return ct__pt2_make_end(p, &m, to);
}

static int put_shape(ct__pt2_t *p, const ct_pt2_node_t *view, int whole, int part, int to)
{
  ct__pt2_make_t m = ct__pt2_make("aten.view.default", view);
  ct__pt2_make_tensor(p, &m, "self", part);
  ct__pt2_make_dims(p, &m, "size", p->value[whole].dim, p->value[whole].ndim);
  return ct__pt2_make_end(p, &m, to);
}

int ct__pt2_put_back(ct__pt2_t *p, const ct_pt2_node_t *user, int view, int whole, int part,
                     int *out)
{
  int rc = CT_OK, k = p->more[view].part, of = p->more[view].view_of;
  *out = part;
  if (p->more[view].view_node < 0) return CT_OK;
  const ct_pt2_node_t by = p->node[p->more[view].view_node];
  view_kind_t kind = view_decide(p, &by, of, view);
  if (kind == VIEW_SAME) return CT_OK;
  if (kind == VIEW_OTHER)
    return ct_pt2_refuse(&p->g, user, CT_ERR_UNSUP,
                         "changes a view made by %s, which is not supported", by.op);
  CT_TRY(ct__pt2_new_value(p, of, whole, whole, out));
  if (kind == VIEW_SLICE || kind == VIEW_PARTS)
    CT_TRY(put_slice(p, &by, k, whole, part, *out));
  else if (kind == VIEW_SELECT || kind == VIEW_EACH)
    CT_TRY(put_select(p, &by, k, whole, part, *out));
  else if (kind == VIEW_PERMUTE)
    CT_TRY(put_permute(p, &by, part, *out));
  else
    CT_TRY(put_shape(p, &by, whole, part, *out));
out:
  return rc;
}
