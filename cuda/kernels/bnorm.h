/** \file bnorm.h  Batch normalization kernels. Module-internal; local, Hot.
 *
 * Activations are rows of channels, [rows, channels]. Each direction reads the rows twice: a first
 * kernel sums over the rows, each block over its own rows (bnorm.cu, bnorm_back.cu); a small kernel
 * merges the sums of the blocks into coefficients per channel (bnorm_merge.cu); a second kernel
 * applies them. All sums have a fixed order. */
#ifndef GPU_BNORM_H
#define GPU_BNORM_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Distribution of rows and channels over threads. A thread handles `width` channels of some
 * rows. */
typedef struct gpu__bn_grid {
  ct_dtype_t type;
  int width;   /**< channels per thread: a pack (16 bytes) if its size divides the number of
                    channels, else 1 */
  int across;  /**< threads of a block along the channels; the rest are along the rows */
  int columns; /**< blocks along the channels */
  int splits;  /**< blocks along the rows in summing kernels; 0 if the tensor has no rows */
  int spread;  /**< blocks along the rows in writing kernels */
  int64_t rows, channels;
} gpu__bn_grid_t;

/** Pure. Returns the grid for a device with \a sms multiprocessors. */
gpu__bn_grid_t gpu__bn_share(ct_dtype_t type, int64_t rows, int64_t channels, int sms);

/** Normalization of a channel: (x - mean) * invstd * weight + bias. */
typedef struct gpu__bn_norm {
  const float *mean;
  const float *invstd; /**< NULL: 1 / sqrt(var + eps) */
  const float *var;
  double eps;
  const float *weight, *bias;
} gpu__bn_norm_t;

/** Destinations of the batch statistics. */
typedef struct gpu__bn_stats {
  double eps;
  double momentum; /**< 0: leave the running statistics unchanged */
  float *mean, *invstd;
  float *running_mean, *running_var;
  double *count; /**< elements per channel; NULL: not wanted */
} gpu__bn_stats_t;

/** How the backward pass gets the sign of the ReLU's input. */
typedef enum {
  GPU_BN_LINEAR, /**< no ReLU */
  GPU_BN_FROM_X, /**< recomputed from x: the ReLU directly follows the normalization */
  GPU_BN_KEPT    /**< stored by the forward pass: x2 was added before the ReLU */
} gpu__bn_sign_t;

/* ---- forward ---- */

/** Computes mean and sum of squared deviations per split and channel: \a partial
 * [2][splits][channels]. */
cudaError_t gpu__bn_moments(const gpu__bn_grid_t *g, const void *x, float *partial,
                            cudaStream_t stream);
/** Merges the moments of the splits into the batch statistics. */
cudaError_t gpu__bn_merge(const gpu__bn_grid_t *g, const float *partial, const gpu__bn_stats_t *out,
                          cudaStream_t stream);
/** Merges the moments of the splits into the sums that SyncBN all-reduces (ct_op_args_t.stats). */
cudaError_t gpu__bn_local(const gpu__bn_grid_t *g, const float *partial, const float *running_mean,
                          double *stats, cudaStream_t stream);
/** Computes the statistics from the sums of all ranks; writes nothing if they cover no elements. */
cudaError_t gpu__bn_merge_synced(int64_t channels, const double *stats, const gpu__bn_stats_t *out,
                                 cudaStream_t stream);

/** Computes y = normalized x + x2 (NULL: 0), then ReLU if relu is set; relu 6: ReLU6. \a kept
 * (NULL: not wanted) gets the signs of the ReLU's input: one bit per element, one byte per `width`
 * elements. y may be x. */
cudaError_t gpu__bn_normalise(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm, const void *x,
                              const void *x2, int relu, void *y, unsigned char *kept,
                              cudaStream_t stream);

/* ---- backward ---- */

/** Inputs from which g, the gradient of the ReLU's input, is computed: g = dy + dy2 (dy2 NULL: dy),
 * and 0 where the ReLU gave 0. */
typedef struct gpu__bn_gradient {
  const void *dy, *dy2;
  gpu__bn_sign_t sign;
  const unsigned char *kept; /**< GPU_BN_KEPT */
} gpu__bn_gradient_t;

/** Outputs computed from the sums of g and of g * (x - mean); NULL: not wanted. */
typedef struct gpu__bn_summed {
  float *dweight, *dbias;
  float *middle, *slope; /**< for gpu__bn_dx() */
  double *stats;         /**< for SyncBN */
} gpu__bn_summed_t;

/** Computes the sums of g and of g * (x - mean) per split and channel: \a partial
 * [2][splits][channels]. \a g_out (NULL: not wanted) gets g. */
cudaError_t gpu__bn_gradient_sums(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm,
                                  const void *x, const gpu__bn_gradient_t *in, void *g_out,
                                  float *partial, cudaStream_t stream);
cudaError_t gpu__bn_sum_up(const gpu__bn_grid_t *g, const float *partial,
                           const gpu__bn_norm_t *norm, const gpu__bn_summed_t *out,
                           cudaStream_t stream);
/** Computes middle and slope from the sums of all ranks over \a *count elements. */
cudaError_t gpu__bn_sum_up_synced(int64_t channels, const double *stats, const double *count,
                                  const gpu__bn_norm_t *norm, const gpu__bn_summed_t *out,
                                  cudaStream_t stream);
/** Computes dx = weight * invstd * (g - middle - (x - mean) * slope) and dx2 = g. dx or dx2 may be
 * NULL, and dx may be dy. middle NULL: fixed statistics, dx = weight * invstd * g; x is then read
 * for GPU_BN_FROM_X only. */
cudaError_t gpu__bn_dx(const gpu__bn_grid_t *g, const gpu__bn_norm_t *norm, const void *x,
                       const gpu__bn_gradient_t *in, const float *middle, const float *slope,
                       void *dx, void *dx2, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
