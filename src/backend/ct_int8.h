/** \file ct_int8.h  Numbers in eight bits: activations of a tensor, and weights.  Layer 1.  Pure.
 *
 * An activation is uint8 with one pair (scale, zero) for all of a tensor: real = scale * (q -
 * zero), where zero is 0 of a tensor without negative numbers.  A weight is int8 with a scale for
 * each output channel and zero 0: real = scale[c] * q.  The scale is the channel's largest |w| /
 * 127, so that numbers which came from eight bits go back to the very same bits.  (Jacob et al.,
 * "Quantization and training of neural networks for efficient integer-arithmetic-only inference",
 * CVPR 2018; per channel as Krishnamoorthi, arXiv 1806.08342.) */
#ifndef CT_INT8_H
#define CT_INT8_H
#include <stdint.h>

/** How the numbers of a tensor are uint8. */
typedef struct ct_quant_pair {
  float scale;  /**< above 0; 0: not in eight bits */
  int32_t zero; /**< 0 to 255: what stands for 0 */
} ct_quant_pair_t;

enum { CT_QUANT_WEIGHT_MAX = 127 };

/** The pair whose 256 numbers go from min(low, 0) to max(high, 0), with 0 among them exactly; a
 * range of nothing has the scale 1. */
ct_quant_pair_t ct_quant_pair_of(double low, double high);
/** The nearest of the 256 numbers, ties to even. */
uint8_t ct_quant_to_u8(const ct_quant_pair_t *pair, float v);
float ct_quant_from_u8(const ct_quant_pair_t *pair, uint8_t q);

/** The scale of \a count weights of one output channel; 1 if all are 0. */
float ct_quant_weight_scale(int64_t count, const float *w);
/** Weights w[channels][each] into q and scale[channels]. */
void ct_quant_weights(int64_t channels, int64_t each, const float *w, int8_t *q, float *scale);
/** And back into \a w. */
void ct_quant_weights_back(int64_t channels, int64_t each, const int8_t *q, const float *scale,
                           float *w);

#endif
