/** \file bnorm.h  Kernels of batch normalisation.  Module-internal; local, Hot.
 *
 * Activations are rows of channels, [rows, channels], of a type.  Each direction reads its rows
 * twice: first for sums over the rows, each block for the rows of its own (bnorm.cu,
 * bnorm_back.cu), then, behind a small kernel that makes of the blocks' sums what is done to a
 * channel (bnorm_merge.cu), to write its results.  All sums have a fixed order. */
#ifndef GPU_BNORM_H
#define GPU_BNORM_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How rows and channels are shared out.  A thread has `width` channels, and some of the rows. */
typedef struct gpu__bn_grid {
  ct_dtype_t type;
  int width;  /**< channels of a thread: a pack of them, or 1 where rows are no multiple of packs */
  int across; /**< threads of a block along the channels; the others are along the rows */
  int columns; /**< blocks along the channels */
  int splits;  /**< blocks along the rows, in the kernels that sum; 0: there are no rows */
  int spread;  /**< blocks along the rows, in the kernels that write */
  int64_t rows, channels;
} gpu__bn_grid_t;

/** Pure.  For a device with \a sms multiprocessors. */
gpu__bn_grid_t gpu__bn_share(ct_dtype_t type, int64_t rows, int64_t channels, int sms);

/** What channels are normalised with: (x - mean) * invstd * weight + bias. */
typedef struct gpu__bn_norm {
  const float *mean;
  const float *invstd; /**< NULL: 1 / sqrt(var + eps) */
  const float *var;
  double eps;
  const float *weight, *bias;
} gpu__bn_norm_t;

/** Where the statistics of a batch go. */
typedef struct gpu__bn_taken {
  double eps;
  double momentum; /**< 0: the running statistics are left alone */
  float *mean, *invstd;
  float *running_mean, *running_var;
  double *count; /**< elements of a channel; NULL: not wanted */
} gpu__bn_taken_t;

/** Where the ReLU's sign comes from in the backward pass. */
typedef enum {
  GPU_BN_LINEAR, /**< there is no ReLU */
  GPU_BN_FROM_X, /**< computed anew: the ReLU was behind the normalisation */
  GPU_BN_KEPT    /**< kept by the forward pass: there was an x2 between them */
} gpu__bn_sign_t;

/* ---- forward ---- */

/** Mean and sum of squared deviations of each split and channel: \a partial
 * [2][splits][channels]. */
cudaError_t gpu__bn_moments(const gpu__bn_grid_t *g, const void *x, float *partial,
                            cudaStream_t stream);
/** From the splits' moments to the batch's statistics. */
cudaError_t gpu__bn_take(const gpu__bn_grid_t *g, const float *partial, const gpu__bn_taken_t *out,
                         cudaStream_t stream);
/** To the sums of a SyncBN instead (ct_op_args_t.stats). */
cudaError_t gpu__bn_local(const gpu__bn_grid_t *g, const float *partial, const float *running_mean,
                          double *stats, cudaStream_t stream);
/** From those of all ranks to the statistics; nothing is written if they are of no elements. */
cudaError_t gpu__bn_take_synced(int64_t channels, const double *stats, const gpu__bn_taken_t *out,
                                cudaStream_t stream);

/** y = normalised x + x2 (NULL: not), then ReLU, or 6: ReLU6.  \a kept (NULL: not wanted)
 * gets the ReLU's signs: a bit for each element, a byte for each `width` elements.  y may be x. */
cudaError_t gpu__bn_normalise(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm, const void *x,
                              const void *x2, int relu, void *y, unsigned char *kept,
                              cudaStream_t stream);

/* ---- backward ---- */

/** Where the gradient g of the sum before the ReLU comes from: dy + dy2 (NULL: dy), 0 where the
 * ReLU cut. */
typedef struct gpu__bn_gradient {
  const void *dy, *dy2;
  gpu__bn_sign_t sign;
  const unsigned char *kept; /**< GPU_BN_KEPT */
} gpu__bn_gradient_t;

/** What the sums of g and of g * (x - mean) are good for; what is NULL is not wanted. */
typedef struct gpu__bn_summed {
  float *dweight, *dbias;
  float *middle, *slope; /**< for gpu__bn_dx() */
  double *stats;         /**< of a SyncBN */
} gpu__bn_summed_t;

/** These sums of each split and channel: \a partial [2][splits][channels].  \a g_out (NULL: not
 * wanted) gets g. */
cudaError_t gpu__bn_gradient_sums(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm,
                                  const void *x, const gpu__bn_gradient_t *in, void *g_out,
                                  float *partial, cudaStream_t stream);
cudaError_t gpu__bn_sum_up(const gpu__bn_grid_t *g, const float *partial,
                           const gpu__bn_norm_t *norm, const gpu__bn_summed_t *out,
                           cudaStream_t stream);
/** Only middle and slope, from the sums of all ranks over \a *count elements. */
cudaError_t gpu__bn_sum_up_synced(int64_t channels, const double *stats, const double *count,
                                  const gpu__bn_norm_t *norm, const gpu__bn_summed_t *out,
                                  cudaStream_t stream);
/** dx = weight * invstd * (g - middle - (x - mean) * slope) and dx2 = g; either may be NULL, and dx
 * may be dy.  middle NULL: the statistics were constants, dx = weight * invstd * g; x is read for
 * GPU_BN_FROM_X only. */
cudaError_t gpu__bn_dx(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm, const void *x,
                       const gpu__bn_gradient_t *in, const float *middle, const float *slope,
                       void *dx, void *dx2, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
