/* A linear layer or 1x1 convolution and the cross-entropy of its outputs as one op.  All logits are
 * in the workspace, a row for each pixel; their loss is that of ref_loss.c. */
#include "ref/ref.h"

/* Sizes: rows of x, features of a row, classes; pixels of an image, or 1. */
typedef struct head {
  int64_t rows, in, out, pixels;
  float *logits, *slopes; /* [rows][out] */
} head_t;

static head_t head_of(const ct_op_desc_t *d, void *scratch)
{
  head_t h = {.in = d->x.dim[ct_op_head_dim(d)], .out = d->y.dim[ct_op_head_dim(d)], .pixels = 1};
  h.rows = ct_shape_count(&d->x) / h.in;
  if (!d->u.loss.classes_last) h.pixels = ct_shape_sample(&d->x) / h.in;
  h.logits = scratch;
  h.slopes = h.logits + h.rows * h.out;
  return h;
}

/* Returns the index of feature i of a row of x. */
static int64_t feature(const head_t *h, int64_t row, int64_t i)
{
  return (row / h->pixels * h->in + i) * h->pixels + row % h->pixels;
}

static void head_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->scratch = 2 * (size_t)ct_shape_count(&d->y) * sizeof(float);
}

static void find_logits(const ct_op_desc_t *d, const ct_op_args_t *a, const head_t *h)
{
  ct_dtype_t t = d->x.dtype;
  for (int64_t n = 0; n < h->rows; n++)
    for (int64_t k = 0; k < h->out; k++) {
      double sum = d->u.head_loss.bias ? ct__ref_weight(t, a->w[1], k) : 0;
      for (int64_t i = 0; i < h->in; i++)
        sum += ct__ref_get(t, a->x, feature(h, n, i)) * ct__ref_weight(t, a->w[0], k * h->in + i);
      h->logits[n * h->out + k] = (float)sum;
    }
}

static void head_data(const ct_op_desc_t *d, const ct_op_args_t *a, const head_t *h)
{
  ct_dtype_t t = d->x.dtype;
  for (int64_t n = 0; n < h->rows; n++)
    for (int64_t i = 0; i < h->in; i++) {
      double sum = 0;
      for (int64_t k = 0; k < h->out; k++)
        sum += h->slopes[n * h->out + k] * ct__ref_weight(t, a->w[0], k * h->in + i);
      ct__ref_set(t, a->dx, feature(h, n, i), sum);
    }
}

static void head_param(const ct_op_desc_t *d, const ct_op_args_t *a, const head_t *h)
{
  for (int64_t k = 0; k < h->out; k++) {
    double bias = 0;
    for (int64_t n = 0; n < h->rows; n++)
      bias += h->slopes[n * h->out + k];
    if (d->u.head_loss.bias) ct__ref_gradient(a, 1, k, bias);
    for (int64_t i = 0; i < h->in; i++) {
      double sum = 0;
      for (int64_t n = 0; n < h->rows; n++)
        sum += h->slopes[n * h->out + k] * ct__ref_get(d->x.dtype, a->x, feature(h, n, i));
      ct__ref_gradient(a, 0, k * h->in + i, sum);
    }
  }
}

static int head_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const ct_op_desc_t loss = ct_op_loss_of(d);
  const head_t h = head_of(d, a->scratch);
  ct_op_args_t of_loss = *a;
  of_loss.pass = a->pass & CT_FWD;
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) of_loss.pass |= CT_BWD_DATA;
  of_loss.x = h.logits;
  of_loss.dx = h.slopes;
  of_loss.labels2 = NULL;
  find_logits(d, a, &h);
  CT_TRY(ct__ref_loss.run(&loss, &of_loss));
  if (a->pass & CT_BWD_DATA) head_data(d, a, &h);
  if (a->pass & CT_BWD_PARAM) head_param(d, a, &h);
out:
  return rc;
}

const ct__ref_kind_t ct__ref_head_loss = {.needs = head_needs, .run = head_run, .reduced = 1};
