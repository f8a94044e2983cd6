/* Losses as in torch.nn, but summed over samples, not averaged.
 *
 * Cross-entropy is computed for a distribution q over the classes: -sum of q log(softmax(x)).  A
 * label, two mixed labels, label smoothing and class weights only give different q.  As in PyTorch,
 * a class weight is a factor of q of that class, smoothed or not, and q need not sum up to 1. */
#include "ref/ref.h"

#include <math.h>

/* The labels of a sample with their weights, without ignored ones. */
typedef struct aims {
  int n;
  int32_t label[2];
  double share[2];
} aims_t;

/* A pixel of a sample: its logits are `apart` elements apart. */
typedef struct pixel {
  int64_t at; /* index of its label */
  const float *x;
  int64_t classes, apart;
} pixel_t;

static pixel_t pixel_of(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t i)
{
  int64_t pixels = ct_op_pixels(d), classes = ct_shape_sample(&d->x) / pixels;
  int64_t first = i / pixels * pixels * classes + i % pixels;
  return (pixel_t){i, (const float *)a->x + first, classes, pixels};
}

static double logit(const pixel_t *p, int64_t i)
{
  return p->x[i * p->apart];
}

static double sample_weight(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n)
{
  return d->u.loss.sample_weighted ? a->sample_weight[n] : 1;
}

static double share_of_first(const ct_op_args_t *a, int64_t n)
{
  return a->labels2 && a->mix ? a->mix[n] : 1;
}

/* Returns what a pixel adds to the divisor; own: its weight apart from that of the sample. */
static double counted_as(const ct_op_desc_t *d, double sample, double own)
{
  switch (d->u.loss.divisor) {
  case CT_DIVISOR_WEIGHTS:
    return sample * own;
  case CT_DIVISOR_ELEMENTS:
    return 1;
  case CT_DIVISOR_SAMPLES:
    return sample / (double)ct_op_pixels(d);
  case CT_DIVISOR_NONE:
  case CT_DIVISOR_COUNT:
    break;
  }
  return 0;
}

static void add_aim(aims_t *to, const ct_loss_spec_t *o, int32_t label, double share)
{
  if (o->has_ignored && label == o->ignored) return;
  to->label[to->n] = label;
  to->share[to->n++] = share;
}

static aims_t aims_of(const ct_loss_spec_t *o, const ct_op_args_t *a, int64_t n)
{
  aims_t aims = {0};
  double first = share_of_first(a, n);

  add_aim(&aims, o, a->labels[n], first);
  if (first < 1) add_aim(&aims, o, a->labels2[n], 1 - first);
  return aims;
}

static int loss_check_label(const ct_op_desc_t *d, int64_t n, int32_t label)
{
  const ct_loss_spec_t *o = &d->u.loss;
  int64_t pixels = ct_op_pixels(d), classes = ct_shape_sample(&d->x) / pixels;

  if (o->kind == CT_LOSS_CROSS_ENTROPY && o->has_ignored && label == o->ignored) return CT_OK;
  if (label >= 0 && label < classes) return CT_OK;
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                    "label %d of sample %lld of the batch is not in 0 to %lld", (int)label,
                    (long long)(n / pixels), (long long)classes - 1);
}

static int check_labels(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int rc = CT_OK;

  for (int64_t n = 0; n < d->x.dim[0] * ct_op_pixels(d); n++) {
    CT_TRY(loss_check_label(d, n, a->labels[n]));
    if (share_of_first(a, n) < 1) CT_TRY(loss_check_label(d, n, a->labels2[n]));
  }
out:
  return rc;
}

/* Returns the number of logits ranked before the label's logit: larger, or equal with a lower
 * index, which is the order of argmax.  NaN ranks before the label, so a NaN prediction is never
 * correct. */
static int64_t rank_of(const pixel_t *p, int32_t label)
{
  int64_t ahead = 0;

  for (int64_t i = 0; i < label; i++)
    ahead += !(logit(p, i) < logit(p, label));
  for (int64_t i = label + 1; i < p->classes; i++)
    ahead += !(logit(p, i) <= logit(p, label));
  return ahead;
}

static void count_hits(const pixel_t *p, int32_t label, ct_loss_t *loss)
{
  int64_t rank = rank_of(p, label);

  loss->top1 += rank < 1;
  loss->top5 += rank < 5;
}

/* ---- cross-entropy ---- */

/* Returns the log of the sum of exp(x), without overflow. */
static double log_sum(const pixel_t *p)
{
  double largest = logit(p, 0), sum = 0;

  for (int64_t i = 1; i < p->classes; i++)
    largest = fmax(largest, logit(p, i));
  for (int64_t i = 0; i < p->classes; i++)
    sum += exp(logit(p, i) - largest);
  return largest + log(sum);
}

static double class_weight(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t i)
{
  return d->u.loss.weighted ? a->class_weight[i] : 1;
}

/* Returns q of class i. */
static double wanted(const ct_op_desc_t *d, const ct_op_args_t *a, const aims_t *aims, int64_t i)
{
  double smoothing = d->u.loss.label_smoothing, sum = 0;

  for (int k = 0; k < aims->n; k++) {
    if (aims->label[k] == i) sum += aims->share[k] * (1 - smoothing);
    sum += aims->share[k] * smoothing / (double)d->x.dim[1];
  }
  return sum * class_weight(d, a, i);
}

static void xent_forward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                         double weight, ct_loss_t *loss)
{
  const ct_loss_spec_t *o = &d->u.loss;
  aims_t aims = aims_of(o, a, p->at);
  double all = log_sum(p);

  for (int64_t i = 0; i < p->classes; i++) {
    double q = weight * wanted(d, a, &aims, i);
    if (q != 0) loss->sum += q * (all - logit(p, i));
  }
  double own = 0;
  for (int k = 0; k < aims.n; k++)
    own += aims.share[k] * class_weight(d, a, aims.label[k]);
  loss->weight += counted_as(d, weight, own);
  if (o->has_ignored && a->labels[p->at] == o->ignored) return;
  loss->samples++;
  count_hits(p, a->labels[p->at], loss);
}

static void xent_backward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                          double weight)
{
  float *dx = (float *)a->dx + (p->x - (const float *)a->x);
  aims_t aims = aims_of(&d->u.loss, a, p->at);
  double all = log_sum(p), total = 0;

  for (int64_t i = 0; i < p->classes; i++)
    total += wanted(d, a, &aims, i);
  for (int64_t i = 0; i < p->classes; i++) {
    double slope = total * exp(logit(p, i) - all) - wanted(d, a, &aims, i);
    dx[i * p->apart] = (float)(a->scale * weight * slope);
  }
}

/* ---- elementwise: mean squared error, L1, binary cross-entropy ---- */

static double sigmoid(double v)
{
  return v >= 0 ? 1 / (1 + exp(-v)) : exp(v) / (1 + exp(v));
}

static double target_of(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, int64_t i)
{
  double first = share_of_first(a, n), sum = 0;

  if (!d->u.loss.one_hot) return a->targets[n * ct_shape_sample(&d->x) + i];
  if (a->labels[n] == i) sum += first;
  if (first < 1 && a->labels2[n] == i) sum += 1 - first;
  return sum;
}

static double point_loss(ct_loss_kind_t kind, double x, double t)
{
  switch (kind) {
  case CT_LOSS_MSE:
    return (x - t) * (x - t);
  case CT_LOSS_L1:
    return fabs(x - t);
  case CT_LOSS_BCE: /* -t log(sigmoid(x)) - (1 - t) log(1 - sigmoid(x)) without overflow */
    return fmax(x, 0) - x * t + log1p(exp(-fabs(x)));
  case CT_LOSS_CROSS_ENTROPY: /* not elementwise */
    break;
  }
  return NAN;
}

static double point_slope(ct_loss_kind_t kind, double x, double t)
{
  switch (kind) {
  case CT_LOSS_MSE:
    return 2 * (x - t);
  case CT_LOSS_L1:
    return isnan(x - t) ? x - t : (x > t) - (x < t);
  case CT_LOSS_BCE:
    return sigmoid(x) - t;
  case CT_LOSS_CROSS_ENTROPY:
    break;
  }
  return NAN;
}

static void points_forward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                           double weight, ct_loss_t *loss)
{
  ct_loss_kind_t kind = d->u.loss.kind;
  int64_t count = p->classes, n = p->at;
  const float *x = p->x;
  double sum = 0, abs_error = 0;

  for (int64_t i = 0; i < count; i++) {
    double t = target_of(d, a, n, i);
    sum += point_loss(kind, x[i], t);
    abs_error += fabs((kind == CT_LOSS_BCE ? sigmoid(x[i]) : x[i]) - t);
  }
  loss->sum += weight * sum * ct_op_loss_share(d);
  loss->abs_error += abs_error / (double)count;
  loss->weight += counted_as(d, weight, 1);
  loss->samples++;
  if (d->u.loss.one_hot) count_hits(p, a->labels[n], loss);
}

static void points_backward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                            double weight)
{
  int64_t count = p->classes, n = p->at;
  const float *x = p->x;
  float *dx = (float *)a->dx + n * count;

  for (int64_t i = 0; i < count; i++) {
    double slope = point_slope(d->u.loss.kind, x[i], target_of(d, a, n, i));
    dx[i] = (float)(a->scale * weight * slope * ct_op_loss_share(d));
  }
}

/* ---- the op ---- */

static int loss_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int rc = CT_OK, is_xent = d->u.loss.kind == CT_LOSS_CROSS_ENTROPY;
  int64_t pixels = ct_op_pixels(d);
  ct_loss_t loss = {0};

  if (is_xent || d->u.loss.one_hot) CT_TRY(check_labels(d, a));
  for (int64_t i = 0; i < d->x.dim[0] * pixels; i++) {
    pixel_t p = pixel_of(d, a, i);
    double weight = sample_weight(d, a, i / pixels);
    if (a->pass & CT_FWD) (is_xent ? xent_forward : points_forward)(d, a, &p, weight, &loss);
    if (a->pass & CT_BWD_DATA) (is_xent ? xent_backward : points_backward)(d, a, &p, weight);
  }
  if (a->pass & CT_FWD) *a->loss = loss;
out:
  return rc;
}

const ct__ref_kind_t ct__ref_loss = {.run = loss_run};
