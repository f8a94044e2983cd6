/* Dropout: drops the same elements as every other backend; random blocks are generated where they
 * are used. */
#include "cuda/kernels/dropout.h"

#include "cuda/kernels/vec_access.h"

enum { BLOCK = CT_DROPOUT_BLOCK, THREADS = 256, MOST_ROWS = 65535 };

CT_D ct_dropout_t rule_of(const gpu__step_params_t &d, uint32_t layer, uint32_t drop, float factor)
{
  ct_dropout_t rule = {ct_dropout_seed(d.seed, d.step), layer, drop, factor};
  return rule;
}

/* Returns v * factor, but 0 for a dropped value even if v is not finite. */
CT_D float dropped(float v, float factor)
{
  return factor == 0 ? 0 : v * factor;
}

/* Processes samples in plain order that consist of whole random blocks: each thread processes one
 * block at once. */
template <class T>
CT_KERNEL void drop_blocks(gpu__dropout_shape_t shape, uint32_t layer, uint32_t drop, float factor,
                           gpu__step_params_t params, const gpu__step_params_t *at, const T *x,
                           T *y)
{
  const gpu__step_params_t &d = at ? *at : params;
  const ct_dropout_t rule = rule_of(d, layer, drop, factor);
  const int64_t blocks = shape.space / BLOCK;
  for (int64_t n = blockIdx.y; n < shape.samples; n += gridDim.y) {
    GPU_LOOP (b, blocks) {
      int64_t i = n * blocks + b;
      gpu_vec<T, BLOCK> v = ((const gpu_vec<T, BLOCK> *)x)[i];
      float factors[BLOCK];
      ct_dropout_factors(&rule, d.first + n, b, factors);
      for (int k = 0; k < BLOCK; k++)
        gpu_store(&v.v[k], dropped(gpu_load(&v.v[k]), factors[k]));
      ((gpu_vec<T, BLOCK> *)y)[i] = v;
    }
  }
}

/* A thread handles the part of one random block that belongs to one channel; adjacent threads have
 * adjacent channels, as in memory. A block that spans two channels is generated twice, and each
 * time partly used. */
template <class T>
CT_KERNEL void drop_channels(gpu__dropout_shape_t shape, uint32_t layer, uint32_t drop,
                             float factor, gpu__step_params_t params, const gpu__step_params_t *at,
                             const T *x, T *y)
{
  const gpu__step_params_t &d = at ? *at : params;
  const ct_dropout_t rule = rule_of(d, layer, drop, factor);
  const int64_t blocks = (shape.space + BLOCK - 2) / BLOCK + 1; /* maximum number of blocks that a
                                                                   channel overlaps */
  for (int64_t n = blockIdx.y; n < shape.outer * shape.samples; n += gridDim.y) {
    GPU_LOOP (i, blocks * shape.channels) {
      int64_t c = i % shape.channels, begin = (n / shape.samples + c) * shape.space;
      int64_t b = begin / BLOCK + i / shape.channels, pos = b * BLOCK - begin;
      float factors[BLOCK];
      if (pos >= shape.space) continue;
      ct_dropout_factors(&rule, d.first + n % shape.samples, b, factors);
      for (int k = 0; k < BLOCK; k++) {
        int64_t at_k = ((n * shape.space) + pos + k) * shape.channels + c;
        if (pos + k >= 0 && pos + k < shape.space)
          gpu_store(&y[at_k], dropped(gpu_load(&x[at_k]), factors[k]));
      }
    }
  }
}

/* Adjacent threads have adjacent elements of a row. */
template <class T>
CT_KERNEL void drop_rows(gpu__dropout_shape_t shape, uint32_t layer, uint32_t drop, float factor,
                         gpu__step_params_t params, const gpu__step_params_t *at, const T *x, T *y)
{
  const gpu__step_params_t &d = at ? *at : params;
  const ct_dropout_t rule = rule_of(d, layer, drop, factor);
  for (int64_t n = blockIdx.y; n < shape.samples; n += gridDim.y) {
    float factors[BLOCK];
    int64_t row = shape.rows ? n % shape.rows : 0;
    int64_t position = shape.rows ? d.first + n / shape.rows : 0;
    ct_dropout_factors(&rule, position, row / BLOCK, factors);
    float own = factors[row % BLOCK];
    GPU_LOOP (i, shape.space)
      gpu_store(&y[n * shape.space + i], dropped(gpu_load(&x[n * shape.space + i]), own));
  }
}

template <class T> static int in_blocks(const gpu__dropout_shape_t *s, const void *x, const void *y)
{
  return s->channels == 1 && s->outer == 1 && s->space % BLOCK == 0 && gpu_vec_fit<T, BLOCK>(x) &&
         gpu_vec_fit<T, BLOCK>(y);
}

template <class T>
static cudaError_t launch(const gpu__dropout_shape_t *s, const ct_dropout_t *rule,
                          const gpu__step_params_t *params, const gpu__step_params_t *at,
                          const void *x, void *y, cudaStream_t stream)
{
  int64_t work = ((s->space + BLOCK - 2) / BLOCK + 1) * s->channels, all = s->outer * s->samples;
  dim3 grid(gpu_grid(work, THREADS), (unsigned)(all < MOST_ROWS ? all : (int64_t)MOST_ROWS));
  if (all == 0) return cudaSuccess;
  if (in_blocks<T>(s, x, y))
    CT_LAUNCH(drop_blocks<T>, grid, THREADS, stream, *s, rule->layer, rule->drop, rule->factor,
              *params, at, (const T *)x, (T *)y);
  else
    CT_LAUNCH(drop_channels<T>, grid, THREADS, stream, *s, rule->layer, rule->drop, rule->factor,
              *params, at, (const T *)x, (T *)y);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__dropout(ct_dtype_t type, const gpu__dropout_shape_t *shape,
                                    const ct_dropout_t *rule, const gpu__step_params_t *params,
                                    const gpu__step_params_t *at, const void *x, void *y,
                                    cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, return launch<T>(shape, rule, params, at, x, y, stream))
  return cudaSuccess;
}

extern "C" cudaError_t gpu__drop_rows(ct_dtype_t type, const gpu__dropout_shape_t *shape,
                                      const ct_dropout_t *rule, const gpu__step_params_t *params,
                                      const gpu__step_params_t *at, const void *x, void *y,
                                      cudaStream_t stream)
{
  dim3 grid(gpu_grid(shape->space, THREADS),
            (unsigned)(shape->samples < MOST_ROWS ? shape->samples : (int64_t)MOST_ROWS));
  if (shape->samples == 0) return cudaSuccess;
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(drop_rows<T>, grid, THREADS, stream, *shape, rule->layer, rule->drop,
                        rule->factor, *params, at, (const T *)x, (T *)y));
  return cudaGetLastError();
}
