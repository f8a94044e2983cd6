/** \file ct_update.h  What MEASURE and UPDATE do before the rule, and GRADSTAT's norms: shared
 * by the backends.  Layer 1. */
#ifndef CT_UPDATE_H
#define CT_UPDATE_H
#include <math.h>

#include "backend/ct_backend.h"

/** From a gradient to what the rule sees: clamp(g * factor, ±limit). */
typedef struct {
  float factor;
  float limit; /**< infinity: none */
} ct_grad_map_t;

/** The norm that a GRADSTAT's result stands for. */
CT_INLINE double ct_grad_norm(const ct_grad_stat_t *stat, double p)
{
  if (p == 2) return sqrt(stat->power);
  return p == 1 || isinf(p) ? stat->power : pow(stat->power, 1 / p);
}

/** Adds a piece's result.  NaN stays NaN. */
CT_INLINE void ct_grad_stat_add(ct_grad_stat_t *sum, const ct_grad_stat_t *piece, double p)
{
  sum->nonfinite += piece->nonfinite;
  if (!isinf(p))
    sum->power += piece->power;
  else if (!(piece->power <= sum->power) && !isnan(sum->power))
    sum->power = piece->power;
}

/** 0: the step is skipped, and weights and states stay as they are. */
CT_INLINE int ct_grad_map(const ct_grad_ctl_t *c, float scale, ct_grad_map_t *map)
{
  if (c->stat && c->skip_nonfinite && c->stat->nonfinite) return 0;
  double clip = 1;
  if (c->stat && c->clip_norm > 0) {
    clip = c->clip_norm / (ct_grad_norm(c->stat, c->clip_p) + 1e-6);
    if (clip > 1) clip = 1; /* NaN stays, as in PyTorch */
  }
  map->factor = (float)(scale * clip);
  map->limit = c->clip_value > 0 ? c->clip_value : INFINITY;
  return 1;
}

/** NaN stays NaN. */
CT_INLINE float ct_grad_mapped(ct_grad_map_t map, float g)
{
  g *= map.factor;
  g = g > map.limit ? map.limit : g;
  return g < -map.limit ? -map.limit : g;
}

#endif
