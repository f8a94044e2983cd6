/** \file ct_fake_quant.h  Numbers that are rounded as if they were in eight bits: one rule for all
 * backends.  Layer 1.
 *
 * While training, the range follows the batches: the first one sets it, each later one moves it by
 * a hundredth of the way (Jacob et al., CVPR 2018; torch.ao.quantization's
 * MovingAverageMinMaxObserver).  A range of nothing (0, 0) is none yet: numbers stay as they are.
 * The gradient goes straight through, but not where a number was cut off. */
#ifndef CT_FAKE_QUANT_H
#define CT_FAKE_QUANT_H
#include "backend/ct_int8.h"

#define CT_FAKE_QUANT_SHARE 0.01f

/** range[2], lowest and highest, is told the lowest and highest of a batch. */
static inline void ct_fake_quant_follow(float range[2], float low, float high)
{
  low = low < 0 ? low : 0;
  high = high > 0 ? high : 0;
  if (!(low < high)) return;
  int begins = !(range[0] < range[1]);
  float share = begins ? 1 : CT_FAKE_QUANT_SHARE;
  range[0] += share * (low - range[0]);
  range[1] += share * (high - range[1]);
}

/** How many steps of \a pair a number is from 0, to nearest, ties to even; not a number stays so.
 * Written without a branch or call, for loops over many. */
static inline float ct_fake_quant_steps(const ct_quant_pair_t *pair, float v)
{
  const float most = 1024, round = 12582912; /* 1.5 * 2^23: what is added has no fraction left */
  float t = v / pair->scale;
  t = t > most ? most : t;
  t = t < -most ? -most : t;
  return (t + round) - round;
}

static inline float ct_fake_quant(const ct_quant_pair_t *pair, float v)
{
  float low = (float)-pair->zero, high = (float)(255 - pair->zero);
  float steps = ct_fake_quant_steps(pair, v);
  steps = steps > high ? high : steps;
  steps = steps < low ? low : steps;
  return pair->scale * steps;
}

/** The gradient of a number whose rounded one has the gradient \a dy. */
static inline float ct_fake_quant_gradient(const ct_quant_pair_t *pair, float v, float dy)
{
  float low = (float)-pair->zero, high = (float)(255 - pair->zero);
  float steps = ct_fake_quant_steps(pair, v);
  return steps >= low && steps <= high ? dy : 0;
}

#endif
