/** \file dense.h  Matrix products of rows with weights, forward and backward, for linear layers,
 * attention and LSTM. Module-internal. */
#ifndef GPU_DENSE_H
#define GPU_DENSE_H
#include "cuda/gpu.h"

/** y [rows,out] = x [rows,in] w^T + bias, w [out,in]. */
typedef struct gpu__dense_spec {
  int passes; /**< CT_FWD | CT_BWD_DATA | CT_BWD_PARAM */
  int64_t rows, in, out;
  ct_dtype_t type;   /**< type of x, w, bias, dy and dx */
  ct_dtype_t y_type; /**< type of y: same as type, or CT_F32 */
  int bias, relu;    /**< relu: forward only */
  int add;           /**< 1: forward adds another matrix before the ReLU */
  int adds_dw;       /**< 1: gpu__dense_param_add() is wanted */
} gpu__dense_spec_t;

typedef struct gpu__dense {
  gpu__dense_spec_t spec;
  gpu__gemm_t *forward, *data, *param, *param_add;
} gpu__dense_t;

/** Local. Raises *scratch to the workspace that the passes need. Call gpu__dense_clear() even after
 * a failure. */
int gpu__dense_make(ct_dev_t *dev, const gpu__dense_spec_t *spec, gpu__dense_t *d, size_t *scratch);
void gpu__dense_clear(gpu__dense_t *d);
/** Hot, like the next three functions. Enqueues y = x w^T + bias. */
int gpu__dense_forward(const gpu__dense_t *d, const void *x, const void *w, const void *bias,
                       void *y, void *scratch, cudaStream_t s);
/** Enqueues y = x w^T + bias + other (spec.add); other [rows,out] may be y. */
int gpu__dense_forward_add(const gpu__dense_t *d, const void *x, const void *w, const void *bias,
                           const void *other, void *y, void *scratch, cudaStream_t s);
int gpu__dense_data(const gpu__dense_t *d, const void *dy, const void *w, void *dx, void *scratch,
                    cudaStream_t s);
/** Enqueues the gradients dw and dbias (NULL: not wanted), which are float32. */
int gpu__dense_param(const gpu__dense_t *d, const void *x, const void *dy, float *dw, float *dbias,
                     void *scratch, cudaStream_t s);
/** Enqueues dw += the gradient (spec.adds_dw). */
int gpu__dense_param_add(const gpu__dense_t *d, const void *x, const void *dy, float *dw,
                         void *scratch, cudaStream_t s);

/** Prepares a GEMM; raises *scratch to its workspace. */
int gpu__gemm_add(ct_dev_t *dev, const gpu__gemm_spec_t *g, gpu__gemm_t **out, size_t *scratch);
/** Appends count elements to a buffer of *end bytes, aligned; returns their offset and updates
 * *end. */
size_t gpu__take(size_t *end, int64_t count, size_t size);
/** Returns parameter i in the type of x, which is the operand type of GEMMs. */
const void *gpu__factor(const ct_op_t *op, const ct_op_args_t *a, int i);

#endif
