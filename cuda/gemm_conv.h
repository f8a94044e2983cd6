/** \file gemm_conv.h  Operations done by NVIDIA's libraries: convolutions and attention (cuDNN's
 * graph API, conv_dnn.c and sdpa_dnn.c) and GEMMs (cuBLASLt, gemm_lt.c). Module-internal.
 *
 * This is the interface at which the tests replace the libraries: the emulated module, used where
 * there is no GPU, implements the same functions as plain loops (tests/cuda/emu/). Everything is
 * local; `make` and `open` may be slow and allocate, the others only enqueue. */
#ifndef GPU_GEMM_CONV_H
#define GPU_GEMM_CONV_H
#include <cuda_runtime_api.h>

#include "backend/ct_backend.h"
#include "cuda/kernels/attention.h"

/** Library handles of a device; part of struct ct_dev. */
typedef struct gpu__libraries gpu__libraries_t;
/** Local. Opens the libraries; call it after cudaSetDevice. CT_ERR_DEVICE with the library's
 * message. */
int gpu__libraries_open(ct_dev_t *dev, gpu__libraries_t **out);
void gpu__libraries_close(gpu__libraries_t *p);
/** Writes the versions, "cuDNN 9.19.0, cuBLASLt 13.1.0", into buf; returns buf. */
const char *gpu__libraries_version(char *buf, size_t cap);

/* ---- convolution ---- */

typedef struct gpu__conv gpu__conv_t;

/** Prepares the passes of \a d (CT_OP_CONV, x in CT_NHWC). Filters are OHWI (ODHWI), of the type of
 * x. With dev->autotune the algorithm is the one in dev->choices or the fastest of several, which
 * are measured, else the library's first choice. *scratch: workspace in bytes for all passes;
 * *algorithm: text, valid as long as the convolution. CT_ERR_UNSUP names the pass that cuDNN has no
 * plan for. */
int gpu__conv_make(ct_dev_t *dev, const ct_op_desc_t *d, gpu__conv_t **out, size_t *scratch,
                   const char **algorithm);
/** Frees a convolution, which may be NULL. */
void gpu__conv_free(gpu__conv_t *c);
/** Enqueues y = conv(x, w) + bias (d.u.conv.bias; of the type of x), then ReLU (d.u.conv.relu). */
int gpu__conv_forward(gpu__conv_t *c, const void *x, const void *w, const void *bias, void *y,
                      void *scratch, cudaStream_t s);
int gpu__conv_backward_data(gpu__conv_t *c, const void *dy, const void *w, void *dx, void *scratch,
                            cudaStream_t s);
/** Enqueues the weight gradient. dw is float32 and overwritten; products and sums have at least the
 * precision of x. */
int gpu__conv_backward_weight(gpu__conv_t *c, const void *x, const void *dy, float *dw,
                              void *scratch, cudaStream_t s);

/* ---- matrix products ---- */

enum { GPU_GEMM_A = 1, GPU_GEMM_B = 2, GPU_GEMM_C = 4 };

/** C[m,n] = A[m,k] B[k,n] (+ bias[n], ReLU) for a batch of row-major matrices, accumulated in
 * float32. */
typedef struct gpu__gemm_spec {
  int64_t m, n, k;
  int64_t batch;                  /**< matrices; at least 1 */
  int64_t lda, ldb, ldc;          /**< elements between rows, as stored */
  int64_t step_a, step_b, step_c; /**< elements between the matrices of a batch */
  int a_turned, b_turned;         /**< 1: stored transposed, [k,m] or [n,k] */
  ct_dtype_t in, out;             /**< types of A and B, and of C (same as in, or CT_F32) */
  int bias;                       /**< 1: adds a bias of type `in`; only with batch 1 */
  int relu;                       /**< 1: applies ReLU (NaN stays NaN); only with batch 1 */
  int adds;                       /**< 1: C += ... */
  int unaligned; /**< GPU_GEMM_A | …: operands whose pointers may have any alignment; the others,
                     bias and scratch are aligned to 16 bytes */
} gpu__gemm_spec_t;

typedef struct gpu__gemm gpu__gemm_t;

/** Selects an algorithm. A given algorithm always sums in the same order, and the library's first
 * choice is the same on GPUs of one model. With dev->autotune the algorithm is the one in
 * dev->choices or the fastest of several, which are timed. *scratch: workspace in bytes.
 * CT_ERR_ARG: invalid spec; CT_ERR_UNSUP: cuBLASLt does not support the GEMM. */
int gpu__gemm_make(ct_dev_t *dev, const gpu__gemm_spec_t *g, gpu__gemm_t **out, size_t *scratch);
/** Frees a GEMM, which may be NULL. */
void gpu__gemm_free(gpu__gemm_t *g);
/** Enqueues C = factor * A * B, with the additions of the spec; with k = 0 the product is zero. */
int gpu__gemm_run(gpu__gemm_t *g, float factor, const void *a, const void *b, const void *bias,
                  void *c, void *scratch, cudaStream_t s);
/** Enqueues C = factor * A * B + other, for a spec with `adds`; \a other is laid out as C. It may
 * be C, but must not overlap it otherwise. */
int gpu__gemm_run_add(gpu__gemm_t *g, float factor, const void *a, const void *b, const void *bias,
                      const void *other, void *c, void *scratch, cudaStream_t s);

/* ---- attention ---- */

typedef struct gpu__sdpa gpu__sdpa_t;

/** Prepares attention of tensors of type \a type: the forward pass and, if \a back, the backward
 * pass, both with sums in a fixed order. *out NULL: the library does not support it, and the caller
 * uses the kernels of attention.h, whose tensors are the same. *scratch: workspace in bytes. */
int gpu__sdpa_make(ct_dev_t *dev, ct_dtype_t type, const gpu__attention_t *a, int back,
                   gpu__sdpa_t **out, size_t *scratch);
/** Frees attention, which may be NULL. */
void gpu__sdpa_free(gpu__sdpa_t *p);
/** Enqueues a pass, as in attention.h. All pointers are aligned to 16 bytes; stats and the
 * gradients of queries, keys and values are not NULL. */
int gpu__sdpa_forward(gpu__sdpa_t *p, const gpu__attention_io_t *io, void *scratch, cudaStream_t s);
int gpu__sdpa_backward(gpu__sdpa_t *p, const gpu__attention_io_t *io, void *scratch,
                       cudaStream_t s);

#endif
