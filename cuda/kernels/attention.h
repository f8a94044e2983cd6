/** \file attention.h  Scaled dot-product attention, softmax(q k^T / sqrt(wide)) v, whose scores are
 * never stored: memory grows with the number of tokens, not with its square. Module-internal;
 * local, Hot.
 *
 * Arithmetic is float32, and every sum has a fixed order. A query with a NaN among its scores has
 * NaN outputs. */
#ifndef GPU_ATTENTION_H
#define GPU_ATTENTION_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** \a n samples of \a t tokens, with heads of \a wide features. Tensors, of one type:
 *
 *     qkv, dqkv  [n, t, 3, heads, wide]  queries, keys and values, and their gradients
 *     c, dc      [n, t, heads, wide]     the heads' outputs, and their gradients
 *
 * and in float32:
 *
 *     stats      [n, heads, t]           per query, the logarithm of the sum of exp(score) */
typedef struct gpu__attention {
  int64_t n, t, heads, wide;
} gpu__attention_t;

/** Computes c and stats; stats may be NULL. */
cudaError_t gpu__attention_forward(ct_dtype_t type, const gpu__attention_t *a, const void *qkv,
                                   void *c, float *stats, cudaStream_t stream);
/** Computes dqkv. \a sums: scratch memory of the size of stats. */
cudaError_t gpu__attention_backward(ct_dtype_t type, const gpu__attention_t *a, const void *qkv,
                                    const void *c, const void *dc, const float *stats, float *sums,
                                    void *dqkv, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
