/** \file ct_fake_quant.h  Fake quantization: float32 values rounded to the int8 grid, identical in
 * all backends.  Layer 1.
 *
 * In training the range follows the batches: the first batch sets it, each later one moves it by 1%
 * of the difference (Jacob et al., CVPR 2018; torch.ao.quantization's MovingAverageMinMaxObserver).
 * With the empty range (0, 0) values pass unchanged.  The gradient is that of the straight-through
 * estimator: passed on, but zero for clipped values. */
#ifndef CT_FAKE_QUANT_H
#define CT_FAKE_QUANT_H
#include "backend/ct_int8.h"

#define CT_FAKE_QUANT_SHARE 0.01f

/** Updates range[2] (lowest, highest) with the lowest and highest value of a batch. */
CT_INLINE void ct_fake_quant_follow(float range[2], float low, float high)
{
  low = low < 0 ? low : 0;
  high = high > 0 ? high : 0;
  if (!(low < high)) return;
  int begins = !(range[0] < range[1]);
  float share = begins ? 1 : CT_FAKE_QUANT_SHARE;
  range[0] += share * (low - range[0]);
  range[1] += share * (high - range[1]);
}

/** Returns v / qp->scale, rounded to nearest, ties to even; NaN stays NaN.  The function has no
 * branches and calls, so that compilers vectorize loops that call it. */
CT_INLINE float ct_fake_quant_steps(const ct_quant_params_t *qp, float v)
{
  const float most = 1024, round = 12582912; /* 1.5 * 2^23: adding it drops the fraction */
  float t = v / qp->scale;
  t = t > most ? most : t;
  t = t < -most ? -most : t;
  return (t + round) - round;
}

CT_INLINE float ct_fake_quant(const ct_quant_params_t *qp, float v)
{
  float low = (float)-qp->zero, high = (float)(255 - qp->zero);
  float steps = ct_fake_quant_steps(qp, v);
  steps = steps > high ? high : steps;
  steps = steps < low ? low : steps;
  return qp->scale * steps;
}

/** Returns the gradient with respect to v, given the gradient \a dy of the rounded value. */
CT_INLINE float ct_fake_quant_gradient(const ct_quant_params_t *qp, float v, float dy)
{
  float low = (float)-qp->zero, high = (float)(255 - qp->zero);
  float steps = ct_fake_quant_steps(qp, v);
  return steps >= low && steps <= high ? dy : 0;
}

#endif
