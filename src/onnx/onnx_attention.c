/* ONNX nodes of attention with given queries, keys and values.  The batch and the number of keys of
 * a cache are no constants in them. */
#include "onnx/onnx.h"

#include <float.h>

#include "backend/ct_sdpa.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

#define IN  CT__ONNX_LIST
#define OUT CT__ONNX_LIST

/* Adds "word.part" as a constant list of integers. */
static const char *ints(ct__onnx_t *o, int id, const char *word, const char *part, int64_t n,
                        const int64_t v[])
{
  char name[40];
  ct_text_fit(name, sizeof name, "%s.%s", word, part);
  return ct__onnx_const_ints(o, id, name, 1, n, v);
}

/* Keeps a name for as long as the buffer lives; NULL stays NULL. */
static const char *hold(char name[CT__ONNX_NAME], const char *from)
{
  if (from && from != name) ct_text_fit(name, CT__ONNX_NAME, "%s", from);
  return from ? name : NULL;
}

/* Adds a node with one output, "word". */
static const char *apply(ct__onnx_t *o, int id, const char *op, const char *word,
                         const char *const in[])
{
  const char *y = ct__onnx_name(o, id, word);
  ct__onnx_node(o, op, OUT(y), in);
  return y;
}

static const char *reshaped(ct__onnx_t *o, int id, const char *word, int n, const int64_t to[],
                            const char *x)
{
  const char *shape = ints(o, id, word, "shape", n, to);
  return apply(o, id, "Reshape", word, IN(x, shape));
}

/* Adds dims of 1 at two axes. */
static const char *widened(ct__onnx_t *o, int id, const char *word, int64_t a, int64_t b,
                           const char *x)
{
  const int64_t at[] = {a, b};
  const char *axes = ints(o, id, word, "axes", 2, at);
  return apply(o, id, "Unsqueeze", word, IN(x, axes));
}

/* ---- heads ---- */

/* Makes N x heads x tokens x features of the `heads` heads that begin at s->at of a tensor's rows.
 * `turned`: N x heads x features x tokens. */
static const char *heads_of(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *word,
                            const ct_sdpa_side_t *s, int64_t heads, int64_t wide, int turned)
{
  static const int64_t order[2][4] = {{0, 2, 1, 3}, {0, 2, 3, 1}};
  const char *x = s->input == 0 ? l->x : s->input == 1 ? l->x2 : l->x3;
  char name[40];
  if (s->row != heads * wide) {
    const int64_t from = s->at, to = s->at + heads * wide, axis = 2;
    ct_text_fit(name, sizeof name, "%s.part", word);
    const char *start = ints(o, l->id, name, "from", 1, &from);
    const char *end = ints(o, l->id, name, "to", 1, &to);
    const char *axes = ints(o, l->id, name, "axis", 1, &axis);
    x = apply(o, l->id, "Slice", name, IN(x, start, end, axes));
  }
  ct_text_fit(name, sizeof name, "%s.rows", word);
  x = reshaped(o, l->id, name, 4, (const int64_t[]){0, -1, heads, wide}, x);
  const char *y = apply(o, l->id, "Transpose", word, IN(x));
  ct__onnx_ints(o, "perm", 4, order[turned]);
  return y;
}

/* Repeats each head `group` times. */
static const char *repeated(ct__onnx_t *o, int id, const char *word, int64_t heads, int64_t group,
                            int64_t rows, int64_t columns, const char *x)
{
  char name[40];
  if (group == 1) return x;
  const int64_t times[] = {1, 1, group, 1, 1}, axis = 2;
  ct_text_fit(name, sizeof name, "%s.apart", word);
  const char *axes = ints(o, id, name, "axes", 1, &axis);
  x = apply(o, id, "Unsqueeze", name, IN(x, axes));
  ct_text_fit(name, sizeof name, "%s.copies", word);
  const char *shape = ints(o, id, name, "times", 5, times);
  x = apply(o, id, "Expand", name, IN(x, shape));
  ct_text_fit(name, sizeof name, "%s.all", word);
  return reshaped(o, id, name, 4, (const int64_t[]){0, heads * group, rows, columns}, x);
}

/* ---- masks ---- */

/* Adds the numbers 0 … n - 1, as a row or a column. */
static const char *places(ct__onnx_t *o, int id, const char *word, int64_t n, int column)
{
  const int64_t dim[] = {n, 1};
  float *v = ct_mem_array(n, sizeof *v, "mask");
  if (!v && o->rc == CT_OK) o->rc = CT_ERR_NOMEM;
  for (int64_t i = 0; v && i < n; i++)
    v[i] = (float)i;
  const char *name = v ? ct__onnx_const_floats(o, id, word, column ? 2 : 1, dim, v) : word;
  ct_mem_free(v);
  return name;
}

/* Adds the keys that are hidden from queries; NULL: none. */
static const char *hidden_of(ct__onnx_t *o, const ct__onnx_layer_t *l, const ct_sdpa_t *g)
{
  const ct_op_desc_t *d = l->d;
  const char *hidden = NULL, *mask = g->mask == 1 ? l->x2 : l->x3, *by_mask = NULL;
  if (d->u.sdpa.causal)
    hidden =
        apply(o, l->id, "Greater", "later",
              IN(places(o, l->id, "key_place", g->s, 0), places(o, l->id, "query_place", g->t, 1)));
  if (d->u.sdpa.mask == CT_MASK_FIRST) {
    const char *first = widened(o, l->id, "first", 1, 3, mask);
    by_mask =
        apply(o, l->id, "Less", "earlier", IN(places(o, l->id, "key_number", g->s, 0), first));
  }
  if (d->u.sdpa.mask == CT_MASK_KEYS) {
    const char *flags = widened(o, l->id, "flags", 1, 2, mask);
    by_mask = apply(o, l->id, "Equal", "masked", IN(flags, ct__onnx_scalar(o, l->id, "zero", 0)));
  }
  if (!by_mask || !hidden) return by_mask ? by_mask : hidden;
  return apply(o, l->id, "Or", "hidden", IN(hidden, by_mask));
}

/* Adds y = softmax(q kt scale + bias) v.  A query that meets no key gives 0. */
static void attend(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *q, const char *kt,
                   const char *v, const char *y)
{
  const ct_op_desc_t *d = l->d;
  ct_sdpa_t g = ct_sdpa_of(d);
  char held[CT__ONNX_NAME];
  const char *hidden = hold(held, hidden_of(o, l, &g));
  const char *s = apply(o, l->id, "MatMul", "products", IN(q, kt));
  s = apply(o, l->id, "Mul", "scaled", IN(s, ct__onnx_scalar(o, l->id, "scale", d->u.sdpa.scale)));
  if (d->u.sdpa.mask == CT_MASK_BIAS)
    s = apply(o, l->id, "Add", "biased", IN(s, g.mask == 1 ? l->x2 : l->x3));
  if (hidden)
    s = apply(o, l->id, "Where", "scores",
              IN(hidden, ct__onnx_scalar(o, l->id, "least", -FLT_MAX), s));
  const char *p = apply(o, l->id, "Softmax", "weights", IN(s));
  ct__onnx_int(o, "axis", -1);
  if (hidden && d->u.sdpa.mask != CT_MASK_NONE)
    p = apply(o, l->id, "Where", "seen", IN(hidden, ct__onnx_scalar(o, l->id, "none", 0), p));
  ct__onnx_node(o, "MatMul", OUT(y), IN(p, v));
}

/* ---- the op ---- */

static void sdpa_plain(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  int64_t perm[CT_MAX_DIMS];
  int n = l->d->x2.ndim;
  for (int i = 0; i < n; i++)
    perm[i] = i < n - 2 ? i : 2 * n - 3 - i;
  const char *kt = apply(o, l->id, "Transpose", "keys", IN(l->x2));
  ct__onnx_ints(o, "perm", n, perm);
  attend(o, l, l->x, kt, l->x3, l->y);
}

void ct__onnx_sdpa(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct_sdpa_t g = ct_sdpa_of(l->d);
  int64_t group = g.heads / g.kv_heads;
  static const int64_t order[] = {0, 2, 1, 3};
  if (!l->d->u.sdpa.heads) {
    sdpa_plain(o, l);
    return;
  }
  char q[CT__ONNX_NAME], kt[CT__ONNX_NAME], v[CT__ONNX_NAME], c[CT__ONNX_NAME];
  hold(q, heads_of(o, l, "queries", &g.q, g.heads, g.d, 0));
  hold(kt, heads_of(o, l, "keys", &g.k, g.kv_heads, g.d, 1));
  hold(kt, repeated(o, l->id, "keys", g.kv_heads, group, g.d, -1, kt));
  hold(v, heads_of(o, l, "values", &g.v, g.kv_heads, g.e, 0));
  hold(v, repeated(o, l->id, "values", g.kv_heads, group, -1, g.e, v));
  hold(c, ct__onnx_name(o, l->id, "heads"));
  attend(o, l, q, kt, v, c);
  const char *rows = apply(o, l->id, "Transpose", "rows", IN(c));
  ct__onnx_ints(o, "perm", 4, order);
  const int64_t to[] = {0, -1, g.heads * g.e};
  ct__onnx_node(o, "Reshape", OUT(l->y), IN(rows, ints(o, l->id, "rows", "shape", 3, to)));
}
