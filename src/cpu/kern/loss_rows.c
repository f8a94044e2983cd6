/* Cross-entropy of rows: what follows from few numbers of each. */
#include "cpu/kern/loss_rows.h"

#include <math.h>

#include "base/ct_err.h"
#include "cpu/kern/loss_pixels.h"

static float share_of_first(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row)
{
  return k->of_sample == 1 && a->labels2 && a->mix ? a->mix[row] : 1;
}

int cpu__rows_ignore(const cpu__loss_rows_t *k, int32_t label)
{
  return k->spec.has_ignored && label == k->spec.ignored;
}

static int rows_check_label(const cpu__loss_rows_t *k, int64_t row, int32_t label)
{
  if ((label >= 0 && label < k->classes) || cpu__rows_ignore(k, label)) return CT_OK;
  return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                    "label %d of sample %lld of the batch is not in 0 to %lld", (int)label,
                    (long long)(row / k->of_sample), (long long)k->classes - 1);
}

int cpu__rows_check(const cpu__loss_rows_t *k, const ct_op_args_t *a)
{
  int rc = CT_OK;
  for (int64_t n = 0; n < k->rows; n++) {
    CT_TRY(rows_check_label(k, n, a->labels[n]));
    if (share_of_first(k, a, n) < 1) CT_TRY(rows_check_label(k, n, a->labels2[n]));
  }
out:
  return rc;
}

float cpu__row_weight(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row)
{
  return k->spec.sample_weighted ? a->sample_weight[row / k->of_sample] : 1;
}

float cpu__rows_class_weight(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t i)
{
  return k->spec.weighted ? a->class_weight[i] : 1;
}

double cpu__rows_class_weights(const cpu__loss_rows_t *k, const ct_op_args_t *a)
{
  double sum = 0;
  if (!k->spec.weighted) return (double)k->classes;
  for (int64_t i = 0; i < k->classes; i++)
    sum += a->class_weight[i];
  return sum;
}

cpu__aims_t cpu__row_aims(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row)
{
  cpu__aims_t aims = {0};
  float first = share_of_first(k, a, row);
  if (!cpu__rows_ignore(k, a->labels[row])) {
    aims.label[aims.n] = a->labels[row];
    aims.share[aims.n++] = first;
  }
  if (first < 1 && !cpu__rows_ignore(k, a->labels2[row])) {
    aims.label[aims.n] = a->labels2[row];
    aims.share[aims.n++] = 1 - first;
  }
  return aims;
}

static double place_weight(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row)
{
  return k->spec.place_weighted ? a->place_weight[row % k->of_sample] : 1;
}

/* Label smoothing: returns the part of the label that each class gets, before class weights. */
static double spread_of(const cpu__loss_rows_t *k, const cpu__aims_t *aims, const double share[2])
{
  double sum = 0;
  for (int i = 0; i < aims->n; i++)
    sum += share[i];
  return sum * k->spec.label_smoothing / (double)k->classes;
}

/* Computes the shares of the labels with their focal factors; returns the weight without these. */
static double shares(const cpu__loss_rows_t *k, const ct_op_args_t *a, const cpu__aims_t *aims,
                     double all, int slope, double out[2])
{
  double own = 0;
  for (int i = 0; i < aims->n; i++) {
    own += (double)aims->share[i] * cpu__rows_class_weight(k, a, aims->label[i]);
    out[i] = aims->share[i] * cpu__loss_focal(k->spec.gamma, aims->own[i] - all, slope);
  }
  return own;
}

cpu__row_loss_t cpu__row_loss(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row,
                              const cpu__aims_t *aims, double all, double smoothed)
{
  double share[2], own = shares(k, a, aims, all, 0, share), loss = k->spec.z_loss * own * all * all;
  double place = place_weight(k, a, row), spread = spread_of(k, aims, share);
  for (int i = 0; i < aims->n; i++) {
    double weight = share[i] * cpu__rows_class_weight(k, a, aims->label[i]);
    loss += (1 - k->spec.label_smoothing) * weight * (all - aims->own[i]);
  }
  if (spread > 0) loss += spread * smoothed;
  return (cpu__row_loss_t){.loss = loss * place,
                           .weight = own * place,
                           .rank = cpu__rows_ignore(k, a->labels[row]) ? -1 : 0};
}

cpu__row_slope_t cpu__row_slope(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row,
                                const cpu__aims_t *aims, double all, double weights)
{
  cpu__row_slope_t s = {0};
  double share[2], own = shares(k, a, aims, all, 1, share), spread = spread_of(k, aims, share);
  double scale = (double)a->scale * cpu__row_weight(k, a, row) * place_weight(k, a, row);
  double total = spread * weights + 2 * k->spec.z_loss * all * own;
  for (int i = 0; i < aims->n; i++) {
    double weight = share[i] * cpu__rows_class_weight(k, a, aims->label[i]);
    double part = (1 - k->spec.label_smoothing) * weight;
    s.part[i] = (float)(scale * part);
    total += part;
  }
  s.total = (float)(scale * total);
  s.spread = (float)(scale * spread);
  return s;
}

int32_t cpu__row_ahead(const cpu__aims_t *aims, int64_t first, int64_t n, const float *x)
{
  int32_t ahead = 0;
  float own = aims->own[0];
  int64_t before = aims->label[0] - first;
  before = before < 0 ? 0 : before > n ? n : before;
  for (int64_t j = 0; j < before; j++)
    ahead += !(x[j] < own);
  for (int64_t j = before; j < n; j++)
    ahead += !(x[j] <= own);
  if (isnan(own) && before < n && aims->label[0] == first + before) ahead--;
  return ahead;
}

void cpu__row_add(const cpu__loss_rows_t *k, const ct_op_args_t *a, int64_t row,
                  const cpu__row_loss_t *r, ct_loss_t *sum)
{
  double weight = cpu__row_weight(k, a, row);
  sum->sum += weight * r->loss;
  sum->weight += ct_loss_counted(&k->spec, weight, r->weight, 1, 1 / (double)k->of_sample);
  sum->abs_error += r->abs_error;
  sum->samples += r->rank >= 0;
  sum->top1 += r->rank >= 0 && r->rank < 1;
  sum->top5 += r->rank >= 0 && r->rank < 5;
}

void cpu__rows_sum(const cpu__loss_rows_t *k, const ct_op_args_t *a, const cpu__row_loss_t *result)
{
  ct_loss_t loss = {0};
  for (int64_t n = 0; n < k->rows; n++)
    cpu__row_add(k, a, n, &result[n], &loss);
  *a->loss = loss;
}
