/* Softmax cross-entropy, as torch.nn.functional.cross_entropy with the sum of the samples' losses. */
#include "ref/ref.h"

#include <math.h>

/* Logits ahead of the label's: larger, or as large with a lower index, as argmax orders them.  One that
 * cannot be compared counts as ahead, so that NaN is never a correct answer. */
static int64_t rank_of(const float *x, int64_t classes, int32_t label)
{
  int64_t ahead = 0;

  for (int64_t i = 0; i < label; i++)
    ahead += !(x[i] < x[label]);
  for (int64_t i = label + 1; i < classes; i++)
    ahead += !(x[i] <= x[label]);
  return ahead;
}

/* log of the sum of exp(x) without overflow */
static double log_sum(const float *x, int64_t classes)
{
  double largest = x[0], sum = 0;

  for (int64_t i = 1; i < classes; i++)
    largest = fmax(largest, x[i]);
  for (int64_t i = 0; i < classes; i++)
    sum += exp(x[i] - largest);
  return largest + log(sum);
}

static void gradient(const float *x, int64_t classes, int32_t label, double scale, float *dx)
{
  double all = log_sum(x, classes);

  for (int64_t i = 0; i < classes; i++) {
    dx[i] = (float)(scale * (exp(x[i] - all) - (i == label)));
  }
}

static int check_labels(const ct_op_desc_t *d, const int32_t *labels)
{
  for (int64_t n = 0; n < d->x.dim[0]; n++) {
    if (labels[n] < 0 || labels[n] >= d->x.dim[1])
      return ct_err_set(CT_ERR_DATA, __FILE__, __LINE__,
                        "label %d of sample %lld of the batch is not in 0 to %lld", (int)labels[n],
                        (long long)n, (long long)d->x.dim[1] - 1);
  }
  return CT_OK;
}

static int run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t batch = d->x.dim[0], classes = d->x.dim[1];
  ct_loss_t loss = {.samples = batch};

  int rc = check_labels(d, a->labels);
  if (rc != CT_OK) return rc;
  for (int64_t n = 0; n < batch; n++) {
    const float *x = (const float *)a->x + n * classes;
    int32_t label = a->labels[n];
    if (a->pass & CT_FWD) {
      int64_t rank = rank_of(x, classes, label);
      loss.sum += log_sum(x, classes) - x[label];
      loss.top1 += rank < 1;
      loss.top5 += rank < 5;
    }
    if (a->pass & CT_BWD_DATA) gradient(x, classes, label, a->scale, (float *)a->dx + n * classes);
  }
  if (a->pass & CT_FWD) *a->loss = loss;
  return CT_OK;
}

static const char *check(const ct_op_desc_t *d)
{
  return d->x.ndim == 2 ? NULL : "logits are N x classes";
}

static void needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->bwd_uses = d->passes & CT_BWD_DATA ? CT_USES_X : 0;
}

const ct__ref_kind_t ct__ref_xent = {check, needs, run};
