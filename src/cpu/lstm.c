/* One LSTM layer: rnn.h explains the order of computation.  ref_lstm.c defines the semantics.
 *
 * Saved for backward: gates (i, f, g, o) and cells, N x T rows. */
#include "cpu/kinds.h"
#include "cpu/rnn.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <string.h>

/* Buffers of a run. */
typedef struct buffers {
  int keeps;            /* 1: gates and cells of all steps are kept */
  float *gates, *cells; /* not kept: of a block, of the last step */
  float *w[2];          /* W_ih and W_hh, packed */
  float *copy;          /* rows of a block with F values: x, backward dx */
  float *bias;          /* forward: sum of both biases, or NULL */
  float *states;        /* forward: y of the last step, N rows */
  float *dgates;        /* backward: rows of a block */
  float *panels;        /* backward: dgates of all blocks; NULL: without CT_BWD_PARAM */
  float *turned[2];     /* backward: workspace of cpu__rnn_weights() */
  float *dh, *dc;       /* backward: N x H */
} buffers_t;

/* Assigns the buffers of a forward run. */
static buffers_t forward_buffers(const cpu__rnn_t *k, cpu__rnn_space_t *saved,
                                 cpu__rnn_space_t *scratch)
{
  int64_t block = k->n * k->steps, all = k->n * k->t;
  buffers_t b = {.keeps = ct_op_goes_back(&k->head.desc)};
  cpu__rnn_space_t *kept = b.keeps ? saved : scratch;
  b.gates = cpu__rnn_take(kept, (b.keeps ? all : block) * k->row);
  b.cells = cpu__rnn_take(kept, (b.keeps ? all : k->n) * k->h);
  b.w[0] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 0, k->f));
  b.w[1] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 0, k->h));
  b.copy = cpu__rnn_take(scratch, block * cpu__rnn_padded(k->f));
  b.bias = cpu__rnn_take(scratch, k->row);
  b.states = cpu__rnn_take(scratch, k->n * cpu__rnn_padded(k->h));
  return b;
}

static buffers_t backward_buffers(const cpu__rnn_t *k, cpu__rnn_space_t *saved,
                                  cpu__rnn_space_t *scratch)
{
  int64_t block = k->n * k->steps, all = k->n * k->t;
  buffers_t b = {.keeps = 1};
  b.gates = cpu__rnn_take(saved, all * k->row);
  b.cells = cpu__rnn_take(saved, all * k->h);
  b.w[0] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 1, k->f));
  b.w[1] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 1, k->h));
  b.copy = cpu__rnn_take(scratch, block * cpu__rnn_padded(k->f));
  b.dgates = cpu__rnn_take(scratch, block * k->row);
  b.panels = cpu__rnn_take(scratch, cpu__rnn_panels(k));
  b.turned[0] = cpu__rnn_take(scratch, cpu__rnn_turned(k, k->f));
  b.turned[1] = cpu__rnn_take(scratch, cpu__rnn_turned(k, k->h));
  b.dh = cpu__rnn_take(scratch, k->n * k->h);
  b.dc = cpu__rnn_take(scratch, k->n * k->h);
  return b;
}

/* ---- forward ---- */

/* Runs step s of a block; gates: the rows of p. */
static void step_forward(const cpu__rnn_t *k, const buffers_t *b, float *gates, float *y,
                         cpu__rnn_part_t p, int64_t s)
{
  int64_t h = k->h, width = k->tiles->width, apart = cpu__rnn_padded(h), step = p.t0 + s;
  cpu__gemm_tiled_t of_states = {.a_row = apart,
                                 .a_k = 1,
                                 .b_k = width,
                                 .b_vec = h * width,
                                 .c_row = p.steps * k->row,
                                 .add = 1};
  float *at = gates + s * k->row, *states = b->states + p.first * apart;
  if (step > 0) cpu__gemm_tiled(k->tiles, of_states, p.n, 4 * h, h, states, b->w[1], at);
  for (int64_t i = p.first; i < p.first + p.n; i++) {
    float *c = b->cells + (b->keeps ? cpu__rnn_row(k, i, step) : i) * h, *c0 = c;
    float *to = y + (i * k->t + cpu__rnn_place(k, step)) * h;
    if (b->keeps && step > 0) c0 = b->cells + cpu__rnn_row(k, i, step - 1) * h;
    k->loops->lstm(h, at, step > 0 ? c0 : NULL, c, to);
    memcpy(states, to, (size_t)h * sizeof *to);
    at += p.steps * k->row;
    states += apart;
  }
}

static void block_forward(const cpu__rnn_t *k, const void *buffers, const ct_op_args_t *a,
                          cpu__rnn_part_t p)
{
  const buffers_t *b = buffers;
  int64_t row = b->keeps ? cpu__rnn_row(k, p.first, p.t0) : cpu__rnn_begin(k, p);
  float *gates = b->gates + row * k->row;
  cpu__rnn_inputs(k, p, a->x, b->w[0], b->bias, b->copy, gates);
  for (int64_t s = 0; s < p.steps; s++)
    step_forward(k, b, gates, a->y, p, s);
}

static void lstm_forward(const cpu__rnn_t *k, const ct_op_args_t *a)
{
  cpu__rnn_space_t saved = {.at = a->saved}, scratch = {.at = a->scratch};
  buffers_t b = forward_buffers(k, &saved, &scratch);
  const float *b_ih = a->w[2], *b_hh = a->w[3];
  memset(b.bias, 0, (size_t)k->row * sizeof *b.bias);
  for (int64_t i = 0; i < k->wide && k->bias; i++)
    b.bias[i] = b_ih[i] + b_hh[i];
  cpu__rnn_pack_weights(k, 0, a->w, b.w);
  cpu__rnn_blocks(k, 0, block_forward, &b, a);
}

/* ---- backward ---- */

/* Computes the gradients of the pre-activations at step s of a block. */
static void step_backward(const cpu__rnn_t *k, const buffers_t *b, const float *dy,
                          cpu__rnn_part_t p, int64_t s)
{
  int64_t h = k->h, width = k->tiles->width, step = p.t0 + s;
  cpu__gemm_tiled_t of_gates = {
      .a_row = p.steps * k->row, .a_k = 1, .b_k = width, .b_vec = 4 * h * width, .c_row = h};
  float *begin = b->dgates + (cpu__rnn_begin(k, p) + s) * k->row, *to = begin;
  for (int64_t i = p.first; i < p.first + p.n; i++, to += p.steps * k->row) {
    int64_t row = cpu__rnn_row(k, i, step);
    const float *c0 = step > 0 ? b->cells + cpu__rnn_row(k, i, step - 1) * h : NULL;
    k->loops->lstm_bwd(h, b->gates + row * k->row, c0, b->cells + row * h,
                       dy + (i * k->t + cpu__rnn_place(k, step)) * h,
                       step < k->t - 1 ? b->dh + i * h : NULL, b->dc + i * h, to);
  }
  if (step > 0)
    cpu__gemm_tiled(k->tiles, of_gates, p.n, h, 4 * h, begin, b->w[1], b->dh + p.first * h);
}

static void block_backward(const cpu__rnn_t *k, const void *buffers, const ct_op_args_t *a,
                           cpu__rnn_part_t p)
{
  const buffers_t *b = buffers;
  if (p.t0 + p.steps == k->t)
    memset(b->dc + p.first * k->h, 0, (size_t)(p.n * k->h) * sizeof *b->dc);
  for (int64_t s = p.steps - 1; s >= 0; s--)
    step_backward(k, b, a->dy, p, s);
  const float *rows = b->dgates + cpu__rnn_begin(k, p) * k->row;
  if (a->pass & CT_BWD_DATA) cpu__rnn_data(k, p, rows, b->w[0], b->copy, a->dx);
  if (a->pass & CT_BWD_PARAM) cpu__rnn_pack_rows(k, p, rows, b->panels);
}

static void lstm_backward(const cpu__rnn_t *k, const ct_op_args_t *a)
{
  cpu__rnn_space_t saved = {.at = a->saved}, scratch = {.at = a->scratch};
  buffers_t b = backward_buffers(k, &saved, &scratch);
  float *packed[2] = {a->pass & CT_BWD_DATA ? b.w[0] : NULL, b.w[1]};
  cpu__rnn_pack_weights(k, 1, a->w, packed);
  cpu__rnn_blocks(k, 1, block_backward, &b, a);
  if (!(a->pass & CT_BWD_PARAM)) return;
  cpu__rnn_grad_t g[2] = {
      {.panels = b.panels, .from = a->x, .in = k->f, .turned = b.turned[0], .dw = a->dw[0]},
      {.panels = b.panels, .from = a->y, .in = k->h, .turned = b.turned[1], .dw = a->dw[1]}};
  g[0].db = k->bias ? a->dw[2] : NULL;
  g[1].delay = 1;
  cpu__rnn_weights(k, g);
  if (k->bias) memcpy(a->dw[3], a->dw[2], (size_t)k->wide * sizeof(float));
}

/* ---- the table ---- */

static int lstm_run(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__rnn_t *k = (const cpu__rnn_t *)op;
  if (a->pass & CT_FWD) lstm_forward(k, a);
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) lstm_backward(k, a);
  return CT_OK;
}

static int lstm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  cpu__rnn_t *k = (cpu__rnn_t *)op;
  cpu__rnn_space_t saved = {0}, forth = {0}, kept = {0}, back = {0};
  (void)like;
  cpu__rnn_prepare(k, 4);
  forward_buffers(k, &saved, &forth);
  if (ct_op_goes_back(&op->desc)) backward_buffers(k, &kept, &back);
  info->saved = (size_t)saved.count * sizeof(float);
  info->scratch = (size_t)(forth.count > back.count ? forth.count : back.count) * sizeof(float);
  info->algorithm = "products, gates by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__lstm = {
    .size = sizeof(cpu__rnn_t), .prepare = lstm_prepare, .run = lstm_run};
