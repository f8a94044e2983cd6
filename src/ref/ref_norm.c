/* Batch normalisation (Ioffe and Szegedy, 2015), with the semantics of torch.nn.BatchNorm2d; and
 * group normalisation (Wu and He, 2018), with the semantics of torch.nn.GroupNorm or, with one
 * group per channel, torch.nn.InstanceNorm2d.
 *
 * Training normalises with the biased variance of the batch and updates running_var with the
 * unbiased one.  The unbiased variance of a single element per channel is undefined: the running
 * statistics then stay unchanged. */
#include "ref/ref.h"

#include <math.h>

/* One channel: element i of sample n is at n * sample + channel * space + i. */
typedef struct channel {
  int64_t c, batch, space, sample;
  int64_t beyond; /* x, dx: elements from sample to sample that belong to a larger tensor */
  double mean, invstd, weight, bias;
  double count; /* number of elements in the statistics; with sync over all ranks */
} channel_t;

static int64_t norm_at(const channel_t *k, int64_t n, int64_t i)
{
  return n * k->sample + k->c * k->space + i;
}

static int64_t norm_x_at(const channel_t *k, int64_t n, int64_t i)
{
  return norm_at(k, n, i) + n * k->beyond;
}

static channel_t channel(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t c)
{
  channel_t k = {.c = c, .batch = d->x.dim[0], .sample = ct_shape_sample(&d->x)};
  k.space = k.sample / d->x.dim[1];
  if (d->within) k.beyond = (d->within - d->x.dim[1]) * k.space;
  k.count = (double)(k.batch * k.space);
  k.weight = ((const float *)a->w[0])[c];
  k.bias = ((const float *)a->w[1])[c];
  return k;
}

/* Computes the sums of x - about and (x - about)^2. */
static void sums_about(const ct_op_desc_t *d, const channel_t *k, const void *x, double about,
                       double sums[2])
{
  sums[0] = sums[1] = 0;
  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      double v = ct__ref_get(d->x.dtype, x, norm_x_at(k, n, i)) - about;
      sums[0] += v;
      sums[1] += v * v;
    }
  }
}

static void update_running(const ct_op_desc_t *d, const channel_t *k, double var,
                           const ct_op_args_t *a)
{
  float *mean = (float *)a->w[2] + k->c, *running_var = (float *)a->w[3] + k->c;
  double m = d->u.bnorm.momentum;

  if (a->keep_running || k->count <= 1) return;
  var *= k->count / (k->count - 1);
  *mean = (float)((1 - m) * *mean + m * k->mean);
  *running_var = (float)((1 - m) * *running_var + m * var);
}

static int keeps_statistics(const ct_op_desc_t *d)
{
  return d->training && ct_op_goes_back(d);
}

/* Computes the mean and the biased variance of the batch. */
static double batch_statistics(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  double sums[2];

  sums_about(d, k, a->x, 0, sums);
  k->mean = sums[0] / k->count;
  sums_about(d, k, a->x, k->mean, sums);
  return sums[1] / k->count;
}

/* Computes the mean and biased variance over all ranks, from sums about the running mean.  In
 * double the cancellation is harmless: the variance has a relative error of ((mean - running mean)
 * / std)^2 * 2^-53. */
static double synced_statistics(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  const double *sums = a->stats + 2 * k->c;

  k->count = a->stats[2 * d->x.dim[1]];
  double off = sums[0] / k->count, var = sums[1] / k->count - off * off;
  k->mean = ((const float *)a->w[2])[k->c] + off;
  return var < 0 ? 0 : var;
}

static void running_statistics(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  k->mean = ((const float *)a->w[2])[k->c];
  k->invstd = 1 / sqrt(((const float *)a->w[3])[k->c] + d->u.bnorm.eps);
}

static void backward_statistics(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  if (!d->training) {
    running_statistics(d, k, a);
    return;
  }
  if (k->batch == 0 && !d->u.bnorm.sync) return; /* forward saved nothing */
  const double *saved = (const double *)a->saved + 3 * k->c;
  k->mean = saved[0];
  k->invstd = saved[1];
  k->count = saved[2];
}

/* Sets mean and 1/std for the forward pass: the batch statistics, which are also saved, or the
 * running statistics. */
static void forward_statistics(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  if (!d->training) {
    running_statistics(d, k, a);
    return;
  }
  if (a->again) {
    backward_statistics(d, k, a);
    return;
  }
  double var = d->u.bnorm.sync ? synced_statistics(d, k, a) : batch_statistics(d, k, a);
  update_running(d, k, var, a);
  k->invstd = 1 / sqrt(var + d->u.bnorm.eps);
  if (!keeps_statistics(d)) return;
  double *saved = (double *)a->saved + 3 * k->c;
  saved[0] = k->mean;
  saved[1] = k->invstd;
  saved[2] = k->count;
}

static void norm_forward(const ct_op_desc_t *d, const channel_t *k, const ct_op_args_t *a)
{
  ct_dtype_t t = d->x.dtype;

  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      int64_t e = norm_at(k, n, i);
      double v = (ct__ref_get(t, a->x, norm_x_at(k, n, i)) - k->mean);
      v = v * k->invstd * k->weight + k->bias;
      if (d->u.bnorm.add) v += ct__ref_get(t, a->x2, e);
      if (d->u.bnorm.relu) v = ct__ref_relu_of(v);
      if (d->u.bnorm.relu == CT_RELU6 && v > 6) v = 6;
      ct__ref_set(t, a->y, e, v);
    }
  }
}

/* Returns the gradient before the ReLU. */
static double norm_gradient(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t e)
{
  ct_dtype_t t = d->y.dtype;

  if (d->u.bnorm.relu && ct__ref_get(t, a->y, e) <= 0) return 0;
  if (d->u.bnorm.relu == CT_RELU6 && ct__ref_get(t, a->y, e) >= 6) return 0;
  double g = ct__ref_get(t, a->dy, e);
  return a->dy2 ? g + ct__ref_get(t, a->dy2, e) : g;
}

/* Computes the sums of g and g * (x - mean), which give the gradients of bias and weight and are
 * also needed for dx. */
static void gradient_sums(const ct_op_desc_t *d, const channel_t *k, const ct_op_args_t *a,
                          double sums[2])
{
  sums[0] = sums[1] = 0;
  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      int64_t e = norm_at(k, n, i);
      double g = norm_gradient(d, a, e);
      sums[0] += g;
      sums[1] += g * (ct__ref_get(d->x.dtype, a->x, norm_x_at(k, n, i)) - k->mean);
    }
  }
}

static void norm_backward_param(const channel_t *k, const ct_op_args_t *a, const double sums[2])
{
  ((float *)a->dw[0])[k->c] = (float)(sums[1] * k->invstd);
  ((float *)a->dw[1])[k->c] = (float)sums[0];
}

static void norm_backward_data(const ct_op_desc_t *d, const channel_t *k, const ct_op_args_t *a,
                               const double sums[2])
{
  ct_dtype_t t = d->x.dtype;
  double slope = d->training ? sums[1] * k->invstd * k->invstd / k->count : 0;
  double middle = d->training ? sums[0] / k->count : 0;

  for (int64_t n = 0; n < k->batch; n++) {
    for (int64_t i = 0; i < k->space; i++) {
      int64_t e = norm_at(k, n, i), at = norm_x_at(k, n, i);
      double g = norm_gradient(d, a, e), v = g;
      if (d->training) v -= middle + (ct__ref_get(t, a->x, at) - k->mean) * slope;
      v *= k->weight * k->invstd;
      if (a->dx_add) v += ct__ref_get(t, a->dx_add, at);
      if (d->u.bnorm.add && a->dx2) ct__ref_set(t, a->dx2, e, g);
      if (a->dx) ct__ref_set(t, a->dx, at, v); /* written last, because dx may be dy */
    }
  }
}

static void norm_backward(const ct_op_desc_t *d, channel_t *k, const ct_op_args_t *a)
{
  double local[2] = {0, 0}, *sums = local;

  backward_statistics(d, k, a);
  if (d->u.bnorm.sync && !(a->pass & CT_BWD_PARAM)) sums = a->stats + 2 * k->c;
  if (a->pass != CT_BWD_DATA || (d->training && !d->u.bnorm.sync)) gradient_sums(d, k, a, sums);
  if (a->pass & CT_BWD_PARAM || (a->pass & CT_BWD_STATS && d->passes & CT_BWD_PARAM))
    norm_backward_param(k, a, sums);
  if (a->pass & CT_BWD_DATA) norm_backward_data(d, k, a, sums);
}

/* Runs batch normalisation.  A SyncBN also runs with an empty batch: the local sums are zeros, and
 * the running statistics are updated from the group, if the group has any samples. */
static int norm_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t channels = d->x.dim[1];

  for (int64_t c = 0; c < channels; c++) {
    channel_t k = channel(d, a, c);
    if (a->pass & CT_FWD_STATS) {
      sums_about(d, &k, a->x, ((const float *)a->w[2])[c], a->stats + 2 * c);
      a->stats[2 * channels] = k.count;
    } else if (!(a->pass & CT_FWD)) {
      norm_backward(d, &k, a);
    } else if (k.batch > 0 || (d->u.bnorm.sync && a->stats[2 * channels] > 0)) {
      forward_statistics(d, &k, a);
      norm_forward(d, &k, a);
    }
  }
  return CT_OK;
}

static void norm_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  if (keeps_statistics(d)) info->saved = (size_t)d->x.dim[1] * 3 * sizeof(double);
  info->takes_dy2 = 1;
  info->adds_dx = info->inplace_add = d->within != 0;
  info->inplace_fwd = info->inplace_bwd = !d->within;
}

const ct__ref_kind_t ct__ref_bnorm = {.run = norm_run, .needs = norm_needs, .reduced = 1};

/* ---- group normalisation ---- */

/* One group of one sample: `count` consecutive elements, `space` per channel. */
typedef struct group {
  int64_t first, count, space, channel; /* channel: the first one */
  double mean, invstd;
} group_t;

static double weight_of(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t c)
{
  return d->u.gnorm.affine ? ((const float *)a->w[0])[c] : 1;
}

static group_t group_of(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t sample, int64_t g)
{
  int64_t groups = d->u.gnorm.groups, all = ct_shape_sample(&d->x);
  group_t k = {.count = all / groups, .space = all / d->x.dim[1]};
  double var = 0;

  k.first = sample * all + g * k.count;
  k.channel = g * (d->x.dim[1] / groups);
  for (int64_t i = 0; i < k.count; i++)
    k.mean += ct__ref_get(d->x.dtype, a->x, k.first + i);
  k.mean /= (double)k.count;
  for (int64_t i = 0; i < k.count; i++) {
    double off = ct__ref_get(d->x.dtype, a->x, k.first + i) - k.mean;
    var += off * off;
  }
  k.invstd = 1 / sqrt(var / (double)k.count + d->u.gnorm.eps);
  return k;
}

static void group_forward(const ct_op_desc_t *d, const group_t *k, const ct_op_args_t *a)
{
  for (int64_t i = 0; i < k->count; i++) {
    int64_t e = k->first + i, c = k->channel + i / k->space;
    double v = (ct__ref_get(d->x.dtype, a->x, e) - k->mean) * k->invstd * weight_of(d, a, c);
    if (d->u.gnorm.affine) v += ((const float *)a->w[1])[c];
    ct__ref_set(d->y.dtype, a->y, e, v);
  }
}

static void group_data(const ct_op_desc_t *d, const group_t *k, const ct_op_args_t *a)
{
  ct_dtype_t t = d->x.dtype;
  double sum = 0, slope = 0, count = (double)k->count;

  for (int64_t i = 0; i < k->count; i++) {
    int64_t e = k->first + i;
    double g = ct__ref_get(t, a->dy, e) * weight_of(d, a, k->channel + i / k->space);
    sum += g;
    slope += g * (ct__ref_get(t, a->x, e) - k->mean) * k->invstd;
  }
  for (int64_t i = 0; i < k->count; i++) {
    int64_t e = k->first + i;
    double g = ct__ref_get(t, a->dy, e) * weight_of(d, a, k->channel + i / k->space);
    double normal = (ct__ref_get(t, a->x, e) - k->mean) * k->invstd;
    ct__ref_set(t, a->dx, e, k->invstd * (g - (sum + normal * slope) / count));
  }
}

/* Adds a group to sums: per channel the gradients of weight and bias. */
static void group_param(const ct_op_desc_t *d, const group_t *k, const ct_op_args_t *a,
                        double *sums)
{
  for (int64_t i = 0; i < k->count; i++) {
    int64_t e = k->first + i, c = k->channel + i / k->space;
    double g = ct__ref_get(d->y.dtype, a->dy, e);
    sums[2 * c] += g * (ct__ref_get(d->x.dtype, a->x, e) - k->mean) * k->invstd;
    sums[2 * c + 1] += g;
  }
}

static int gnorm_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  double *sums = a->scratch;
  int param = a->pass & CT_BWD_PARAM && d->u.gnorm.affine;

  for (int64_t c = 0; param && c < d->x.dim[1]; c++)
    sums[2 * c] = sums[2 * c + 1] = 0;
  for (int64_t n = 0; n < d->x.dim[0]; n++) {
    for (int64_t g = 0; g < d->u.gnorm.groups; g++) {
      group_t k = group_of(d, a, n, g);
      if (param) group_param(d, &k, a, sums);
      if (a->pass & CT_FWD) group_forward(d, &k, a);
      if (a->pass & CT_BWD_DATA) group_data(d, &k, a);
    }
  }
  for (int64_t c = 0; param && c < d->x.dim[1]; c++) {
    ((float *)a->dw[0])[c] = (float)sums[2 * c];
    ((float *)a->dw[1])[c] = (float)sums[2 * c + 1];
  }
  return CT_OK;
}

static void gnorm_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  if (d->passes & CT_BWD_PARAM) info->scratch = (size_t)d->x.dim[1] * 2 * sizeof(double);
  info->inplace_fwd = info->inplace_bwd = 1;
}

const ct__ref_kind_t ct__ref_gnorm = {.run = gnorm_run, .needs = gnorm_needs, .reduced = 1};
