/* Losses as in torch.nn, but summed over samples, not averaged.
 *
 * Cross-entropy is computed for a distribution q over the classes: -sum of q log(softmax(x)).  A
 * label, two mixed labels, label smoothing and class weights only give different q.  As in PyTorch,
 * a class weight is a factor of q of that class, smoothed or not, and q need not sum up to 1. */
#include "ref/ref.h"
#include "ref/ref_loss_samples.h"

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
  if (d->u.loss.classes_last) return (pixel_t){i, (const float *)a->x + i * classes, classes, 1};
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

  if (!ct_loss_is_point(o->kind) && o->has_ignored && label == o->ignored) return CT_OK;
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

static double place_weight(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t i)
{
  return d->u.loss.place_weighted ? a->place_weight[i] : 1;
}

static double class_weight(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t i)
{
  return d->u.loss.weighted ? a->class_weight[i] : 1;
}

/* Returns the weight of a pixel's loss apart from that of its sample. */
static double own_weight(const ct_op_desc_t *d, const ct_op_args_t *a, const aims_t *aims,
                         int64_t at)
{
  double own = 0;

  for (int k = 0; k < aims->n; k++)
    own += aims->share[k] * class_weight(d, a, aims->label[k]);
  return own * place_weight(d, a, at % ct_op_pixels(d));
}

/* Returns q of class i. */
static double wanted(const ct_op_desc_t *d, const ct_op_args_t *a, const aims_t *aims, int64_t i)
{
  double smoothing = d->u.loss.label_smoothing, sum = 0;

  for (int k = 0; k < aims->n; k++) {
    if (aims->label[k] == i) sum += aims->share[k] * (1 - smoothing);
    sum += aims->share[k] * smoothing / (double)ct_op_classes(d);
  }
  return sum * class_weight(d, a, i);
}

/* Returns the focal factor of the loss of a label with log-probability u; slope 1: of its
 * derivative with respect to u. */
static double focal(const ct_loss_spec_t *o, double u, int slope)
{
  double p = exp(u), rest = -expm1(u);

  if (o->gamma == 0) return 1;
  if (rest <= 0) return 0;
  return pow(rest, o->gamma) - (slope ? o->gamma * pow(rest, o->gamma - 1) * p * u : 0);
}

static void scale_aims(const ct_loss_spec_t *o, const pixel_t *p, double all, int slope,
                       aims_t *aims)
{
  for (int k = 0; k < aims->n; k++)
    aims->share[k] *= focal(o, logit(p, aims->label[k]) - all, slope);
}

static void xent_forward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                         double weight, ct_loss_t *loss)
{
  const ct_loss_spec_t *o = &d->u.loss;
  aims_t aims = aims_of(o, a, p->at);
  double all = log_sum(p), own = own_weight(d, a, &aims, p->at);
  double place = place_weight(d, a, p->at % ct_op_pixels(d));

  loss->weight += ct_loss_counted(&d->u.loss, weight, own, 1, 1 / (double)ct_op_pixels(d));
  loss->sum += weight * own * o->z_loss * all * all;
  scale_aims(o, p, all, 0, &aims);
  for (int64_t i = 0; i < p->classes; i++) {
    double q = weight * place * wanted(d, a, &aims, i);
    if (q != 0) loss->sum += q * (all - logit(p, i));
  }
  if (o->has_ignored && a->labels[p->at] == o->ignored) return;
  loss->samples++;
  count_hits(p, a->labels[p->at], loss);
}

static void xent_backward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                          double weight)
{
  float *dx = (float *)a->dx + (p->x - (const float *)a->x);
  aims_t aims = aims_of(&d->u.loss, a, p->at);
  double all = log_sum(p), place = place_weight(d, a, p->at % ct_op_pixels(d));
  double total = d->u.loss.z_loss * 2 * all * own_weight(d, a, &aims, p->at);
  scale_aims(&d->u.loss, p, all, 1, &aims);

  for (int64_t i = 0; i < p->classes; i++)
    total += place * wanted(d, a, &aims, i);
  for (int64_t i = 0; i < p->classes; i++) {
    double slope = total * exp(logit(p, i) - all) - place * wanted(d, a, &aims, i);
    dx[i * p->apart] = (float)(a->scale * weight * slope);
  }
}

/* ---- output by output ---- */

static double sigmoid(double v)
{
  return v >= 0 ? 1 / (1 + exp(-v)) : exp(v) / (1 + exp(v));
}

/* Returns log(1 + exp(v)) without overflow. */
static double softplus(double v)
{
  return fmax(v, 0) + log1p(exp(-fabs(v)));
}

static double target_of(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, int64_t i)
{
  double first = share_of_first(a, n), sum = 0;

  if (!d->u.loss.one_hot) return a->targets[n * ct_shape_sample(&d->x) + i];
  if (a->labels[n] == i) sum += first;
  if (first < 1 && a->labels2[n] == i) sum += 1 - first;
  return sum;
}

/* The loss of an output and its derivative. */
typedef struct point {
  double loss, slope;
} point_t;

/* pos: weight of the target 1. */
static point_t bce_of(const ct_loss_spec_t *o, double x, double t, double pos)
{
  double p = sigmoid(x), rest = sigmoid(-x), wrong = p * (1 - t) + rest * t;
  double alpha = o->alpha > 0 ? o->alpha * t + (1 - o->alpha) * (1 - t) : 1;
  point_t v = {pos * t * softplus(-x) + (1 - t) * softplus(x), (1 - t) * p - pos * t * rest};

  if (o->gamma > 0) { /* Lin et al. 2017: factor wrong^gamma */
    double factor = pow(wrong, o->gamma);
    double change = wrong > 0 ? o->gamma * factor / wrong * p * rest * (1 - 2 * t) : 0;
    v.slope = v.slope * factor + v.loss * change;
    v.loss *= factor;
  }
  return (point_t){alpha * v.loss, alpha * v.slope};
}

/* Quadratic up to |x - t| = limit, then linear with slope `limit`; smooth L1: by `limit`. */
static point_t huber_of(double d, double limit, double by)
{
  double size = fabs(d), sign = isnan(d) ? d : (d > 0) - (d < 0);

  if (size < limit) return (point_t){0.5 * d * d / by, d / by};
  return (point_t){limit / by * (size - 0.5 * limit), limit / by * sign};
}

static point_t kl_of(int logs, double x, double t)
{
  if (logs) return (point_t){exp(t) * (t - x), -exp(t)};
  return (point_t){(t > 0 ? t * log(t) : 0) - t * x, -t};
}

static point_t poisson_of(int logs, double x, double t)
{
  const double eps = 1e-8; /* PyTorch's */

  if (logs) return (point_t){exp(x) - t * x, exp(x) - t};
  return (point_t){x - t * log(x + eps), 1 - t / (x + eps)};
}

static point_t hinge_of(double margin, double x, double t)
{
  double below = t == 1 ? 0 : fmax(margin - x, 0), own = t == -1 ? 0 : x;

  return (point_t){isnan(x) ? x : below + own,
                   (t == -1 ? 0 : 1) - (t != 1 && margin - x >= 0 ? 1 : 0)};
}

static point_t point_of(const ct_loss_spec_t *o, double x, double t, double pos)
{
  double d = x - t;

  switch (o->kind) {
  case CT_LOSS_MSE:
    return (point_t){d * d, 2 * d};
  case CT_LOSS_L1:
    return (point_t){fabs(d), isnan(d) ? d : (d > 0) - (d < 0)};
  case CT_LOSS_BCE:
    return bce_of(o, x, t, pos);
  case CT_LOSS_HUBER:
    return huber_of(d, o->param, 1);
  case CT_LOSS_SMOOTH_L1:
    return o->param > 0 ? huber_of(d, o->param, o->param)
                        : (point_t){fabs(d), isnan(d) ? d : (d > 0) - (d < 0)};
  case CT_LOSS_KL:
    return kl_of(o->logs, x, t);
  case CT_LOSS_POISSON:
    return poisson_of(o->logs, x, t);
  case CT_LOSS_SOFT_MARGIN:
    return (point_t){softplus(-t * x), -t * sigmoid(-t * x)};
  case CT_LOSS_HINGE_EMBEDDING:
    return hinge_of(o->param, x, t);
  case CT_LOSS_CROSS_ENTROPY: /* not output by output */
  case CT_LOSS_DICE:
  case CT_LOSS_SIGMOID_DICE:
  case CT_LOSS_RELATIVE_L2:
  case CT_LOSS_SOFT_CROSS_ENTROPY:
    break;
  }
  return (point_t){NAN, NAN};
}

/* Returns the distance of the prediction from the target. */
static double error_of(const ct_loss_spec_t *o, double x, double t)
{
  if (o->kind == CT_LOSS_BCE) return fabs(sigmoid(x) - t);
  if (o->kind == CT_LOSS_KL) return fabs(exp(x) - (o->logs ? exp(t) : t));
  if (o->kind == CT_LOSS_POISSON && o->logs) return fabs(exp(x) - t);
  return fabs(x - t);
}

static int is_missing(const ct_loss_spec_t *o, double t)
{
  return o->skips_nan && isnan(t);
}

static void points_forward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                           double weight, ct_loss_t *loss)
{
  const ct_loss_spec_t *o = &d->u.loss;
  int64_t count = p->classes, n = p->at, seen = 0;
  const float *x = p->x;
  double sum = 0, abs_error = 0, weights = 0;

  for (int64_t i = 0; i < count; i++) {
    double t = target_of(d, a, n, i), place = place_weight(d, a, i);
    if (is_missing(o, t)) continue;
    sum += place * point_of(o, x[i], t, class_weight(d, a, i)).loss;
    abs_error += error_of(o, x[i], t);
    weights += place;
    seen++;
  }
  loss->sum += weight * sum * ct_op_loss_share(d);
  loss->weight += ct_loss_counted(&d->u.loss, weight, weights / (double)count, 1, 1);
  if (!seen) return;
  loss->abs_error += abs_error / (double)seen;
  loss->samples++;
  if (o->one_hot) count_hits(p, a->labels[n], loss);
}

static void points_backward(const ct_op_desc_t *d, const ct_op_args_t *a, const pixel_t *p,
                            double weight)
{
  const ct_loss_spec_t *o = &d->u.loss;
  int64_t count = p->classes, n = p->at;
  const float *x = p->x;
  float *dx = (float *)a->dx + n * count;

  for (int64_t i = 0; i < count; i++) {
    double t = target_of(d, a, n, i), scale = a->scale * weight * place_weight(d, a, i);
    double slope = is_missing(o, t) ? 0 : point_of(o, x[i], t, class_weight(d, a, i)).slope;
    dx[i] = (float)(scale * slope * ct_op_loss_share(d));
  }
}

/* ---- the op ---- */

/* Counts the hits of the pixels of a sample. */
static void count_pixels(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, ct_loss_t *loss)
{
  const ct_loss_spec_t *o = &d->u.loss;

  for (int64_t i = n * ct_op_pixels(d); i < (n + 1) * ct_op_pixels(d); i++) {
    pixel_t p = pixel_of(d, a, i);
    if (o->has_ignored && a->labels[i] == o->ignored) continue;
    loss->samples++;
    count_hits(&p, a->labels[i], loss);
  }
}

static void run_samples(const ct_op_desc_t *d, const ct_op_args_t *a, ct_loss_t *loss)
{
  int soft = d->u.loss.kind == CT_LOSS_SOFT_CROSS_ENTROPY;

  for (int64_t n = 0; n < d->x.dim[0]; n++) {
    double weight = sample_weight(d, a, n), own;
    own = ct__ref_loss_sample(d, a, n, weight, loss);
    loss->weight += ct_loss_counted(&d->u.loss, weight, own, soft ? (double)ct_op_places(d) : 1, 1);
    if (ct_loss_of_labels(d->u.loss.kind)) count_pixels(d, a, n, loss);
  }
}

static void run_pixels(const ct_op_desc_t *d, const ct_op_args_t *a, ct_loss_t *loss)
{
  int is_xent = d->u.loss.kind == CT_LOSS_CROSS_ENTROPY;
  int64_t pixels = ct_op_pixels(d);

  for (int64_t i = 0; i < d->x.dim[0] * pixels; i++) {
    pixel_t p = pixel_of(d, a, i);
    double weight = sample_weight(d, a, i / pixels);
    if (a->pass & CT_FWD) (is_xent ? xent_forward : points_forward)(d, a, &p, weight, loss);
    if (a->pass & CT_BWD_DATA) (is_xent ? xent_backward : points_backward)(d, a, &p, weight);
  }
}

static int loss_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int rc = CT_OK, by_pixel;
  const ct_loss_spec_t *o = &d->u.loss;
  ct_loss_t loss = {0};

  if (ct_loss_has_labels(o)) CT_TRY(check_labels(d, a));
  by_pixel = o->kind == CT_LOSS_CROSS_ENTROPY || ct_loss_is_point(o->kind);
  (by_pixel ? run_pixels : run_samples)(d, a, &loss);
  if (a->pass & CT_FWD) *a->loss = loss;
out:
  return rc;
}

const ct__ref_kind_t ct__ref_loss = {.run = loss_run};
