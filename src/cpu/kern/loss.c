/* Losses as in torch.nn, but summed over samples, not averaged.  A row is a sample, or one of its
 * places with the classes last.  Threads share the rows; results are summed in fixed order,
 * independent of the number of threads.  Losses of a sample as a whole are in loss_samples.c. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"
#include "cpu/kern/loss_pixels.h"
#include "cpu/kern/loss_rows.h"
#include "cpu/kern/loss_samples.h"

typedef struct loss {
  ct_op_t op;
  const cpu__loops_t *loops;
  cpu__loss_rows_t of; /* classes: outputs of a row */
  int is_parallel;
  cpu__loss_pixels_t pixels; /* if a sample has several labels, and the classes come first */
  cpu__loss_samples_t whole; /* of CT_SAMPLE_LOSS_LIST */
} loss_t;

/* Returns the number of logits ranked before the label's logit: larger, or equal with a lower
 * index, which is the order of argmax.  NaN ranks before the label, so a NaN prediction is never
 * correct. */
static int64_t rank_of(const float *x, int64_t classes, int32_t label)
{
  int64_t ahead = 0;

  for (int64_t i = 0; i < label; i++)
    ahead += !(x[i] < x[label]);
  for (int64_t i = label + 1; i < classes; i++)
    ahead += !(x[i] <= x[label]);
  return ahead;
}

/* ---- cross-entropy with a label, two mixed labels, label smoothing, class weights ---- */

static void find_own(cpu__aims_t *aims, const float *x)
{
  for (int i = 0; i < aims->n; i++)
    aims->own[i] = x[aims->label[i]];
}

static void xent_forward(const loss_t *k, const ct_op_args_t *a, int64_t n, cpu__row_loss_t *out)
{
  const float *x = (const float *)a->x + n * k->of.classes;
  cpu__aims_t aims = cpu__row_aims(&k->of, a, n);
  double smoothed = 0;
  float largest, sum;

  k->loops->exp_sum(k->of.classes, x, &largest, &sum);
  double all = log(sum) + (double)largest;
  for (int64_t i = 0; k->of.spec.label_smoothing > 0 && i < k->of.classes; i++)
    smoothed += cpu__rows_class_weight(&k->of, a, i) * (all - x[i]);
  find_own(&aims, x);
  *out = cpu__row_loss(&k->of, a, n, &aims, all, smoothed);
  if (out->rank == 0) out->rank = rank_of(x, k->of.classes, a->labels[n]);
}

static void xent_backward(const loss_t *k, const ct_op_args_t *a, double weights, int64_t n)
{
  const float *x = (const float *)a->x + n * k->of.classes;
  float *dx = (float *)a->dx + n * k->of.classes, largest, sum;
  cpu__aims_t aims = cpu__row_aims(&k->of, a, n);
  k->loops->exp_sum(k->of.classes, x, &largest, &sum);
  find_own(&aims, x);
  cpu__row_slope_t s = cpu__row_slope(&k->of, a, n, &aims, log(sum) + (double)largest, weights);

  k->loops->exp_scaled(k->of.classes, x, largest, s.total / sum, dx);
  for (int i = 0; i < aims.n; i++)
    dx[aims.label[i]] -= s.part[i];
  for (int64_t i = 0; s.spread > 0 && i < k->of.classes; i++)
    dx[i] -= s.spread * cpu__rows_class_weight(&k->of, a, i);
}

/* ---- output by output ---- */

/* Returns the targets of a sample; for labels, writes one-hot values to the sample's part of
 * scratch. */
static const float *targets_of(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  if (!k->of.spec.one_hot) return a->targets + n * k->of.classes;
  float *t = (float *)a->scratch + n * k->of.classes;
  cpu__aims_t aims = cpu__row_aims(&k->of, a, n);
  memset(t, 0, (size_t)k->of.classes * sizeof *t);
  for (int i = 0; i < aims.n; i++)
    t[aims.label[i]] += aims.share[i];
  return t;
}

/* Returns the loss of outputs from number i on. */
static cpu__points_t points_from(const loss_t *k, const ct_op_args_t *a, int64_t i)
{
  const ct_loss_spec_t *o = &k->of.spec;
  return (cpu__points_t){.kind = o->kind,
                         .logs = o->logs,
                         .skips_nan = o->skips_nan,
                         .gamma = (float)o->gamma,
                         .alpha = (float)o->alpha,
                         .param = (float)o->param,
                         .place = o->place_weighted ? a->place_weight + i : NULL,
                         .pos = o->weighted ? a->class_weight + i : NULL};
}

static void points_forward(const loss_t *k, const ct_op_args_t *a, int64_t n, cpu__row_loss_t *out)
{
  enum { AT_ONCE = 4096 }; /* number of floats that are summed in float */
  const float *x = (const float *)a->x + n * k->of.classes, *t = targets_of(k, a, n);
  double seen = 0;

  for (int64_t i = 0; i < k->of.classes; i += AT_ONCE) {
    int64_t left = k->of.classes - i;
    float sums[4];
    const cpu__points_t f = points_from(k, a, i);
    k->loops->point_sums(&f, left < AT_ONCE ? left : AT_ONCE, x + i, t + i, sums);
    out->loss += sums[0];
    out->abs_error += sums[1];
    out->weight += sums[2];
    seen += sums[3];
  }
  out->loss *= ct_op_loss_share(&k->op.desc);
  out->abs_error /= seen > 0 ? seen : 1;
  out->weight /= (double)k->of.classes;
  out->rank = k->of.spec.one_hot ? rank_of(x, k->of.classes, a->labels[n]) : INT64_MAX;
  if (seen == 0) out->rank = -1;
}

static void points_backward(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  const float *x = (const float *)a->x + n * k->of.classes;
  const cpu__points_t f = points_from(k, a, 0);

  k->loops->point_slopes(&f, k->of.classes, x, targets_of(k, a, n),
                         a->scale * cpu__row_weight(&k->of, a, n) *
                             (float)ct_op_loss_share(&k->op.desc),
                         (float *)a->dx + n * k->of.classes);
}

/* ---- the op ---- */

static size_t target_bytes(const loss_t *k)
{
  size_t count = (size_t)ct_shape_count(&k->op.desc.x);
  int made = k->of.spec.kind != CT_LOSS_CROSS_ENTROPY && k->of.spec.one_hot;

  return made ? (count * sizeof(float) + 63) / 64 * 64 : 0;
}

static void loss_forward(const loss_t *k, const ct_op_args_t *a)
{
  cpu__row_loss_t *result = (cpu__row_loss_t *)((char *)a->scratch + target_bytes(k));

#pragma omp parallel for if (k->is_parallel) schedule(static)
  for (int64_t n = 0; n < k->of.rows; n++) {
    result[n] = (cpu__row_loss_t){0};
    if (k->of.spec.kind == CT_LOSS_CROSS_ENTROPY)
      xent_forward(k, a, n, &result[n]);
    else
      points_forward(k, a, n, &result[n]);
  }
  cpu__rows_sum(&k->of, a, result);
}

static void loss_backward(const loss_t *k, const ct_op_args_t *a)
{
  int is_xent = k->of.spec.kind == CT_LOSS_CROSS_ENTROPY;
  double weights = is_xent ? cpu__rows_class_weights(&k->of, a) : 0;

#pragma omp parallel for if (k->is_parallel) schedule(static)
  for (int64_t n = 0; n < k->of.rows; n++) {
    if (is_xent)
      xent_backward(k, a, weights, n);
    else
      points_backward(k, a, n);
  }
}

static int loss_run(ct_op_t *op, const ct_op_args_t *a)
{
  const loss_t *k = (const loss_t *)op;
  int rc = CT_OK, by_pixel = k->pixels.pixels > 1;

  if (k->whole.classes) return cpu__loss_samples_run(&k->whole, a);
  if (by_pixel && a->pass & CT_FWD) CT_TRY(cpu__loss_pixels_forward(&k->pixels, a));
  if (by_pixel && a->pass & CT_BWD_DATA) cpu__loss_pixels_backward(&k->pixels, a);
  if (by_pixel) goto out;
  if (k->of.spec.kind == CT_LOSS_CROSS_ENTROPY || k->of.spec.one_hot)
    CT_TRY(cpu__rows_check(&k->of, a));
  if (a->pass & CT_FWD) loss_forward(k, a);
  if (a->pass & CT_BWD_DATA) loss_backward(k, a);
out:
  return rc;
}

static int loss_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  loss_t *k = (loss_t *)op;

  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->of.spec = op->desc.u.loss;
  if (ct_loss_is_point(k->of.spec.kind)) {
    k->of.spec.has_ignored = 0; /* options of losses by class only */
    k->of.spec.label_smoothing = 0;
  }
  k->of.of_sample = k->of.spec.classes_last ? ct_op_pixels(&op->desc) : 1;
  k->of.rows = op->desc.x.dim[0] * k->of.of_sample;
  k->of.classes = ct_shape_sample(&op->desc.x) / k->of.of_sample;
  k->pixels = (cpu__loss_pixels_t){.loops = k->loops,
                                   .spec = k->of.spec,
                                   .samples = op->desc.x.dim[0],
                                   .pixels = ct_op_pixels(&op->desc) / k->of.of_sample};
  k->pixels.classes = k->of.classes / k->pixels.pixels;
  k->is_parallel = ct_shape_count(&op->desc.x) > CPU__PARALLEL_MIN;
  if (k->of.spec.kind != CT_LOSS_CROSS_ENTROPY && !ct_loss_is_point(k->of.spec.kind))
    cpu__loss_samples_prepare(&k->whole, &op->desc, k->loops);
  info->scratch = k->whole.classes ? cpu__loss_samples_scratch(&k->whole)
                  : k->pixels.pixels > 1
                      ? cpu__loss_pixels_scratch(&k->pixels)
                      : target_bytes(k) + (size_t)k->of.rows * sizeof(cpu__row_loss_t);
  return CT_OK;
}

const cpu__op_kind_t cpu__loss = {
    .size = sizeof(loss_t), .plain = 1, .prepare = loss_prepare, .run = loss_run};
