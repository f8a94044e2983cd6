/* Runs the passes of a convolution, including steps that cuDNN does not support. */
#include "cuda/conv/conv_plan.h"
#include "cuda/gpu.h"
#include "cuda/kernels/bias.h"
#include "cuda/kernels/elt.h"

static size_t aligned(size_t bytes)
{
  return (bytes + 255) / 256 * 256;
}

/* Returns 1 if the weight gradient must be converted: cuDNN does not write float32 gradients of
 * reduced-precision weights, so such gradients are first written to scratch, after the
 * workspace. */
static int casts(const gpu__conv_pass_t *p)
{
  return p->pass == CT_BWD_PARAM && p->d->x.dtype != CT_F32;
}

size_t gpu__conv_algo_scratch(const gpu__conv_pass_t *p, const gpu__conv_algo_t *w)
{
  if (!casts(p)) return w->plan.workspace;
  return aligned(w->plan.workspace) +
         (size_t)gpu__conv_filter_count(p->d) * ct_dtype_size(p->d->x.dtype);
}

int gpu__conv_algo_run(cudnnHandle_t handle, const gpu__conv_pass_t *p, const gpu__conv_algo_t *w,
                       gpu__dnn_memory_t *m, const gpu__conv_memory_t *at, cudaStream_t s)
{
  int rc = CT_OK, reduced = casts(p);
  const ct_op_desc_t *d = p->d;
  void *weights = reduced ? (char *)at->scratch + aligned(w->plan.workspace) : at->w;
  void *const pointers[GPU_DNN_POINTERS] = {at->x, weights, at->y, at->bias};
  int n = w->fused ? GPU_CONV_BIAS : GPU_CONV_Y;
  CT_TRY(gpu__dnn_run(handle, &w->plan, m, n, pointers, at->scratch, s));
  if (reduced)
    GPU_TRY(gpu__cast(d->x.dtype, CT_F32, gpu__conv_filter_count(d), weights, at->w, s));
  else if (p->pass == CT_FWD && !w->fused && (d->u.conv.bias || d->u.conv.relu))
    GPU_TRY(gpu__bias_relu(d->y.dtype, at->y, d->u.conv.bias ? at->bias : NULL, d->u.conv.relu,
                           ct_shape_count(&d->y) / d->y.dim[1], d->y.dim[1], s));
out:
  return rc;
}
