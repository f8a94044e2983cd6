/** \file heads.h  Attention's heads apart from each other, so that all of them are one batch of
 * products.  Module-internal. */
#ifndef GPU_HEADS_H
#define GPU_HEADS_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Rows of all places of all samples: [n, t, parts, heads, wide]; parts is 3 of q, k and v.  Apart
 * they are [parts, n, heads, t, wide]. */
typedef struct gpu__heads {
  int64_t n, t, parts, heads, wide;
} gpu__heads_t;

/** Elements of \a size 2 or 4 bytes; both tensors are aligned to 16 bytes. */
cudaError_t gpu__heads_apart(const gpu__heads_t *h, size_t size, const void *rows, void *apart,
                             cudaStream_t stream);
cudaError_t gpu__heads_together(const gpu__heads_t *h, size_t size, const void *apart, void *rows,
                                cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
