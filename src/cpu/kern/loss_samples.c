/* Losses of a sample as a whole, with the formulas of ref/ref_loss_samples.c.  Threads share blocks
 * of places; the sums of blocks are added up in a fixed order to those of samples, of which the
 * backward pass makes slopes. */
#include "cpu/kern/loss_samples.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"

enum { BLOCK = 256 };

/* The sums: first these, then of Dice per class the sums of p t and of p + t. */
enum { LOSS, WEIGHT, ERROR, SEEN, TOP1, TOP5, BAD, SQUARES, TARGETS, FIXED };

/* Some places of a sample. */
typedef struct block {
  int n;
  int64_t sample, first; /* first: index of the first place in the sample */
  const float *x, *t;    /* of class 0 */
  const int32_t *label;
  float weight[BLOCK]; /* of the places; 0: ignored */
  float largest[BLOCK], sum[BLOCK];
} block_t;

static int is_dice(const cpu__loss_samples_t *k)
{
  return k->spec.kind == CT_LOSS_DICE || k->spec.kind == CT_LOSS_SIGMOID_DICE;
}

static int64_t blocks_of(const cpu__loss_samples_t *k)
{
  return (k->places + BLOCK - 1) / BLOCK;
}

void cpu__loss_samples_prepare(cpu__loss_samples_t *k, const ct_op_desc_t *d,
                               const cpu__loops_t *loops)
{
  int64_t places = ct_op_places(d);
  *k = (cpu__loss_samples_t){.loops = loops,
                             .spec = d->u.loss,
                             .samples = d->x.dim[0],
                             .classes = ct_shape_sample(&d->x) / places,
                             .places = places};
  k->sums = FIXED + (is_dice(k) ? 2 * (int)k->classes : 0);
}

size_t cpu__loss_samples_scratch(const cpu__loss_samples_t *k)
{
  return (size_t)(k->samples * (blocks_of(k) + 1) * k->sums) * sizeof(double);
}

static int has_labels(const cpu__loss_samples_t *k)
{
  return k->spec.kind == CT_LOSS_DICE;
}

static int is_ignored(const cpu__loss_samples_t *k, int32_t label)
{
  return k->spec.has_ignored && label == k->spec.ignored;
}

static float class_weight(const cpu__loss_samples_t *k, const ct_op_args_t *a, int64_t c)
{
  return k->spec.weighted ? a->class_weight[c] : 1;
}

static double class_weights(const cpu__loss_samples_t *k, const ct_op_args_t *a)
{
  double all = 0;
  for (int64_t c = 0; c < k->classes; c++)
    all += class_weight(k, a, c);
  return all;
}

static void block_begin(const cpu__loss_samples_t *k, const ct_op_args_t *a, int64_t i, block_t *b)
{
  b->sample = i / blocks_of(k);
  b->first = i % blocks_of(k) * BLOCK;
  int64_t left = k->places - b->first, at = b->sample * k->classes * k->places + b->first;
  b->n = left < BLOCK ? (int)left : BLOCK;
  b->x = (const float *)a->x + at;
  b->t = has_labels(k) ? NULL : a->targets + at;
  b->label = has_labels(k) ? a->labels + b->sample * k->places + b->first : NULL;
  for (int j = 0; j < b->n; j++) {
    int counts = !b->label || !is_ignored(k, b->label[j]);
    b->weight[j] = !counts ? 0 : k->spec.place_weighted ? a->place_weight[b->first + j] : 1;
  }
  if (ct_loss_softmax(k->spec.kind))
    k->loops->exp_sum_columns(k->classes, k->places, b->n, b->x, b->largest, b->sum);
}

/* ---- predictions and targets of a class ---- */

/* Writes the predictions of class c. */
static void predict(const cpu__loss_samples_t *k, const block_t *b, int64_t c, float p[BLOCK])
{
  const float *x = b->x + c * k->places;
  float share[BLOCK];
  if (!ct_loss_softmax(k->spec.kind)) {
    for (int j = 0; j < b->n; j++)
      p[j] = 1 / (1 + expf(-x[j]));
    return;
  }
  for (int j = 0; j < b->n; j++)
    share[j] = 1 / b->sum[j];
  k->loops->exp_scaled_columns(1, k->places, b->n, x, b->largest, share, p);
}

/* Writes the targets of class c. */
static void aim(const cpu__loss_samples_t *k, const block_t *b, int64_t c, float t[BLOCK])
{
  for (int j = 0; j < b->n; j++)
    t[j] = b->label ? (float)(b->label[j] == c) : b->t[c * k->places + j];
}

/* ---- forward ---- */

/* Counts the hits of labels; NaN ranks before the label. */
static void count_hits(const cpu__loss_samples_t *k, const block_t *b, double *sums)
{
  for (int j = 0; j < b->n; j++) {
    int64_t label = b->label[j], ahead = 0;
    if (is_ignored(k, b->label[j])) continue;
    if (label < 0 || label >= k->classes) {
      if (sums[BAD] == 0) sums[BAD] = 1 + (double)(b->sample * k->places + b->first + j);
      continue;
    }
    float own = b->x[label * k->places + j];
    for (int64_t c = 0; c < k->classes; c++) {
      float x = b->x[c * k->places + j];
      ahead += c < label ? !(x < own) : c > label && !(x <= own);
    }
    sums[SEEN]++;
    sums[TOP1] += ahead < 1;
    sums[TOP5] += ahead < 5;
  }
}

static void dice_sums(const cpu__loss_samples_t *k, const block_t *b, double *sums)
{
  float p[BLOCK], t[BLOCK];
  for (int64_t c = 0; c < k->classes; c++) {
    double both = 0, all = 0, error = 0;
    predict(k, b, c, p);
    aim(k, b, c, t);
    for (int j = 0; j < b->n; j++) {
      float w = b->weight[j];
      both += w > 0 ? w * (p[j] * t[j]) : 0;
      all += w > 0 ? w * (p[j] + t[j]) : 0;
      error += fabsf(p[j] - t[j]);
    }
    sums[FIXED + 2 * c] = both;
    sums[FIXED + 2 * c + 1] = all;
    if (!b->label) sums[ERROR] += error;
  }
  if (b->label) count_hits(k, b, sums);
}

static int is_missing(const cpu__loss_samples_t *k, float t)
{
  return k->spec.skips_nan && isnan(t);
}

static void relative_sums(const cpu__loss_samples_t *k, const block_t *b, double *sums)
{
  for (int j = 0; j < b->n; j++) {
    double t = b->t[j], d = b->x[j] - t;
    if (is_missing(k, b->t[j])) continue;
    sums[SQUARES] += b->weight[j] * d * d;
    sums[TARGETS] += b->weight[j] * t * t;
    sums[ERROR] += fabs(d);
    sums[SEEN]++;
  }
}

/* Returns the wanted probability of class c with its weight, of the target t. */
static float wanted(const cpu__loss_samples_t *k, const ct_op_args_t *a, int64_t c, float t)
{
  double smoothing = k->spec.label_smoothing;
  return (float)(class_weight(k, a, c) * ((1 - smoothing) * t + smoothing / (double)k->classes));
}

static void soft_sums(const cpu__loss_samples_t *k, const ct_op_args_t *a, const block_t *b,
                      double *sums)
{
  float p[BLOCK];
  for (int64_t c = 0; c < k->classes; c++) {
    const float *x = b->x + c * k->places, *t = b->t + c * k->places;
    predict(k, b, c, p);
    for (int j = 0; j < b->n; j++) {
      float q = wanted(k, a, c, t[j]);
      double u = (double)b->largest[j] + log(b->sum[j]) - x[j];
      if (q != 0) sums[LOSS] += (double)b->weight[j] * q * u;
      sums[ERROR] += fabsf(p[j] - t[j]);
    }
  }
  for (int j = 0; j < b->n; j++)
    sums[WEIGHT] += b->weight[j];
}

static void block_sums(const cpu__loss_samples_t *k, const ct_op_args_t *a, const block_t *b,
                       double *sums)
{
  memset(sums, 0, (size_t)k->sums * sizeof *sums);
  if (is_dice(k))
    dice_sums(k, b, sums);
  else if (k->spec.kind == CT_LOSS_RELATIVE_L2)
    relative_sums(k, b, sums);
  else
    soft_sums(k, a, b, sums);
}

/* Computes the sums of blocks, then of samples; returns those of samples. */
static double *sum_up(const cpu__loss_samples_t *k, const ct_op_args_t *a)
{
  int64_t blocks = blocks_of(k);
  double *of_block = a->scratch, *of_sample = of_block + k->samples * blocks * k->sums;

#pragma omp parallel for if (k->samples * k->places * k->classes > CPU__PARALLEL_MIN) \
    schedule(static)
  for (int64_t i = 0; i < k->samples * blocks; i++) {
    block_t b;
    block_begin(k, a, i, &b);
    block_sums(k, a, &b, of_block + i * k->sums);
  }
  memset(of_sample, 0, (size_t)(k->samples * k->sums) * sizeof *of_sample);
  for (int64_t i = 0; i < k->samples * blocks; i++) {
    double *to = of_sample + i / blocks * k->sums, *from = of_block + i * k->sums;
    if (to[BAD] > 0) from[BAD] = 0; /* the first one is told */
    for (int j = 0; j < k->sums; j++)
      to[j] += from[j];
  }
  return of_sample;
}

/* Sets the loss of a sample from its sums, its weight in the divisor and its number of elements. */
static void finish_sample(const cpu__loss_samples_t *k, const ct_op_args_t *a, double *sums)
{
  double all = class_weights(k, a), smooth = k->spec.param;
  int64_t outputs = k->classes * k->places;
  if (k->spec.kind == CT_LOSS_RELATIVE_L2) {
    sums[WEIGHT] = sums[SEEN] > 0;
    sums[LOSS] = sums[SEEN] > 0 ? sqrt(sums[SQUARES] / sums[TARGETS]) : 0;
    sums[ERROR] /= sums[SEEN] > 0 ? sums[SEEN] : 1;
    sums[SEEN] = sums[TOP1] = sums[TOP5] = sums[SEEN] > 0;
    return;
  }
  if (is_dice(k)) sums[WEIGHT] = 1;
  for (int64_t c = 0; is_dice(k) && c < k->classes; c++) {
    const double *of = sums + FIXED + 2 * c;
    sums[LOSS] += class_weight(k, a, c) / all * (1 - (2 * of[0] + smooth) / (of[1] + smooth));
  }
  if (has_labels(k)) return;
  sums[ERROR] /= (double)outputs;
  sums[SEEN] = 1;
}

static float sample_weight(const cpu__loss_samples_t *k, const ct_op_args_t *a, int64_t n)
{
  return k->spec.sample_weighted ? a->sample_weight[n] : 1;
}

static int samples_forward(const cpu__loss_samples_t *k, const ct_op_args_t *a, double *of_sample)
{
  int rc = CT_OK;
  ct_loss_t all = {0};
  int soft = k->spec.kind == CT_LOSS_SOFT_CROSS_ENTROPY;
  double elements = soft ? (double)k->places : 1;
  for (int64_t n = 0; n < k->samples; n++) {
    double *sums = of_sample + n * k->sums, weight = sample_weight(k, a, n);
    int64_t bad = (int64_t)sums[BAD] - 1;
    if (bad >= 0)
      CT_FAIL(CT_ERR_DATA, "label %d of sample %lld of the batch is not in 0 to %lld",
              (int)a->labels[bad], (long long)n, (long long)k->classes - 1);
    finish_sample(k, a, sums);
    all.sum += weight * sums[LOSS];
    all.weight += ct_loss_counted(&k->spec, weight, sums[WEIGHT], elements, 1);
    all.abs_error += sums[ERROR];
    all.samples += (int64_t)sums[SEEN];
    if (has_labels(k)) {
      all.top1 += (int64_t)sums[TOP1];
      all.top5 += (int64_t)sums[TOP5];
    }
  }
  *a->loss = all;
out:
  return rc;
}

/* ---- backward ---- */

static void dice_slopes(const cpu__loss_samples_t *k, const ct_op_args_t *a, const block_t *b,
                        const double *sums, float scale, float *dx)
{
  float p[BLOCK], t[BLOCK], mean[BLOCK] = {0};
  double all = class_weights(k, a), smooth = k->spec.param;
  for (int64_t c = 0; c < k->classes; c++) {
    const double *of = sums + FIXED + 2 * c;
    double base = of[1] + smooth, own = scale * class_weight(k, a, c) / all;
    float both = (float)(own * (2 * of[0] + smooth) / (base * base)), hit = (float)(2 * own / base);
    predict(k, b, c, p);
    aim(k, b, c, t);
    for (int j = 0; j < b->n; j++) {
      float slope = b->weight[j] * (both - hit * t[j]);
      dx[c * k->places + j] = b->label ? slope : slope * p[j] * (1 - p[j]);
      mean[j] += p[j] * slope;
    }
  }
  for (int64_t c = 0; b->label && c < k->classes; c++) {
    predict(k, b, c, p);
    for (int j = 0; j < b->n; j++)
      dx[c * k->places + j] = p[j] * (dx[c * k->places + j] - mean[j]);
  }
}

static void relative_slopes(const cpu__loss_samples_t *k, const block_t *b, const double *sums,
                            float scale, float *dx)
{
  double norms = sqrt(sums[SQUARES] * sums[TARGETS]);
  float factor = sums[SQUARES] == 0 ? 0 : (float)(scale / norms);
  for (int j = 0; j < b->n; j++)
    dx[j] = is_missing(k, b->t[j]) ? 0 : factor * b->weight[j] * (b->x[j] - b->t[j]);
}

static void soft_slopes(const cpu__loss_samples_t *k, const ct_op_args_t *a, const block_t *b,
                        float scale, float *dx)
{
  float p[BLOCK], total[BLOCK] = {0};
  for (int64_t c = 0; c < k->classes; c++)
    for (int j = 0; j < b->n; j++)
      total[j] += wanted(k, a, c, b->t[c * k->places + j]);
  for (int64_t c = 0; c < k->classes; c++) {
    predict(k, b, c, p);
    for (int j = 0; j < b->n; j++)
      dx[c * k->places + j] =
          scale * b->weight[j] * (total[j] * p[j] - wanted(k, a, c, b->t[c * k->places + j]));
  }
}

static void samples_backward(const cpu__loss_samples_t *k, const ct_op_args_t *a,
                             const double *of_sample)
{
#pragma omp parallel for if (k->samples * k->places * k->classes > CPU__PARALLEL_MIN) \
    schedule(static)
  for (int64_t i = 0; i < k->samples * blocks_of(k); i++) {
    block_t b;
    block_begin(k, a, i, &b);
    float *dx = (float *)a->dx + (b.x - (const float *)a->x);
    float scale = a->scale * sample_weight(k, a, b.sample);
    const double *sums = of_sample + b.sample * k->sums;
    if (is_dice(k))
      dice_slopes(k, a, &b, sums, scale, dx);
    else if (k->spec.kind == CT_LOSS_RELATIVE_L2)
      relative_slopes(k, &b, sums, scale, dx);
    else
      soft_slopes(k, a, &b, scale, dx);
  }
}

int cpu__loss_samples_run(const cpu__loss_samples_t *k, const ct_op_args_t *a)
{
  int rc = CT_OK;
  double *of_sample = sum_up(k, a);
  if (a->pass & CT_FWD) CT_TRY(samples_forward(k, a, of_sample));
  if (a->pass & CT_BWD_DATA) samples_backward(k, a, of_sample);
out:
  return rc;
}
