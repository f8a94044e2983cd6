/** \file loss_focal.h  Formulas that the kernels of losses share. Module-internal. */
#ifndef GPU_LOSS_FOCAL_H
#define GPU_LOSS_FOCAL_H
#include "cuda/kernels/kernel.h"
#include "cuda/kernels/loss.h"

/** Returns the focal factor (1 - p)^gamma of the loss of a label with log-probability u = log p;
 * slope 1: of its derivative with respect to u. */
CT_D double gpu_focal(double gamma, double u, int slope)
{
  double p = exp(u), rest = -expm1(u);
  if (gamma == 0) return 1;
  if (rest <= 0) return 0;
  double power = pow(rest, gamma);
  return power - (slope ? gamma * power / rest * p * u : 0);
}

#endif
