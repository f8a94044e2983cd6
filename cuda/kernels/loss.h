/** \file loss.h  Kernels of the losses.  Module-internal; local, Hot.  All arrays are in device
 * memory but where staging memory is said, which kernels write too. */
#ifndef GPU_LOSS_H
#define GPU_LOSS_H
#include <cuda_runtime_api.h>

#include "cuda/kernels/step_params.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a loss is of.  Arrays that the spec does not use are NULL. */
typedef struct gpu__loss_of {
  ct_loss_spec_t spec;
  int64_t samples, outputs;
  int64_t places; /**< of a sample, each with `outputs` of its own; 1 but for CROSS_ENTROPY */
  const float *x; /**< [samples, outputs, places] */
  const int32_t *labels; /**< [samples, places]; of CROSS_ENTROPY and one-hot targets */
  const int32_t *labels2;
  const float *mix; /**< both or neither, and no places: with mix[i] < 1 labels2[i] has the rest */
  const float *targets, *class_weight;
  const float *sample_weight; /**< [samples] */
} gpu__loss_of_t;

/** What one sample adds, or some of its places. */
typedef struct gpu__loss_row {
  double sum, weight, abs_error;
  int32_t samples, top1, top5;
  int32_t bad, label; /**< bad 1: `label`, one of the sample's, is no output */
} gpu__loss_row_t;

/** The first bad label of a batch; in staging memory. */
typedef struct gpu__bad_label {
  int64_t sample, outputs;
  int32_t label;
  int32_t found; /**< 1: the rest is filled */
} gpu__bad_label_t;

/** *loss (staging) = the sums over all samples, in an order that depends on their number only.
 * rows: gpu__loss_rows() of scratch.  A bad label makes the sum NaN, and is written to *bad. */
int64_t gpu__loss_rows(int64_t samples, int64_t places);
cudaError_t gpu__loss(const gpu__loss_of_t *of, gpu__loss_row_t *rows, ct_loss_t *loss,
                      gpu__bad_label_t *bad, cudaStream_t stream);
/** dx = scale * d(sum of the samples' losses)/dx, with the scale of the dial. */
cudaError_t gpu__loss_backward(const gpu__loss_of_t *of, gpu__dial_t dial, const gpu__dial_t *at,
                               float *dx, cudaStream_t stream);

/** The same of samples with several places: called by the two. */
cudaError_t gpu__loss_places(const gpu__loss_of_t *of, gpu__loss_row_t *rows, cudaStream_t stream);
cudaError_t gpu__loss_places_backward(const gpu__loss_of_t *of, gpu__dial_t dial,
                                      const gpu__dial_t *at, float *dx, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
