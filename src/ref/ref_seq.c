/* Ops on sequences N x T x D other than GEMMs: layer normalisation, patches to tokens, select. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

/* ---- layer normalisation (Ba et al., 2016), as torch.nn.LayerNorm over the last dims; with `rms`
 * as torch.nn.RMSNorm ---- */

typedef struct row {
  int64_t wide;
  int rms;
  double mean, invstd;
} row_t;

static int64_t width(const ct_op_desc_t *d)
{
  return ct_op_normalised(d);
}

static row_t row_statistics(const ct_op_desc_t *d, const float *x)
{
  row_t r = {.wide = width(d), .rms = d->u.lnorm.rms};
  double var = 0;

  for (int64_t i = 0; i < r.wide && !r.rms; i++)
    r.mean += x[i];
  r.mean /= (double)r.wide;
  for (int64_t i = 0; i < r.wide; i++)
    var += (x[i] - r.mean) * (x[i] - r.mean);
  r.invstd = 1 / sqrt(var / (double)r.wide + d->u.lnorm.eps);
  return r;
}

static void row_forward(const row_t *r, const ct_op_args_t *a, const float *x, float *y)
{
  const float *w = a->w[0], *b = a->w[1];

  for (int64_t i = 0; i < r->wide; i++)
    y[i] = (float)((x[i] - r->mean) * r->invstd * w[i] + (r->rms ? 0 : b[i]));
}

/* add: another gradient of x, or NULL. */
static void row_data(const row_t *r, const ct_op_args_t *a, const float *x, const float *dy,
                     const float *add, float *dx)
{
  const float *w = a->w[0];
  double sum = 0, slope = 0;

  for (int64_t i = 0; i < r->wide; i++) {
    if (!r->rms) sum += (double)dy[i] * w[i];
    slope += (double)dy[i] * w[i] * (x[i] - r->mean) * r->invstd;
  }
  for (int64_t i = 0; i < r->wide; i++) {
    double normal = (x[i] - r->mean) * r->invstd;
    double own = r->invstd * ((double)dy[i] * w[i] - (sum + normal * slope) / (double)r->wide);
    dx[i] = (float)(own + (add ? add[i] : 0));
  }
}

/* Adds a row to sum: the gradients of the weight, then of the bias. */
static void row_param(const row_t *r, const float *x, const float *dy, double *sum)
{
  for (int64_t i = 0; i < r->wide; i++) {
    sum[i] += dy[i] * (x[i] - r->mean) * r->invstd;
    sum[r->wide + i] += dy[i];
  }
}

static void lnorm_backward(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t wide = width(d), count = ct_shape_count(&d->x);
  const float *x = a->x, *dy = a->dy, *add = a->dx_add;
  double *sum = a->scratch;

  memset(sum, 0, (size_t)(2 * wide) * sizeof *sum);
  for (int64_t i = 0; i < count; i += wide) {
    row_t r = row_statistics(d, x + i);
    if (a->pass & CT_BWD_PARAM) row_param(&r, x + i, dy + i, sum);
    if (a->pass & CT_BWD_DATA)
      row_data(&r, a, x + i, dy + i, add ? add + i : NULL, (float *)a->dx + i);
  }
  for (int64_t i = 0; i < wide && a->pass & CT_BWD_PARAM; i++) {
    ((float *)a->dw[0])[i] = (float)sum[i];
    if (a->dw[1] && !d->u.lnorm.rms) ((float *)a->dw[1])[i] = (float)sum[wide + i];
  }
}

static int lnorm_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t wide = width(d), count = ct_shape_count(&d->x);
  const float *x = a->x;

  for (int64_t i = 0; i < count && a->pass & CT_FWD; i += wide) {
    row_t r = row_statistics(d, x + i);
    row_forward(&r, a, x + i, (float *)a->y + i);
  }
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) lnorm_backward(d, a);
  return CT_OK;
}

static void lnorm_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->adds_dx = info->inplace_fwd = info->inplace_bwd = 1;
  if (ct_op_goes_back(d)) info->scratch = (size_t)(2 * width(d)) * sizeof(double);
}

const ct__ref_kind_t ct__ref_lnorm = {.run = lnorm_run, .needs = lnorm_needs};

/* ---- tokens: a class token, then the patches' features, plus position embeddings (Dosovitskiy et
 * al., 2020) ---- */

/* Returns the offset in x of feature i of token t of y; -1: the class token. */
static int64_t patch(const ct_op_desc_t *d, int64_t n, int64_t t, int64_t i)
{
  int64_t features = d->x.dim[1], space = d->x.dim[2] * d->x.dim[3];
  return t == 0 ? -1 : (n * features + i) * space + t - 1;
}

static void tokens_forward(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *x = a->x, *class_token = a->w[0], *position = a->w[1];
  float *y = a->y;
  int64_t wide = d->y.dim[2], sample = ct_shape_sample(&d->y);

  for (int64_t n = 0; n < d->y.dim[0]; n++) {
    for (int64_t e = 0; e < sample; e++) {
      int64_t from = patch(d, n, e / wide, e % wide);
      y[n * sample + e] = (from < 0 ? class_token[e] : x[from]) + position[e];
    }
  }
}

static void tokens_data(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t wide = d->y.dim[2], sample = ct_shape_sample(&d->y);

  for (int64_t n = 0; n < d->y.dim[0]; n++) {
    for (int64_t e = wide; e < sample; e++)
      ((float *)a->dx)[patch(d, n, e / wide, e % wide)] = ((const float *)a->dy)[n * sample + e];
  }
}

static void tokens_param(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *dy = a->dy;
  float *class_token = a->dw[0], *position = a->dw[1];
  int64_t wide = d->y.dim[2], sample = ct_shape_sample(&d->y);

  for (int64_t e = 0; e < sample; e++) {
    double sum = 0;
    for (int64_t n = 0; n < d->y.dim[0]; n++)
      sum += dy[n * sample + e];
    position[e] = (float)sum;
    if (e < wide) class_token[e] = (float)sum;
  }
}

static int tokens_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) tokens_forward(d, a);
  if (a->pass & CT_BWD_DATA) tokens_data(d, a);
  if (a->pass & CT_BWD_PARAM) tokens_param(d, a);
  return CT_OK;
}

const ct__ref_kind_t ct__ref_tokens = {.run = tokens_run};

/* ---- select ---- */

static int select_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t sample = ct_shape_sample(&d->x), wide = d->x.dim[2], index = d->u.select.index;
  int64_t first = (index < 0 ? d->x.dim[1] + index : index) * wide;
  size_t bytes = (size_t)wide * sizeof(float);

  if (a->pass & CT_BWD_DATA) memset(a->dx, 0, ct_shape_bytes(&d->x));
  for (int64_t n = 0; n < d->x.dim[0]; n++) {
    int64_t in = n * sample + first, out = n * wide;
    if (a->pass & CT_FWD) memcpy((float *)a->y + out, (const float *)a->x + in, bytes);
    if (a->pass & CT_BWD_DATA) memcpy((float *)a->dx + in, (const float *)a->dy + out, bytes);
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_select = {.run = select_run};
