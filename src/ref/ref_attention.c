/* Multi-head self-attention (Vaswani et al., "Attention is all you need", 2017), with the semantics
 * of torch.nn.MultiheadAttention(batch_first = True) for query = key = value = x, without mask and
 * dropout.
 *
 *     q, k, v = the thirds of x W_in^T + b_in
 *     p = softmax(q k^T / sqrt(D / heads)), c = p v      (for each head)
 *     y = c W_out^T + b_out
 *
 * Nothing is saved: the backward pass recomputes the forward pass up to c. */
#include "ref/ref.h"

#include <math.h>

/* Workspace arrays for one sample; a head has the columns from head * wide on. */
typedef struct parts {
  int64_t t, d, heads, wide;
  double *qkv;              /* T x 3D */
  double *p;                /* heads x T x T */
  double *c;                /* T x D */
  double *dqkv, *dc;        /* gradients of qkv and c */
  double *dp;               /* gradient of one row of p */
  double *dw[CT_OP_PARAMS]; /* sums over the samples */
} parts_t;

/* Returns the next `count` elements of scratch after the first *used ones, and adds count to *used;
 * scratch NULL: only counts. */
static double *attention_take(double *scratch, int64_t *used, int64_t count)
{
  int64_t at = *used;
  *used += count;
  return scratch ? scratch + at : NULL;
}

/* Cuts scratch into arrays; returns the number of elements needed. */
static int64_t attention_cut(const ct_op_desc_t *d, double *scratch, parts_t *k)
{
  int64_t used = 0, t = d->x.dim[1], wide = d->x.dim[2];

  *k = (parts_t){.t = t, .d = wide, .heads = d->u.attention.heads};
  k->wide = wide / k->heads;
  k->qkv = attention_take(scratch, &used, t * 3 * wide);
  k->p = attention_take(scratch, &used, k->heads * t * t);
  k->c = attention_take(scratch, &used, t * wide);
  if (!ct_op_goes_back(d)) return used;
  k->dqkv = attention_take(scratch, &used, t * 3 * wide);
  k->dp = attention_take(scratch, &used, t);
  k->dc = attention_take(scratch, &used, t * wide);
  k->dw[0] = attention_take(scratch, &used, 3 * wide * wide);
  k->dw[1] = attention_take(scratch, &used, 3 * wide);
  k->dw[2] = attention_take(scratch, &used, wide * wide);
  k->dw[3] = attention_take(scratch, &used, wide);
  return used;
}

static double dot(const double *a, const double *b, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

static void project_in(const parts_t *k, const float *x, const float *w, const float *bias)
{
  for (int64_t t = 0; t < k->t; t++) {
    for (int64_t r = 0; r < 3 * k->d; r++) {
      double sum = bias[r];
      for (int64_t i = 0; i < k->d; i++)
        sum += (double)w[r * k->d + i] * x[t * k->d + i];
      k->qkv[t * 3 * k->d + r] = sum;
    }
  }
}

/* Returns the offset of the query (0), key (1) or value (2) at position t, within a head. */
static int64_t at(const parts_t *k, int64_t t, int which, int64_t head)
{
  return (t * 3 + which) * k->d + head * k->wide;
}

static void softmax(double *p, int64_t n)
{
  double most = p[0], sum = 0;
  for (int64_t i = 1; i < n; i++)
    most = fmax(most, p[i]);
  for (int64_t i = 0; i < n; i++)
    sum += p[i] = exp(p[i] - most);
  for (int64_t i = 0; i < n; i++)
    p[i] /= sum;
}

static void attend(const parts_t *k, int64_t head, int64_t t)
{
  double *p = k->p + (head * k->t + t) * k->t, *c = k->c + t * k->d + head * k->wide;

  for (int64_t s = 0; s < k->t; s++)
    p[s] = dot(k->qkv + at(k, t, 0, head), k->qkv + at(k, s, 1, head), k->wide) /
           sqrt((double)k->wide);
  softmax(p, k->t);
  for (int64_t i = 0; i < k->wide; i++) {
    c[i] = 0;
    for (int64_t s = 0; s < k->t; s++)
      c[i] += p[s] * k->qkv[at(k, s, 2, head) + i];
  }
}

static void forward_to_c(const parts_t *k, const ct_op_args_t *a, int64_t n)
{
  project_in(k, (const float *)a->x + n * k->t * k->d, a->w[0], a->w[1]);
  for (int64_t head = 0; head < k->heads; head++) {
    for (int64_t t = 0; t < k->t; t++)
      attend(k, head, t);
  }
}

static void project_out(const parts_t *k, const ct_op_args_t *a, const float *x2, int64_t n)
{
  const float *w = a->w[2], *bias = a->w[3];
  float *y = (float *)a->y + n * k->t * k->d;

  for (int64_t t = 0; t < k->t; t++) {
    for (int64_t r = 0; r < k->d; r++) {
      double sum = bias[r] + (x2 ? x2[(n * k->t + t) * k->d + r] : 0);
      for (int64_t i = 0; i < k->d; i++)
        sum += w[r * k->d + i] * k->c[t * k->d + i];
      y[t * k->d + r] = (float)sum;
    }
  }
}

static void attend_backward(const parts_t *k, int64_t head, int64_t t)
{
  const double *p = k->p + (head * k->t + t) * k->t, *dc = k->dc + t * k->d + head * k->wide;
  double mean = 0, scale = 1 / sqrt((double)k->wide);

  for (int64_t s = 0; s < k->t; s++) {
    k->dp[s] = dot(dc, k->qkv + at(k, s, 2, head), k->wide);
    mean += p[s] * k->dp[s];
  }
  for (int64_t s = 0; s < k->t; s++) {
    double score = p[s] * (k->dp[s] - mean) * scale;
    for (int64_t i = 0; i < k->wide; i++) {
      k->dqkv[at(k, t, 0, head) + i] += score * k->qkv[at(k, s, 1, head) + i];
      k->dqkv[at(k, s, 1, head) + i] += score * k->qkv[at(k, t, 0, head) + i];
      k->dqkv[at(k, s, 2, head) + i] += p[s] * dc[i];
    }
  }
}

static void backward_to_qkv(const parts_t *k, const ct_op_args_t *a, int64_t n)
{
  const float *w = a->w[2], *dy = (const float *)a->dy + n * k->t * k->d;

  for (int64_t t = 0; t < k->t; t++) {
    for (int64_t i = 0; i < k->d; i++) {
      k->dc[t * k->d + i] = 0;
      for (int64_t r = 0; r < k->d; r++)
        k->dc[t * k->d + i] += (double)dy[t * k->d + r] * w[r * k->d + i];
    }
  }
  for (int64_t i = 0; i < k->t * 3 * k->d; i++)
    k->dqkv[i] = 0;
  for (int64_t head = 0; head < k->heads; head++) {
    for (int64_t t = 0; t < k->t; t++)
      attend_backward(k, head, t);
  }
}

static void attention_backward_data(const parts_t *k, const ct_op_args_t *a, int64_t n)
{
  const float *w = a->w[0];
  float *dx = (float *)a->dx + n * k->t * k->d;

  for (int64_t t = 0; t < k->t; t++) {
    for (int64_t i = 0; i < k->d; i++) {
      double sum = 0;
      for (int64_t r = 0; r < 3 * k->d; r++)
        sum += k->dqkv[t * 3 * k->d + r] * w[r * k->d + i];
      dx[t * k->d + i] = (float)sum;
    }
  }
}

static void attention_backward_param(const parts_t *k, const ct_op_args_t *a, int64_t n)
{
  const float *x = (const float *)a->x + n * k->t * k->d;
  const float *dy = (const float *)a->dy + n * k->t * k->d;

  for (int64_t t = 0; t < k->t; t++) {
    for (int64_t r = 0; r < 3 * k->d; r++) {
      double g = k->dqkv[t * 3 * k->d + r];
      k->dw[1][r] += g;
      for (int64_t i = 0; i < k->d; i++)
        k->dw[0][r * k->d + i] += g * x[t * k->d + i];
    }
    for (int64_t r = 0; r < k->d; r++) {
      double g = dy[t * k->d + r];
      k->dw[3][r] += g;
      for (int64_t i = 0; i < k->d; i++)
        k->dw[2][r * k->d + i] += g * k->c[t * k->d + i];
    }
  }
}

static int64_t param_count(const parts_t *k, int param)
{
  return (param < 2 ? 3 : 1) * k->d * (param % 2 ? 1 : k->d);
}

static void attention_backward(const parts_t *k, const ct_op_args_t *a, int64_t batch)
{
  for (int j = 0; j < CT_OP_PARAMS; j++) {
    for (int64_t i = 0; i < param_count(k, j); i++)
      k->dw[j][i] = 0;
  }
  for (int64_t n = 0; n < batch; n++) {
    forward_to_c(k, a, n);
    backward_to_qkv(k, a, n);
    if (a->pass & CT_BWD_PARAM) attention_backward_param(k, a, n);
    if (a->pass & CT_BWD_DATA) attention_backward_data(k, a, n);
  }
  for (int j = 0; j < CT_OP_PARAMS && a->pass & CT_BWD_PARAM; j++) {
    for (int64_t i = 0; i < param_count(k, j); i++)
      ((float *)a->dw[j])[i] = (float)k->dw[j][i];
  }
}

static int attention_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  parts_t k;

  attention_cut(d, a->scratch, &k);
  for (int64_t n = 0; n < d->x.dim[0] && a->pass & CT_FWD; n++) {
    forward_to_c(&k, a, n);
    project_out(&k, a, d->u.attention.add ? a->x2 : NULL, n);
  }
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) attention_backward(&k, a, d->x.dim[0]);
  return CT_OK;
}

static void attention_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  parts_t k;

  info->scratch = (size_t)attention_cut(d, NULL, &k) * sizeof(double);
  if (ct_op_goes_back(d)) info->bwd_uses = CT_USES_X; /* nothing is saved */
}

const ct__ref_kind_t ct__ref_attention = {.run = attention_run, .needs = attention_needs};
