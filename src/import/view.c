/* Shapes, and layers that only move elements.  Views of views become one view or none, so that the
 * forms in which PyTorch's modules pass tensors around (T x N x D) leave no trace. */
#include <inttypes.h>
#include <string.h>

#include "import/import.h"

enum { VIEW_PARTS = 64 };

/* ---- shapes ---- */

const char *ct__im_dims(ct__im_t *t, const ct_shape_t *s)
{
  const char *text = "";
  for (int i = 0; i < s->ndim && text; i++) {
    const char *comma = i ? ", " : "";
    if (!(s->batch >> i & 1))
      text = ct__im_format(t, "%s%s%" PRId64, text, comma, s->dim[i]);
    else if (s->dim[i] == 1)
      text = ct__im_format(t, "%s%sN", text, comma);
    else
      text = ct__im_format(t, "%s%s%" PRId64 "N", text, comma, s->dim[i]);
  }
  return text ? ct__im_format(t, "[%s]", text) : NULL;
}

ct_shape_t ct__im_reduced(const ct_shape_t *s, unsigned bits, int keep)
{
  ct_shape_t r = ct_shape(1, 1);
  r.ndim = 0;
  for (int i = 0; i < s->ndim; i++) {
    int gone = bits >> i & 1;
    if (gone && !keep) continue;
    if (!gone && (s->batch >> i & 1)) r.batch |= 1u << r.ndim;
    r.dim[r.ndim++] = gone ? 1 : s->dim[i];
  }
  if (r.ndim == 0) r.ndim = 1;
  return r;
}

int ct__im_broadcast(const ct_shape_t *a, const ct_shape_t *b, ct_shape_t *out)
{
  const ct_shape_t *big = a->ndim >= b->ndim ? a : b, *small = big == a ? b : a;
  int shift = big->ndim - small->ndim;
  *out = *big;
  for (int i = 0; i < small->ndim; i++) {
    int j = i + shift;
    unsigned bs = small->batch >> i & 1, bb = big->batch >> j & 1;
    if (small->dim[i] == 1 && !bs) continue;
    if (small->dim[i] == big->dim[j] && bs == bb) continue;
    if (big->dim[j] != 1 || bb) return 0;
    out->dim[j] = small->dim[i];
    out->batch |= bs << j;
  }
  return 1;
}

ct_shape_t ct__im_with(const ct_shape_t *s, int dim, int64_t n)
{
  ct_shape_t r = *s;
  r.dim[dim] = n;
  return r;
}

/* ---- views ---- */

int ct__im_reshape(ct__im_t *t, int x, const ct_shape_t *shape, int *out)
{
  int rc = CT_OK;
  ct_shape_t s = *shape;
  while (ct__im_is(t, x, "reshape") || ct__im_is(t, x, "flatten"))
    x = t->layer[x].in[0];
  const ct_shape_t *from = &t->layer[x].shape;
  *out = x;
  if (ct__im_same(from, &s)) return CT_OK;
  int flat =
      s.ndim == 2 && from->ndim > 2 && s.batch == 1 && from->batch == 1 && from->dim[0] == s.dim[0];
  if (flat) {
    CT_TRY(ct__im_one(t, out, "flatten", &s, x, NULL));
  } else {
    const char *dims = ct__im_dims(t, &s);
    if (!dims) return CT_ERR_NOMEM;
    CT_TRY(ct__im_one(t, out, "reshape", &s, x, "shape: %s", dims));
  }
out:
  return rc;
}

/* Returns 1 if a permutation only moves dims of one element, so that it is a reshape. */
static int view_keeps_order(const ct_shape_t *s, const int *dims)
{
  int last = -1;
  for (int i = 0; i < s->ndim; i++) {
    int d = dims[i];
    if (s->dim[d] == 1 && !(s->batch >> d & 1)) continue;
    if (d < last) return 0;
    last = d;
  }
  return 1;
}

int ct__im_permute(ct__im_t *t, int x, const int *dims, int *out)
{
  int rc = CT_OK, perm[CT_MAX_DIMS], same = 1;
  int64_t list[CT_MAX_DIMS];
  const ct__im_layer_t *l = &t->layer[x];
  int n = l->shape.ndim, through = ct__im_is(t, x, "permute");
  for (int i = 0; i < n; i++) {
    perm[i] = through ? l->perm[dims[i]] : dims[i];
    list[i] = perm[i];
    same &= perm[i] == i;
  }
  if (through) x = l->in[0];
  *out = x;
  if (same) return CT_OK;
  ct_shape_t from = t->layer[x].shape, s = from;
  s.batch = 0;
  for (int i = 0; i < n; i++) {
    s.dim[i] = from.dim[perm[i]];
    s.batch |= (from.batch >> perm[i] & 1) << i;
  }
  if (view_keeps_order(&from, perm)) return ct__im_reshape(t, x, &s, out);
  const char *text = ct__im_list(t, n, list, 0);
  if (!text) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, out, "permute", &s, x, "dims: %s", text));
  memcpy(t->layer[*out].perm, perm, sizeof perm);
out:
  return rc;
}

/* If a slice of a concat lies in one of its inputs, it becomes a slice of this input. */
static void view_find_part(const ct__im_t *t, int *x, int dim, int64_t *start, int64_t *end)
{
  while (ct__im_is(t, *x, "concat") && t->layer[*x].perm[0] == dim) {
    const int *in = t->layer[*x].in;
    int64_t first = t->layer[in[0]].shape.dim[dim];
    if (*start >= first) {
      *x = in[1];
      *start -= first;
      *end -= first;
    } else if (*end <= first) {
      *x = in[0];
    } else {
      return;
    }
  }
}

/* Returns 1 if a layer is an expansion that does not change this dim. */
static int view_is_behind(const ct__im_t *t, int x, int dim)
{
  if (!ct__im_is(t, x, "expand")) return 0;
  const ct_shape_t *b = &t->layer[t->layer[x].in[0]].shape, *s = &t->layer[x].shape;
  int i = dim - (s->ndim - b->ndim);
  return i >= 0 && b->dim[i] == s->dim[dim] && !((b->batch >> i ^ s->batch >> dim) & 1);
}

int ct__im_before_expand(ct__im_t *t, int x, int dim)
{
  return view_is_behind(t, x, dim) ? t->layer[x].in[0] : x;
}

int ct__im_slice(ct__im_t *t, int x, int dim, int64_t start, int64_t end, int64_t step, int *out)
{
  int rc = CT_OK;
  view_find_part(t, &x, dim, &start, &end);
  if (view_is_behind(t, x, dim)) {
    const ct_shape_t y = ct__im_with(&t->layer[x].shape, dim, (end - start + step - 1) / step);
    int base = t->layer[x].in[0], back = t->layer[x].shape.ndim - t->layer[base].shape.ndim;
    if (start >= end) return ct__im_refuse("makes a tensor without elements");
    CT_TRY(ct__im_slice(t, base, dim - back, start, end, step, &base));
    return ct__im_expand(t, base, &y, out);
  }
  const ct_shape_t *from = &t->layer[x].shape;
  *out = x;
  if (start == 0 && end >= from->dim[dim] && step == 1) return CT_OK;
  if (from->batch >> dim & 1)
    return ct__im_refuse("takes a part of the batch (dim %d); this depends on the batch size", dim);
  if (end > from->dim[dim]) end = from->dim[dim];
  if (start >= end) return ct__im_refuse("makes a tensor without elements");
  *out = -1;
  if (t->fft_slice) CT_TRY(t->fft_slice(t, x, dim, start, end, step, out));
  if (*out >= 0) return CT_OK;
  from = &t->layer[x].shape;
  ct_shape_t s = ct__im_with(from, dim, (end - start + step - 1) / step);
  const char *by = step == 1 ? "" : ct__im_format(t, ", step: %" PRId64, step);
  if (!by) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, out, "slice", &s, x, "dim: %d, start: %" PRId64 ", end: %" PRId64 "%s", dim,
                    start, end, by));
out:
  return rc;
}

int ct__im_expand(ct__im_t *t, int x, const ct_shape_t *shape, int *out)
{
  int rc = CT_OK;
  ct_shape_t s = *shape;
  const char *dims;
  if (ct__im_is(t, x, "expand")) x = t->layer[x].in[0];
  *out = x;
  if (ct__im_same(&t->layer[x].shape, &s)) return CT_OK;
  if (ct_shape_count(&t->layer[x].shape) == ct_shape_count(&s) &&
      __builtin_popcount(t->layer[x].shape.batch) == __builtin_popcount(s.batch))
    return ct__im_reshape(t, x, &s, out);
  dims = ct__im_dims(t, &s);
  if (!dims) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, out, "expand", &s, x, "shape: %s", dims));
out:
  return rc;
}

/* Returns 1 if the indices are start, start + step, ... */
static int view_is_range(int64_t n, const int64_t *index, int64_t *step)
{
  *step = n > 1 ? index[1] - index[0] : 1;
  for (int64_t i = 1; i < n; i++)
    if (index[i] - index[i - 1] != *step) return 0;
  return *step >= 1;
}

int ct__im_take(ct__im_t *t, int x, int dim, int64_t n, const int64_t *index, int *out)
{
  int rc = CT_OK, dims[CT_MAX_DIMS], back[CT_MAX_DIMS], ids, pair[2];
  int64_t step;
  const ct_shape_t s = t->layer[x].shape;
  for (int64_t i = 0; i < n; i++)
    if (index[i] < 0 || index[i] >= s.dim[dim]) return ct__im_refuse("an index is out of range");
  if (s.batch >> dim & 1) return ct__im_refuse("takes samples of the batch by their indices");
  if (view_is_range(n, index, &step))
    return ct__im_slice(t, x, dim, index[0], index[n - 1] + 1, step, out);
  float *data = ct__im_alloc(t, n, sizeof *data);
  if (!data) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < n; i++)
    data[i] = (float)index[i];
  ct_shape_t list = ct_shape(1, n);
  CT_TRY(ct__im_constant(t, &list, data, &ids));
  for (int i = 0; i < s.ndim; i++) {
    dims[i] = i == 0 ? dim : i <= dim ? i - 1 : i;
    back[dims[i]] = i;
  }
  CT_TRY(ct__im_permute(t, x, dims, &x));
  ct_shape_t y = ct__im_with(&t->layer[x].shape, 0, n);
  pair[0] = x;
  pair[1] = ids;
  CT_TRY(ct__im_add(t, &x, "rows", &y, 2, pair, NULL));
  CT_TRY(ct__im_permute(t, x, back, out));
out:
  return rc;
}

/* ---- joining ---- */

/* Returns an earlier concat of the first tensors of the list, of as many as possible; *used: how
 * many it has.  Dense blocks join the same tensors again and again. */
static int view_find_prefix(const ct__im_t *t, int n, const int *x, int dim, int *used)
{
  int best = -1;
  *used = 0;
  for (int i = t->layers - 1; i >= 0; i--) {
    const ct__im_layer_t *l = &t->layer[i];
    if (!ct__im_is(t, i, "concat") || l->perm[0] != dim) continue;
    /* perm[1]: number of tensors in all, of which those before the last input are in input 0 */
    int k = l->perm[1], at = i, same = k <= n && k > *used;
    for (int j = k - 1; same && j >= 1; j--) {
      const ct__im_layer_t *c = &t->layer[at];
      same = c->in[1] == x[j];
      at = c->in[0];
    }
    if (!same || at != x[0]) continue;
    best = i;
    *used = k;
  }
  return best;
}

/* If all tensors were expanded along the batch, dim 0, alone, lists what they were before. */
static int view_strip_batch(const ct__im_t *t, int n, const int *x, int dim, int *list)
{
  if (n > VIEW_PARTS || dim == 0) return 0;
  for (int i = 0; i < n; i++) {
    if (!ct__im_is(t, x[i], "expand")) return 0;
    list[i] = t->layer[x[i]].in[0];
    const ct_shape_t *s = &t->layer[x[i]].shape, *b = &t->layer[list[i]].shape;
    ct_shape_t one = ct__im_with(s, 0, 1);
    one.batch = 0;
    if (s->batch != 1 || !ct__im_same(&one, b)) return 0;
  }
  return 1;
}

int ct__im_concat(ct__im_t *t, int n, const int *x, int dim, int *out)
{
  int rc = CT_OK, used, pair[2], list[VIEW_PARTS] = {0};
  const ct_shape_t whole = t->layer[x[0]].shape;
  int shared = view_strip_batch(t, n, x, dim, list);
  if (shared) x = list;
  int at = view_find_prefix(t, n, x, dim, &used); /* *out may be one of x */
  if (at < 0) {
    at = x[0];
    used = 1;
  }
  for (int i = used; i < n; i++) {
    const ct_shape_t *a = &t->layer[at].shape, *b = &t->layer[x[i]].shape;
    if ((a->batch | b->batch) >> dim & 1)
      return ct__im_refuse("joins tensors along the batch (dim %d)", dim);
    ct_shape_t s = ct__im_with(a, dim, a->dim[dim] + b->dim[dim]);
    s.batch |= b->batch;
    pair[0] = at;
    pair[1] = x[i];
    int usual = s.ndim == 3 ? 2 : 1; /* the features of a sequence, or channels */
    CT_TRY(ct__im_add(t, &at, "concat", &s, 2, pair, dim == usual ? NULL : "dim: %d", dim));
    t->layer[at].perm[0] = dim;
    t->layer[at].perm[1] = i + 1;
  }
  ct_shape_t y = ct__im_with(&whole, dim, t->layer[at].shape.dim[dim]);
  if (shared) CT_TRY(ct__im_expand(t, at, &y, &at));
  *out = at;
out:
  return rc;
}

/* ---- forms ---- */

static int view_is_general(const char *kind)
{
  const ct_layer_ops_t *ops = ct_layer_find(kind);
  return ops && ops->general;
}

int ct__im_front(ct__im_t *t, int *x, const char *kind, ct__im_form_t *form)
{
  int rc = CT_OK, first = 0;
  form->before = form->moved = t->layer[*x].shape;
  const ct_shape_t *s = &form->before;
  for (int i = 0; i < CT_MAX_DIMS; i++)
    form->perm[i] = i;
  if (view_is_general(kind) || s->batch == 1) return CT_OK;
  if (!s->batch) return CT_OK;
  while (!(s->batch >> first & 1))
    first++;
  if (s->batch >> first != 1) return ct__im_refuse("has a batch in more than one dim");
  for (int i = first; i > 0; i--)
    form->perm[i] = i - 1;
  form->perm[0] = first;
  CT_TRY(ct__im_permute(t, *x, form->perm, x));
  form->moved = t->layer[*x].shape;
out:
  return rc;
}

int ct__im_back(ct__im_t *t, int *x, const ct__im_form_t *form)
{
  int back[CT_MAX_DIMS];
  for (int i = 0; i < form->before.ndim; i++)
    back[form->perm[i]] = i;
  return ct__im_permute(t, *x, back, x);
}

int ct__im_rows(ct__im_t *t, int *x, const char *kind, ct__im_form_t *form)
{
  int rc = CT_OK;
  CT_TRY(ct__im_front(t, x, kind, form));
  ct_shape_t *s = &form->moved;
  if (view_is_general(kind) || s->ndim <= 3) return CT_OK;
  ct_shape_t flat = ct_shape(3, s->dim[0], 1, s->dim[s->ndim - 1]);
  flat.batch = 1;
  for (int i = 1; i < s->ndim - 1; i++)
    flat.dim[1] *= s->dim[i];
  CT_TRY(ct__im_reshape(t, *x, &flat, x));
out:
  return rc;
}

int ct__im_unrows(ct__im_t *t, int *x, const ct__im_form_t *form)
{
  int rc = CT_OK, last = form->moved.ndim - 1;
  const ct_shape_t *now = &t->layer[*x].shape;
  ct_shape_t s = ct__im_with(&form->moved, last, now->dim[now->ndim - 1]);
  CT_TRY(ct__im_reshape(t, *x, &s, x));
  CT_TRY(ct__im_back(t, x, form));
out:
  return rc;
}
