/* One GRU layer: rnn.h explains the order of computation.  ref_gru.c defines the semantics.
 *
 * Saved for backward: gates (r, z, n, and W_hn h + b_hn), N x T rows. */
#include "cpu/kinds.h"
#include "cpu/rnn.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include <string.h>

/* Buffers of a run. */
typedef struct buffers {
  int keeps;        /* 1: gates of all steps are kept; 0: of one step */
  float *gates;     /* rows of saved_row() */
  float *w[2];      /* W_ih and W_hh, packed */
  float *copy;      /* rows of a block with F values: x, backward dx */
  float *bias;      /* forward: b_ih, or zeros */
  float *sums;      /* rows of a block: W_ih x + b_ih, backward their gradient */
  float *states;    /* forward: W_hh h of a step, N rows; backward: its gradient, rows of a block */
  float *h0;        /* forward: y of the last step, N rows */
  float *panels[2]; /* backward: the gradients of sums and of states in all blocks */
  float *turned[2]; /* backward: workspace of cpu__rnn_weights() */
  float *dh;        /* backward: N x H */
} buffers_t;

static int64_t saved_row(const cpu__rnn_t *k)
{
  return cpu__rnn_padded(4 * k->h);
}

/* Assigns the buffers of a forward run. */
static buffers_t forward_buffers(const cpu__rnn_t *k, cpu__rnn_space_t *saved,
                                 cpu__rnn_space_t *scratch)
{
  buffers_t b = {.keeps = ct_op_goes_back(&k->head.desc)};
  b.gates = b.keeps ? cpu__rnn_take(saved, k->n * k->t * saved_row(k))
                    : cpu__rnn_take(scratch, k->n * saved_row(k));
  b.w[0] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 0, k->f));
  b.w[1] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 0, k->h));
  b.copy = cpu__rnn_take(scratch, k->n * k->steps * cpu__rnn_padded(k->f));
  b.bias = cpu__rnn_take(scratch, k->row);
  b.sums = cpu__rnn_take(scratch, k->n * k->steps * k->row);
  b.states = cpu__rnn_take(scratch, k->n * k->row);
  b.h0 = cpu__rnn_take(scratch, k->n * cpu__rnn_padded(k->h));
  return b;
}

static buffers_t backward_buffers(const cpu__rnn_t *k, cpu__rnn_space_t *saved,
                                  cpu__rnn_space_t *scratch)
{
  buffers_t b = {.keeps = 1};
  b.gates = cpu__rnn_take(saved, k->n * k->t * saved_row(k));
  b.w[0] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 1, k->f));
  b.w[1] = cpu__rnn_take(scratch, cpu__rnn_packed(k, 1, k->h));
  b.copy = cpu__rnn_take(scratch, k->n * k->steps * cpu__rnn_padded(k->f));
  b.sums = cpu__rnn_take(scratch, k->n * k->steps * k->row);
  b.states = cpu__rnn_take(scratch, k->n * k->steps * k->row);
  b.panels[0] = cpu__rnn_take(scratch, cpu__rnn_panels(k));
  b.panels[1] = cpu__rnn_take(scratch, cpu__rnn_panels(k));
  b.turned[0] = cpu__rnn_take(scratch, cpu__rnn_turned(k, k->f));
  b.turned[1] = cpu__rnn_take(scratch, cpu__rnn_turned(k, k->h));
  b.dh = cpu__rnn_take(scratch, k->n * k->h);
  return b;
}

/* ---- forward ---- */

/* Runs step s of a block. */
static void step_forward(const cpu__rnn_t *k, const buffers_t *b, const ct_op_args_t *a,
                         cpu__rnn_part_t p, int64_t s)
{
  int64_t h = k->h, width = k->tiles->width, apart = cpu__rnn_padded(h), step = p.t0 + s;
  cpu__gemm_tiled_t of_states = {
      .a_row = apart, .a_k = 1, .b_k = width, .b_vec = h * width, .c_row = k->row};
  const float *bias = k->bias ? a->w[3] : NULL;
  float *h0 = b->h0 + p.first * apart, *states = b->states + p.first * k->row, *y = a->y;
  if (step > 0) cpu__gemm_tiled(k->tiles, of_states, p.n, k->wide, h, h0, b->w[1], states);
  const float *sums = b->sums + (cpu__rnn_begin(k, p) + s) * k->row;
  for (int64_t i = p.first; i < p.first + p.n; i++) {
    float *to = y + (i * k->t + cpu__rnn_place(k, step)) * h;
    k->loops->gru(h, sums, step > 0 ? states : NULL, bias, h0,
                  b->gates + (b->keeps ? cpu__rnn_row(k, i, step) : i) * saved_row(k), to);
    memcpy(h0, to, (size_t)h * sizeof *to);
    h0 += apart;
    states += k->row;
    sums += p.steps * k->row;
  }
}

static void block_forward(const cpu__rnn_t *k, const void *buffers, const ct_op_args_t *a,
                          cpu__rnn_part_t p)
{
  const buffers_t *b = buffers;
  cpu__rnn_inputs(k, p, a->x, b->w[0], b->bias, b->copy, b->sums + cpu__rnn_begin(k, p) * k->row);
  for (int64_t s = 0; s < p.steps; s++)
    step_forward(k, b, a, p, s);
}

static void gru_forward(const cpu__rnn_t *k, const ct_op_args_t *a)
{
  cpu__rnn_space_t saved = {.at = a->saved}, scratch = {.at = a->scratch};
  buffers_t b = forward_buffers(k, &saved, &scratch);
  memset(b.bias, 0, (size_t)k->row * sizeof *b.bias);
  if (k->bias) memcpy(b.bias, a->w[2], (size_t)k->wide * sizeof *b.bias);
  cpu__rnn_pack_weights(k, 0, a->w, b.w);
  cpu__rnn_blocks(k, 0, block_forward, &b, a);
}

/* ---- backward ---- */

/* Computes the gradients of sums and states at step s of a block. */
static void step_backward(const cpu__rnn_t *k, const buffers_t *b, const ct_op_args_t *a,
                          cpu__rnn_part_t p, int64_t s)
{
  int64_t h = k->h, width = k->tiles->width, step = p.t0 + s;
  cpu__gemm_tiled_t of_states = {.a_row = p.steps * k->row,
                                 .a_k = 1,
                                 .b_k = width,
                                 .b_vec = k->wide * width,
                                 .c_row = h,
                                 .add = 1};
  const float *dy = a->dy, *y = a->y;
  int64_t begin = (cpu__rnn_begin(k, p) + s) * k->row, at = begin;
  for (int64_t i = p.first; i < p.first + p.n; i++, at += p.steps * k->row) {
    const float *h0 = step > 0 ? y + (i * k->t + cpu__rnn_place(k, step - 1)) * h : NULL;
    k->loops->gru_bwd(h, b->gates + cpu__rnn_row(k, i, step) * saved_row(k), h0,
                      dy + (i * k->t + cpu__rnn_place(k, step)) * h, step == k->t - 1,
                      b->dh + i * h, b->sums + at, b->states + at);
  }
  if (step > 0)
    cpu__gemm_tiled(k->tiles, of_states, p.n, h, k->wide, b->states + begin, b->w[1],
                    b->dh + p.first * h);
}

static void block_backward(const cpu__rnn_t *k, const void *buffers, const ct_op_args_t *a,
                           cpu__rnn_part_t p)
{
  const buffers_t *b = buffers;
  for (int64_t s = p.steps - 1; s >= 0; s--)
    step_backward(k, b, a, p, s);
  int64_t begin = cpu__rnn_begin(k, p) * k->row;
  if (a->pass & CT_BWD_DATA) cpu__rnn_data(k, p, b->sums + begin, b->w[0], b->copy, a->dx);
  if (!(a->pass & CT_BWD_PARAM)) return;
  cpu__rnn_pack_rows(k, p, b->sums + begin, b->panels[0]);
  cpu__rnn_pack_rows(k, p, b->states + begin, b->panels[1]);
}

static void gru_backward(const cpu__rnn_t *k, const ct_op_args_t *a)
{
  cpu__rnn_space_t saved = {.at = a->saved}, scratch = {.at = a->scratch};
  buffers_t b = backward_buffers(k, &saved, &scratch);
  float *packed[2] = {a->pass & CT_BWD_DATA ? b.w[0] : NULL, b.w[1]};
  cpu__rnn_pack_weights(k, 1, a->w, packed);
  cpu__rnn_blocks(k, 1, block_backward, &b, a);
  if (!(a->pass & CT_BWD_PARAM)) return;
  cpu__rnn_grad_t g[2] = {
      {.panels = b.panels[0], .from = a->x, .in = k->f, .turned = b.turned[0], .dw = a->dw[0]},
      {.panels = b.panels[1], .from = a->y, .in = k->h, .turned = b.turned[1], .dw = a->dw[1]}};
  g[1].delay = 1;
  for (int i = 0; i < 2 && k->bias; i++)
    g[i].db = a->dw[2 + i];
  cpu__rnn_weights(k, g);
}

/* ---- the table ---- */

static int gru_run(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__rnn_t *k = (const cpu__rnn_t *)op;
  if (a->pass & CT_FWD) gru_forward(k, a);
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) gru_backward(k, a);
  return CT_OK;
}

static int gru_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  cpu__rnn_t *k = (cpu__rnn_t *)op;
  cpu__rnn_space_t saved = {0}, forth = {0}, kept = {0}, back = {0};
  (void)like;
  cpu__rnn_prepare(k, 3);
  forward_buffers(k, &saved, &forth);
  if (ct_op_goes_back(&op->desc)) backward_buffers(k, &kept, &back);
  info->saved = (size_t)saved.count * sizeof(float);
  info->scratch = (size_t)(forth.count > back.count ? forth.count : back.count) * sizeof(float);
  info->algorithm = "products, gates by hand";
  return CT_OK;
}

const cpu__op_kind_t cpu__gru = {
    .size = sizeof(cpu__rnn_t), .prepare = gru_prepare, .run = gru_run};
