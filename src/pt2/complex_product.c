/* Complex numbers as pairs: products of matrices, each as one real product.
 *
 * A factor w becomes the matrix [[re, im], [-im, re]] for each of its elements, so that the pair of
 * z times this matrix is the pair of z w.  With the dims of the pairs among those that are summed
 * and those of the result, a product of complex matrices is a real one of twice the size. */
#include <ctype.h>
#include <string.h>

#include "pt2/complex.h"

/* Returns the matrices of a complex value: two last dims, of the pair of the other factor and of
 * the result. */
static int product_matrices(ct__complex_t *c, int w)
{
  ct__complex_shape_t s = ct__complex_shape(c, w);
  int last = s.ndim - 1, turned = ct__complex_turned(c, w);
  s.dim[last + 1] = s.dim[last];
  s.dim[last].n = 1;
  s.ndim++;
  w = ct__complex_view(c, w, &s);
  turned = ct__complex_view(c, turned, &s);
  return ct__complex_cat(c, w, turned, last);
}

/* ---- einsum ---- */

enum { MOST = 8, MOST_TEXT = 128 };

/* The parts of an equation. */
typedef struct equation {
  char term[MOST + 1][MOST_TEXT]; /* of the operands; of the result at [n] */
  int n;
} equation_t;

static int equation_read(const char *text, int n, equation_t *e)
{
  int k = 0;
  size_t len = 0;
  *e = (equation_t){.n = n};
  for (const char *at = text; *at; at++) {
    int arrow = at[0] == '-' && at[1] == '>';
    if (*at == ' ') continue;
    if (*at != ',' && !arrow) {
      if (len + 4 >= MOST_TEXT) return 0;
      e->term[k][len++] = *at;
      continue;
    }
    at += arrow;
    len = 0;
    if (++k > n || (k == n) != arrow) return 0;
  }
  return k == n;
}

/* Returns a letter that the equation does not have. */
static char equation_letter(const equation_t *e)
{
  for (char x = 'a'; x <= 'z'; x++) {
    int used = 0;
    for (int i = 0; i <= e->n; i++)
      used |= strchr(e->term[i], x) != NULL;
    if (!used) return x;
  }
  return 0;
}

static void equation_append(equation_t *e, int term, char letter)
{
  size_t n = strlen(e->term[term]);
  if (n + 2 >= MOST_TEXT) return;
  e->term[term][n] = letter;
  e->term[term][n + 1] = '\0';
}

/* The operand whose pairs are multiplied by the matrices of the others: one of the input. */
static int einsum_first(const ct__complex_t *c, int n, const int *list)
{
  int first = -1;
  for (int i = 0; i < n; i++) {
    if (!ct__complex_is(c, list[i])) continue;
    if (c->p->value[list[i]].on & CT_PT2_ON_INPUT) return i;
    if (first < 0) first = i;
  }
  return first;
}

static int einsum_add(ct__complex_t *c, const equation_t *e, const int *list)
{
  const char *text = "";
  for (int i = 0; i < e->n; i++)
    text = ct__pt2_format(c->p, "%s%s%s", text, i ? "," : "", e->term[i]);
  text = ct__pt2_format(c->p, "%s->%s", text, e->term[e->n]);
  int *own = ct__pt2_alloc(c->p, e->n, sizeof *own);
  if (!own || !text) c->rc = CT_ERR_NOMEM;
  if (c->rc != CT_OK) return 0;
  memcpy(own, list, (size_t)e->n * sizeof *own);
  const ct_pt2_arg_t equation = {.kind = CT_PT2_STRING, .n = 1, .text = text};
  const ct_pt2_arg_t tensors = {.kind = CT_PT2_TENSORS, .n = e->n, .tensor = own};
  const ct__complex_shape_t s = ct__complex_shape(c, c->node->out[0]);
  ct__pt2_make_t m = ct__pt2_make("aten.einsum.default", c->node);
  ct__pt2_make_copy(&m, "equation", &equation);
  ct__pt2_make_copy(&m, "tensors", &tensors);
  return ct__complex_add(c, &m, &s);
}

static int product_einsum(ct__complex_t *c, const char *data)
{
  const ct_pt2_arg_t *text = ct_pt2_arg(c->node, "equation"), *t = ct_pt2_arg(c->node, "tensors");
  equation_t e;
  int list[MOST];
  (void)data;
  if (!text || text->kind != CT_PT2_STRING || !t || t->kind != CT_PT2_TENSORS || t->n > MOST ||
      !equation_read(text->text, t->n, &e))
    return 0;
  int first = einsum_first(c, t->n, t->tensor);
  char pair = equation_letter(&e);
  if (!pair || first < 0) return 0;
  equation_append(&e, first, pair);
  for (int i = 0; i < t->n; i++) {
    list[i] = t->tensor[i];
    if (i == first || !ct__complex_is(c, list[i])) continue;
    char next = equation_letter(&e);
    if (!next) return 0;
    equation_append(&e, i, pair);
    equation_append(&e, i, next);
    list[i] = product_matrices(c, list[i]);
    pair = next;
  }
  equation_append(&e, e.n, pair);
  return ct__complex_done(c, einsum_add(c, &e, list));
}

/* ---- matmul ---- */

static int product_add(ct__complex_t *c, int x, int w, const ct__complex_shape_t *y)
{
  ct__pt2_make_t m = ct__pt2_make("aten.matmul.default", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_tensor(c->p, &m, "other", w);
  return ct__complex_add(c, &m, y);
}

/* Joins the last dim, of pairs, with the one before. */
static int product_join(ct__complex_t *c, int x)
{
  ct__complex_shape_t s = ct__complex_shape(c, x);
  s.ndim--;
  s.dim[s.ndim - 1].n *= 2;
  return ct__complex_view(c, x, &s);
}

/* The rows of x times the columns of w, which has 2 dims or more; both complex, or only w. */
static int product_matmul(ct__complex_t *c, int x, int w)
{
  ct__complex_shape_t y = ct__complex_shape(c, c->node->out[0]);
  int both = ct__complex_is(c, x), last = ct__complex_ndim(c, w) - 1;
  if (both) {
    ct__complex_shape_t s;
    x = product_join(c, x);
    w = product_matrices(c, w); /* [.., k, n, 2, 2]: the first 2 goes behind k */
    s = ct__complex_shape(c, w);
    ct__pt2_make_t m = ct__pt2_make("aten.transpose.int", c->node);
    ct__pt2_make_tensor(c->p, &m, "self", w);
    ct__pt2_make_int(c->p, &m, "dim0", last - 1);
    ct__pt2_make_int(c->p, &m, "dim1", last);
    s.dim[last] = s.dim[last - 1];
    s.dim[last - 1].n = 2;
    w = ct__complex_add(c, &m, &s);
    s.ndim = last + 1;
    s.dim[last - 2].n *= 2;
    s.dim[last - 1] = s.dim[last];
    s.dim[last - 1].n *= 2;
    s.ndim = last;
    w = ct__complex_view(c, w, &s);
  } else {
    w = product_join(c, w);
  }
  y.ndim--;
  y.dim[y.ndim - 1].n *= 2;
  x = product_add(c, x, w, &y);
  y = ct__complex_shape(c, c->node->out[0]);
  return ct__complex_view(c, x, &y);
}

/* data: the names of the arguments */
static int product_plain(ct__complex_t *c, const char *data)
{
  int x = ct__complex_arg(c, "self"), w = ct__complex_arg(c, data);
  if (x < 0 || w < 0) return 0;
  if (!ct__complex_is(c, w)) w = ct__complex_of(c, w);
  int rows = ct__complex_ndim(c, x) - ct__complex_is(c, x), columns = ct__complex_ndim(c, w) - 1;
  if (rows < 2 || columns < 2 || ct__complex_ndim(c, c->node->out[0]) < 3) return 0;
  return ct__complex_done(c, product_matmul(c, x, w));
}

static int product_linear(ct__complex_t *c, const char *data)
{
  int x = ct__complex_arg(c, "input"), w = ct__complex_arg(c, "weight");
  int b = ct__complex_arg(c, "bias");
  (void)data;
  if (!ct__complex_is(c, w) || ct__complex_ndim(c, w) != 3 ||
      ct__complex_ndim(c, c->node->out[0]) < 3 || ct__complex_ndim(c, x) - ct__complex_is(c, x) < 2)
    return 0;
  ct__complex_shape_t s = ct__complex_shape(c, w);
  ct_pt2_dim_t swap = s.dim[0];
  ct__pt2_make_t m = ct__pt2_make("aten.transpose.int", c->node);
  ct__pt2_make_tensor(c->p, &m, "self", w);
  ct__pt2_make_int(c->p, &m, "dim0", 0);
  ct__pt2_make_int(c->p, &m, "dim1", 1);
  s.dim[0] = s.dim[1];
  s.dim[1] = swap;
  int y = product_matmul(c, x, ct__complex_add(c, &m, &s));
  if (b >= 0) y = ct__complex_two(c, "aten.add.Tensor", y, ct__complex_of(c, b));
  return ct__complex_done(c, y);
}

const ct__complex_row_t ct__complex_products[] = {
    {"aten.einsum", product_einsum, NULL}, {"aten.matmul", product_plain, "other"},
    {"aten.mm", product_plain, "mat2"},    {"aten.bmm", product_plain, "mat2"},
    {"aten.linear", product_linear, NULL}, {NULL, NULL, NULL}};
