/* One LSTM layer, semantics as in ref_lstm.c: the GEMM with the inputs of all steps at once; then,
 * step by step, the GEMM with the previous state and the cell arithmetic. cuDNN's RNN functions are
 * not used, because their weight layout can only be queried on a GPU; here the layout is the same
 * as on the host.
 *
 * Saved from forward to backward, in float32: gates N x T x 4H (i, f, g, o), cells N x T x H. x, y,
 * gates and cells are stored sample by sample, so the rows of one step are T rows apart. With
 * reduced precision x, y and the gates' gradients have the reduced type; sums, gates, cells and
 * biases are float32. */
#include "cuda/dense.h"
#include "cuda/kernels/lstm.h"

typedef struct lstm_op {
  ct_op_t head;
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
  CT_TRY(gpu__dense_forward(&k->inputs, a->x, gpu__factor(&k->head, a, 0), NULL, gates, work, s));
  for (int64_t step = 0; step < c->t; step++) {
    if (step > 0)
      CT_TRY(gpu__gemm_run(k->states, 1, y + (size_t)(step - 1) * state, w_hh, NULL,
                           gates + step * 4 * c->h, work, s));
    GPU_TRY(gpu__lstm_step(c, step, a->w[2], a->w[3], gates, cells, y, s));
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
      CT_TRY(gpu__gemm_run(k->states_back, 1, dgates + (size_t)step * row,
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
    CT_TRY(gpu__dense_param(&k->inputs, a->x, dgates, a->dw[0], a->dw[2], work, s));
    CT_TRY(
        gpu__dense_param(&k->all_states, scratch + k->at.before, dgates, a->dw[1], NULL, work, s));
    GPU_TRY(cudaMemcpyAsync(a->dw[3], a->dw[2], bias, cudaMemcpyDeviceToDevice, s));
  }
  if (a->pass & CT_BWD_DATA)
    CT_TRY(gpu__dense_data(&k->inputs, dgates, gpu__factor(&k->head, a, 0), a->dx, work, s));
out:
  return rc;
}

/* ---- op table ---- */

static int lstm_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const lstm_op_t *k = (const lstm_op_t *)op;
  (void)at;
  if (a->pass & CT_FWD) CT_TRY(lstm_forward(k, a, s));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(lstm_backward(k, a, s));
out:
  return rc;
}

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
  k->cells = (gpu__lstm_t){d->x.dtype, d->x.dim[0], d->x.dim[1], d->y.dim[2]};
  CT_TRY(make_gemms(k, features, &work));
  lay_out(k, info);
  info->scratch = k->at.work + work;
  info->algorithm = "products";
out:
  return rc;
}

static void lstm_clear(ct_op_t *op)
{
  lstm_op_t *k = (lstm_op_t *)op;
  gpu__dense_clear(&k->inputs);
  gpu__dense_clear(&k->all_states);
  gpu__gemm_free(k->states);
  gpu__gemm_free(k->states_back);
}

const gpu__kind_t gpu__kind_lstm = {.size = sizeof(lstm_op_t),
                                    .reduced = 1,
                                    .nhwc = -1,
                                    .prepare = lstm_prepare,
                                    .run = lstm_run,
                                    .clear = lstm_clear};
