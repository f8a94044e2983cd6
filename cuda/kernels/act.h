/** \file act.h  Activations other than ReLU. Module-internal; local, Hot. Arrays have n elements of
 * \a type; the output may be one of the inputs. */
#ifndef GPU_ACT_H
#define GPU_ACT_H
#include <cuda_runtime_api.h>

#include "backend/ct_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Computes y = f(x); \a alpha as in ct_op_desc_t. */
cudaError_t gpu__act(ct_act_t kind, float alpha, ct_dtype_t type, int64_t n, const void *x, void *y,
                     cudaStream_t stream);
/** Computes dx = (dy + dy2) * f'(x); f'(x) is computed from \a v, which is x or y as CT_ACT_LIST
 * specifies; dy2 NULL: 0. */
cudaError_t gpu__act_gradient(ct_act_t kind, float alpha, ct_dtype_t type, int64_t n,
                              const void *dy, const void *dy2, const void *v, void *dx,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
