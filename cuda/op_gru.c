/* One GRU layer, semantics as in ref_gru.c, by GEMMs: one with the inputs of all steps at once;
 * then, step by step, one with the previous state, and the cell arithmetic.
 *
 * Saved from forward to backward, in float32: gates N x T x 4H (r, z, n, and n's part of the
 * state). x, y and gates are stored sample by sample, so the rows of one step are T rows apart.
 * With reduced precision x, y and the gradients of the sums have the reduced type; sums, gates and
 * biases are float32. */
#include "cuda/dense.h"
#include "cuda/kernels/gru.h"

typedef struct gru_op {
  ct_op_t head;
  gpu__gru_t cells;
  int reverse, bias;
  gpu__dense_t inputs;      /* inputs of all steps to sums */
  gpu__gemm_t *states;      /* per step: state * w_hh */
  gpu__gemm_t *states_back; /* per step: gradient of the state, added */
  gpu__dense_t all_states;  /* over all steps: gradient of w_hh */
  struct {
    size_t gates;                      /* in saved memory; for inference in scratch */
    size_t sums, states;               /* forward: in scratch */
    size_t dsums, dstates, before, dh; /* backward: in scratch */
    size_t work;                       /* workspace of GEMMs and sums; last */
  } at;                                /* byte offsets in saved or scratch memory */
} gru_op_t;

/* Returns the place in the sequence of a step, in order of computation; -1: before the first. */
static int64_t place_of(const gru_op_t *k, int64_t step)
{
  return step < 0 ? -1 : k->reverse ? k->cells.t - 1 - step : step;
}

static int gru_forward(const gru_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__gru_t *c = &k->cells;
  size_t state = (size_t)c->h * ct_dtype_size(c->type);
  char *scratch = a->scratch, *y = a->y;
  char *kept = ct_op_goes_back(&k->head.desc) ? a->saved : scratch;
  float *sums = (float *)(scratch + k->at.sums), *states = (float *)(scratch + k->at.states);
  const float *b_ih = k->bias ? a->w[2] : NULL, *b_hh = k->bias ? a->w[3] : NULL;
  void *work = scratch + k->at.work;
  CT_TRY(gpu__dense_forward(&k->inputs, a->x, gpu__factor(&k->head, a, 0), NULL, sums, work, s));
  for (int64_t step = 0; step < c->t; step++) {
    int64_t before = place_of(k, step - 1);
    if (step > 0)
      CT_TRY(gpu__gemm_run(k->states, 1, y + (size_t)before * state, gpu__factor(&k->head, a, 1),
                           NULL, states, work, s));
    GPU_TRY(gpu__gru_step(c, place_of(k, step), before, b_ih, b_hh, sums, states,
                          (float *)(kept + k->at.gates), y, s));
  }
out:
  return rc;
}

/* Computes the gradients of sums and states, for all steps. */
static int steps_backward(const gru_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  const gpu__gru_t *c = &k->cells;
  size_t row = (size_t)(3 * c->h) * ct_dtype_size(c->type);
  char *kept = a->saved, *scratch = a->scratch, *dstates = scratch + k->at.dstates;
  gpu__gru_back_t b = {.gates = (float *)(kept + k->at.gates),
                       .y = a->y,
                       .dy = a->dy,
                       .dh = (float *)(scratch + k->at.dh),
                       .dsums = scratch + k->at.dsums,
                       .dstates = dstates,
                       .before = scratch + k->at.before};
  for (int64_t step = c->t - 1; step >= 0; step--) {
    int64_t place = place_of(k, step);
    GPU_TRY(gpu__gru_step_backward(c, place, place_of(k, step - 1), step == c->t - 1, &b, s));
    if (step > 0)
      CT_TRY(gpu__gemm_run(k->states_back, 1, dstates + (size_t)place * row,
                           gpu__factor(&k->head, a, 1), NULL, b.dh, scratch + k->at.work, s));
  }
out:
  return rc;
}

static int gru_backward(const gru_op_t *k, const ct_op_args_t *a, cudaStream_t s)
{
  int rc = CT_OK;
  char *scratch = a->scratch, *dsums = scratch + k->at.dsums;
  char *dstates = scratch + k->at.dstates;
  void *work = scratch + k->at.work;
  CT_TRY(steps_backward(k, a, s));
  if (a->pass & CT_BWD_PARAM) {
    CT_TRY(gpu__dense_param(&k->inputs, a->x, dsums, a->dw[0], k->bias ? a->dw[2] : NULL, work, s));
    CT_TRY(gpu__dense_param(&k->all_states, scratch + k->at.before, dstates, a->dw[1],
                            k->bias ? a->dw[3] : NULL, work, s));
  }
  if (a->pass & CT_BWD_DATA)
    CT_TRY(gpu__dense_data(&k->inputs, dsums, gpu__factor(&k->head, a, 0), a->dx, work, s));
out:
  return rc;
}

static int gru_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at, cudaStream_t s)
{
  int rc = CT_OK;
  const gru_op_t *k = (const gru_op_t *)op;
  (void)at;
  if (a->pass & CT_FWD) CT_TRY(gru_forward(k, a, s));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(gru_backward(k, a, s));
out:
  return rc;
}

/* ---- op table ---- */

static void lay_out(gru_op_t *k, ct_op_info_t *info)
{
  const gpu__gru_t *c = &k->cells;
  int64_t cells = c->n * c->t * c->h;
  size_t size = ct_dtype_size(c->type), forth = 0, back = 0;
  int goes_back = ct_op_goes_back(&k->head.desc);
  k->at.gates = gpu__take(goes_back ? &info->saved : &forth, 4 * cells, sizeof(float));
  k->at.sums = gpu__take(&forth, 3 * cells, sizeof(float));
  k->at.states = gpu__take(&forth, 3 * c->n * c->h, sizeof(float));
  if (goes_back) {
    k->at.dsums = gpu__take(&back, 3 * cells, size);
    k->at.dstates = gpu__take(&back, 3 * cells, size);
    k->at.before = gpu__take(&back, cells, size);
    k->at.dh = gpu__take(&back, c->n * c->h, sizeof(float));
  }
  k->at.work = forth > back ? forth : back;
}

static int make_gemms(gru_op_t *k, int64_t features, size_t *work)
{
  int rc = CT_OK;
  ct_dev_t *dev = k->head.dev;
  const gpu__gru_t *c = &k->cells;
  int passes = k->head.desc.passes;
  int64_t h = c->h, gates = 3 * h;
  size_t size = ct_dtype_size(c->type);
  gpu__dense_spec_t inputs = {.passes = passes,
                              .rows = c->n * c->t,
                              .in = features,
                              .out = gates,
                              .type = c->type,
                              .y_type = CT_F32};
  gpu__dense_spec_t all_states = inputs;
  gpu__gemm_spec_t states = {.m = c->n, .n = gates, .k = h, .batch = 1, .ldb = h, .ldc = gates};
  gpu__gemm_spec_t back = {
      .m = c->n, .n = h, .k = gates, .batch = 1, .ldb = h, .ldc = h, .adds = 1};
  states.lda = c->t * h;
  back.lda = c->t * gates;
  states.b_turned = 1;
  states.in = back.in = c->type;
  /* a step starts at its row of the first sample */
  if ((size_t)h * size % 16 != 0) states.unaligned = GPU_GEMM_A;
  if ((size_t)gates * size % 16 != 0) back.unaligned = GPU_GEMM_A;
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

static int gru_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  gru_op_t *k = (gru_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  size_t work = 0;
  k->cells = (gpu__gru_t){d->x.dtype, d->x.dim[0], d->x.dim[1], d->y.dim[2]};
  k->reverse = d->u.rnn.reverse;
  k->bias = !d->u.rnn.no_bias;
  CT_TRY(make_gemms(k, d->x.dim[2], &work));
  lay_out(k, info);
  info->scratch = k->at.work + work;
  info->algorithm = "products";
out:
  return rc;
}

static void gru_clear(ct_op_t *op)
{
  gru_op_t *k = (gru_op_t *)op;
  gpu__dense_clear(&k->inputs);
  gpu__dense_clear(&k->all_states);
  gpu__gemm_free(k->states);
  gpu__gemm_free(k->states_back);
}

const gpu__kind_t gpu__kind_gru = {.size = sizeof(gru_op_t),
                                   .reduced = 1,
                                   .low = 3,
                                   .nhwc = -1,
                                   .prepare = gru_prepare,
                                   .run = gru_run,
                                   .clear = gru_clear};
