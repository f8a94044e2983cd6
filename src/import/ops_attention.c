/* Rules: attention.  Self-attention whose projections are parameters is one layer; its form is
 * found by following elements through the views, so that it does not matter how a module reshapes
 * and permutes.  Other attention is composed. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_mem.h"
#include "import/import.h"

/* ---- composed ---- */

/* Returns 1 if each row of a mask is known to keep an element. */
static int attention_rows_keep(ct__im_t *t, int value)
{
  const double *x;
  ct_shape_t s;
  if (ct__im_numbers(t, value, &s, &x) != CT_OK) return 0;
  int64_t columns = s.dim[s.ndim - 1], count = ct_shape_count(&s), kept = 1;
  for (int64_t i = 0; i < count; i += columns) {
    kept = 0;
    for (int64_t k = 0; k < columns; k++)
      kept |= x[i + k] != 0;
    if (!kept) break;
  }
  return kept != 0;
}

/* Adds a mask to the scores: bool masks keep where they are 1.  *none: a layer that is 1 for rows
 * without an element that is kept, whose result is 0; -1: there are none. */
static int attention_mask(ct__im_t *t, const ct_pt2_node_t *n, int *scores, int *none)
{
  int rc = CT_OK, value, mask, hidden;
  *none = -1;
  CT_TRY(ct_pt2_tensor(t->g, n, "attn_mask", 1, &value));
  if (value < 0) return CT_OK;
  CT_TRY(ct__im_operand(t, value, &mask));
  if (t->g->value[value].type != CT_ELEM_BOOL)
    return ct__im_binary(t, "add", *scores, mask, scores);
  const ct_shape_t s = t->layer[mask].shape;
  if (!attention_rows_keep(t, value)) {
    ct_shape_t row = ct__im_reduced(&s, 1u << (s.ndim - 1), 1);
    CT_TRY(ct__im_one(t, none, "amax", &row, mask, "dims: [%d], keepdim: yes", s.ndim - 1));
    CT_TRY(ct__im_one(t, none, "logical_not", &row, *none, NULL));
  }
  CT_TRY(ct__im_one(t, &hidden, "logical_not", &s, mask, NULL));
  CT_TRY(ct__im_add(t, scores, "where", &t->layer[*scores].shape, 2, (int[]){hidden, *scores},
                    "value: %s", *none < 0 ? "-inf" : "-1e30"));
out:
  return rc;
}

/* Hides later steps: -inf where a step would see one after it. */
static int attention_causal(ct__im_t *t, int scores, int *out)
{
  int rc = CT_OK, mask;
  const ct_shape_t s = t->layer[scores].shape;
  int64_t rows = s.dim[s.ndim - 2], columns = s.dim[s.ndim - 1];
  if (s.batch >> (s.ndim - 2)) return ct__im_refuse("its steps are the samples of the batch");
  ct_shape_t square = ct_shape(2, rows, columns);
  float *data = ct__im_alloc(t, rows * columns, sizeof *data);
  if (!data) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = i + 1; j < columns; j++)
      data[i * columns + j] = 1;
  for (int i = 0; i < t->layers; i++) /* all blocks have the same mask */
    if (t->layer[i].data && ct__im_is(t, i, "constant") &&
        ct__im_same(&t->layer[i].shape, &square) &&
        memcmp(t->layer[i].data, data, (size_t)(rows * columns) * sizeof *data) == 0)
      return ct__im_add(t, out, "where", &s, 2, (int[]){i, scores}, "value: -inf");
  CT_TRY(ct__im_constant(t, &square, data, &mask));
  CT_TRY(ct__im_add(t, out, "where", &s, 2, (int[]){mask, scores}, "value: -inf"));
out:
  return rc;
}

/* Repeats the heads of keys and values as often as there are heads of queries for each. */
static int attention_groups(ct__im_t *t, int q, int *k)
{
  int rc = CT_OK;
  const ct_shape_t a = t->layer[q].shape, b = t->layer[*k].shape;
  int h = b.ndim - 3;
  if (h < 0 || a.ndim != b.ndim || a.dim[h] == b.dim[h] || a.dim[h] % b.dim[h]) return CT_OK;
  if (b.ndim == CT_MAX_DIMS) return ct__im_refuse("has groups of heads and %d dims", b.ndim);
  ct_shape_t wide = b, y = ct__im_with(&b, h, a.dim[h]);
  wide.ndim++;
  for (int i = b.ndim; i > h + 1; i--)
    wide.dim[i] = wide.dim[i - 1];
  wide.dim[h + 1] = 1;
  CT_TRY(ct__im_reshape(t, *k, &wide, k));
  wide.dim[h + 1] = a.dim[h] / b.dim[h];
  CT_TRY(ct__im_expand(t, *k, &wide, k));
  CT_TRY(ct__im_reshape(t, *k, &y, k));
out:
  return rc;
}

static int attention_composed(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, q, k, v, causal, y, none;
  double scale, p;
  char number[40];
  ct__im_form_t form;
  (void)data;
  CT_TRY(ct__im_in(t, n, "query", 0, &q));
  CT_TRY(ct__im_in(t, n, "key", 0, &k));
  CT_TRY(ct__im_in(t, n, "value", 0, &v));
  CT_TRY(ct_pt2_bool(t->g, n, "is_causal", &causal));
  CT_TRY(ct_pt2_number(t->g, n, "dropout_p", &p));
  const ct_shape_t s = t->layer[q].shape;
  scale = 1 / sqrt((double)s.dim[s.ndim - 1]);
  if (!ct_pt2_is_none(n, "scale")) CT_TRY(ct_pt2_number(t->g, n, "scale", &scale));
  CT_TRY(attention_groups(t, q, &k));
  CT_TRY(attention_groups(t, q, &v));
  CT_TRY(ct__im_scalar(t, "mul", q, scale, &q));
  CT_TRY(ct__im_matmul(t, q, k, 1, &y));
  if (causal) CT_TRY(attention_causal(t, y, &y));
  CT_TRY(attention_mask(t, n, &y, &none));
  CT_TRY(
      ct__im_one(t, &y, "softmax", &t->layer[y].shape, y, "dim: %d", t->layer[y].shape.ndim - 1));
  if (p > 0) {
    CT_TRY(ct__im_front(t, &y, "dropout", &form));
    CT_TRY(ct__im_one(t, &y, "dropout", &t->layer[y].shape, y, "p: %s",
                      ct_text_number(p, number, sizeof number)));
    CT_TRY(ct__im_back(t, &y, &form));
  }
  CT_TRY(ct__im_matmul(t, y, v, 0, &y));
  if (none >= 0)
    CT_TRY(ct__im_add(t, &y, "where", &t->layer[y].shape, 2, (int[]){none, y}, "value: 0"));
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

const ct__im_rule_t ct__im_attentions[] = {
    {"aten.scaled_dot_product_attention", attention_composed, NULL}, {NULL, NULL, NULL}};
