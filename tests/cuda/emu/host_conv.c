/* Convolutions as plain loops; replaces cuda/conv/conv_dnn.c in the emulated module.  Like cuDNN's
 * plans, they need aligned pointers and scratch memory, all of which they overwrite.  Sums are
 * computed in higher precision and rounded once to the result type.  So are gradients of bf16 or
 * fp16 weights, before conversion to float32.  Memory allocated here is not counted by the
 * project's allocator, as in a library. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/kernels/bias.h"
#include "cuda/gemm_conv.h"
#include "ref/ref.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/host_tune.h"

enum { SCRATCH = 1000 };

struct gpu__conv {
  ct_op_desc_t d;
};

/* Arguments of one run, copied into the stream. x, w and y hold gradients where the pass reads or
 * writes those. */
typedef struct job {
  ct_op_desc_t d;
  int pass;
  void *x, *w, *y, *bias, *scratch;
} job_t;

/* The same, with operands converted to float32.  Channels are per group; images have depth 1. */
typedef struct loops {
  const ct_op_desc_t *d;
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilate[3];
  int64_t n, groups, ic, oc, taps;
  float *x, *w, *y; /* NULL: result of the pass */
  double *sum;
} loops_t;

static int64_t volume(const int64_t v[3])
{
  return v[0] * v[1] * v[2];
}

static loops_t loops_of(const ct_op_desc_t *d)
{
  int images = d->x.ndim == 4;
  loops_t l = {.d = d,
               .n = d->x.dim[0],
               .groups = d->u.conv.groups,
               .ic = d->x.dim[1] / d->u.conv.groups,
               .oc = d->y.dim[1] / d->u.conv.groups};
  for (int i = 0; i < 3; i++) {
    int from = i - images, flat = from < 0;
    l.in[i] = flat ? 1 : d->x.dim[2 + from];
    l.out[i] = flat ? 1 : d->y.dim[2 + from];
    l.kernel[i] = flat ? 1 : d->u.conv.kernel[from];
    l.stride[i] = flat ? 1 : d->u.conv.stride[from];
    l.pad[i] = flat ? 0 : d->u.conv.pad[from];
    l.dilate[i] = flat ? 1 : d->u.conv.dilate[from];
  }
  l.taps = volume(l.kernel);
  return l;
}

static int64_t x_count(const loops_t *l)
{
  return ct_shape_count(&l->d->x);
}
static int64_t y_count(const loops_t *l)
{
  return ct_shape_count(&l->d->y);
}
static int64_t w_count(const loops_t *l)
{
  return l->groups * l->oc * l->ic * l->taps;
}

/* ---- one output pixel and one kernel tap in one group, over rows of channels ---- */

static void forward(const loops_t *l, int64_t x, int64_t w, int64_t y)
{
  for (int64_t o = 0; o < l->oc; o++, w += l->taps * l->ic)
    for (int64_t i = 0; i < l->ic; i++)
      l->sum[y + o] += (double)l->x[x + i] * l->w[w + i];
}

static void backward_data(const loops_t *l, int64_t x, int64_t w, int64_t y)
{
  for (int64_t o = 0; o < l->oc; o++, w += l->taps * l->ic)
    for (int64_t i = 0; i < l->ic; i++)
      l->sum[x + i] += (double)l->y[y + o] * l->w[w + i];
}

static void backward_weight(const loops_t *l, int64_t x, int64_t w, int64_t y)
{
  for (int64_t o = 0; o < l->oc; o++, w += l->taps * l->ic)
    for (int64_t i = 0; i < l->ic; i++)
      l->sum[w + i] += (double)l->y[y + o] * l->x[x + i];
}

/* ---- loops over pixels and taps ---- */

typedef void at_fn(const loops_t *l, int64_t x, int64_t w, int64_t y);

static void unfold(int64_t i, const int64_t size[3], int64_t at[3])
{
  at[2] = i % size[2];
  at[1] = i / size[2] % size[1];
  at[0] = i / size[2] / size[1];
}

/* Returns the index of the input pixel under a tap, or -1 in the padding. */
static int64_t pixel_under(const loops_t *l, const int64_t out[3], const int64_t tap[3])
{
  int64_t pixel = 0;
  for (int i = 0; i < 3; i++) {
    int64_t at = out[i] * l->stride[i] - l->pad[i] + tap[i] * l->dilate[i];
    if (at < 0 || at >= l->in[i]) return -1;
    pixel = pixel * l->in[i] + at;
  }
  return pixel;
}

static void each(const loops_t *l, at_fn *at)
{
  int64_t pixels = volume(l->out), all = l->n * pixels;
  for (int64_t p = 0; p < all; p++) {
    int64_t out[3], tap[3];
    unfold(p % pixels, l->out, out);
    for (int64_t t = 0; t < l->taps; t++) {
      unfold(t, l->kernel, tap);
      int64_t under = pixel_under(l, out, tap);
      if (under < 0) continue;
      under += p / pixels * volume(l->in);
      for (int64_t g = 0; g < l->groups; g++)
        at(l, (under * l->groups + g) * l->ic, (g * l->oc * l->taps + t) * l->ic,
           (p * l->groups + g) * l->oc);
    }
  }
}

/* ---- running a job ---- */

static float *widen(ct_dtype_t type, const void *from, int64_t n)
{
  float *to = malloc((size_t)(n + 1) * sizeof *to);
  for (int64_t i = 0; to && i < n; i++)
    to[i] = (float)ct__ref_get(type, from, i);
  return to;
}

static void finish_forward(const job_t *j, const loops_t *l)
{
  for (int64_t i = 0, n = y_count(l); i < n; i++) {
    double v = l->sum[i];
    if (j->d.u.conv.bias) v += ct__ref_get(j->d.x.dtype, j->bias, i % j->d.y.dim[1]);
    ct__ref_set(j->d.y.dtype, j->y, i, j->d.u.conv.relu ? ct__ref_relu_of(v) : v);
  }
}

static void finish_data(const job_t *j, const loops_t *l)
{
  for (int64_t i = 0, n = x_count(l); i < n; i++)
    ct__ref_set(j->d.x.dtype, j->x, i, l->sum[i]);
}

static void finish_weight(const job_t *j, const loops_t *l)
{
  float rounded, *dw = j->w;
  for (int64_t i = 0, n = w_count(l); i < n; i++) {
    ct__ref_set(j->d.x.dtype, &rounded, 0, l->sum[i]);
    dw[i] = (float)ct__ref_get(j->d.x.dtype, &rounded, 0);
  }
}

/* Tells the fake runtime what a pass reads and writes. */
static void tell_accesses(const job_t *j, const loops_t *l)
{
  size_t size = ct_dtype_size(j->d.x.dtype);
  size_t w_size = j->pass == CT_BWD_PARAM ? sizeof(float) : size;
  fake_cuda_access(j->scratch, SCRATCH, 1);
  fake_cuda_access(j->x, (size_t)x_count(l) * size, j->pass == CT_BWD_DATA);
  fake_cuda_access(j->w, (size_t)w_count(l) * w_size, j->pass == CT_BWD_PARAM);
  fake_cuda_access(j->y, (size_t)y_count(l) * size, j->pass == CT_FWD);
  if (j->pass == CT_FWD && j->d.u.conv.bias)
    fake_cuda_access(j->bias, (size_t)j->d.y.dim[1] * size, 0);
}

static cudaError_t work(void *args)
{
  const job_t *j = args;
  ct_dtype_t type = j->d.x.dtype;
  loops_t l = loops_of(&j->d);
  int64_t made = j->pass == CT_FWD        ? y_count(&l)
                 : j->pass == CT_BWD_DATA ? x_count(&l)
                                          : w_count(&l);
  memset(j->scratch, 0xff, SCRATCH);
  tell_accesses(j, &l);
  l.x = j->pass == CT_BWD_DATA ? NULL : widen(type, j->x, x_count(&l));
  l.w = j->pass == CT_BWD_PARAM ? NULL : widen(type, j->w, w_count(&l));
  l.y = j->pass == CT_FWD ? NULL : widen(type, j->y, y_count(&l));
  l.sum = calloc((size_t)made + 1, sizeof *l.sum);
  int enough = !!l.x + !!l.w + !!l.y == 2 && l.sum;
  if (enough) {
    each(&l, j->pass == CT_FWD        ? forward
             : j->pass == CT_BWD_DATA ? backward_data
                                      : backward_weight);
    (j->pass == CT_FWD        ? finish_forward
     : j->pass == CT_BWD_DATA ? finish_data
                              : finish_weight)(j, &l);
  }
  free(l.x);
  free(l.w);
  free(l.y);
  free(l.sum);
  return enough ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* ---- functions of product.h ---- */

int gpu__conv_make(ct_dev_t *dev, const ct_op_desc_t *d, gpu__conv_t **out, size_t *scratch,
                   const char **algorithm)
{
  char text[256];
  int rc = emu__tune(dev, ct_op_text(d, text, sizeof text));
  *out = NULL;
  if (rc != CT_OK) return rc;
  *scratch = SCRATCH;
  *algorithm = d->x.dtype == CT_F32 ? "plain loops" : "plain loops, low gradient";
  *out = ct_mem_alloc(sizeof **out, "convolution");
  if (!*out) return CT_ERR_NOMEM;
  if (fake_cuda_library("convolution") != cudaSuccess) {
    ct_mem_free(*out);
    *out = NULL;
    return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a convolution");
  }
  (*out)->d = *d;
  return CT_OK;
}

void gpu__conv_free(gpu__conv_t *c)
{
  ct_mem_free(c);
}

static int is_aligned(const void *p)
{
  return (uintptr_t)p % 16 == 0;
}

static int enqueue(const job_t *j, cudaStream_t s)
{
  int reads_bias = j->pass == CT_FWD && j->d.u.conv.bias;
  if (!is_aligned(j->x) || !is_aligned(j->w) || !is_aligned(j->y) || !is_aligned(j->scratch) ||
      (reads_bias && !is_aligned(j->bias)))
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a pointer of a convolution is not aligned");
  if (fake_cuda_work(s, work, j, sizeof *j) == cudaSuccess) return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "a convolution could not be enqueued");
}

static void *input(const void *p)
{
  return (void *)(uintptr_t)p;
}

int gpu__conv_forward(gpu__conv_t *c, const void *x, const void *w, const void *bias, void *y,
                      void *scratch, cudaStream_t s)
{
  const ct_op_desc_t *d = &c->d;
  job_t j = {*d, CT_FWD, input(x), input(w), y, input(bias), scratch};
  if (d->u.conv.groups == 1) return enqueue(&j, s);
  /* as if no plan included the bias and the ReLU */
  j.d.u.conv.bias = j.d.u.conv.relu = 0;
  int rc = enqueue(&j, s);
  if (rc != CT_OK || (!d->u.conv.bias && !d->u.conv.relu)) return rc;
  if (gpu__bias_relu(d->y.dtype, y, d->u.conv.bias ? bias : NULL, d->u.conv.relu,
                     ct_shape_count(&d->y) / d->y.dim[1], d->y.dim[1], s) == cudaSuccess)
    return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "a bias could not be added");
}

int gpu__conv_backward_data(gpu__conv_t *c, const void *dy, const void *w, void *dx, void *scratch,
                            cudaStream_t s)
{
  job_t j = {c->d, CT_BWD_DATA, dx, input(w), input(dy), NULL, scratch};
  return enqueue(&j, s);
}

int gpu__conv_backward_weight(gpu__conv_t *c, const void *x, const void *dy, float *dw,
                              void *scratch, cudaStream_t s)
{
  job_t j = {c->d, CT_BWD_PARAM, input(x), dw, input(dy), NULL, scratch};
  return enqueue(&j, s);
}
