/** \file gnorm.h  Group normalisation.  Module-internal.
 *
 * Sums are those of each channel of each sample first, by blocks that see some channels of one
 * sample; then those of each group.  Statistics and parameters are float32. */
#ifndef GPU_GNORM_H
#define GPU_GNORM_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Element (sample, channel, pixel) lies at sample * channels * space + channel * channel_step +
 * pixel * pixel_step. */
typedef struct gpu__gnorm_shape {
  int64_t samples, channels, groups, space, channel_step, pixel_step;
} gpu__gnorm_t;

/* Local, Hot.  sums: scratch, [samples, channels, 2]; stats: [samples, groups, 2] mean and 1 / std;
 * w, b: of each channel, or NULL. */

/** Sets stats; y may be x. */
cudaError_t gpu__gnorm(ct_dtype_t type, const gpu__gnorm_t *g, float eps, const void *x,
                       const float *w, const float *b, void *y, float *sums, float *stats,
                       cudaStream_t stream);
/** Sums of dy + dy2 (or NULL) that the two below are made of. */
cudaError_t gpu__gnorm_sums(ct_dtype_t type, const gpu__gnorm_t *g, const void *x, const void *dy,
                            const void *dy2, const float *stats, float *sums, cudaStream_t stream);
cudaError_t gpu__gnorm_param(const gpu__gnorm_t *g, const float *stats, const float *sums,
                             float *dw, float *db, cudaStream_t stream);
/** slopes: scratch, as stats; dx may be dy. */
cudaError_t gpu__gnorm_data(ct_dtype_t type, const gpu__gnorm_t *g, const void *x, const float *w,
                            const float *stats, const float *sums, const void *dy, const void *dy2,
                            void *dx, float *slopes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
