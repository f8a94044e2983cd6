/** \file reorder.h  Transposes matrices and converts their type. Module-internal; local, Hot. */
#ifndef GPU_REORDER_H
#define GPU_REORDER_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Transposes [batch][rows][columns] of type \a from to [batch][columns][rows] of type \a to. */
cudaError_t gpu__turn(ct_dtype_t from, ct_dtype_t to, int64_t batch, int64_t rows, int64_t columns,
                      const void *x, void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
