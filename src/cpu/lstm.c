/* One LSTM level: the products with the inputs of all steps at once; then each thread takes some
 * samples step by step through the products with the states before and the gates' arithmetic.  The
 * semantics are those of ref_lstm.c.
 *
 * Kept from forward to backward: gates N x T x 4H (i, f, g, o), cells N x T x H.  x, y and these
 * lie sample by sample, so the rows of one step are T rows apart. */
#include "cpu/kinds.h"
#include "cpu/product/gemm.h"
#include "cpu/kern/loops.h"
#include "base/ct_err.h"
#include <string.h>

typedef struct lstm_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  int64_t n, t, f, h;
} lstm_op_t;

/* Memory of a run. */
typedef struct buffers {
  float *gates, *cells; /* forward; kept */
  float *bias;          /* forward: sum of both */
  float *dgates;        /* backward: N x T x 4H */
  float *before;        /* y of the step before, or zero: N x T x H */
  float *dh, *dc;       /* N x H */
} buffers_t;

static buffers_t forward_buffers(const lstm_op_t *k, const ct_op_args_t *a)
{
  int64_t cells = k->n * k->t * k->h;
  buffers_t b = {.bias = a->scratch};
  b.gates = ct_op_goes_back(&k->head.desc) ? a->saved : b.bias + 4 * k->h;
  b.cells = b.gates + 4 * cells;
  return b;
}

static buffers_t backward_buffers(const lstm_op_t *k, const ct_op_args_t *a)
{
  int64_t cells = k->n * k->t * k->h;
  buffers_t b = {.gates = a->saved, .dgates = a->scratch};
  b.cells = b.gates + 4 * cells;
  b.before = b.dgates + 4 * cells;
  b.dh = b.before + cells;
  b.dc = b.dh + k->n * k->h;
  return b;
}

/* Shares out the samples: a step waits for the one before, samples for nobody. */
static int all_chunks(const lstm_op_t *k, const buffers_t *b, const ct_op_args_t *a,
                      int (*run)(const lstm_op_t *, const buffers_t *, const ct_op_args_t *,
                                 int64_t first, int64_t n))
{
  int rc = CT_OK;
  int chunks = k->n < k->head.dev->threads ? (int)k->n : k->head.dev->threads;

#pragma omp parallel for if (k->n * k->t * k->h > CPU__PARALLEL_MIN) schedule(static)
  for (int i = 0; i < chunks; i++) {
    int64_t first = k->n * i / chunks;
    int result = run(k, b, a, first, k->n * (i + 1) / chunks - first);
    if (result != CT_OK) {
#pragma omp atomic write
      rc = result;
    }
  }
  return rc;
}

/* ---- forward ---- */

/* What the inputs of all steps give to the gates. */
static cpu__dense_t of_inputs(const lstm_op_t *k)
{
  return (cpu__dense_t){k->n * k->t, k->f, 4 * k->h};
}

/* Samples first … first + n - 1 through all steps, by one thread. */
static int chunk_forward(const lstm_op_t *k, const buffers_t *b, const ct_op_args_t *a,
                         int64_t first, int64_t n)
{
  int rc = CT_OK;
  int64_t h = k->h, row = k->t * h;
  float *y = a->y;
  for (int64_t step = 0; step < k->t; step++) {
    int64_t at = first * row + step * h;
    if (step > 0)
      CT_TRY(cpu__gemm('N', 'T', n, 4 * h, h, 1, y + at - h, row, a->w[1], h, 1, b->gates + 4 * at,
                       4 * row));
    for (int64_t i = 0; i < n; i++, at += row)
      k->loops->lstm(h, b->bias, b->gates + 4 * at, step > 0 ? b->cells + at - h : NULL,
                     b->cells + at, y + at);
  }
out:
  return rc;
}

static int forward(const lstm_op_t *k, const ct_op_args_t *a)
{
  int rc = CT_OK;
  buffers_t b = forward_buffers(k, a);
  const float *b_ih = a->w[2], *b_hh = a->w[3];
  for (int64_t i = 0; i < 4 * k->h; i++)
    b.bias[i] = b_ih[i] + b_hh[i];
  CT_TRY(cpu__dense_forward(of_inputs(k), a->x, a->w[0], 0, b.gates));
  CT_TRY(all_chunks(k, &b, a, chunk_forward));
out:
  return rc;
}

/* ---- backward ---- */

/* Gradients of the gates' sums at all steps of some samples. */
static int chunk_backward(const lstm_op_t *k, const buffers_t *b, const ct_op_args_t *a,
                          int64_t first, int64_t n)
{
  int rc = CT_OK;
  int64_t h = k->h, row = k->t * h;
  const float *dy = a->dy;
  float *dh = b->dh + first * h, *dc = b->dc + first * h;
  memset(dc, 0, (size_t)(n * h) * sizeof *dc);
  for (int64_t step = k->t - 1; step >= 0; step--) {
    int64_t begin = first * row + step * h, at = begin;
    int last = step == k->t - 1;
    for (int64_t i = 0; i < n; i++, at += row)
      k->loops->lstm_bwd(h, b->gates + 4 * at, step > 0 ? b->cells + at - h : NULL, b->cells + at,
                         dy + at, last ? NULL : dh + i * h, dc + i * h, b->dgates + 4 * at);
    if (step > 0)
      CT_TRY(cpu__gemm('N', 'N', n, h, 4 * h, 1, b->dgates + 4 * begin, 4 * row, a->w[1], h, 0, dh,
                       h));
  }
out:
  return rc;
}

static void states_before(const lstm_op_t *k, const float *y, float *before)
{
  size_t row = (size_t)k->h * sizeof *y;
  for (int64_t n = 0; n < k->n; n++) {
    int64_t at = n * k->t * k->h;
    memset(before + at, 0, row);
    memcpy(before + at + k->h, y + at, (size_t)(k->t - 1) * row);
  }
}

static int backward(const lstm_op_t *k, const ct_op_args_t *a)
{
  int rc = CT_OK;
  buffers_t b = backward_buffers(k, a);
  cpu__dense_t of_states = {k->n * k->t, k->h, 4 * k->h};
  CT_TRY(all_chunks(k, &b, a, chunk_backward));
  if (a->pass & CT_BWD_DATA) CT_TRY(cpu__dense_data(of_inputs(k), b.dgates, a->w[0], a->dx));
  if (!(a->pass & CT_BWD_PARAM)) goto out;
  states_before(k, a->y, b.before);
  CT_TRY(cpu__dense_param(of_inputs(k), a->x, b.dgates, a->dw[0]));
  CT_TRY(cpu__dense_param(of_states, b.before, b.dgates, a->dw[1]));
  cpu__column_sums(k->n * k->t, 4 * k->h, b.dgates, a->dw[2]);
  memcpy(a->dw[3], a->dw[2], (size_t)(4 * k->h) * sizeof(float));
out:
  return rc;
}

/* ---- the table ---- */

static int lstm_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const lstm_op_t *k = (const lstm_op_t *)op;
  if (a->pass & CT_FWD) CT_TRY(forward(k, a));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(backward(k, a));
out:
  return rc;
}

static int lstm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  lstm_op_t *k = (lstm_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->n = d->x.dim[0];
  k->t = d->x.dim[1];
  k->f = d->x.dim[2];
  k->h = d->y.dim[2];
  int64_t cells = k->n * k->t * k->h, gates = 4 * k->h;
  info->scratch = (size_t)(gates + 5 * cells) * sizeof(float);
  if (ct_op_goes_back(d)) {
    int64_t forth = gates, back = 5 * cells + 2 * k->n * k->h;
    info->saved = (size_t)(5 * cells) * sizeof(float);
    info->scratch = (size_t)(forth > back ? forth : back) * sizeof(float);
  }
  info->algorithm = "products, gates by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__lstm = {
    .size = sizeof(lstm_op_t), .prepare = lstm_prepare, .run = lstm_run};
