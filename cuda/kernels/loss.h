/** \file loss.h  Loss kernels. Module-internal; local, Hot. Arrays are in device memory, unless
 * their comment says staging memory, which kernels write directly. */
#ifndef GPU_LOSS_H
#define GPU_LOSS_H
#include <cuda_runtime_api.h>

#include "cuda/kernels/step_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Inputs of a loss. Arrays that the spec does not use are NULL. */
typedef struct gpu__loss_of {
  ct_loss_spec_t spec;
  int64_t samples, outputs;
  int64_t pixels; /**< pixels per sample, each with `outputs` outputs; 1 for losses of outputs one
                     by one, and with the classes last */
  int64_t rows;   /**< with the classes last: pixels per sample, each a row of x; else 1 */
  double share;   /**< ct_op_loss_share() */
  int64_t line; /**< with one pixel: elements from one row of x, and of its gradient, to the next */
  const float *x;        /**< [samples, outputs, pixels] or [samples, rows, outputs] */
  const int32_t *labels; /**< [samples, pixels * rows]; for CROSS_ENTROPY and one-hot targets */
  const int32_t *labels2;
  const float
      *mix; /**< both or neither, and only with one label per sample: labels[i] has weight mix[i],
                       labels2[i] the rest */
  const float *targets, *class_weight;
  const float *place_weight;  /**< [ct_op_places()] */
  const float *sample_weight; /**< [samples] */
} gpu__loss_of_t;

/** Contribution of one sample, or of some of its pixels. */
typedef struct gpu__loss_row {
  double sum, weight, abs_error;
  int32_t samples, top1, top5;
  int32_t bad, label; /**< bad 1: `label` is an invalid label of the sample */
} gpu__loss_row_t;

/** The first invalid label of a batch; in staging memory. */
typedef struct gpu__bad_label {
  int64_t sample, outputs;
  int32_t label;
  int32_t found; /**< 1: the other members are set */
} gpu__bad_label_t;

/** gpu__loss_forward() computes *loss (staging memory): sums over all samples, in an order that
 * depends only on the number of samples. rows: workspace of gpu__loss_rows() rows. An invalid label
 * makes the sum NaN and is written to *bad. */
int64_t gpu__loss_rows(int64_t samples, int64_t pixels); /* samples: also rows */
cudaError_t gpu__loss(const gpu__loss_of_t *of, gpu__loss_row_t *rows, ct_loss_t *loss,
                      gpu__bad_label_t *bad, cudaStream_t stream);
/** Computes dx = scale * d(sum of the samples' losses)/dx, with the scale of the step
 * parameters. */
cudaError_t gpu__loss_backward(const gpu__loss_of_t *of, gpu__step_params_t params,
                               const gpu__step_params_t *at, float *dx, cudaStream_t stream);

/** Computes the contributions of rows \a first to first + count, whose logits are of->x, and with
 * dx not NULL their gradients, of that type; dx may be the logits. For the classes last. */
cudaError_t gpu__loss_chunk(const gpu__loss_of_t *of, int64_t first, int64_t count,
                            gpu__loss_row_t *rows, gpu__step_params_t params,
                            const gpu__step_params_t *at, ct_dtype_t type, void *dx,
                            cudaStream_t stream);
/** The forward and backward pass for samples with several pixels; the two functions above call
 * them. */
cudaError_t gpu__loss_pixels(const gpu__loss_of_t *of, gpu__loss_row_t *rows, cudaStream_t stream);
cudaError_t gpu__loss_pixels_backward(const gpu__loss_of_t *of, gpu__step_params_t params,
                                      const gpu__step_params_t *at, float *dx, cudaStream_t stream);

/** Losses of a sample as a whole: CT_SAMPLE_LOSS_LIST. table: workspace of
 * gpu__loss_samples_bytes(). The forward pass writes a row per sample. */
size_t gpu__loss_samples_bytes(ct_loss_kind_t kind, int64_t samples, int64_t outputs,
                               int64_t pixels);
cudaError_t gpu__loss_samples(const gpu__loss_of_t *of, double *table, gpu__loss_row_t *rows,
                              cudaStream_t stream);
cudaError_t gpu__loss_samples_backward(const gpu__loss_of_t *of, double *table,
                                       gpu__step_params_t params, const gpu__step_params_t *at,
                                       float *dx, cudaStream_t stream);
/** Sums the first \a count rows into *loss. */
cudaError_t gpu__loss_sum_up(const gpu__loss_of_t *of, int64_t count, const gpu__loss_row_t *rows,
                             ct_loss_t *loss, gpu__bad_label_t *bad, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
