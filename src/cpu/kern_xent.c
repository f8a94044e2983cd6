/* Softmax cross-entropy, as torch.nn.functional.cross_entropy with the sum of the samples'
 * losses. */
#include <math.h>
#include <stdio.h>

#include "base/ct_err.h"
#include "cpu/kern_loops.h"

typedef struct xent {
  ct_op_t op;
  const cpu__loops_t *loops;
  int is_parallel;
} xent_t;

/* A sample's result: scratch of the forward pass. */
typedef struct result {
  double loss;
  int64_t rank; /* logits ahead of the label's */
} result_t;

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

/* Ahead are larger logits, and equal ones with a lower index, as argmax orders them; and what
 * cannot be compared, so that NaN is never a correct answer. */
static int64_t rank_of(const float *x, int64_t classes, int32_t label)
{
  int64_t ahead = 0;

  for (int64_t i = 0; i < label; i++)
    ahead += !(x[i] < x[label]);
  for (int64_t i = label + 1; i < classes; i++)
    ahead += !(x[i] <= x[label]);
  return ahead;
}

static void forward(const xent_t *k, const ct_op_args_t *a)
{
  int64_t batch = k->op.desc.x.dim[0], classes = k->op.desc.x.dim[1];
  result_t *result = a->scratch;
  ct_loss_t loss = {.samples = batch};

#pragma omp parallel for if (k->is_parallel) schedule(static)
  for (int64_t n = 0; n < batch; n++) {
    const float *x = (const float *)a->x + n * classes;
    float largest, sum;
    k->loops->exp_sum(classes, x, &largest, &sum);
    result[n].loss = log(sum) + ((double)largest - x[a->labels[n]]);
    result[n].rank = rank_of(x, classes, a->labels[n]);
  }
  for (int64_t n = 0; n < batch; n++) { /* in fixed order, whatever the threads */
    loss.sum += result[n].loss;
    loss.top1 += result[n].rank < 1;
    loss.top5 += result[n].rank < 5;
  }
  *a->loss = loss;
}

static void backward(const xent_t *k, const ct_op_args_t *a)
{
  int64_t batch = k->op.desc.x.dim[0], classes = k->op.desc.x.dim[1];

#pragma omp parallel for if (k->is_parallel) schedule(static)
  for (int64_t n = 0; n < batch; n++) {
    const float *x = (const float *)a->x + n * classes;
    float *dx = (float *)a->dx + n * classes, largest, sum;
    k->loops->exp_sum(classes, x, &largest, &sum);
    k->loops->exp_scaled(classes, x, largest, a->scale / sum, dx);
    dx[a->labels[n]] -= a->scale;
  }
}

static int run(ct_op_t *op, const ct_op_args_t *a)
{
  const xent_t *k = (const xent_t *)op;

  int rc = check_labels(&op->desc, a->labels);
  if (rc != CT_OK) return rc;
  if (a->pass & CT_FWD) forward(k, a);
  if (a->pass & CT_BWD_DATA) backward(k, a);
  return CT_OK;
}

static int supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->x.ndim == 2 && d->x.layout == CT_PLAIN) return 1;
  snprintf(why, 128, "logits are plain, N x classes");
  return 0;
}

static int prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  xent_t *k = (xent_t *)op;

  (void)like;
  k->loops = cpu__loops(op->dev);
  k->is_parallel = ct_shape_count(&op->desc.x) > CPU__PARALLEL_MIN;
  info->scratch = (size_t)op->desc.x.dim[0] * sizeof(result_t);
  if (op->desc.passes & CT_BWD_DATA) info->bwd_uses = CT_USES_X;
  return CT_OK;
}

const cpu__op_kind_t cpu__xent = {
    .size = sizeof(xent_t), .supports = supports, .prepare = prepare, .run = run};
