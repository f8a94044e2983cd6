/* int8 quantization: the only code that maps values to and from the 256 codes. */
#include "backend/ct_int8.h"

#include <math.h>

uint8_t ct_quant_to_u8(const ct_quant_params_t *qp, float v)
{
  float q = rintf(v / qp->scale) + (float)qp->zero;
  return (uint8_t)(q > 255 ? 255 : q > 0 ? q : 0);
}

float ct_quant_from_u8(const ct_quant_params_t *qp, uint8_t q)
{
  return qp->scale * (float)(q - qp->zero);
}

float ct_quant_weight_scale(int64_t count, const float *w)
{
  float most = 0;
  for (int64_t i = 0; i < count; i++)
    if (fabsf(w[i]) > most) most = fabsf(w[i]);
  float scale = most / CT_QUANT_WEIGHT_MAX;
  return scale > 0 ? scale : 1;
}

void ct_quant_weights(int64_t channels, int64_t each, const float *w, int8_t *q, float *scale)
{
  const float most = CT_QUANT_WEIGHT_MAX;
  for (int64_t c = 0; c < channels; c++) {
    scale[c] = ct_quant_weight_scale(each, w + c * each);
    for (int64_t i = c * each; i < (c + 1) * each; i++) {
      float v = rintf(w[i] / scale[c]);
      q[i] = (int8_t)(v > most ? most : v < -most ? -most : v); /* the weights contain no NaN */
    }
  }
}

void ct_quant_weights_back(int64_t channels, int64_t each, const int8_t *q, const float *scale,
                           float *w)
{
  for (int64_t c = 0; c < channels; c++)
    for (int64_t i = c * each; i < (c + 1) * each; i++)
      w[i] = scale[c] * q[i];
}
