/* Benchmarks the candidate plans of a convolution pass. */
#include "base/ct_err.h"
#include "cuda/choices.h"
#include "cuda/conv/conv_plan.h"
#include "cuda/stopwatch.h"
#include <math.h>

enum { RUNS = 3, CANDIDATES = 2 * GPU_CONV_ALGOS };

/* Operands and a stopwatch for benchmarks. */
typedef struct bench {
  ct_dev_t *dev;
  const gpu__conv_pass_t *p;
  gpu__stopwatch_t watch;
  gpu__conv_memory_t at;
} bench_t;

static size_t aligned(size_t bytes)
{
  return (bytes + 255) / 256 * 256;
}

/* Allocates the memory. Filters and biases have the size of float32, since their gradients are
 * float32. */
static int bench_open(bench_t *b, size_t scratch)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = b->p->d;
  size_t x = aligned(ct_shape_bytes(&d->x)), y = aligned(ct_shape_bytes(&d->y));
  size_t w = aligned((size_t)gpu__conv_filter_count(d) * sizeof(float));
  size_t bias = aligned((size_t)d->y.dim[1] * sizeof(float));
  CT_TRY(gpu__stopwatch_open(&b->watch, x + y + w + bias + scratch));
  char *block = b->watch.memory;
  b->at = (gpu__conv_memory_t){.x = block,
                               .y = block + x,
                               .w = block + x + y,
                               .bias = block + x + y + w,
                               .scratch = block + x + y + w + bias};
out:
  return rc;
}

static float median(const float t[RUNS])
{
  float low = fminf(t[0], t[1]), high = fmaxf(t[0], t[1]);
  return fmaxf(low, fminf(high, t[2]));
}

/* Measures the time of a run in milliseconds; a warm-up run, which may load the kernel, is not
 * counted. Candidates that take twice as long as the fastest one so far are measured once. */
static int tune_measure(bench_t *b, const gpu__conv_algo_t *algo, float least, float *ms)
{
  int rc = CT_OK;
  float t[RUNS];
  gpu__dnn_memory_t m = {.pack = NULL};
  cudnnHandle_t handle = b->dev->libraries->dnn;
  CT_TRY(gpu__conv_algo_run(handle, b->p, algo, &m, &b->at, b->watch.stream));
  for (int i = 0; i < RUNS; i++) {
    CT_TRY(gpu__stopwatch_start(&b->watch));
    CT_TRY(gpu__conv_algo_run(handle, b->p, algo, &m, &b->at, b->watch.stream));
    CT_TRY(gpu__stopwatch_stop(&b->watch, &t[i]));
    if (i == 0 && t[0] > 2 * least) {
      *ms = t[0];
      goto out;
    }
  }
  *ms = median(t);
out:
  gpu__dnn_memory_clear(&m);
  return rc;
}

gpu__dnn_target_t gpu__conv_target(const ct_dev_t *dev)
{
  return (gpu__dnn_target_t){.handle = dev->libraries->dnn,
                             .properties = dev->libraries->properties,
                             .workspace = dev->workspace};
}

static int tune_gather(const bench_t *b, gpu__conv_algo_t algo[CANDIDATES], int *n)
{
  int rc = CT_OK, plain = 0;
  gpu__dnn_target_t t = gpu__conv_target(b->dev);
  *n = 0;
  if (gpu__conv_may_fuse(b->p)) CT_TRY(gpu__conv_algos(&t, b->p, 1, GPU_CONV_ALGOS, algo, n));
  CT_TRY(gpu__conv_algos(&t, b->p, 0, GPU_CONV_ALGOS, algo + *n, &plain));
  *n += plain;
out:
  return rc;
}

/* Returns the index of the fastest candidate; candidates that fail are skipped. */
static int fastest(bench_t *b, const gpu__conv_algo_t algo[CANDIDATES], int n)
{
  float ms[CANDIDATES], least = INFINITY;
  for (int i = 0; i < n; i++) {
    if (tune_measure(b, &algo[i], least, &ms[i]) != CT_OK) ms[i] = INFINITY;
    least = fminf(least, ms[i]);
  }
  return gpu__choices_fastest(ms, n);
}

int gpu__conv_tune(ct_dev_t *dev, const gpu__conv_pass_t *p, gpu__conv_algo_t *out)
{
  int rc = CT_OK, n = 0, best = 0;
  size_t scratch = 0;
  gpu__conv_algo_t algo[CANDIDATES];
  bench_t b = {.dev = dev, .p = p};
  CT_TRY(tune_gather(&b, algo, &n));
  if (n == 0) CT_FAIL(CT_ERR_UNSUP, "nothing to measure");
  for (int i = 0; i < n; i++) {
    size_t wanted = gpu__conv_algo_scratch(p, &algo[i]);
    if (wanted > scratch) scratch = wanted;
  }
  if (n > 1) CT_TRY(bench_open(&b, scratch));
  if (n > 1) best = fastest(&b, algo, n);
  if (best < 0) CT_FAIL(CT_ERR_DEVICE, "no plan of cuDNN could be run");
  *out = algo[best];
  algo[best].plan = (gpu__dnn_plan_t){.plan = NULL};
out:
  for (int i = 0; i < n; i++)
    gpu__dnn_plan_clear(&algo[i].plan);
  gpu__stopwatch_close(&b.watch);
  return rc;
}
