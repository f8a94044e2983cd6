/* The tensors of an SDPA op: see ct_sdpa.h. */
#include "backend/ct_sdpa.h"

static int64_t kv_heads(const ct_op_desc_t *d)
{
  return d->u.sdpa.kv_heads ? d->u.sdpa.kv_heads : d->u.sdpa.heads;
}

/* Returns the input that is the mask; -1: none. */
static int mask_input(const ct_op_desc_t *d)
{
  return d->u.sdpa.mask == CT_MASK_NONE ? -1 : d->u.sdpa.packed == 1 ? 1 : 2;
}

static const ct_shape_t *input_shape(const ct_op_desc_t *d, int k)
{
  return k == 0 ? &d->x : k == 1 ? &d->x2 : &d->x3;
}

static ct_sdpa_t sdpa_plain(const ct_op_desc_t *d)
{
  ct_sdpa_t g = {.heads = 1,
                 .kv_heads = 1,
                 .t = ct_dim_back(&d->x, 1),
                 .s = ct_dim_back(&d->x2, 1),
                 .d = ct_dim_back(&d->x, 0),
                 .e = ct_dim_back(&d->x3, 0),
                 .mask = -1};
  g.n = ct_shape_count(&d->x) / (g.t * g.d);
  g.q.row = g.k.row = g.d;
  g.v.row = g.y_row = g.e;
  g.k.input = 1;
  g.v.input = 2;
  return g;
}

ct_sdpa_t ct_sdpa_of(const ct_op_desc_t *d)
{
  if (!d->u.sdpa.heads) return sdpa_plain(d);
  int packed = d->u.sdpa.packed;
  ct_sdpa_t g = {.n = d->x.dim[0],
                 .heads = d->u.sdpa.heads,
                 .kv_heads = kv_heads(d),
                 .t = d->x.dim[1],
                 .s = packed == 1 ? d->x.dim[1] : d->x2.dim[1],
                 .y_row = d->y.dim[2],
                 .mask = mask_input(d)};
  g.d = d->x.dim[2] / (g.heads + (packed == 1 ? 2 * g.kv_heads : 0));
  g.e = d->y.dim[2] / g.heads;
  g.q.row = d->x.dim[2];
  g.k.input = packed == 1 ? 0 : 1;
  g.v.input = packed == 0 ? 2 : g.k.input;
  g.k.row = input_shape(d, g.k.input)->dim[2];
  g.v.row = input_shape(d, g.v.input)->dim[2];
  g.k.at = packed == 1 ? g.heads * g.d : 0;
  g.v.at = packed == 0 ? 0 : g.k.at + g.kv_heads * g.d;
  if (g.mask < 0) return g;
  const ct_shape_t *m = input_shape(d, g.mask);
  int64_t matrix = d->u.sdpa.mask == CT_MASK_BIAS ? g.t * g.s : m->dim[1];
  int64_t heads = d->u.sdpa.mask == CT_MASK_BIAS ? ct_dim_back(m, 2) : 1;
  g.mask_h = heads > 1 ? matrix : 0;
  g.mask_n = d->u.sdpa.mask != CT_MASK_BIAS || ct_dim_back(m, 3) > 1 ? heads * matrix : 0;
  return g;
}

double ct_sdpa_pairs(const ct_op_desc_t *d)
{
  ct_sdpa_t g = ct_sdpa_of(d);
  int64_t few = g.t < g.s ? g.t : g.s;
  double pairs = (double)g.t * (double)g.s;
  if (d->u.sdpa.causal && !d->u.sdpa.cached)
    pairs = (double)few * (double)(few + 1) / 2 + (double)(g.t - few) * (double)g.s;
  return (double)(g.n * g.heads) * pairs;
}

const char *ct_mask_name(ct_mask_t mask)
{
  static const char *const name[] = {"none", "first", "keys", "bias"};
  return (unsigned)mask < CT_MASK_COUNT ? name[mask] : "unknown";
}

/* ---- checks ---- */

static const char *check_plain(const ct_op_desc_t *d)
{
  int n = d->x.ndim;

  if (d->u.sdpa.kv_heads || d->u.sdpa.packed || d->u.sdpa.cached || d->u.sdpa.mask)
    return "masks, packed inputs, a cache and heads of keys need `heads`";
  if (n < 2 || d->x2.ndim != n || d->x3.ndim != n || d->y.ndim != n)
    return "queries, keys and values differ in dims";
  for (int i = 0; i < n - 2; i++)
    if (d->x.dim[i] != d->x2.dim[i] || d->x.dim[i] != d->x3.dim[i] || d->x.dim[i] != d->y.dim[i])
      return "queries, keys and values differ before the last two dims";
  if (d->x.dim[n - 1] != d->x2.dim[n - 1]) return "queries and keys differ in features";
  if (d->x2.dim[n - 2] != d->x3.dim[n - 2]) return "there are not as many values as keys";
  if (d->y.dim[n - 2] != d->x.dim[n - 2] || d->y.dim[n - 1] != d->x3.dim[n - 1])
    return "the output is not one row of values for each query";
  return NULL;
}

static const char *check_mask(const ct_op_desc_t *d)
{
  if ((unsigned)d->u.sdpa.mask >= CT_MASK_COUNT) return "unknown mask";
  if (d->u.sdpa.mask == CT_MASK_NONE) return NULL;
  if (d->u.sdpa.packed == 0) return "a mask needs packed keys and values";
  ct_sdpa_t g = ct_sdpa_of(d);
  const ct_shape_t *m = input_shape(d, g.mask);
  int64_t length = d->u.sdpa.mask == CT_MASK_FIRST ? g.t : g.s;
  if (d->u.sdpa.mask != CT_MASK_BIAS)
    return m->ndim == 2 && m->dim[0] == g.n && m->dim[1] == length
               ? NULL
               : "the mask is not one number per query or key";
  int64_t h = ct_dim_back(m, 2), n = ct_dim_back(m, 3);
  return m->ndim >= 2 && m->ndim <= 4 && ct_dim_back(m, 1) == g.t && ct_dim_back(m, 0) == g.s &&
                 (h == 1 || h == g.heads) && (n == 1 || n == g.n)
             ? NULL
             : "the bias cannot be broadcast to the scores";
}

/* Returns 1 if the inputs are those of the packed form; the mask may have any shape. */
static int has_inputs(const ct_op_desc_t *d)
{
  int packed = d->u.sdpa.packed, inputs = packed == 0 ? 3 : packed == 1 ? 1 : 2;
  if (d->x.ndim != 3 || d->y.ndim != 3) return 0;
  for (int k = 1; k < CT_OP_INPUTS; k++) {
    const ct_shape_t *s = input_shape(d, k);
    if (k < inputs && (s->ndim != 3 || s->dim[0] != d->x.dim[0])) return 0;
    if (k >= inputs && (s->ndim > 0) != (k == mask_input(d))) return 0;
  }
  return 1;
}

static const char *check_features(const ct_op_desc_t *d)
{
  ct_sdpa_t g = ct_sdpa_of(d);
  int packed = d->u.sdpa.packed;
  int64_t x = (g.heads + (packed == 1 ? 2 * g.kv_heads : 0)) * g.d;
  int64_t keys = (packed == 2 ? 2 : 1) * g.kv_heads * g.d;

  if (d->x.dim[2] != x || g.d < 1 || g.e < 1 || d->y.dim[2] != g.heads * g.e)
    return "the features are not a multiple of the heads";
  if (d->y.dim[0] != g.n || d->y.dim[1] != g.t || (packed && g.e != g.d))
    return "the output is not one row of values for each query";
  if (packed != 1 && d->x2.dim[2] != keys) return "queries and keys differ in features of a head";
  if (packed == 0 && (d->x3.dim[1] != g.s || d->x3.dim[2] != g.kv_heads * g.e))
    return "the values do not fit the keys or the output";
  return NULL;
}

const char *ct_sdpa_check(const ct_op_desc_t *d)
{
  const char *wrong;

  if (d->u.sdpa.scale <= 0) return "the scale is not above 0";
  if (d->u.sdpa.heads == 0) return check_plain(d);
  if (d->u.sdpa.heads < 0 || d->u.sdpa.kv_heads < 0 || d->u.sdpa.heads % kv_heads(d))
    return "the heads are not a multiple of the heads of keys";
  if (d->u.sdpa.packed < 0 || d->u.sdpa.packed > 2) return "unknown form of the inputs";
  if (!has_inputs(d)) return "the inputs are not those of its form";
  if (d->u.sdpa.cached && (!d->u.sdpa.causal || d->u.sdpa.packed == 1 || d->passes & ~CT_FWD))
    return "attention with a cache is causal, has keys of its own, and no backward pass";
  wrong = check_features(d);
  return wrong ? wrong : check_mask(d);
}
