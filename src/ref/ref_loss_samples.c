/* Losses of a sample as a whole: soft Dice, relative L2, and the cross-entropy of probabilities.
 *
 * Soft Dice of a class: 1 - (2 sum of p t + smooth) / (sum of p + sum of t + smooth), with sums
 * over the pixels of a sample, as MONAI's DiceLoss; then the mean over the classes with their
 * weights. */
#include "ref/ref_loss_samples.h"

#include <math.h>

/* One sample. */
typedef struct sample {
  const ct_op_desc_t *d;
  const ct_op_args_t *a;
  int64_t n, classes, places;
  const float *x;
  float *dx; /* NULL: forward pass alone */
  double weight;
} sample_t;

static double place_weight(const sample_t *s, int64_t i)
{
  return s->d->u.loss.place_weighted ? s->a->place_weight[i] : 1;
}

static double class_weight(const sample_t *s, int64_t c)
{
  return s->d->u.loss.weighted ? s->a->class_weight[c] : 1;
}

/* Returns the target of an output; i: its index in the sample. */
static double target(const sample_t *s, int64_t i)
{
  return s->a->targets[s->n * s->classes * s->places + i];
}

static double log_sum(const sample_t *s, int64_t i)
{
  double largest = -INFINITY, sum = 0;

  for (int64_t c = 0; c < s->classes; c++)
    largest = fmax(largest, s->x[c * s->places + i]);
  for (int64_t c = 0; c < s->classes; c++)
    sum += exp(s->x[c * s->places + i] - largest);
  return largest + log(sum);
}

/* ---- soft Dice ---- */

static int has_labels(const sample_t *s)
{
  return s->d->u.loss.kind == CT_LOSS_DICE;
}

/* Returns the weight of a pixel: 0 if it is ignored. */
static double pixel_weight(const sample_t *s, int64_t i)
{
  const ct_loss_spec_t *o = &s->d->u.loss;
  if (has_labels(s) && o->has_ignored && s->a->labels[s->n * s->places + i] == o->ignored) return 0;
  return place_weight(s, i);
}

/* Returns the prediction of class c at pixel i, and its target. */
static double dice_pair(const sample_t *s, int64_t c, int64_t i, double *t)
{
  double x = s->x[c * s->places + i];

  if (has_labels(s)) {
    *t = s->a->labels[s->n * s->places + i] == c;
    return exp(x - log_sum(s, i));
  }
  *t = target(s, c * s->places + i);
  return 1 / (1 + exp(-x));
}

typedef struct dice {
  double both, sum; /* sums of p t, and of p + t */
} dice_t;

static dice_t dice_of(const sample_t *s, int64_t c, double *abs_error)
{
  dice_t v = {0};
  double t;

  for (int64_t i = 0; i < s->places; i++) {
    double w = pixel_weight(s, i), p = dice_pair(s, c, i, &t);
    if (!has_labels(s)) *abs_error += fabs(p - t);
    if (w == 0) continue;
    v.both += w * p * t;
    v.sum += w * (p + t);
  }
  return v;
}

static double class_share(const sample_t *s, int64_t c)
{
  double all = 0;

  for (int64_t k = 0; k < s->classes; k++)
    all += class_weight(s, k);
  return class_weight(s, c) / all;
}

/* Adds the slopes of the loss by the predictions of class c to dx. */
static void dice_slopes(const sample_t *s, int64_t c, const dice_t *v, double smooth)
{
  double t, base = v->sum + smooth, scale = s->a->scale * s->weight * class_share(s, c);

  for (int64_t i = 0; i < s->places; i++) {
    double p = dice_pair(s, c, i, &t), w = pixel_weight(s, i);
    double slope = scale * w * ((2 * v->both + smooth) / (base * base) - 2 * t / base);
    s->dx[c * s->places + i] = (float)(has_labels(s) ? slope : slope * p * (1 - p));
  }
}

/* Changes slopes by probabilities into slopes by logits. */
static void through_softmax(const sample_t *s)
{
  for (int64_t i = 0; i < s->places; i++) {
    double all = log_sum(s, i), mean = 0;
    for (int64_t c = 0; c < s->classes; c++)
      mean += exp(s->x[c * s->places + i] - all) * s->dx[c * s->places + i];
    for (int64_t c = 0; c < s->classes; c++) {
      double p = exp(s->x[c * s->places + i] - all);
      float *dx = &s->dx[c * s->places + i];
      *dx = (float)(p * (*dx - mean));
    }
  }
}

static double dice_run(const sample_t *s, ct_loss_t *loss)
{
  double smooth = s->d->u.loss.param, abs_error = 0;

  for (int64_t c = 0; c < s->classes; c++) {
    dice_t v = dice_of(s, c, &abs_error);
    double dice = (2 * v.both + smooth) / (v.sum + smooth);
    loss->sum += s->weight * class_share(s, c) * (1 - dice);
    if (s->dx) dice_slopes(s, c, &v, smooth);
  }
  if (s->dx && has_labels(s)) through_softmax(s);
  if (has_labels(s)) return 1;
  loss->abs_error += abs_error / (double)(s->classes * s->places);
  loss->samples++;
  return 1;
}

/* ---- relative L2 ---- */

static double relative_run(const sample_t *s, ct_loss_t *loss)
{
  int64_t count = s->classes * s->places, seen = 0;
  double error = 0, size = 0, abs_error = 0;

  for (int64_t i = 0; i < count; i++) {
    double t = target(s, i), d = s->x[i] - t, w = place_weight(s, i);
    if (s->d->u.loss.skips_nan && isnan(t)) continue;
    error += w * d * d;
    size += w * t * t;
    abs_error += fabs(d);
    seen++;
  }
  for (int64_t i = 0; s->dx && i < count; i++) {
    double t = target(s, i), slope = place_weight(s, i) * (s->x[i] - t) / sqrt(error * size);
    int none = (s->d->u.loss.skips_nan && isnan(t)) || error == 0;
    s->dx[i] = none ? 0 : (float)(s->a->scale * s->weight * slope);
  }
  if (!seen) return 0;
  loss->sum += s->weight * sqrt(error / size);
  loss->abs_error += abs_error / (double)seen;
  loss->samples++;
  return 1;
}

/* ---- cross-entropy of probabilities ---- */

/* Returns the wanted probability of class c at place i, with its weight. */
static double wanted(const sample_t *s, int64_t c, int64_t i)
{
  double smoothing = s->d->u.loss.label_smoothing;

  return class_weight(s, c) *
         ((1 - smoothing) * target(s, c * s->places + i) + smoothing / (double)s->classes);
}

static double soft_run(const sample_t *s, ct_loss_t *loss)
{
  double weights = 0, abs_error = 0;

  for (int64_t i = 0; i < s->places; i++) {
    double all = log_sum(s, i), w = place_weight(s, i), total = 0;
    for (int64_t c = 0; c < s->classes; c++) {
      double u = s->x[c * s->places + i] - all, q = wanted(s, c, i);
      if (q != 0) loss->sum -= s->weight * w * q * u;
      total += q;
      abs_error += fabs(exp(u) - target(s, c * s->places + i));
    }
    for (int64_t c = 0; s->dx && c < s->classes; c++) {
      double p = exp(s->x[c * s->places + i] - all);
      double slope = s->a->scale * s->weight * w * (total * p - wanted(s, c, i));
      s->dx[c * s->places + i] = (float)slope;
    }
    weights += w;
  }
  loss->abs_error += abs_error / (double)(s->classes * s->places);
  loss->samples++;
  return weights;
}

double ct__ref_loss_sample(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, double weight,
                           ct_loss_t *loss)
{
  int64_t count = ct_shape_sample(&d->x), places = ct_op_places(d);
  sample_t s = {.d = d,
                .a = a,
                .n = n,
                .classes = count / places,
                .places = places,
                .x = (const float *)a->x + n * count,
                .dx = a->pass & CT_BWD_DATA ? (float *)a->dx + n * count : NULL,
                .weight = weight};

  if (d->u.loss.kind == CT_LOSS_RELATIVE_L2) return relative_run(&s, loss);
  return d->u.loss.kind == CT_LOSS_SOFT_CROSS_ENTROPY ? soft_run(&s, loss) : dice_run(&s, loss);
}
