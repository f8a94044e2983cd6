/* Losses as in torch.nn, but summed over samples, not averaged.  A row is a sample, or one of its
 * places with the classes last.  Threads share the rows; results are summed in fixed order,
 * independent of the number of threads.  Losses of a sample as a whole are in loss_samples.c. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"
#include "cpu/kern/loss_pixels.h"
#include "cpu/kern/loss_samples.h"

typedef struct loss {
  ct_op_t op;
  const cpu__loops_t *loops;
  ct_loss_spec_t spec;
  int64_t outputs; /* outputs per row */
  int64_t rows, of_sample;
  int is_parallel;
  cpu__loss_pixels_t pixels; /* if a sample has several labels, and the classes come first */
  cpu__loss_samples_t whole; /* of CT_SAMPLE_LOSS_LIST */
} loss_t;

/* Result of a row, in the workspace of the forward pass. */
typedef struct result {
  double loss, weight, abs_error;
  int64_t rank; /* number of logits ranked before the label's; -1: row that is left out */
} result_t;

/* The labels of a row with their weights, without ignored ones. */
typedef struct aims {
  int n;
  int32_t label[2];
  float share[2];
} aims_t;

static float share_of_first(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  return k->of_sample == 1 && a->labels2 && a->mix ? a->mix[n] : 1;
}

static int is_ignored(const loss_t *k, int32_t label)
{
  return k->spec.has_ignored && label == k->spec.ignored;
}

static aims_t aims_of(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  aims_t aims = {0};
  float first = share_of_first(k, a, n);

  if (!is_ignored(k, a->labels[n])) {
    aims.label[aims.n] = a->labels[n];
    aims.share[aims.n++] = first;
  }
  if (first < 1 && !is_ignored(k, a->labels2[n])) {
    aims.label[aims.n] = a->labels2[n];
    aims.share[aims.n++] = 1 - first;
  }
  return aims;
}

static int loss_check_label(const loss_t *k, int64_t n, int32_t label)
{
  if ((label >= 0 && label < k->outputs) || is_ignored(k, label)) return CT_OK;
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                    "label %d of sample %lld of the batch is not in 0 to %lld", (int)label,
                    (long long)(n / k->of_sample), (long long)k->outputs - 1);
}

static int check_labels(const loss_t *k, const ct_op_args_t *a)
{
  int rc = CT_OK;

  for (int64_t n = 0; n < k->rows; n++) {
    CT_TRY(loss_check_label(k, n, a->labels[n]));
    if (share_of_first(k, a, n) < 1) CT_TRY(loss_check_label(k, n, a->labels2[n]));
  }
out:
  return rc;
}

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

static float sample_weight(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  return k->spec.sample_weighted ? a->sample_weight[n / k->of_sample] : 1;
}

/* ---- cross-entropy with a label, two mixed labels, label smoothing, class weights ---- */

static float class_weight(const loss_t *k, const ct_op_args_t *a, int64_t i)
{
  return k->spec.weighted ? a->class_weight[i] : 1;
}

static double sum_of_weights(const loss_t *k, const ct_op_args_t *a)
{
  double sum = 0;

  if (!k->spec.weighted) return (double)k->outputs;
  for (int64_t i = 0; i < k->outputs; i++)
    sum += a->class_weight[i];
  return sum;
}

/* Label smoothing: returns the part of the label that each class gets, before class weights. */
static double spread_of(const loss_t *k, const aims_t *aims)
{
  double share = 0;

  for (int i = 0; i < aims->n; i++)
    share += aims->share[i];
  return share * k->spec.label_smoothing / (double)k->outputs;
}

/* Multiplies labels by their focal factors. */
static void apply_focal(const loss_t *k, const float *x, double all, int slope, aims_t *aims)
{
  for (int i = 0; i < aims->n; i++)
    aims->share[i] *= (float)cpu__loss_focal(k->spec.gamma, x[aims->label[i]] - all, slope);
}

static double place_weight(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  return k->spec.place_weighted ? a->place_weight[n % k->of_sample] : 1;
}

static void xent_forward(const loss_t *k, const ct_op_args_t *a, int64_t n, result_t *out)
{
  const float *x = (const float *)a->x + n * k->outputs;
  aims_t aims = aims_of(k, a, n);
  double spread = spread_of(k, &aims), smoothed = 0;
  float largest, sum;

  k->loops->exp_sum(k->outputs, x, &largest, &sum);
  double rest = log(sum);
  for (int i = 0; i < aims.n; i++)
    out->weight += (double)aims.share[i] * class_weight(k, a, aims.label[i]);
  out->loss = k->spec.z_loss * out->weight * (rest + (double)largest) * (rest + (double)largest);
  apply_focal(k, x, rest + (double)largest, 0, &aims);
  for (int i = 0; i < aims.n; i++) {
    double weight = (double)aims.share[i] * class_weight(k, a, aims.label[i]);
    out->loss +=
        (1 - k->spec.label_smoothing) * weight * (rest + ((double)largest - x[aims.label[i]]));
  }
  for (int64_t i = 0; spread > 0 && i < k->outputs; i++)
    smoothed += class_weight(k, a, i) * (rest + ((double)largest - x[i]));
  out->loss += spread * smoothed;
  out->loss *= place_weight(k, a, n);
  out->weight *= place_weight(k, a, n);
  out->rank = is_ignored(k, a->labels[n]) ? -1 : rank_of(x, k->outputs, a->labels[n]);
}

static void xent_backward(const loss_t *k, const ct_op_args_t *a, double weights, int64_t n)
{
  const float *x = (const float *)a->x + n * k->outputs;
  float *dx = (float *)a->dx + n * k->outputs, part[2] = {0}, largest, sum;
  float scale = a->scale * sample_weight(k, a, n) * (float)place_weight(k, a, n);
  aims_t aims = aims_of(k, a, n);
  k->loops->exp_sum(k->outputs, x, &largest, &sum);
  double all = log(sum) + (double)largest, spread = spread_of(k, &aims), total = spread * weights;
  for (int i = 0; i < aims.n; i++)
    total += 2 * k->spec.z_loss * all * aims.share[i] * class_weight(k, a, aims.label[i]);
  apply_focal(k, x, all, 1, &aims);

  for (int i = 0; i < aims.n; i++) {
    part[i] =
        (float)(1 - k->spec.label_smoothing) * aims.share[i] * class_weight(k, a, aims.label[i]);
    total += part[i];
  }
  k->loops->exp_scaled(k->outputs, x, largest, scale * (float)total / sum, dx);
  for (int i = 0; i < aims.n; i++)
    dx[aims.label[i]] -= scale * part[i];
  for (int64_t i = 0; spread > 0 && i < k->outputs; i++)
    dx[i] -= scale * (float)spread * class_weight(k, a, i);
}

/* ---- output by output ---- */

/* Returns the targets of a sample; for labels, writes one-hot values to the sample's part of
 * scratch. */
static const float *targets_of(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  if (!k->spec.one_hot) return a->targets + n * k->outputs;
  float *t = (float *)a->scratch + n * k->outputs;
  aims_t aims = aims_of(k, a, n);
  memset(t, 0, (size_t)k->outputs * sizeof *t);
  for (int i = 0; i < aims.n; i++)
    t[aims.label[i]] += aims.share[i];
  return t;
}

/* Returns the loss of outputs from number i on. */
static cpu__points_t points_from(const loss_t *k, const ct_op_args_t *a, int64_t i)
{
  const ct_loss_spec_t *o = &k->spec;
  return (cpu__points_t){.kind = o->kind,
                         .logs = o->logs,
                         .skips_nan = o->skips_nan,
                         .gamma = (float)o->gamma,
                         .alpha = (float)o->alpha,
                         .param = (float)o->param,
                         .place = o->place_weighted ? a->place_weight + i : NULL,
                         .pos = o->weighted ? a->class_weight + i : NULL};
}

static void points_forward(const loss_t *k, const ct_op_args_t *a, int64_t n, result_t *out)
{
  enum { AT_ONCE = 4096 }; /* number of floats that are summed in float */
  const float *x = (const float *)a->x + n * k->outputs, *t = targets_of(k, a, n);
  double seen = 0;

  for (int64_t i = 0; i < k->outputs; i += AT_ONCE) {
    int64_t left = k->outputs - i;
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
  out->weight /= (double)k->outputs;
  out->rank = k->spec.one_hot ? rank_of(x, k->outputs, a->labels[n]) : INT64_MAX;
  if (seen == 0) out->rank = -1;
}

static void points_backward(const loss_t *k, const ct_op_args_t *a, int64_t n)
{
  const float *x = (const float *)a->x + n * k->outputs;
  const cpu__points_t f = points_from(k, a, 0);

  k->loops->point_slopes(&f, k->outputs, x, targets_of(k, a, n),
                         a->scale * sample_weight(k, a, n) * (float)ct_op_loss_share(&k->op.desc),
                         (float *)a->dx + n * k->outputs);
}

/* ---- the op ---- */

static size_t target_bytes(const loss_t *k)
{
  size_t count = (size_t)ct_shape_count(&k->op.desc.x);
  int made = k->spec.kind != CT_LOSS_CROSS_ENTROPY && k->spec.one_hot;

  return made ? (count * sizeof(float) + 63) / 64 * 64 : 0;
}

static void loss_forward(const loss_t *k, const ct_op_args_t *a)
{
  result_t *result = (result_t *)((char *)a->scratch + target_bytes(k));
  ct_loss_t loss = {0};

#pragma omp parallel for if (k->is_parallel) schedule(static)
  for (int64_t n = 0; n < k->rows; n++) {
    result[n] = (result_t){0};
    if (k->spec.kind == CT_LOSS_CROSS_ENTROPY)
      xent_forward(k, a, n, &result[n]);
    else
      points_forward(k, a, n, &result[n]);
    result[n].loss *= sample_weight(k, a, n);
    result[n].weight = ct_loss_counted(&k->spec, sample_weight(k, a, n), result[n].weight, 1,
                                       1 / (double)k->of_sample);
  }
  for (int64_t n = 0; n < k->rows; n++) {
    const result_t *r = &result[n];
    loss.sum += r->loss;
    loss.weight += r->weight;
    loss.abs_error += r->abs_error;
    loss.samples += r->rank >= 0;
    loss.top1 += r->rank >= 0 && r->rank < 1;
    loss.top5 += r->rank >= 0 && r->rank < 5;
  }
  *a->loss = loss;
}

static void loss_backward(const loss_t *k, const ct_op_args_t *a)
{
  int is_xent = k->spec.kind == CT_LOSS_CROSS_ENTROPY;
  double weights = is_xent ? sum_of_weights(k, a) : 0;

#pragma omp parallel for if (k->is_parallel) schedule(static)
  for (int64_t n = 0; n < k->rows; n++) {
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
  if (k->spec.kind == CT_LOSS_CROSS_ENTROPY || k->spec.one_hot) CT_TRY(check_labels(k, a));
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
  k->spec = op->desc.u.loss;
  if (ct_loss_is_point(k->spec.kind)) {
    k->spec.has_ignored = 0; /* options of losses by class only */
    k->spec.label_smoothing = 0;
  }
  k->of_sample = k->spec.classes_last ? ct_op_pixels(&op->desc) : 1;
  k->rows = op->desc.x.dim[0] * k->of_sample;
  k->outputs = ct_shape_sample(&op->desc.x) / k->of_sample;
  k->pixels = (cpu__loss_pixels_t){.loops = k->loops,
                                   .spec = k->spec,
                                   .samples = op->desc.x.dim[0],
                                   .pixels = ct_op_pixels(&op->desc) / k->of_sample};
  k->pixels.classes = k->outputs / k->pixels.pixels;
  k->is_parallel = ct_shape_count(&op->desc.x) > CPU__PARALLEL_MIN;
  if (k->spec.kind != CT_LOSS_CROSS_ENTROPY && !ct_loss_is_point(k->spec.kind))
    cpu__loss_samples_prepare(&k->whole, &op->desc, k->loops);
  info->scratch = k->whole.classes       ? cpu__loss_samples_scratch(&k->whole)
                  : k->pixels.pixels > 1 ? cpu__loss_pixels_scratch(&k->pixels)
                                         : target_bytes(k) + (size_t)k->rows * sizeof(result_t);
  return CT_OK;
}

const cpu__op_kind_t cpu__loss = {
    .size = sizeof(loss_t), .plain = 1, .prepare = loss_prepare, .run = loss_run};
