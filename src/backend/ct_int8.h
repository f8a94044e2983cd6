/** \file ct_int8.h  int8 quantization of activations and weights.  Layer 1.  Pure.
 *
 * Activations are uint8 with one scale and zero point per tensor: real = scale * (q - zero); the
 * zero point is 0 for tensors without negative values.  Weights are int8 with one scale per output
 * channel and zero point 0: real = scale[c] * q.  The scale is the channel's largest |w| / 127, so
 * dequantizing and quantizing again gives the same bits.  (Jacob et al., "Quantization and training
 * of neural networks for efficient integer-arithmetic-only inference", CVPR 2018; per channel as
 * Krishnamoorthi, arXiv 1806.08342.) */
#ifndef CT_INT8_H
#define CT_INT8_H
#include <math.h>
#include <stdint.h>

#include "base/ct_types.h"

/** Scale and zero point of a uint8 tensor. */
typedef struct ct_quant_params {
  float scale;  /**< above 0; 0: not quantized */
  int32_t zero; /**< zero point, 0 to 255 */
} ct_quant_params_t;

enum { CT_QUANT_WEIGHT_MAX = 127 };

/** Returns the scale and zero point for the range from min(low, 0) to max(high, 0); the value 0 is
 * represented exactly.  The scale of an empty range is 1. */
CT_INLINE ct_quant_params_t ct_quant_params_of(double low, double high)
{
  ct_quant_params_t qp = {1, 0};
  low = low < 0 ? low : 0;
  high = high > 0 ? high : 0;
  if (!(high > low)) return qp;
  qp.scale = (float)((high - low) / 255);
  if (!(qp.scale > 0)) qp.scale = 1; /* underflow */
  double zero = rint(-low / qp.scale);
  qp.zero = (int32_t)(zero > 255 ? 255 : zero);
  return qp;
}
/** Quantizes v: rounds to nearest, ties to even, and clamps to 0 … 255. */
uint8_t ct_quant_to_u8(const ct_quant_params_t *qp, float v);
/** Dequantizes q: returns scale * (q - zero). */
float ct_quant_from_u8(const ct_quant_params_t *qp, uint8_t q);

/** Returns the scale of the \a count weights of one output channel; 1 if all weights are 0. */
float ct_quant_weight_scale(int64_t count, const float *w);
/** Quantizes w[channels][each] into q and scale[channels]. */
void ct_quant_weights(int64_t channels, int64_t each, const float *w, int8_t *q, float *scale);
/** Dequantizes q[channels][each] into \a w. */
void ct_quant_weights_back(int64_t channels, int64_t each, const int8_t *q, const float *scale,
                           float *w);

#endif
