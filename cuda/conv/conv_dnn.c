/* Convolutions with cuDNN (gemm_conv.h): one plan per pass. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/conv/conv_plan.h"
#include "cuda/gpu.h"

enum { PASSES = 3 };
static const int pass_bit[PASSES] = {CT_FWD, CT_BWD_DATA, CT_BWD_PARAM};

struct gpu__conv {
  ct_dev_t *dev;
  ct_op_desc_t d;
  const gpu__conv_algo_t *algo[PASSES]; /* NULL: not prepared, or nothing to do */
  gpu__dnn_memory_t memory[PASSES];
  char algorithm[128];
};

static gpu__conv_pass_t pass_of(const gpu__conv_t *c, int i)
{
  return (gpu__conv_pass_t){.d = &c->d, .pass = pass_bit[i], .tf32 = c->dev->tf32};
}

/* Returns 1 for an empty batch, which needs no plan. */
static int is_empty(const ct_op_desc_t *d)
{
  return d->x.dim[0] == 0;
}

/* Writes the algorithm: words that say how exact the result is, and for each pass cuDNN's engine
 * and its workspace. */
static void describe_algorithm(gpu__conv_t *c)
{
  static const char *const names[PASSES] = {"forward", "data", "weight"};
  int winograd = 0;
  for (int i = 0; i < PASSES; i++)
    winograd |= c->algo[i] && c->algo[i]->notes & 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD;
  size_t at =
      (size_t)snprintf(c->algorithm, sizeof c->algorithm, "cuDNN%s%s", winograd ? ", winograd" : "",
                       c->d.x.dtype != CT_F32 ? ", low gradient" : "");
  for (int i = 0; i < PASSES; i++)
    if (c->algo[i] && at < sizeof c->algorithm)
      at +=
          (size_t)snprintf(c->algorithm + at, sizeof c->algorithm - at, ", %s %d (%.0f MB)",
                           names[i], c->algo[i]->engine, (double)c->algo[i]->plan.workspace / 1e6);
}

int gpu__conv_make(ct_dev_t *dev, const ct_op_desc_t *d, gpu__conv_t **out, size_t *scratch,
                   const char **algorithm)
{
  int rc = CT_OK;
  gpu__conv_t *c = ct_mem_alloc(sizeof *c, "convolution");
  if (!c) return CT_ERR_NOMEM;
  c->dev = dev;
  c->d = *d;
  *scratch = 0;
  for (int i = 0; i < PASSES && !is_empty(d); i++) {
    gpu__conv_pass_t p = pass_of(c, i);
    if (!(d->passes & pass_bit[i])) continue;
    CT_TRY(gpu__conv_algo(dev, &p, &c->algo[i]));
    size_t wanted = gpu__conv_algo_scratch(&p, c->algo[i]);
    if (wanted > *scratch) *scratch = wanted;
  }
  describe_algorithm(c);
  *algorithm = c->algorithm;
  *out = c;
  c = NULL;
out:
  gpu__conv_free(c);
  return rc;
}

void gpu__conv_free(gpu__conv_t *c)
{
  if (!c) return;
  for (int i = 0; i < PASSES; i++)
    gpu__dnn_memory_clear(&c->memory[i]);
  ct_mem_free(c);
}

static int dnn_run(gpu__conv_t *c, int i, const gpu__conv_memory_t *at, cudaStream_t s)
{
  gpu__conv_pass_t p = pass_of(c, i);
  return gpu__conv_algo_run(c->dev->libraries->dnn, &p, c->algo[i], &c->memory[i], at, s);
}

/* Casts const away: cuDNN takes inputs as pointers to non-const. */
static void *input(const void *p)
{
  return (void *)(uintptr_t)p;
}

int gpu__conv_forward(gpu__conv_t *c, const void *x, const void *w, const void *bias, void *y,
                      void *scratch, cudaStream_t s)
{
  gpu__conv_memory_t at = {
      .x = input(x), .w = input(w), .y = y, .bias = input(bias), .scratch = scratch};
  return is_empty(&c->d) ? CT_OK : dnn_run(c, 0, &at, s);
}

int gpu__conv_backward_data(gpu__conv_t *c, const void *dy, const void *w, void *dx, void *scratch,
                            cudaStream_t s)
{
  gpu__conv_memory_t at = {.x = dx, .w = input(w), .y = input(dy), .scratch = scratch};
  return is_empty(&c->d) ? CT_OK : dnn_run(c, 1, &at, s);
}

int gpu__conv_backward_weight(gpu__conv_t *c, const void *x, const void *dy, float *dw,
                              void *scratch, cudaStream_t s)
{
  gpu__conv_memory_t at = {.x = input(x), .w = dw, .y = input(dy), .scratch = scratch};
  if (is_empty(&c->d))
    return GPU_CHECK(cudaMemsetAsync(dw, 0, (size_t)gpu__conv_filter_count(&c->d) * sizeof *dw, s));
  return dnn_run(c, 2, &at, s);
}
