/* One LSTM layer, semantics as in ref_lstm.c, by one of two algorithms: cuDNN's RNN functions
 * (rnn/rnn.h), or GEMMs: one with the inputs of all steps at once; then, step by step, one with
 * the previous state, and the cell arithmetic. With autotuning the faster one is measured;
 * without, cuDNN is taken where it supports the layer.
 *
 * The GEMMs save from forward to backward, in float32: gates N x T x 4H (i, f, g, o), cells N x T
 * x H. x, y, gates and cells are stored sample by sample, so the rows of one step are T rows
 * apart. With reduced precision x, y and the gates' gradients have the reduced type; sums, gates,
 * cells and biases are float32. */
#include "cuda/dense.h"
#include "cuda/kernels/lstm.h"
#include "cuda/rnn/rnn.h"
#include "cuda/stopwatch.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct lstm_op {
  ct_op_t head;
  gpu__rnn_t *rnn; /* cuDNN's algorithm; NULL: the GEMMs below */
  gpu__lstm_t cells;
  gpu__dense_t inputs;      /* inputs of all steps to gates */
  gpu__gemm_t *states;      /* per step: state * w_hh, added to the gates */
  gpu__gemm_t *states_back; /* per step: gradient of the state */
  gpu__dense_t all_states;  /* over all steps: gradient of w_hh */
  struct {
    size_t gates, cells;           /* in saved memory; for inference in scratch */
    size_t dgates, before, dh, dc; /* backward: in scratch */
    size_t work;                   /* workspace of GEMMs and sums; last */
  } at;                            /* byte offsets in saved or scratch memory */
} lstm_op_t;

/* Returns the place in the sequence of a step, in order of computation. */
static int64_t place_of(const gpu__lstm_t *c, int64_t step)
{
  return c->reverse ? c->t - 1 - step : step;
}

static int has_bias(const lstm_op_t *k)
{
  return !k->head.desc.u.rnn.no_bias;
}

/* ---- forward ---- */

static int lstm_forward(const lstm_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__lstm_t *c = &k->cells;
  size_t state = (size_t)c->h * ct_dtype_size(c->type);
  char *scratch = a->scratch, *kept = ct_op_goes_back(&k->head.desc) ? a->saved : scratch,
       *y = a->y;
  float *gates = (float *)(kept + k->at.gates), *cells = (float *)(kept + k->at.cells);
  void *work = scratch + k->at.work;
  const void *w_hh = gpu__factor(&k->head, a, 1);
  const float *b_ih = has_bias(k) ? a->w[2] : NULL, *b_hh = has_bias(k) ? a->w[3] : NULL;
  CT_TRY(gpu__dense_forward(&k->inputs, a->x, gpu__factor(&k->head, a, 0), NULL, gates, work, s));
  for (int64_t step = 0; step < c->t; step++) {
    if (step > 0)
      CT_TRY(gpu__gemm_run(k->states, 1, y + (size_t)place_of(c, step - 1) * state, w_hh, NULL,
                           gates + place_of(c, step) * 4 * c->h, work, s));
    GPU_TRY(gpu__lstm_step(c, step, b_ih, b_hh, gates, cells, y, s));
  }
out:
  return rc;
}

/* ---- backward ---- */

/* Computes the gradients of the gates before their activations, for all steps. */
static int steps_backward(const lstm_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__lstm_t *c = &k->cells;
  size_t row = (size_t)(4 * c->h) * ct_dtype_size(c->type);
  char *kept = a->saved, *scratch = a->scratch, *dgates = scratch + k->at.dgates;
  float *dh = (float *)(scratch + k->at.dh);
  gpu__lstm_back_t b = {.gates = (float *)(kept + k->at.gates),
                        .cells = (float *)(kept + k->at.cells),
                        .dy = a->dy,
                        .dh = dh,
                        .dc = (float *)(scratch + k->at.dc),
                        .dgates = dgates};
  if (a->pass & CT_BWD_PARAM) {
    b.y = a->y;
    b.before = scratch + k->at.before;
  }
  for (int64_t step = c->t - 1; step >= 0; step--) {
    GPU_TRY(gpu__lstm_step_backward(c, step, &b, s));
    if (step > 0)
      CT_TRY(gpu__gemm_run(k->states_back, 1, dgates + (size_t)place_of(c, step) * row,
                           gpu__factor(&k->head, a, 1), NULL, dh, scratch + k->at.work, s));
  }
out:
  return rc;
}

static int lstm_backward(const lstm_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  char *scratch = a->scratch, *dgates = scratch + k->at.dgates;
  void *work = scratch + k->at.work;
  size_t bias = (size_t)(4 * k->cells.h) * sizeof(float);
  CT_TRY(steps_backward(k, a, s));
  if (a->pass & CT_BWD_PARAM) {
    CT_TRY(gpu__dense_param(&k->inputs, a->x, dgates, a->dw[0], has_bias(k) ? a->dw[2] : NULL, work,
                            s));
    CT_TRY(
        gpu__dense_param(&k->all_states, scratch + k->at.before, dgates, a->dw[1], NULL, work, s));
    if (has_bias(k))
      GPU_TRY(cudaMemcpyAsync(a->dw[3], a->dw[2], bias, cudaMemcpyDeviceToDevice, s));
  }
  if (a->pass & CT_BWD_DATA)
    CT_TRY(gpu__dense_data(&k->inputs, dgates, gpu__factor(&k->head, a, 0), a->dx, work, s));
out:
  return rc;
}

/* ---- cuDNN ---- */

static int rnn_run(const lstm_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  gpu__rnn_memory_t m = {
      .x = a->x,
      .w = {gpu__factor(&k->head, a, 0), gpu__factor(&k->head, a, 1), a->w[2], a->w[3]},
      .y = a->y,
      .saved = a->saved,
      .scratch = a->scratch};
  if (a->pass & CT_FWD) CT_TRY(gpu__rnn_forward(k->rnn, &m, s));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM))
    CT_TRY(gpu__rnn_backward(k->rnn, &m, a->dy, a->pass & CT_BWD_DATA ? a->dx : NULL,
                             a->pass & CT_BWD_PARAM ? a->dw : NULL, s));
out:
  return rc;
}

/* ---- choice of the algorithm ---- */

static const char rnn_name[] = "cuDNN";

static int lstm_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const lstm_op_t *k = (const lstm_op_t *)op;
  (void)at;
  if (k->rnn) return rnn_run(k, a, s);
  if (a->pass & CT_FWD) CT_TRY(lstm_forward(k, a, s));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(lstm_backward(k, a, s));
out:
  return rc;
}

/* Bytes that an algorithm needs from forward to backward, and within a pass. */
typedef struct needs {
  size_t saved, scratch;
} needs_t;

/* Operands and a stopwatch to measure both algorithms with. */
typedef struct bench {
  gpu__stopwatch_t watch;
  ct_op_args_t args;
} bench_t;

/* Assigns the operands' addresses, from \a block on. Returns the bytes that they occupy. */
static size_t bench_place(const ct_op_t *op, const needs_t *n, char *block, ct_op_args_t *a)
{
  size_t end = 0, x = ct_shape_bytes(&op->desc.x), y = ct_shape_bytes(&op->desc.y);
  *a = (ct_op_args_t){.pass = op->desc.passes};
  a->x = block + gpu__take(&end, (int64_t)x, 1);
  a->dx = block + gpu__take(&end, (int64_t)x, 1);
  a->y = block + gpu__take(&end, (int64_t)y, 1);
  a->dy = block + gpu__take(&end, (int64_t)y, 1);
  for (int i = 0; i < CT_OP_PARAMS && ct_op_param_count(&op->desc, i) > 0; i++) {
    int64_t count = ct_op_param_count(&op->desc, i);
    a->w[i] = block + gpu__take(&end, count, sizeof(float));
    a->w_reduced[i] = block + gpu__take(&end, count, sizeof(float));
    a->dw[i] = block + gpu__take(&end, count, sizeof(float));
  }
  a->saved = block + gpu__take(&end, (int64_t)n->saved, 1);
  a->scratch = block + gpu__take(&end, (int64_t)n->scratch, 1);
  return end;
}

static int bench_open(bench_t *b, const ct_op_t *op, const needs_t *n)
{
  ct_op_args_t unplaced;
  int rc = gpu__stopwatch_open(&b->watch, bench_place(op, n, NULL, &unplaced));
  if (rc == CT_OK) (void)bench_place(op, n, b->watch.memory, &b->args);
  return rc;
}

/* Returns the milliseconds of all passes with the algorithm that the op has now; the first run,
 * which may load kernels, is not counted. INFINITY: it failed. */
static float bench_run(bench_t *b, ct_op_t *op)
{
  enum { RUNS = 3 };
  int rc = CT_OK;
  float ms = 0;
  for (int i = 0; i <= RUNS; i++) {
    if (i == 1) CT_TRY(gpu__stopwatch_start(&b->watch));
    CT_TRY(lstm_run(op, &b->args, NULL, b->watch.stream));
  }
  CT_TRY(gpu__stopwatch_stop(&b->watch, &ms));
out:
  return rc == CT_OK ? ms : INFINITY;
}

/* Returns 1 if cuDNN is faster, or if there is no memory to find out; then *timed is 0. */
static int rnn_is_faster(lstm_op_t *k, const needs_t *gemms, const needs_t *rnn, int *timed)
{
  gpu__rnn_t *kept = k->rnn;
  needs_t most = {gemms->saved > rnn->saved ? gemms->saved : rnn->saved,
                  gemms->scratch > rnn->scratch ? gemms->scratch : rnn->scratch};
  bench_t b = {.watch = {.memory = NULL}};
  float ms[2] = {INFINITY, INFINITY};
  int opened = bench_open(&b, &k->head, &most) == CT_OK;
  if (opened) {
    ms[0] = bench_run(&b, &k->head);
    k->rnn = NULL;
    ms[1] = bench_run(&b, &k->head);
    k->rnn = kept;
  }
  gpu__stopwatch_close(&b.watch);
  *timed = gpu__choices_fastest(ms, 2) >= 0;
  return gpu__choices_fastest(ms, 2) <= 0;
}

/* The choice by time, of this run or of an earlier one; the same on all ranks (choices.h). */
static int choose_by_time(lstm_op_t *k, const needs_t *gemms, const needs_t *rnn, int *faster)
{
  char key[256];
  int timed;
  const ct_dev_t *dev = k->head.dev;
  (void)ct_op_text(&k->head.desc, key, sizeof key);
  const char *kept = gpu__choices_find(dev->choices, key);
  *faster = kept ? strcmp(kept, rnn_name) == 0 : rnn_is_faster(k, gemms, rnn, &timed);
  if (kept) return CT_OK;
  return gpu__choices_add(dev->choices, key, *faster ? rnn_name : "GEMMs", timed);
}

/* Returns why cuDNN's RNN functions may give other bits each time; NULL: they do not. They use
 * cuBLAS on several streams, which assigns its two workspaces to them as they come, unless it has
 * only one size of them (release notes of cuDNN 8; PyTorch's torch.nn.LSTM has the same note). */
static const char *rnn_varies(void)
{
  const char *set = getenv("CUBLAS_WORKSPACE_CONFIG");
  if (set && (strcmp(set, ":16:8") == 0 || strcmp(set, ":4096:2") == 0)) return NULL;
  return "cuDNN's LSTM repeats its bits only with CUBLAS_WORKSPACE_CONFIG=:4096:2 in the "
         "environment";
}

/* Makes cuDNN's algorithm if it supports the layer, and chooses. */
static int choose(lstm_op_t *k, const needs_t *gemms, ct_op_info_t *info)
{
  int rc = CT_OK, faster = 1;
  needs_t rnn = {0};
  if (k->cells.reverse || !has_bias(k)) return CT_OK; /* made for the usual layer only */
  rc = gpu__rnn_make(k->head.dev, &k->head.desc, &k->rnn, &rnn.saved, &rnn.scratch);
  if (rc != CT_OK) return rc == CT_ERR_UNSUP ? CT_OK : rc;
  if (k->head.dev->autotune) CT_TRY(choose_by_time(k, gemms, &rnn, &faster));
  if (!faster) {
    gpu__rnn_free(k->rnn);
    k->rnn = NULL;
    return CT_OK;
  }
  info->algorithm = rnn_name;
  info->varies = rnn_varies();
  info->saved = rnn.saved;
  info->scratch = rnn.scratch;
  if (ct_op_goes_back(&k->head.desc)) info->bwd_uses |= CT_USES_Y; /* of data, too */
out:
  return rc;
}

/* ---- op table ---- */

static void lay_out(lstm_op_t *k, ct_op_info_t *info)
{
  const gpu__lstm_t *c = &k->cells;
  int64_t cells = c->n * c->t * c->h;
  size_t size = ct_dtype_size(c->type), end = 0;
  int back = ct_op_goes_back(&k->head.desc);
  size_t *kept = back ? &info->saved : &end;
  k->at.gates = gpu__take(kept, 4 * cells, sizeof(float));
  k->at.cells = gpu__take(kept, cells, sizeof(float));
  if (back) {
    k->at.dgates = gpu__take(&end, 4 * cells, size);
    k->at.before = gpu__take(&end, cells, size);
    k->at.dh = gpu__take(&end, c->n * c->h, sizeof(float));
    k->at.dc = gpu__take(&end, c->n * c->h, sizeof(float));
  }
  k->at.work = end;
}

static int make_gemms(lstm_op_t *k, int64_t features, size_t *work)
{
  int rc = CT_OK;
  ct_dev_t *dev = k->head.dev;
  const gpu__lstm_t *c = &k->cells;
  int passes = k->head.desc.passes;
  int64_t h = c->h, gates = 4 * h;
  size_t state = (size_t)h * ct_dtype_size(c->type);
  gpu__dense_spec_t inputs = {.passes = passes,
                              .rows = c->n * c->t,
                              .in = features,
                              .out = gates,
                              .type = c->type,
                              .y_type = CT_F32};
  gpu__dense_spec_t all_states = inputs;
  gpu__gemm_spec_t states = {.m = c->n, .n = gates, .k = h, .batch = 1, .ldb = h, .adds = 1};
  gpu__gemm_spec_t back = {.m = c->n, .n = h, .k = gates, .batch = 1, .ldb = h, .ldc = h};
  states.lda = c->t * h;
  states.ldc = back.lda = c->t * gates;
  states.b_turned = 1;
  states.in = back.in = c->type;
  /* a step starts at its row of the first sample */
  if (state % 16 != 0) states.unaligned = GPU_GEMM_A;
  if (4 * state % 16 != 0) back.unaligned = GPU_GEMM_A;
  all_states.in = h;
  all_states.passes &= CT_BWD_PARAM;
  CT_TRY(gpu__dense_make(dev, &inputs, &k->inputs, work));
  CT_TRY(gpu__dense_make(dev, &all_states, &k->all_states, work));
  if (c->t == 1) goto out;
  CT_TRY(gpu__gemm_add(dev, &states, &k->states, work));
  if (ct_op_goes_back(&k->head.desc)) CT_TRY(gpu__gemm_add(dev, &back, &k->states_back, work));
out:
  return rc;
}

static int lstm_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  lstm_op_t *k = (lstm_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  size_t work = 0;
  int64_t features = d->x.dim[2];
  k->cells = (gpu__lstm_t){d->x.dtype, d->x.dim[0], d->x.dim[1], d->y.dim[2], d->u.rnn.reverse};
  CT_TRY(make_gemms(k, features, &work));
  lay_out(k, info);
  info->scratch = k->at.work + work;
  info->algorithm = "products";
  CT_TRY(choose(k, &(needs_t){info->saved, info->scratch}, info));
out:
  return rc;
}

static void lstm_clear(ct_op_t *op)
{
  lstm_op_t *k = (lstm_op_t *)op;
  gpu__rnn_free(k->rnn);
  gpu__dense_clear(&k->inputs);
  gpu__dense_clear(&k->all_states);
  gpu__gemm_free(k->states);
  gpu__gemm_free(k->states_back);
}

const gpu__kind_t gpu__kind_lstm = {.size = sizeof(lstm_op_t),
                                    .reduced = 1,
                                    .low = 3,
                                    .nhwc = -1,
                                    .prepare = lstm_prepare,
                                    .run = lstm_run,
                                    .clear = lstm_clear};
