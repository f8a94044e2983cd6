/* One LSTM layer.  One GEMM multiplies the inputs of all steps.  Then each thread runs the steps
 * for some samples: the recurrent GEMM and the gates.  ref_lstm.c defines the semantics.
 *
 * Saved for backward: gates N x T x 4H (i, f, g, o), cells N x T x H.  x, y, gates and cells are
 * stored sample by sample, so the rows of one step are T rows apart. */
#include "cpu/kinds.h"
#include "cpu/gemm/dense.h"
#include "cpu/kern/loops.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <string.h>

typedef struct lstm_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  const cpu__tiles_t *tiles;
  int64_t n, t, f, h;
  int reverse, bias;
} lstm_op_t;

/* Buffers of a run. */
typedef struct buffers {
  float *gates, *cells; /* forward (both are saved for backward) */
  float *bias;          /* forward: sum of both biases */
  float *states;  /* forward: y of the previous step, contiguous: N x (H plus one vector, so that
                     rows do not fall into the same cache sets) */
  float *w;       /* W_hh (recurrent weights), packed: forward H x 4H, backward 4H x H */
  float *dgates;  /* backward: N x T x 4H */
  float *dh, *dc; /* N x H */
} buffers_t;

static int64_t packed_forward(const lstm_op_t *k)
{
  return cpu__gemm_tiled_packed(k->tiles, k->h, 4 * k->h);
}

static int64_t packed_backward(const lstm_op_t *k)
{
  return cpu__gemm_tiled_packed(k->tiles, 4 * k->h, k->h);
}

static buffers_t forward_buffers(const lstm_op_t *k, const ct_op_args_t *a)
{
  int64_t cells = k->n * k->t * k->h;
  buffers_t b = {.w = a->scratch};
  b.bias = b.w + packed_forward(k);
  b.states = b.bias + 4 * k->h;
  b.gates = ct_op_goes_back(&k->head.desc) ? a->saved : b.states + k->n * (k->h + k->tiles->width);
  b.cells = b.gates + 4 * cells;
  return b;
}

static buffers_t backward_buffers(const lstm_op_t *k, const ct_op_args_t *a)
{
  int64_t cells = k->n * k->t * k->h;
  buffers_t b = {.gates = a->saved, .w = a->scratch};
  b.cells = b.gates + 4 * cells;
  b.dgates = b.w + packed_backward(k);
  b.dh = b.dgates + 4 * cells;
  b.dc = b.dh + k->n * k->h;
  return b;
}

/* Returns the place in the sequence of a step in order of computation. */
static int64_t place_of(const lstm_op_t *k, int64_t step)
{
  return k->reverse ? k->t - 1 - step : step;
}

/* Returns the distance in memory, in places, of the step before. */
static int64_t before(const lstm_op_t *k)
{
  return k->reverse ? 1 : -1;
}

typedef void chunk_t(const lstm_op_t *k, const buffers_t *b, const ct_op_args_t *a, int64_t first,
                     int64_t n);

/* Distributes the samples over threads: steps depend on each other, samples do not. */
static void all_chunks(const lstm_op_t *k, const buffers_t *b, const ct_op_args_t *a, chunk_t *run)
{
  int chunks = k->n < k->head.dev->threads ? (int)k->n : k->head.dev->threads;

#pragma omp parallel for if (k->n * k->t * k->h > CPU__PARALLEL_MIN) schedule(static)
  for (int i = 0; i < chunks; i++) {
    int64_t first = k->n * i / chunks;
    run(k, b, a, first, k->n * (i + 1) / chunks - first);
  }
}

/* ---- forward ---- */

/* Returns the GEMM of the inputs of all steps. */
static cpu__dense_t of_inputs(const lstm_op_t *k)
{
  return (cpu__dense_t){k->n * k->t, k->f, 4 * k->h};
}

/* Prefetches the next step's pre-activations while this step's gates are computed. */
static void fetch(const float *p, int64_t count)
{
  for (int64_t i = 0; i < count; i += 64 / (int64_t)sizeof *p)
    __builtin_prefetch(p + i, 1, 2);
}

/* Runs samples first … first + n - 1 through all steps on one thread. */
static void chunk_forward(const lstm_op_t *k, const buffers_t *b, const ct_op_args_t *a,
                          int64_t first, int64_t n)
{
  int64_t h = k->h, row = k->t * h, width = k->tiles->width, apart = h + width;
  cpu__gemm_tiled_t of_states = {
      .a_row = apart, .a_k = 1, .b_k = width, .b_vec = h * width, .c_row = 4 * row, .add = 1};
  float *y = a->y, *states = b->states + first * apart;
  for (int64_t step = 0; step < k->t; step++) {
    int64_t place = place_of(k, step), at = first * row + place * h, past = before(k) * h;
    if (step > 0)
      cpu__gemm_tiled(k->tiles, of_states, n, 4 * h, h, states, b->w, b->gates + 4 * at);
    for (int64_t i = 0; i < n; i++, at += row) {
      if (step + 1 < k->t) fetch(b->gates + 4 * (at - past), 4 * h);
      k->loops->lstm(h, b->gates + 4 * at, step > 0 ? b->cells + at + past : NULL, b->cells + at,
                     y + at);
      memcpy(states + i * apart, y + at, (size_t)h * sizeof *y);
    }
  }
}

static void lstm_forward(const lstm_op_t *k, const ct_op_args_t *a)
{
  buffers_t b = forward_buffers(k, a);
  const float *b_ih = a->w[2], *b_hh = a->w[3];
  for (int64_t i = 0; i < 4 * k->h; i++)
    b.bias[i] = k->bias ? b_ih[i] + b_hh[i] : 0;
  cpu__gemm_tiled_pack_transposed(k->tiles, k->h, 4 * k->h, a->w[1], k->h, b.w);
  cpu__dense_forward(k->head.dev, of_inputs(k), a->x, a->w[0], b.bias, b.gates);
  all_chunks(k, &b, a, chunk_forward);
}

/* ---- backward ---- */

/* Computes the gradients of the pre-activations at all steps of some samples. */
static void chunk_backward(const lstm_op_t *k, const buffers_t *b, const ct_op_args_t *a,
                           int64_t first, int64_t n)
{
  int64_t h = k->h, row = k->t * h, width = k->tiles->width;
  cpu__gemm_tiled_t of_gates = {
      .a_row = 4 * row, .a_k = 1, .b_k = width, .b_vec = 4 * h * width, .c_row = h};
  const float *dy = a->dy;
  float *dh = b->dh + first * h, *dc = b->dc + first * h;
  memset(dc, 0, (size_t)(n * h) * sizeof *dc);
  for (int64_t step = k->t - 1; step >= 0; step--) {
    int64_t begin = first * row + place_of(k, step) * h, at = begin, past = before(k) * h;
    int last = step == k->t - 1;
    for (int64_t i = 0; i < n; i++, at += row)
      k->loops->lstm_bwd(h, b->gates + 4 * at, step > 0 ? b->cells + at + past : NULL,
                         b->cells + at, dy + at, last ? NULL : dh + i * h, dc + i * h,
                         b->dgates + 4 * at);
    if (step > 0) cpu__gemm_tiled(k->tiles, of_gates, n, h, 4 * h, b->dgates + 4 * begin, b->w, dh);
  }
}

/* Computes the gradient of W_hh: each step's gradients times the hidden state of the step before,
 * which is the row before in y; in reverse, the row after.  At the first step that row belongs to
 * another sample, so the gradients of first steps are set to 0 here. */
static void states_gradient(const lstm_op_t *k, const buffers_t *b, const float *y, float *dw)
{
  int64_t h = k->h, first = place_of(k, 0);
  cpu__dense_t of_states = {k->n * k->t - 1, h, 4 * h};
  for (int64_t n = 0; n < k->n; n++)
    memset(b->dgates + (n * k->t + first) * 4 * h, 0, (size_t)(4 * h) * sizeof *dw);
  cpu__dense_param(k->head.dev, of_states, k->reverse ? y + h : y,
                   k->reverse ? b->dgates : b->dgates + 4 * h, dw);
}

static void lstm_backward(const lstm_op_t *k, const ct_op_args_t *a)
{
  const ct_dev_t *dev = k->head.dev;
  buffers_t b = backward_buffers(k, a);
  cpu__gemm_tiled_pack(k->tiles, 4 * k->h, k->h, a->w[1], k->h, b.w);
  all_chunks(k, &b, a, chunk_backward);
  if (a->pass & CT_BWD_DATA) cpu__dense_data(dev, of_inputs(k), b.dgates, a->w[0], a->dx);
  if (!(a->pass & CT_BWD_PARAM)) return;
  cpu__dense_param(dev, of_inputs(k), a->x, b.dgates, a->dw[0]);
  if (k->bias) {
    cpu__column_sums(dev, k->n * k->t, 4 * k->h, b.dgates, a->dw[2]);
    memcpy(a->dw[3], a->dw[2], (size_t)(4 * k->h) * sizeof(float));
  }
  states_gradient(k, &b, a->y, a->dw[1]);
}

/* ---- the table ---- */

static int lstm_run(ct_op_t *op, const ct_op_args_t *a)
{
  const lstm_op_t *k = (const lstm_op_t *)op;
  if (a->pass & CT_FWD) lstm_forward(k, a);
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) lstm_backward(k, a);
  return CT_OK;
}

static int lstm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  lstm_op_t *k = (lstm_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->tiles = cpu__tiles(op->dev);
  k->n = d->x.dim[0];
  k->t = d->x.dim[1];
  k->f = d->x.dim[2];
  k->h = d->y.dim[2];
  k->reverse = d->u.rnn.reverse;
  k->bias = !d->u.rnn.no_bias;
  int64_t cells = k->n * k->t * k->h,
          forth = packed_forward(k) + 4 * k->h + k->n * (k->h + k->tiles->width);
  info->scratch = (size_t)(forth + 5 * cells) * sizeof(float);
  if (ct_op_goes_back(d)) {
    int64_t back = packed_backward(k) + 4 * cells + 2 * k->n * k->h;
    info->saved = (size_t)(5 * cells) * sizeof(float);
    info->scratch = (size_t)(forth > back ? forth : back) * sizeof(float);
  }
  info->algorithm = "products, gates by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__lstm = {
    .size = sizeof(lstm_op_t), .prepare = lstm_prepare, .run = lstm_run};
