/* Random numbers for transforms, counter-based: each draw is a function of (seed, epoch, sample,
 * transform, number of the draw), so threads and ranks share no state. */
#include <math.h>

#include "base/ct_rng.h"
#include "data/transform/transforms.h"

ct__draws_t ct__draws(uint64_t seed, int64_t epoch, int position, int64_t id)
{
  uint64_t key = ct_rng_u64(seed, CT_RNG_TRANSFORM, (uint32_t)position, (uint64_t)epoch);
  return (ct__draws_t){.key = key, .id = (uint64_t)id};
}

double ct__draw(ct__draws_t *d)
{
  return (double)(ct_rng_u64(d->key, CT_RNG_TRANSFORM, d->next++, d->id) >> 11) * 0x1p-53;
}

double ct__draw_in(ct__draws_t *d, double lo, double hi)
{
  return lo + (hi - lo) * ct__draw(d);
}

int64_t ct__draw_below(ct__draws_t *d, int64_t n)
{
  int64_t k = (int64_t)(ct__draw(d) * (double)n);
  return k < n ? k : n - 1; /* the product may have been rounded up */
}

double ct__draw_normal(ct__draws_t *d)
{
  double radius_u = 1 - ct__draw(d); /* in (0, 1]: its logarithm exists */
  double angle = 2 * M_PI * ct__draw(d);
  return sqrt(-2 * log(radius_u)) * cos(angle);
}

/* Draws the logarithm of a gamma variate: Marsaglia and Tsang, "A simple method for generating
 * gamma variables", ACM TOMS 2000.  For shape < 1 the variate is one of (shape + 1) times
 * U^(1/shape), which may be too small for a double. */
static double log_gamma_variate(ct__draws_t *d, double shape)
{
  double boost = 0;
  if (shape < 1) {
    boost = log(1 - ct__draw(d)) / shape;
    shape += 1;
  }
  double a = shape - 1.0 / 3, c = 1 / sqrt(9 * a);
  for (;;) {
    double x = ct__draw_normal(d), v = 1 + c * x;
    if (v <= 0) continue;
    v = v * v * v;
    if (log(1 - ct__draw(d)) < 0.5 * x * x + a - a * v + a * log(v)) return boost + log(a * v);
  }
}

double ct__draw_beta(ct__draws_t *d, double alpha)
{
  double a = log_gamma_variate(d, alpha), b = log_gamma_variate(d, alpha);
  return 1 / (1 + exp(b - a));
}
