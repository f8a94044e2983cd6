/* Cross-entropy with one label per pixel, as for segmentation.  Logits are stored class by class
 * with contiguous pixels, so a vector holds several pixels.  Threads share blocks of pixels;
 * results are summed in fixed order. */
#include "cpu/kern/loss_pixels.h"

#include <math.h>

#include "base/ct_err.h"

enum { BLOCK = 256 };

/* Sums over the pixels of a block, in the workspace of the forward pass. */
typedef struct result {
  double loss, weight;
  int64_t seen, top1, top5;
  int64_t bad; /* first pixel with an invalid label; -1: none */
} result_t;

/* Some pixels of one sample, and their softmax. */
typedef struct block {
  int n;
  int64_t sample, at; /* at: offset of the first pixel's first logit */
  const float *x;
  const int32_t *label;
  float weight;       /* of the sample */
  const float *place; /* weights of the pixels; NULL: 1 */
  float largest[BLOCK], sum[BLOCK];
} block_t;

static int64_t blocks_of(const cpu__loss_pixels_t *k)
{
  return (k->pixels + BLOCK - 1) / BLOCK;
}

size_t cpu__loss_pixels_scratch(const cpu__loss_pixels_t *k)
{
  return (size_t)(k->samples * blocks_of(k)) * sizeof(result_t);
}

static void loss_pixels_begin(const cpu__loss_pixels_t *k, const ct_op_args_t *a, int64_t i,
                              block_t *b)
{
  int64_t first = i % blocks_of(k) * BLOCK, left = k->pixels - first;
  b->sample = i / blocks_of(k);
  b->n = left < BLOCK ? (int)left : BLOCK;
  b->at = b->sample * k->classes * k->pixels + first;
  b->x = (const float *)a->x + b->at;
  b->label = a->labels + b->sample * k->pixels + first;
  b->weight = k->spec.sample_weighted ? a->sample_weight[b->sample] : 1;
  b->place = k->spec.place_weighted ? a->place_weight + first : NULL;
  k->loops->exp_sum_columns(k->classes, k->pixels, b->n, b->x, b->largest, b->sum);
}

static int is_ignored(const cpu__loss_pixels_t *k, int32_t label)
{
  return k->spec.has_ignored && label == k->spec.ignored;
}

/* Returns 1 for a valid label that is not ignored. */
static int is_class(const cpu__loss_pixels_t *k, int32_t label)
{
  return !is_ignored(k, label) && label >= 0 && label < k->classes;
}

static float class_weight(const cpu__loss_pixels_t *k, const ct_op_args_t *a, int64_t i)
{
  return k->spec.weighted ? a->class_weight[i] : 1;
}

static double place_weight(const block_t *b, int i)
{
  return b->place ? b->place[i] : 1;
}

double cpu__loss_focal(double gamma, double u, int slope)
{
  double p = exp(u), rest = -expm1(u);
  if (gamma == 0) return 1;
  if (rest <= 0) return 0;
  double power = pow(rest, gamma);
  return power - (slope ? gamma * power / rest * p * u : 0);
}

/* Returns the focal factor of the loss at a pixel, or of its slope. */
static double focal(const cpu__loss_pixels_t *k, const block_t *b, int i, int slope)
{
  if (k->spec.gamma == 0) return 1;
  double u = b->x[b->label[i] * k->pixels + i] - (log(b->sum[i]) + (double)b->largest[i]);
  return cpu__loss_focal(k->spec.gamma, u, slope);
}

/* Returns the label-smoothing term over all classes. */
static double smoothed(const cpu__loss_pixels_t *k, const ct_op_args_t *a, const block_t *b, int i)
{
  double all = 0, rest = log(b->sum[i]) + (double)b->largest[i];
  for (int64_t c = 0; c < k->classes; c++)
    all += class_weight(k, a, c) * (rest - b->x[c * k->pixels + i]);
  return all * k->spec.label_smoothing / (double)k->classes;
}

/* Counts per pixel the classes ranked before the pixel's label in the order of argmax; NaN ranks
 * before the label. */
static void count_ahead(const cpu__loss_pixels_t *k, const block_t *b, int32_t ahead[BLOCK])
{
  float own[BLOCK];
  for (int i = 0; i < b->n; i++) {
    ahead[i] = 0;
    own[i] = is_ignored(k, b->label[i]) ? 0 : b->x[b->label[i] * k->pixels + i];
  }
  for (int64_t c = 0; c < k->classes; c++) {
    const float *x = b->x + c * k->pixels;
    for (int i = 0; i < b->n; i++)
      ahead[i] += (c < b->label[i] && !(x[i] < own[i])) || (c > b->label[i] && !(x[i] <= own[i]));
  }
}

static void block_forward(const cpu__loss_pixels_t *k, const ct_op_args_t *a, const block_t *b,
                          result_t *out)
{
  int32_t ahead[BLOCK];
  double plain = 1 - k->spec.label_smoothing;
  *out = (result_t){.bad = -1};
  for (int i = 0; i < b->n && out->bad < 0; i++)
    if (!is_ignored(k, b->label[i]) && (b->label[i] < 0 || b->label[i] >= k->classes))
      out->bad = b->label + i - a->labels;
  if (out->bad >= 0) return;
  count_ahead(k, b, ahead);
  for (int i = 0; i < b->n; i++) {
    if (is_ignored(k, b->label[i])) continue;
    double place = b->weight * place_weight(b, i);
    double own = place_weight(b, i) * class_weight(k, a, b->label[i]), weight = b->weight * own;
    double below = (double)b->largest[i] - b->x[b->label[i] * k->pixels + i];
    double all = log(b->sum[i]) + (double)b->largest[i];
    out->weight += own;
    out->loss += k->spec.z_loss * weight * all * all;
    out->loss += plain * weight * focal(k, b, i, 0) * (log(b->sum[i]) + below);
    if (plain < 1) out->loss += place * smoothed(k, a, b, i);
    out->seen++;
    out->top1 += ahead[i] < 1;
    out->top5 += ahead[i] < 5;
  }
  out->weight =
      ct_loss_counted(&k->spec, b->weight, out->weight, b->n, (double)b->n / (double)k->pixels);
}

int cpu__loss_pixels_forward(const cpu__loss_pixels_t *k, const ct_op_args_t *a)
{
  int rc = CT_OK;
  int64_t blocks = k->samples * blocks_of(k);
  result_t *result = a->scratch;
  ct_loss_t all = {0};

#pragma omp parallel for if (k->samples * k->pixels * k->classes > CPU__PARALLEL_MIN) \
    schedule(static)
  for (int64_t i = 0; i < blocks; i++) {
    block_t b;
    loss_pixels_begin(k, a, i, &b);
    block_forward(k, a, &b, &result[i]);
  }
  for (int64_t i = 0; i < blocks; i++) {
    const result_t *r = &result[i];
    if (r->bad >= 0)
      CT_FAIL(CT_ERR_DATA, "label %d of sample %lld of the batch is not in 0 to %lld",
              (int)a->labels[r->bad], (long long)(r->bad / k->pixels), (long long)k->classes - 1);
    all.sum += r->loss;
    all.weight += r->weight;
    all.samples += r->seen;
    all.top1 += r->top1;
    all.top5 += r->top5;
  }
  *a->loss = all;
out:
  return rc;
}

static void block_backward(const cpu__loss_pixels_t *k, const ct_op_args_t *a, const block_t *b,
                           double weights)
{
  float *dx = (float *)a->dx + b->at, factor[BLOCK], own[BLOCK], scale = a->scale * b->weight;
  float spread = (float)(k->spec.label_smoothing / (double)k->classes);
  float plain = (float)(1 - k->spec.label_smoothing);
  for (int i = 0; i < b->n; i++) {
    own[i] = factor[i] = 0;
    if (!is_class(k, b->label[i])) continue;
    float place = scale * (float)place_weight(b, i);
    float all = logf(b->sum[i]) + b->largest[i], weight = place * class_weight(k, a, b->label[i]);
    own[i] = plain * weight * (float)focal(k, b, i, 1);
    factor[i] = own[i] + place * spread * (float)weights + 2 * (float)k->spec.z_loss * weight * all;
    factor[i] /= b->sum[i];
  }
  k->loops->exp_scaled_columns(k->classes, k->pixels, b->n, b->x, b->largest, factor, dx);
  for (int i = 0; i < b->n; i++) {
    if (!is_class(k, b->label[i])) continue;
    dx[b->label[i] * k->pixels + i] -= own[i];
    for (int64_t c = 0; spread > 0 && c < k->classes; c++)
      dx[c * k->pixels + i] -= scale * (float)place_weight(b, i) * spread * class_weight(k, a, c);
  }
}

void cpu__loss_pixels_backward(const cpu__loss_pixels_t *k, const ct_op_args_t *a)
{
  int64_t blocks = k->samples * blocks_of(k);
  double weights = 0; /* sum of the class weights */
  for (int64_t c = 0; c < k->classes; c++)
    weights += class_weight(k, a, c);

#pragma omp parallel for if (k->samples * k->pixels * k->classes > CPU__PARALLEL_MIN) \
    schedule(static)
  for (int64_t i = 0; i < blocks; i++) {
    block_t b;
    loss_pixels_begin(k, a, i, &b);
    block_backward(k, a, &b, weights);
  }
}
