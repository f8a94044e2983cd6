/* Attention with given queries, keys and values: y = softmax(q k^T scale) v for each pair of
 * matrices, as torch.nn.functional.scaled_dot_product_attention. */
#include "ref/ref.h"

#include <math.h>

/* One head of one sample: sizes, and offsets of its matrices. */
typedef struct head {
  int64_t t, s, d, e; /* queries, keys, their features, features of values */
  int64_t q, k, v, y;
  int64_t seen; /* keys that the query meets */
  double *p;    /* softmax of a query's row, then its gradient; S elements each */
  double *dp;
} head_t;

/* With a scratch of NULL: the sizes alone. */
static head_t head_of(const ct_op_desc_t *d, int64_t i, double *scratch)
{
  head_t h = {.t = ct_dim_back(&d->x, 1),
              .s = ct_dim_back(&d->x2, 1),
              .d = ct_dim_back(&d->x, 0),
              .e = ct_dim_back(&d->y, 0),
              .p = scratch};
  h.q = i * h.t * h.d;
  h.k = i * h.s * h.d;
  h.v = i * h.s * h.e;
  h.y = i * h.t * h.e;
  if (scratch) h.dp = scratch + h.s;
  return h;
}

/* Computes the weights of the keys for query t. */
static void find_weights(const ct_op_desc_t *d, const ct_op_args_t *a, head_t *h, int64_t t)
{
  ct_dtype_t type = d->y.dtype;
  double most = -INFINITY, sum = 0;
  h->seen = d->u.sdpa.causal && t + 1 < h->s ? t + 1 : h->s;
  for (int64_t s = 0; s < h->seen; s++) {
    double dot = 0;
    for (int64_t i = 0; i < h->d; i++)
      dot += ct__ref_get(type, a->x, h->q + t * h->d + i) *
             ct__ref_get(type, a->x2, h->k + s * h->d + i);
    h->p[s] = dot * d->u.sdpa.scale;
    most = fmax(most, h->p[s]);
  }
  for (int64_t s = 0; s < h->seen; s++)
    sum += h->p[s] = exp(h->p[s] - most);
  for (int64_t s = 0; s < h->seen; s++)
    h->p[s] /= sum;
}

static void sdpa_forward(const ct_op_desc_t *d, const ct_op_args_t *a, head_t *h)
{
  for (int64_t t = 0; t < h->t; t++) {
    find_weights(d, a, h, t);
    for (int64_t i = 0; i < h->e; i++) {
      double sum = 0;
      for (int64_t s = 0; s < h->seen; s++)
        sum += h->p[s] * ct__ref_get(d->y.dtype, a->x3, h->v + s * h->e + i);
      ct__ref_set(d->y.dtype, a->y, h->y + t * h->e + i, sum);
    }
  }
}

/* Sums of the gradients of q, k and v of a head. */
typedef struct sums {
  double *dq, *dk, *dv;
} sums_t;

static void query_back(const ct_op_desc_t *d, const ct_op_args_t *a, head_t *h, int64_t t,
                       const sums_t *to)
{
  ct_dtype_t type = d->y.dtype;
  double mean = 0;
  find_weights(d, a, h, t);
  for (int64_t s = 0; s < h->seen; s++) {
    h->dp[s] = 0;
    for (int64_t i = 0; i < h->e; i++) {
      double g = ct__ref_get(type, a->dy, h->y + t * h->e + i);
      h->dp[s] += g * ct__ref_get(type, a->x3, h->v + s * h->e + i);
      to->dv[s * h->e + i] += h->p[s] * g;
    }
    mean += h->p[s] * h->dp[s];
  }
  for (int64_t s = 0; s < h->seen; s++) {
    double slope = h->p[s] * (h->dp[s] - mean) * d->u.sdpa.scale;
    for (int64_t i = 0; i < h->d; i++) {
      to->dq[t * h->d + i] += slope * ct__ref_get(type, a->x2, h->k + s * h->d + i);
      to->dk[s * h->d + i] += slope * ct__ref_get(type, a->x, h->q + t * h->d + i);
    }
  }
}

static void store_sums(ct_dtype_t t, void *to, int64_t at, const double *sum, int64_t n)
{
  for (int64_t i = 0; to && i < n; i++)
    ct__ref_set(t, to, at + i, sum[i]);
}

static void sdpa_backward(const ct_op_desc_t *d, const ct_op_args_t *a, head_t *h)
{
  sums_t to = {.dq = h->dp + h->s};
  to.dk = to.dq + h->t * h->d;
  to.dv = to.dk + h->s * h->d;
  for (double *v = to.dq; v < to.dv + h->s * h->e; v++)
    *v = 0;
  for (int64_t t = 0; t < h->t; t++)
    query_back(d, a, h, t, &to);
  store_sums(d->y.dtype, a->dx, h->q, to.dq, h->t * h->d);
  store_sums(d->y.dtype, a->dx2, h->k, to.dk, h->s * h->d);
  store_sums(d->y.dtype, a->dx3, h->v, to.dv, h->s * h->e);
}

static int sdpa_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t heads = ct_shape_count(&d->x) / (ct_dim_back(&d->x, 0) * ct_dim_back(&d->x, 1));
  for (int64_t i = 0; i < heads; i++) {
    head_t h = head_of(d, i, a->scratch);
    if (a->pass & CT_FWD) sdpa_forward(d, a, &h);
    if (a->pass & CT_BWD_DATA) sdpa_backward(d, a, &h);
  }
  return CT_OK;
}

static void sdpa_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  head_t h = head_of(d, 0, NULL);
  int64_t sums = ct_op_goes_back(d) ? h.t * h.d + h.s * (h.d + h.e) : 0;
  info->scratch = (size_t)(2 * h.s + sums) * sizeof(double);
}

const ct__ref_kind_t ct__ref_sdpa = {.run = sdpa_run, .needs = sdpa_needs, .reduced = 1};
