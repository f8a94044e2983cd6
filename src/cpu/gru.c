/* One GRU layer.  One GEMM multiplies the inputs of all steps.  Then each thread runs the steps for
 * some samples: the recurrent GEMM and the gates.  ref_gru.c defines the semantics.
 *
 * Saved for backward: gates N x T x 4H (r, z, n, and W_hn h + b_hn).  x, y and gates are stored
 * sample by sample, so the rows of one step are T rows apart. */
#include "cpu/kinds.h"
#include "cpu/gemm/dense.h"
#include "cpu/kern/loops.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <string.h>

typedef struct gru_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  const cpu__tiles_t *tiles;
  int64_t n, t, f, h;
  int reverse, bias;
} gru_op_t;

/* Buffers of a run. */
typedef struct buffers {
  float *w;      /* W_hh, packed: forward H x 3H, backward 3H x H */
  float *gates;  /* forward (saved for backward): N x T x 4H */
  float *sums;   /* W_ih x + b_ih, backward their gradient: N x T x 3H */
  float *states; /* forward: W_hh h of a step, N x 3H; backward its gradient: N x T x 3H */
  float *h0;     /* forward: y of the step before, contiguous: N x (H plus one vector, so that rows
                     do not fall into the same cache sets) */
  float *dh;     /* backward: N x H */
} buffers_t;

static int64_t packed_forward(const gru_op_t *k)
{
  return cpu__gemm_tiled_packed(k->tiles, k->h, 3 * k->h);
}

static int64_t packed_backward(const gru_op_t *k)
{
  return cpu__gemm_tiled_packed(k->tiles, 3 * k->h, k->h);
}

static buffers_t forward_buffers(const gru_op_t *k, const ct_op_args_t *a)
{
  buffers_t b = {.w = a->scratch};
  b.sums = b.w + packed_forward(k);
  b.states = b.sums + k->n * k->t * 3 * k->h;
  b.h0 = b.states + k->n * 3 * k->h;
  b.gates = ct_op_goes_back(&k->head.desc) ? a->saved : b.h0 + k->n * (k->h + k->tiles->width);
  return b;
}

static buffers_t backward_buffers(const gru_op_t *k, const ct_op_args_t *a)
{
  buffers_t b = {.w = a->scratch, .gates = a->saved};
  b.sums = b.w + packed_backward(k);
  b.states = b.sums + k->n * k->t * 3 * k->h;
  b.dh = b.states + k->n * k->t * 3 * k->h;
  return b;
}

/* Returns the row of a sample's step, in order of computation. */
static int64_t row_of(const gru_op_t *k, int64_t sample, int64_t step)
{
  return sample * k->t + (k->reverse ? k->t - 1 - step : step);
}

typedef void chunk_t(const gru_op_t *k, const buffers_t *b, const ct_op_args_t *a, int64_t first,
                     int64_t n);

/* Distributes the samples over threads: steps depend on each other, samples do not. */
static void all_chunks(const gru_op_t *k, const buffers_t *b, const ct_op_args_t *a, chunk_t *run)
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
static cpu__dense_t of_inputs(const gru_op_t *k)
{
  return (cpu__dense_t){k->n * k->t, k->f, 3 * k->h};
}

/* Runs samples first … first + n - 1 through all steps on one thread. */
static void chunk_forward(const gru_op_t *k, const buffers_t *b, const ct_op_args_t *a,
                          int64_t first, int64_t n)
{
  int64_t h = k->h, width = k->tiles->width, apart = h + width;
  cpu__gemm_tiled_t of_states = {
      .a_row = apart, .a_k = 1, .b_k = width, .b_vec = h * width, .c_row = 3 * h};
  const float *bias = k->bias ? a->w[3] : NULL;
  float *y = a->y, *h0 = b->h0 + first * apart, *states = b->states + first * 3 * h;
  for (int64_t step = 0; step < k->t; step++) {
    if (step > 0) cpu__gemm_tiled(k->tiles, of_states, n, 3 * h, h, h0, b->w, states);
    for (int64_t i = 0; i < n; i++) {
      int64_t at = row_of(k, first + i, step);
      k->loops->gru(h, b->sums + at * 3 * h, step > 0 ? states + i * 3 * h : NULL, bias,
                    h0 + i * apart, b->gates + at * 4 * h, y + at * h);
      memcpy(h0 + i * apart, y + at * h, (size_t)h * sizeof *y);
    }
  }
}

static void gru_forward(const gru_op_t *k, const ct_op_args_t *a)
{
  buffers_t b = forward_buffers(k, a);
  cpu__gemm_tiled_pack_transposed(k->tiles, k->h, 3 * k->h, a->w[1], k->h, b.w);
  cpu__dense_forward(k->head.dev, of_inputs(k), a->x, a->w[0], k->bias ? a->w[2] : NULL, b.sums);
  all_chunks(k, &b, a, chunk_forward);
}

/* ---- backward ---- */

/* Computes the gradients of sums and states at all steps of some samples. */
static void chunk_backward(const gru_op_t *k, const buffers_t *b, const ct_op_args_t *a,
                           int64_t first, int64_t n)
{
  int64_t h = k->h, width = k->tiles->width;
  cpu__gemm_tiled_t of_states = {
      .a_row = k->t * 3 * h, .a_k = 1, .b_k = width, .b_vec = 3 * h * width, .c_row = h, .add = 1};
  const float *dy = a->dy, *y = a->y;
  float *dh = b->dh + first * h;
  for (int64_t step = k->t - 1; step >= 0; step--) {
    for (int64_t i = 0; i < n; i++) {
      int64_t at = row_of(k, first + i, step);
      const float *h0 = step > 0 ? y + row_of(k, first + i, step - 1) * h : NULL;
      k->loops->gru_bwd(h, b->gates + at * 4 * h, h0, dy + at * h, step == k->t - 1, dh + i * h,
                        b->sums + at * 3 * h, b->states + at * 3 * h);
    }
    if (step > 0)
      cpu__gemm_tiled(k->tiles, of_states, n, h, 3 * h, b->states + row_of(k, first, step) * 3 * h,
                      b->w, dh);
  }
}

/* Computes the gradient of W_hh: each step's gradients times the hidden state of the step before,
 * which is the row before in y; in reverse, the row after.  At the first step that row belongs to
 * another sample, so the gradients of first steps are set to 0 here. */
static void states_gradient(const gru_op_t *k, const buffers_t *b, const float *y, float *dw)
{
  int64_t h = k->h;
  cpu__dense_t of_states = {k->n * k->t - 1, h, 3 * h};
  for (int64_t n = 0; n < k->n; n++)
    memset(b->states + row_of(k, n, 0) * 3 * h, 0, (size_t)(3 * h) * sizeof *dw);
  cpu__dense_param(k->head.dev, of_states, k->reverse ? y + h : y,
                   k->reverse ? b->states : b->states + 3 * h, dw);
}

static void gru_backward(const gru_op_t *k, const ct_op_args_t *a)
{
  const ct_dev_t *dev = k->head.dev;
  buffers_t b = backward_buffers(k, a);
  cpu__gemm_tiled_pack(k->tiles, 3 * k->h, k->h, a->w[1], k->h, b.w);
  all_chunks(k, &b, a, chunk_backward);
  if (a->pass & CT_BWD_DATA) cpu__dense_data(dev, of_inputs(k), b.sums, a->w[0], a->dx);
  if (!(a->pass & CT_BWD_PARAM)) return;
  cpu__dense_param(dev, of_inputs(k), a->x, b.sums, a->dw[0]);
  if (k->bias) {
    cpu__column_sums(dev, k->n * k->t, 3 * k->h, b.sums, a->dw[2]);
    cpu__column_sums(dev, k->n * k->t, 3 * k->h, b.states, a->dw[3]);
  }
  states_gradient(k, &b, a->y, a->dw[1]);
}

/* ---- the table ---- */

static int gru_run(ct_op_t *op, const ct_op_args_t *a)
{
  const gru_op_t *k = (const gru_op_t *)op;
  if (a->pass & CT_FWD) gru_forward(k, a);
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) gru_backward(k, a);
  return CT_OK;
}

static int gru_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  gru_op_t *k = (gru_op_t *)op;
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
  int64_t cells = k->n * k->t * k->h;
  int64_t forth = packed_forward(k) + 3 * cells + k->n * (4 * k->h + k->tiles->width);
  info->scratch = (size_t)(forth + 4 * cells) * sizeof(float);
  if (ct_op_goes_back(d)) {
    int64_t back = packed_backward(k) + 6 * cells + k->n * k->h;
    info->saved = (size_t)(4 * cells) * sizeof(float);
    info->scratch = (size_t)(forth > back ? forth : back) * sizeof(float);
  }
  info->algorithm = "products, gates by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__gru = {.size = sizeof(gru_op_t), .prepare = gru_prepare, .run = gru_run};
