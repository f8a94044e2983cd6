/** \file attention.h  Scaled dot-product attention, softmax(q k^T scale + bias) v, whose scores are
 * never stored: memory grows with the number of tokens, not with its square. Module-internal;
 * local, Hot.
 *
 * Arithmetic is float32, and every sum has a fixed order. A query with a NaN among its scores has
 * NaN outputs; one that meets no key has outputs of 0. */
#ifndef GPU_ATTENTION_H
#define GPU_ATTENTION_H
#include <cuda_runtime_api.h>
#include <math.h>
#include <string.h>

#include "backend/ct_op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** \a n samples of \a t queries and \a s keys, with heads of \a wide features, and values of
 * \a values features. A head of keys serves heads / kv_heads consecutive heads. 0: as the number
 * without keys in its name. Rows of a tensor are a token's; heads follow each other in a row. */
typedef struct gpu__attention {
  int64_t n, t, heads, wide;
  int64_t s, kv_heads, values;
  int64_t q_row, k_row, v_row, y_row; /**< elements from one row to the next; 0: q, k and v are one
                                           tensor [n, t, 3, heads, wide], y is dense */
  float scale;                        /**< 0: 1 / sqrt(wide) */
  int causal, cached;                 /**< as in ct_op_desc_t */
  ct_mask_t mask;
  int64_t mask_n, mask_h; /**< ct_sdpa.h */
} gpu__attention_t;

/** Tensors: of one type but for those that name another, and for masks of flags, which are
 * float32. */
typedef struct gpu__attention_io {
  const void *q, *k, *v, *mask;
  const int32_t *position; /**< [n], NULL: 0 */
  void *y;
  float *stats;   /**< [n, heads, t]: per query, the logarithm of the sum of exp(score); NULL */
  const void *dy; /**< from here on: backward */
  float *sums;    /**< scratch memory of the size of stats */
  void *dq, *dk, *dv, *dmask; /**< each may be NULL */
} gpu__attention_io_t;

/** Returns \a a without zeros that stand for other numbers. */
static inline gpu__attention_t gpu__attention_full(const gpu__attention_t *a)
{
  gpu__attention_t f = *a;
  if (!f.s) f.s = f.t;
  if (!f.kv_heads) f.kv_heads = f.heads;
  if (!f.values) f.values = f.wide;
  if (!f.q_row) f.q_row = f.k_row = f.v_row = 3 * f.heads * f.wide;
  if (!f.y_row) f.y_row = f.heads * f.values;
  if (f.scale == 0) f.scale = 1 / sqrtf((float)f.wide);
  return f;
}
/** Returns the tensors of attention whose queries, keys and values are one tensor, and so are their
 * gradients. */
static inline gpu__attention_io_t gpu__attention_packed(ct_dtype_t type, const gpu__attention_t *a,
                                                        const void *qkv, void *dqkv)
{
  size_t part = (size_t)(a->heads * a->wide) * (type == CT_F32 ? 4 : 2);
  const char *q = (const char *)qkv;
  char *dq = (char *)dqkv;
  gpu__attention_io_t io;
  memset(&io, 0, sizeof io);
  io.q = q;
  io.k = q + part;
  io.v = q + 2 * part;
  if (!dq) return io;
  io.dq = dq;
  io.dk = dq + part;
  io.dv = dq + 2 * part;
  return io;
}

/** Computes y and stats. */
cudaError_t gpu__attention_forward(ct_dtype_t type, const gpu__attention_t *a,
                                   const gpu__attention_io_t *io, cudaStream_t stream);
/** Computes the gradients. */
cudaError_t gpu__attention_backward(ct_dtype_t type, const gpu__attention_t *a,
                                    const gpu__attention_io_t *io, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
