/** \file heads.h  Separates and merges attention heads, so that all heads form one batch of GEMMs.
 * Module-internal. */
#ifndef GPU_HEADS_H
#define GPU_HEADS_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Merged layout: [n, t, parts, heads, wide], one row per token; parts is 3 for q, k and v, else 1.
 * Separated layout: [parts, n, heads, t, wide]. */
typedef struct gpu__heads {
  int64_t n, t, parts, heads, wide;
} gpu__heads_t;

/** Elements have \a size 2 or 4 bytes; both tensors are aligned to 16 bytes. */
cudaError_t gpu__heads_apart(const gpu__heads_t *h, size_t size, const void *rows, void *apart,
                             cudaStream_t stream);
cudaError_t gpu__heads_together(const gpu__heads_t *h, size_t size, const void *apart, void *rows,
                                cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
