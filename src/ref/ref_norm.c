/* Batch normalisation (Ioffe and Szegedy, 2015), with the semantics of torch.nn.BatchNorm2d.
 *
 * Training: the batch is normalised with its biased variance, running_var takes the unbiased one.
 * With one element per channel, where the unbiased variance is 0/0, the biased one is taken. */
#include "ref/ref.h"

#include <math.h>

/* One channel: element i of sample n is at n * sample + channel * space + i. */
typedef struct channel {
  int64_t c, batch, space, sample;
  double mean, invstd, weight, bias;
} channel_t;

static int64_t at(const channel_t *k, int64_t n, int64_t i)
{
  return n * k->sample + k->c * k->space + i;
}

static channel_t channel(const ct_op_desc_t *d, int64_t c)
{
  channel_t k = {.c = c, .batch = d->x.dim[0], .sample = ct_shape_sample(&d->x)};
  k.space = k.sample / d->x.dim[1];
  return k;
}

static void batch_statistics(const channel_t *k, const float *x, double *mean, double *var)
{
  double count = (double)(k->batch * k->space), sum = 0, squares = 0;

  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++)
      sum += x[at(k, n, i)];
  }
  *mean = sum / count;
  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      double v = x[at(k, n, i)] - *mean;
      squares += v * v;
    }
  }
  *var = squares / count;
}

static void update_running(const ct_op_desc_t *d, const channel_t *k, double var,
                           const ct_op_args_t *a)
{
  float *mean = (float *)a->w[2] + k->c, *running_var = (float *)a->w[3] + k->c;
  double count = (double)(k->batch * k->space), m = d->u.bnorm.momentum;

  if (count > 1) var *= count / (count - 1);
  *mean = (float)((1 - m) * *mean + m * k->mean);
  *running_var = (float)((1 - m) * *running_var + m * var);
}

static int keeps_statistics(const ct_op_desc_t *d)
{
  return d->training && (d->passes & (CT_BWD_DATA | CT_BWD_PARAM));
}

/* Mean and 1/std of the forward pass: of the batch (then also kept) or the running ones. */
static void forward_statistics(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  double var;

  if (d->training) {
    batch_statistics(k, a->x, &k->mean, &var);
    update_running(d, k, var, a);
  } else {
    k->mean = ((const float *)a->w[2])[k->c];
    var = ((const float *)a->w[3])[k->c];
  }
  k->invstd = 1 / sqrt(var + d->u.bnorm.eps);
  if (keeps_statistics(d)) {
    ((double *)a->saved)[2 * k->c] = k->mean;
    ((double *)a->saved)[2 * k->c + 1] = k->invstd;
  }
}

static void forward(const ct_op_desc_t *d, const channel_t *k, const ct_op_args_t *a)
{
  const float *x = a->x, *x2 = a->x2;
  float *y = a->y;

  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      int64_t e = at(k, n, i);
      double v = (x[e] - k->mean) * k->invstd * k->weight + k->bias;
      if (d->u.bnorm.add) v += x2[e];
      y[e] = (float)(d->u.bnorm.relu ? ct__ref_relu_of(v) : v);
    }
  }
}

static void backward_statistics(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  if (d->training) {
    k->mean = ((const double *)a->saved)[2 * k->c];
    k->invstd = ((const double *)a->saved)[2 * k->c + 1];
  } else {
    k->mean = ((const float *)a->w[2])[k->c];
    k->invstd = 1 / sqrt(((const float *)a->w[3])[k->c] + d->u.bnorm.eps);
  }
}

/* Gradient of the sum before the ReLU. */
static double gradient(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t e)
{
  if (d->u.bnorm.relu && ((const float *)a->y)[e] <= 0) return 0;
  double g = ((const float *)a->dy)[e];
  return a->dy2 ? g + ((const float *)a->dy2)[e] : g;
}

/* Sums of g and of g * normalised x: the gradients of bias and weight, and what dx needs of them. */
static void gradient_sums(const ct_op_desc_t *d, const channel_t *k, const ct_op_args_t *a,
                          double *sum, double *dot)
{
  const float *x = a->x;

  *sum = *dot = 0;
  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      int64_t e = at(k, n, i);
      double g = gradient(d, a, e);
      *sum += g;
      *dot += g * (x[e] - k->mean) * k->invstd;
    }
  }
}

static void backward_data(const ct_op_desc_t *d, const channel_t *k, const ct_op_args_t *a,
                          double sum, double dot)
{
  const float *x = a->x;
  float *dx = a->dx, *dx2 = a->dx2;
  double count = (double)(k->batch * k->space);

  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      int64_t e = at(k, n, i);
      double g = gradient(d, a, e), v = g;
      if (d->training) v -= (sum + (x[e] - k->mean) * k->invstd * dot) / count;
      if (d->u.bnorm.add && dx2) dx2[e] = (float)g;
      dx[e] = (float)(k->weight * k->invstd * v); /* last: dx may be dy */
    }
  }
}

static void backward(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  double sum = 0, dot = 0;

  backward_statistics(d, k, a);
  if (d->training || (a->pass & CT_BWD_PARAM)) gradient_sums(d, k, a, &sum, &dot);
  if (a->pass & CT_BWD_PARAM) {
    ((float *)a->dw[0])[k->c] = (float)dot;
    ((float *)a->dw[1])[k->c] = (float)sum;
  }
  if (a->pass & CT_BWD_DATA) backward_data(d, k, a, sum, dot);
}

static int run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  for (int64_t c = 0; c < d->x.dim[1]; c++) {
    channel_t k = channel(d, c);
    k.weight = ((const float *)a->w[0])[c];
    k.bias = ((const float *)a->w[1])[c];
    if ((a->pass & CT_FWD) && k.batch > 0) {
      forward_statistics(d, &k, a);
      forward(d, &k, a);
    }
    if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) backward(d, &k, a);
  }
  return CT_OK;
}

static const char *check(const ct_op_desc_t *d)
{
  if (d->x.ndim < 2) return "batch normalisation takes N x C x ...";
  if (!ct_shape_same(&d->x, &d->y)) return "input and output differ in shape";
  if (!(d->u.bnorm.eps >= 0)) return "eps is negative";
  return NULL;
}

static void needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  int back = d->passes & (CT_BWD_DATA | CT_BWD_PARAM);

  info->param_bytes[0] = info->param_bytes[1] = (size_t)d->x.dim[1] * sizeof(float);
  if (keeps_statistics(d)) info->saved = (size_t)d->x.dim[1] * 2 * sizeof(double);
  if (back && (d->training || (back & CT_BWD_PARAM))) info->bwd_uses |= CT_USES_X;
  if (back && d->u.bnorm.relu) info->bwd_uses |= CT_USES_Y;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_bnorm = {check, needs, run};
