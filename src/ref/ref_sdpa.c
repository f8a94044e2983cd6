/* Attention with given queries, keys and values: y = softmax(q k^T scale + bias) v for each head,
 * as torch.nn.functional.scaled_dot_product_attention. */
#include "backend/ct_sdpa.h"
#include "ref/ref.h"

#include <math.h>

/* The heads of one sample that share keys and values. */
typedef struct head {
  ct_sdpa_t g;
  const void *q, *k, *v, *mask;
  int64_t n, h, kv;  /* sample, head, head of keys */
  double *p, *dp;    /* softmax of a query's row, then its gradient; S elements each */
  double *dk, *dv;   /* sums over the heads and queries */
  double *dq, *bias; /* sums of a query; of the whole bias */
} head_t;

static const void *input_of(const ct_op_args_t *a, int k)
{
  return k == 0 ? a->x : k == 1 ? a->x2 : a->x3;
}

static void *slope_of(const ct_op_args_t *a, int k)
{
  return k == 0 ? a->dx : k == 1 ? a->dx2 : a->dx3;
}

/* Returns the offset of row i of head h of the queries, keys or values. */
static int64_t row_at(const ct_sdpa_side_t *s, int64_t n, int64_t length, int64_t i, int64_t h,
                      int64_t wide)
{
  return (n * length + i) * s->row + s->at + h * wide;
}

static int64_t q_at(const head_t *h, int64_t t)
{
  return row_at(&h->g.q, h->n, h->g.t, t, h->h, h->g.d);
}

static int64_t k_at(const head_t *h, int64_t s)
{
  return row_at(&h->g.k, h->n, h->g.s, s, h->kv, h->g.d);
}

static int64_t v_at(const head_t *h, int64_t s)
{
  return row_at(&h->g.v, h->n, h->g.s, s, h->kv, h->g.e);
}

static int64_t y_at(const head_t *h, int64_t t)
{
  return (h->n * h->g.t + t) * h->g.y_row + h->h * h->g.e;
}

static int64_t mask_at(const head_t *h, int64_t t, int64_t s)
{
  return h->n * h->g.mask_n + h->h * h->g.mask_h + t * h->g.s + s;
}

static int meets(const ct_op_desc_t *d, const ct_op_args_t *a, const head_t *h, int64_t t,
                 int64_t s)
{
  int64_t place = t + (d->u.sdpa.cached && a->position ? a->position[h->n] : 0);
  if (s >= ct_sdpa_seen(d, h->g.s, place)) return 0;
  if (d->u.sdpa.mask == CT_MASK_FIRST)
    return (double)s >= ct__ref_get(CT_F32, h->mask, h->n * h->g.mask_n + t);
  if (d->u.sdpa.mask == CT_MASK_KEYS)
    return ct__ref_get(CT_F32, h->mask, h->n * h->g.mask_n + s) != 0;
  return 1;
}

static double score(const ct_op_desc_t *d, const head_t *h, int64_t t, int64_t s)
{
  ct_dtype_t type = d->y.dtype;
  double dot = 0;
  for (int64_t i = 0; i < h->g.d; i++)
    dot += ct__ref_get(type, h->q, q_at(h, t) + i) * ct__ref_get(type, h->k, k_at(h, s) + i);
  dot *= d->u.sdpa.scale;
  return d->u.sdpa.mask == CT_MASK_BIAS ? dot + ct__ref_get(type, h->mask, mask_at(h, t, s)) : dot;
}

/* Computes the weights of the keys for query t; all are 0 if it meets none. */
static void find_weights(const ct_op_desc_t *d, const ct_op_args_t *a, const head_t *h, int64_t t)
{
  double most = -INFINITY, sum = 0;
  for (int64_t s = 0; s < h->g.s; s++) {
    h->p[s] = meets(d, a, h, t, s) ? score(d, h, t, s) : -INFINITY;
    most = fmax(most, h->p[s]);
  }
  for (int64_t s = 0; s < h->g.s; s++)
    sum += h->p[s] = most > -INFINITY ? exp(h->p[s] - most) : 0;
  for (int64_t s = 0; s < h->g.s && sum > 0; s++)
    h->p[s] /= sum;
}

static void head_forward(const ct_op_desc_t *d, const ct_op_args_t *a, const head_t *h)
{
  ct_dtype_t type = d->y.dtype;
  for (int64_t t = 0; t < h->g.t; t++) {
    find_weights(d, a, h, t);
    for (int64_t i = 0; i < h->g.e; i++) {
      double sum = 0;
      for (int64_t s = 0; s < h->g.s; s++)
        if (h->p[s] != 0) sum += h->p[s] * ct__ref_get(type, h->v, v_at(h, s) + i);
      ct__ref_set(type, a->y, y_at(h, t) + i, sum);
    }
  }
}

static void query_back(const ct_op_desc_t *d, const ct_op_args_t *a, const head_t *h, int64_t t)
{
  ct_dtype_t type = d->y.dtype;
  double mean = 0;
  find_weights(d, a, h, t);
  for (int64_t s = 0; s < h->g.s; s++) {
    h->dp[s] = 0;
    for (int64_t i = 0; i < h->g.e && h->p[s] != 0; i++) {
      double g = ct__ref_get(type, a->dy, y_at(h, t) + i);
      h->dp[s] += g * ct__ref_get(type, h->v, v_at(h, s) + i);
      h->dv[s * h->g.e + i] += h->p[s] * g;
    }
    mean += h->p[s] * h->dp[s];
  }
  for (int64_t i = 0; i < h->g.d; i++)
    h->dq[i] = 0;
  for (int64_t s = 0; s < h->g.s; s++) {
    double slope = h->p[s] * (h->dp[s] - mean);
    if (d->u.sdpa.mask == CT_MASK_BIAS) h->bias[mask_at(h, t, s)] += slope;
    slope *= d->u.sdpa.scale;
    for (int64_t i = 0; i < h->g.d && h->p[s] != 0; i++) {
      h->dq[i] += slope * ct__ref_get(type, h->k, k_at(h, s) + i);
      h->dk[s * h->g.d + i] += slope * ct__ref_get(type, h->q, q_at(h, t) + i);
    }
  }
}

static void store_sums(ct_dtype_t t, void *to, int64_t at, const double *sum, int64_t n)
{
  for (int64_t i = 0; to && i < n; i++)
    ct__ref_set(t, to, at + i, sum[i]);
}

/* Computes the gradients for all heads that share keys and values. */
static void group_backward(const ct_op_desc_t *d, const ct_op_args_t *a, head_t *h)
{
  int64_t group = h->g.heads / h->g.kv_heads;
  for (double *v = h->dk; v < h->dv + h->g.s * h->g.e; v++)
    *v = 0;
  for (h->h = h->kv * group; h->h < (h->kv + 1) * group; h->h++)
    for (int64_t t = 0; t < h->g.t; t++) {
      query_back(d, a, h, t);
      store_sums(d->y.dtype, a->dx, q_at(h, t), h->dq, h->g.d);
    }
  for (int64_t s = 0; s < h->g.s; s++) {
    store_sums(d->y.dtype, slope_of(a, h->g.k.input), k_at(h, s), h->dk + s * h->g.d, h->g.d);
    store_sums(d->y.dtype, slope_of(a, h->g.v.input), v_at(h, s), h->dv + s * h->g.e, h->g.e);
  }
}

/* Returns the number of elements of a bias. */
static int64_t bias_count(const ct_op_desc_t *d)
{
  if (d->u.sdpa.mask != CT_MASK_BIAS) return 0;
  return ct_shape_count(d->u.sdpa.packed == 1 ? &d->x2 : &d->x3);
}

static int sdpa_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  head_t h = {.g = ct_sdpa_of(d), .p = a->scratch};
  int64_t group = h.g.heads / h.g.kv_heads, biases = bias_count(d);
  h.dp = h.p + h.g.s;
  h.dq = h.dp + h.g.s;
  h.dk = h.dq + h.g.d;
  h.dv = h.dk + h.g.s * h.g.d;
  h.bias = h.dv + h.g.s * h.g.e;
  h.q = a->x;
  h.k = input_of(a, h.g.k.input);
  h.v = input_of(a, h.g.v.input);
  h.mask = h.g.mask < 0 ? NULL : input_of(a, h.g.mask);
  for (int64_t i = 0; i < biases && ct_op_goes_back(d); i++)
    h.bias[i] = 0;
  for (h.n = 0; h.n < h.g.n; h.n++)
    for (h.kv = 0; h.kv < h.g.kv_heads; h.kv++) {
      for (h.h = h.kv * group; h.h < (h.kv + 1) * group && a->pass & CT_FWD; h.h++)
        head_forward(d, a, &h);
      if (a->pass & CT_BWD_DATA) group_backward(d, a, &h);
    }
  if (a->pass & CT_BWD_DATA && biases)
    store_sums(d->y.dtype, slope_of(a, h.g.mask), 0, h.bias, biases);
  return CT_OK;
}

static void sdpa_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  ct_sdpa_t g = ct_sdpa_of(d);
  int64_t sums = ct_op_goes_back(d) ? g.d + g.s * (g.d + g.e) + bias_count(d) : 0;
  info->scratch = (size_t)(2 * g.s + sums) * sizeof(double);
}

const ct__ref_kind_t ct__ref_sdpa = {.run = sdpa_run, .needs = sdpa_needs, .reduced = 1};
