/** \file dense.h  Rows times a matrix of weights, both ways: what linear layers are, and attention
 * and LSTM are made of.  Module-internal. */
#ifndef GPU_DENSE_H
#define GPU_DENSE_H
#include "cuda/gpu.h"

/** y [rows,out] = x [rows,in] w^T + bias, w [out,in]. */
typedef struct gpu__dense_spec {
  int passes; /**< CT_FWD | CT_BWD_DATA | CT_BWD_PARAM */
  int64_t rows, in, out;
  ct_dtype_t type;   /**< of x, w, bias, dy and dx */
  ct_dtype_t y_type; /**< of y: type, or CT_F32 */
  int bias, relu;    /**< relu: forward only */
} gpu__dense_spec_t;

typedef struct gpu__dense {
  gpu__dense_spec_t spec;
  gpu__gemm_t *forward, *data, *param;
} gpu__dense_t;

/** Local.  *scratch is raised to what a pass wants.  On failure too, gpu__dense_clear() is
 * called. */
int gpu__dense_make(ct_dev_t *dev, const gpu__dense_spec_t *spec, gpu__dense_t *d, size_t *scratch);
void gpu__dense_clear(gpu__dense_t *d);
/** Hot, as the others. */
int gpu__dense_forward(const gpu__dense_t *d, const void *x, const void *w, const void *bias,
                       void *y, void *scratch, cudaStream_t s);
int gpu__dense_data(const gpu__dense_t *d, const void *dy, const void *w, void *dx, void *scratch,
                    cudaStream_t s);
/** dw and, unless it is NULL, dbias are float32. */
int gpu__dense_param(const gpu__dense_t *d, const void *x, const void *dy, float *dw, float *dbias,
                     void *scratch, cudaStream_t s);

/** Makes a product; *scratch is raised to what it wants. */
int gpu__gemm_add(ct_dev_t *dev, const gpu__gemm_spec_t *g, gpu__gemm_t **out, size_t *scratch);
/** Room for count elements at the end of a memory, whose bytes are counted in *end: where it
 * begins. */
size_t gpu__take(size_t *end, int64_t count, size_t size);
/** Parameter i in the type of x, as products take it. */
const void *gpu__factor(const ct_op_t *op, const ct_op_args_t *a, int i);

#endif
