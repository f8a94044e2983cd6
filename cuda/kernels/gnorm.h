/** \file gnorm.h  Group normalization. Module-internal.
 *
 * Sums are first made per channel and sample, by blocks that handle some channels of one sample,
 * then per group. Statistics and parameters are float32. */
#ifndef GPU_GNORM_H
#define GPU_GNORM_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Element (sample, channel, pixel) is at sample * channels * space + channel * channel_step +
 * pixel * pixel_step. */
typedef struct gpu__gnorm_shape {
  int64_t samples, channels, groups, space, channel_step, pixel_step;
} gpu__gnorm_t;

/* Local, Hot. sums: workspace, [samples, channels, 2]; stats: [samples, groups, 2], mean and 1 /
 * std; w, b: per channel, or NULL. */

/** Computes y and stats; y may be x. */
cudaError_t gpu__gnorm(ct_dtype_t type, const gpu__gnorm_t *g, float eps, const void *x,
                       const float *w, const float *b, void *y, float *sums, float *stats,
                       cudaStream_t stream);
/** Computes the sums over dy + dy2 (dy2 NULL: dy) that the next two functions read. */
cudaError_t gpu__gnorm_sums(ct_dtype_t type, const gpu__gnorm_t *g, const void *x, const void *dy,
                            const void *dy2, const float *stats, float *sums, cudaStream_t stream);
cudaError_t gpu__gnorm_param(const gpu__gnorm_t *g, const float *stats, const float *sums,
                             float *dw, float *db, cudaStream_t stream);
/** Computes dx, which may be dy. slopes: workspace, as large as stats. */
cudaError_t gpu__gnorm_data(ct_dtype_t type, const gpu__gnorm_t *g, const void *x, const float *w,
                            const float *stats, const float *sums, const void *dy, const void *dy2,
                            void *dx, float *slopes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
