/* Rules: products of matrices. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "import/import.h"

/* ---- matmul ---- */

/* Returns 1 if the layer exchanges the last two dims of its input, which *base is then. */
static int product_is_transposed(const ct__im_t *t, int x, int *base)
{
  const ct__im_layer_t *l = &t->layer[x];
  int n = l->shape.ndim;
  if (!ct__im_is(t, x, "permute")) return 0;
  for (int i = 0; i < n; i++)
    if (l->perm[i] != (i == n - 1 ? n - 2 : i == n - 2 ? n - 1 : i)) return 0;
  *base = l->in[0];
  return 1;
}

int ct__im_matmul(ct__im_t *t, int a, int b, int across, int *out)
{
  int rc = CT_OK, ta, tb, pair[2];
  const ct_shape_t x = t->layer[a].shape, w = t->layer[b].shape;
  ct_shape_t lead_x = x, lead_w = w, y = ct_shape(1, 1);
  if (x.ndim < 2 || w.ndim < 2) return ct__im_refuse("is a product of vectors");
  int64_t columns = w.dim[w.ndim - (across ? 2 : 1)];
  lead_x.ndim -= 2;
  lead_w.ndim -= 2;
  lead_x.batch &= (1u << lead_x.ndim) - 1;
  lead_w.batch &= (1u << lead_w.ndim) - 1;
  if (x.dim[x.ndim - 1] != w.dim[w.ndim - (across ? 1 : 2)])
    return ct__im_refuse("the inner dims of the product differ");
  if (x.batch >> (x.ndim - 1) & 1) return ct__im_refuse("sums over the samples of a batch");
  if (!ct__im_broadcast(&lead_x, &lead_w, &y)) return ct__im_refuse("shapes do not fit together");
  y.dim[y.ndim] = x.dim[x.ndim - 2];
  y.batch |= (x.batch >> (x.ndim - 2) & 1) << y.ndim;
  y.dim[y.ndim + 1] = columns;
  y.batch |= (w.batch >> (w.ndim - (across ? 2 : 1)) & 1) << (y.ndim + 1);
  y.ndim += 2;
  ta = product_is_transposed(t, a, &a);
  tb = product_is_transposed(t, b, &b) ^ across;
  pair[0] = a;
  pair[1] = b;
  CT_TRY(ct__im_add(t, out, "matmul", &y, 2, pair, "%s%s%s", ta ? "transpose_a: yes" : "",
                    ta && tb ? ", " : "", tb ? "transpose_b: yes" : ""));
out:
  return rc;
}

/* Adds a dim of 1 at the front or the end of a vector. */
static int product_vector(ct__im_t *t, int x, int row, int *out)
{
  const ct_shape_t s = t->layer[x].shape;
  *out = x;
  if (s.ndim > 1) return CT_OK;
  ct_shape_t m = row ? ct_shape(2, 1, s.dim[0]) : ct_shape(2, s.dim[0], 1);
  m.batch = row ? s.batch << 1 : s.batch;
  return ct__im_reshape(t, x, &m, out);
}

/* Products of two tensors; data: names of the arguments "self other". */
static int product_plain(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, a, b, y;
  ct_shape_t s;
  CT_TRY(ct__im_in(t, n, "self", 0, &a));
  CT_TRY(ct__im_in(t, n, data, 0, &b));
  CT_TRY(product_vector(t, a, 1, &a));
  CT_TRY(product_vector(t, b, 0, &b));
  CT_TRY(ct__im_matmul(t, a, b, 0, &y));
  CT_TRY(ct__im_result(t, n, &s));
  CT_TRY(ct__im_reshape(t, y, &s, &y));
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

/* beta * self + alpha * a b; data: names of a and b. */
static int product_add(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, a, b, y;
  const char *const *arg = data;
  double beta = 1, alpha = 1;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_in(t, n, arg[0], 0, &a));
  CT_TRY(ct__im_in(t, n, arg[1], 0, &b));
  CT_TRY(ct_pt2_number(t->g, n, "beta", &beta));
  CT_TRY(ct_pt2_number(t->g, n, "alpha", &alpha));
  CT_TRY(product_vector(t, b, 0, &b));
  CT_TRY(ct__im_matmul(t, a, b, 0, &y));
  if (strcmp(arg[1], "vec") == 0) {
    ct_shape_t s = ct__im_reduced(&t->layer[y].shape, 2, 0);
    CT_TRY(ct__im_reshape(t, y, &s, &y));
  }
  CT_TRY(ct__im_scalar(t, "mul", y, alpha, &y));
  if (beta != 0) {
    CT_TRY(ct__im_scalar(t, "mul", x, beta, &x));
    CT_TRY(ct__im_binary(t, "add", y, x, &y));
  }
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

static const char *const addmm[2] = {"mat1", "mat2"};
static const char *const baddbmm[2] = {"batch1", "batch2"};
static const char *const addmv[2] = {"mat", "vec"};

/* ---- linear ---- */

static int product_linear_computed(ct__im_t *t, const ct_pt2_node_t *n)
{
  int rc = CT_OK, x, w, b, y;
  ct_shape_t s;
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  CT_TRY(ct__im_in(t, n, "weight", 0, &w));
  CT_TRY(ct__im_in(t, n, "bias", 1, &b));
  CT_TRY(product_vector(t, x, 1, &x));
  CT_TRY(ct__im_matmul(t, x, w, 1, &y));
  CT_TRY(ct__im_result(t, n, &s));
  CT_TRY(ct__im_reshape(t, y, &s, &y));
  if (b >= 0) CT_TRY(ct__im_binary(t, "add", y, b, &y));
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

static int product_linear(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, w, b, done;
  ct__im_form_t form;
  (void)data;
  CT_TRY(ct__im_match_attention(t, n, &done));
  if (done) return CT_OK;
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  CT_TRY(ct_pt2_tensor(t->g, n, "weight", 0, &w));
  CT_TRY(ct_pt2_tensor(t->g, n, "bias", 1, &b));
  int own = ct__im_owned(t, w, CT__IM_LINEAR) && t->layer[x].shape.batch;
  own = own && (b < 0 || ct__im_owned(t, b, CT__IM_LINEAR));
  if (!own || t->layer[x].shape.ndim < 2) return product_linear_computed(t, n);
  int64_t width = t->g->value[w].dim[0].n;
  CT_TRY(ct__im_rows(t, &x, "linear", &form));
  const ct_shape_t *s = &t->layer[x].shape;
  ct_shape_t y = ct__im_with(s, s->ndim - 1, width);
  CT_TRY(
      ct__im_one(t, &x, "linear", &y, x, "out: %" PRId64 "%s", width, b < 0 ? ", bias: no" : ""));
  ct__im_weight(t, x, "weight", w);
  if (b >= 0) ct__im_weight(t, x, "bias", b);
  CT_TRY(ct__im_unrows(t, &x, &form));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* ---- einsum ---- */

/* An operand of einsum: a layer and the letters of its dims. */
typedef struct operand {
  int layer;
  char letters[CT_MAX_DIMS + 1];
} operand_t;

static int product_has(const char *letters, char c)
{
  return c && strchr(letters, c) != NULL;
}

/* Replaces "..." by capital letters, the last for the last dim. */
static int product_letters(const char **at, int ndim, char *out)
{
  int n = 0, named = 0;
  for (const char *c = *at; *c && *c != ',' && *c != '-'; c++)
    named += isalpha((unsigned char)*c) != 0;
  const char *c = *at;
  for (; *c && *c != ',' && *c != '-'; c++) {
    if (isalpha((unsigned char)*c) && n < CT_MAX_DIMS) out[n++] = *c;
    if (c[0] != '.') continue;
    for (int i = ndim - named; i > 0 && n < CT_MAX_DIMS; i--)
      out[n++] = (char)('Z' - i + 1);
    c += 2;
  }
  out[n] = '\0';
  *at = *c == ',' ? c + 1 : *c == '-' ? c + 2 : c;
  for (int i = 0; i < n; i++)
    if (strchr(out + i + 1, out[i])) return ct__im_refuse("takes a diagonal");
  return CT_OK;
}

/* Sums over the letters that no other operand and not the result have. */
static int product_sum_out(ct__im_t *t, operand_t *a, const char *others)
{
  int rc = CT_OK, k = 0;
  unsigned bits = 0;
  const char *dims = "";
  char left[CT_MAX_DIMS + 1];
  for (int i = 0; a->letters[i]; i++) {
    if (product_has(others, a->letters[i])) {
      left[k++] = a->letters[i];
      continue;
    }
    bits |= 1u << i;
    dims = dims ? ct__im_format(t, "%s%s%d", dims, *dims ? ", " : "", i) : NULL;
  }
  left[k] = '\0';
  if (!dims) return CT_ERR_NOMEM;
  if (!bits) return CT_OK;
  const ct_shape_t s = t->layer[a->layer].shape;
  if (s.batch & bits) return ct__im_refuse("sums over the samples of a batch");
  ct_shape_t y = ct__im_reduced(&s, bits, 0);
  CT_TRY(ct__im_one(t, &a->layer, "sum", &y, a->layer, "dims: [%s]%s", dims,
                    k == 0 ? ", keepdim: yes" : ""));
  strcpy(a->letters, left);
out:
  return rc;
}

/* Brings the dims of an operand into the order of \a want, which has the same letters. */
static int product_order(ct__im_t *t, operand_t *a, const char *want)
{
  int dims[CT_MAX_DIMS] = {0};
  for (int i = 0; want[i]; i++)
    dims[i] = (int)(strchr(a->letters, want[i]) - a->letters);
  strcpy(a->letters, want);
  return ct__im_permute(t, a->layer, dims, &a->layer);
}

/* Joins the dims from first to first + count - 1 to one; none become a dim of 1. */
static ct_shape_t product_joined(const ct_shape_t *s, int first, int count)
{
  ct_shape_t r = ct_shape(1, 1);
  r.ndim = 0;
  for (int i = 0; i < s->ndim + (count == 0); i++) {
    int at = r.ndim;
    if (i == first && count == 0) r.dim[r.ndim++] = 1;
    if (i >= s->ndim) break;
    if (i > first && i < first + count) {
      r.dim[at - 1] *= s->dim[i];
      r.batch |= (s->batch >> i & 1) << (at - 1);
      continue;
    }
    r.batch |= (s->batch >> i & 1) << r.ndim;
    r.dim[r.ndim++] = s->dim[i];
  }
  return r;
}

/* The letters of a product, by what becomes of them.  The letter of the batch is the first. */
typedef struct product {
  char both[CT_MAX_DIMS + 1], inner[CT_MAX_DIMS + 1], a[CT_MAX_DIMS + 1], b[CT_MAX_DIMS + 1];
} product_t;

static void product_put(char *list, char c, int first)
{
  size_t n = strlen(list);
  if (first) memmove(list + 1, list, n + 1);
  list[first ? 0 : n] = c;
  if (!first) list[n + 1] = '\0';
}

static void product_classify(const ct__im_t *t, const operand_t *a, const operand_t *b,
                             const char *result, product_t *p)
{
  memset(p, 0, sizeof *p);
  for (int i = 0; a->letters[i]; i++) {
    char c = a->letters[i];
    int batch = t->layer[a->layer].shape.batch >> i & 1;
    int in_b = product_has(b->letters, c), kept = product_has(result, c);
    product_put(in_b ? kept ? p->both : p->inner : p->a, c, batch);
  }
  for (int i = 0; b->letters[i]; i++)
    if (!product_has(a->letters, b->letters[i]))
      product_put(p->b, b->letters[i], t->layer[b->layer].shape.batch >> i & 1);
}

/* A product of two operands, as a product of matrices. */
static int product_two(ct__im_t *t, operand_t *a, operand_t *b, const char *result)
{
  int rc = CT_OK, y;
  product_t p;
  char all[3 * CT_MAX_DIMS + 1];
  product_classify(t, a, b, result, &p);
  int lead = (int)strlen(p.both), rows = (int)strlen(p.a), columns = (int)strlen(p.b);
  int inner = (int)strlen(p.inner);
  if (lead + rows + columns > CT_MAX_DIMS)
    return ct__im_refuse("has more than %d dims", CT_MAX_DIMS);
  strcat(strcat(strcpy(all, p.both), p.a), p.inner);
  CT_TRY(product_order(t, a, all));
  strcat(strcat(strcpy(all, p.both), p.inner), p.b);
  CT_TRY(product_order(t, b, all));
  ct_shape_t s = product_joined(&t->layer[a->layer].shape, lead + rows, inner);
  s = product_joined(&s, lead, rows);
  CT_TRY(ct__im_reshape(t, a->layer, &s, &a->layer));
  s = product_joined(&t->layer[b->layer].shape, lead + inner, columns);
  s = product_joined(&s, lead, inner);
  CT_TRY(ct__im_reshape(t, b->layer, &s, &b->layer));
  CT_TRY(ct__im_matmul(t, a->layer, b->layer, 0, &y));
  a->layer = y;
  strcat(strcat(strcpy(all, p.both), p.a), p.b);
  strcpy(a->letters, all);
out:
  return rc;
}

/* Returns the shape of letters; sizes: by letter. */
static ct_shape_t product_shape(const char *letters, const int64_t *size, unsigned long long batch)
{
  ct_shape_t s = ct_shape(1, 1);
  s.ndim = letters[0] ? 0 : 1;
  for (int i = 0; letters[i]; i++) {
    int k = letters[i] - 'A';
    s.batch |= (unsigned)(batch >> k & 1) << s.ndim;
    s.dim[s.ndim++] = size[k];
  }
  return s;
}

static int product_einsum(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  enum { MOST = 8 };
  int rc = CT_OK, count;
  const int *list;
  const char *equation, *at;
  char spaceless[128], result[CT_MAX_DIMS + 1] = "";
  operand_t op[MOST] = {{0}};
  int64_t size[64] = {0};
  unsigned long long batch = 0;
  size_t len = 0;
  (void)data;
  CT_TRY(ct_pt2_text(t->g, n, "equation", &equation));
  CT_TRY(ct_pt2_tensors(t->g, n, "tensors", &count, &list));
  for (const char *c = equation; *c && len < sizeof spaceless - 1; c++)
    if (*c != ' ') spaceless[len++] = *c;
  spaceless[len] = '\0';
  if (!strstr(spaceless, "->") || count > MOST || count < 1)
    return ct__im_refuse("equation '%s'", equation);
  at = spaceless;
  for (int i = 0; i < count; i++) {
    CT_TRY(ct__im_operand(t, list[i], &op[i].layer));
    const ct_shape_t *s = &t->layer[op[i].layer].shape;
    CT_TRY(product_letters(&at, s->ndim, op[i].letters));
    for (int k = 0; op[i].letters[k]; k++) {
      size[op[i].letters[k] - 'A'] = s->dim[k];
      batch |= (unsigned long long)(s->batch >> k & 1) << (op[i].letters[k] - 'A');
    }
  }
  ct_shape_t y;
  CT_TRY(ct__im_result(t, n, &y));
  CT_TRY(product_letters(&at, t->g->value[n->out[0]].ndim, result));
  for (int i = 0; i < count; i++) {
    char others[(MOST + 1) * CT_MAX_DIMS + 1] = "";
    strcat(others, result);
    for (int k = 0; k < count; k++)
      if (k != i) strcat(others, op[k].letters);
    CT_TRY(product_sum_out(t, &op[i], others));
  }
  for (int i = 1; i < count; i++) {
    char keep[(MOST + 1) * CT_MAX_DIMS + 1] = "";
    strcat(keep, result);
    for (int k = i + 1; k < count; k++)
      strcat(keep, op[k].letters);
    CT_TRY(product_two(t, &op[0], &op[i], keep));
    ct_shape_t s = product_shape(op[0].letters, size, batch);
    CT_TRY(ct__im_reshape(t, op[0].layer, &s, &op[0].layer));
  }
  if (*result) CT_TRY(product_order(t, &op[0], result));
  CT_TRY(ct__im_reshape(t, op[0].layer, &y, &op[0].layer));
  CT_TRY(ct__im_done(t, n, op[0].layer));
out:
  return rc;
}

/* ---- distances and others ---- */

/* |a - b + eps| of order p over the last dim. */
static int product_distance(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, a, b, keep;
  double p, eps;
  char number[40];
  (void)data;
  CT_TRY(ct__im_in(t, n, "x1", 0, &a));
  CT_TRY(ct__im_in(t, n, "x2", 0, &b));
  CT_TRY(ct_pt2_number(t->g, n, "p", &p));
  CT_TRY(ct_pt2_number(t->g, n, "eps", &eps));
  CT_TRY(ct_pt2_bool(t->g, n, "keepdim", &keep));
  CT_TRY(ct__im_binary(t, "sub", a, b, &a));
  CT_TRY(ct__im_scalar(t, "add", a, eps, &a));
  const ct_shape_t s = t->layer[a].shape;
  int last = s.ndim - 1;
  ct_shape_t y = ct__im_reduced(&s, 1u << last, keep);
  const char *order =
      p == 2 ? "" : ct__im_format(t, ", p: %s", ct_text_number(p, number, sizeof number));
  if (!order) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &a, "norm", &y, a, "dims: [%d]%s%s", last, keep ? ", keepdim: yes" : "",
                    order));
  CT_TRY(ct__im_done(t, n, a));
out:
  return rc;
}

const ct__im_rule_t ct__im_products[] = {{"aten.linear", product_linear, NULL},
                                         {"aten.matmul", product_plain, "other"},
                                         {"aten.mm", product_plain, "mat2"},
                                         {"aten.bmm", product_plain, "mat2"},
                                         {"aten.mv", product_plain, "vec"},
                                         {"aten.addmm", product_add, addmm},
                                         {"aten.baddbmm", product_add, baddbmm},
                                         {"aten.addmv", product_add, addmv},
                                         {"aten.einsum", product_einsum, NULL},
                                         {"aten.pairwise_distance", product_distance, NULL},
                                         {NULL, NULL, NULL}};
