/** \file ct_update.h  Gradient scaling and clipping before the optimizer rule, gradient norms, and
 * the segments of a run; shared by the backends.  Layer 1. */
#ifndef CT_UPDATE_H
#define CT_UPDATE_H
#include <math.h>

#include "backend/ct_backend.h"

/** The gradient that the rule gets: clamp(g * factor, ±limit). */
typedef struct {
  float factor;
  float limit; /**< infinity: no limit */
} ct_grad_map_t;

/** Returns the p-norm, computed from the result of GRADSTAT. */
CT_INLINE double ct_grad_norm(const ct_grad_stat_t *stat, double p)
{
  if (p == 2) return sqrt(stat->power);
  return p == 1 || isinf(p) ? stat->power : pow(stat->power, 1 / p);
}

/** Adds the result \a piece of a part of the arena to \a sum.  NaN stays NaN. */
CT_INLINE void ct_grad_stat_add(ct_grad_stat_t *sum, const ct_grad_stat_t *piece, double p)
{
  sum->nonfinite += piece->nonfinite;
  if (!isinf(p))
    sum->power += piece->power;
  else if (!(piece->power <= sum->power) && !isnan(sum->power))
    sum->power = piece->power;
}

/** Computes \a map from the clipping options.  Returns 0 if the step is skipped: weights and states
 * then stay unchanged. */
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

/** Returns the gradient that the rule gets for the gradient \a g.  NaN stays NaN. */
CT_INLINE float ct_grad_mapped(ct_grad_map_t map, float g)
{
  g *= map.factor;
  g = g > map.limit ? map.limit : g;
  return g < -map.limit ? -map.limit : g;
}

/** Returns the number of chunks of a segment. */
CT_INLINE int64_t ct_segment_chunks(int64_t count)
{
  return (count + CT_SEGMENT_CHUNK - 1) / CT_SEGMENT_CHUNK;
}

/** Returns the number of parameters of a run of MEASURE or UPDATE. */
CT_INLINE int ct_segments_of(const ct_op_args_t *a)
{
  return a->segment ? a->segments : 1;
}

/** Returns the arguments that run parameter \a i of \a a alone; for backends whose device memory
 * the host can read. */
CT_INLINE ct_op_args_t ct_segment_args(const ct_op_args_t *a, int i)
{
  ct_op_args_t one = *a;
  const ct_segment_t *s = a->segment ? &a->segment[i] : NULL;
  if (!s) return one;
  one.segment = NULL;
  one.count = s->count;
  one.w[0] = (float *)a->w[0] + s->weight;
  one.dy = (const float *)a->dy + s->first;
  if (a->y) one.y = (uint16_t *)a->y + s->first;
  if (a->norms) one.norms = a->norms + 2 * s->norms;
  for (int k = 0; k < CT_RULE_STATES; k++)
    if (a->state[k]) one.state[k] = (float *)a->state[k] + s->state;
  return one;
}

#endif
