/** \file kern/body_update.h  Inner loops of the optimizer ops.  Module-internal. */
#include "cpu/kern/vec.h"

/* ---- sums of powers ---- */

typedef double wide_t __attribute__((vector_size(CPU__VW * 8)));

/* The number of accumulators is the same for all instruction sets, so that all give the same
 * result. */
#define SUMS 16

/* Adds v^p (v >= 0) to *sum.  The sum is passed by pointer, because the instruction set may lack
 * registers of that width. */
INLINE void add_power(wide_t *sum, vec_t v, double p)
{
  wide_t wide = __builtin_convertvector(v, wide_t);
  if (p == 2) {
    wide *= wide;
  } else if (p != 1) {
    for (int j = 0; j < CPU__VW; j++)
      wide[j] = pow(wide[j], p);
  }
  *sum += wide;
}

INLINE void add_powers(wide_t *sum, const float *x, int n, float scale, double p)
{
  for (int k = 0; k * CPU__VW < n; k++) {
    int lanes = n - k * CPU__VW < CPU__VW ? n - k * CPU__VW : CPU__VW;
    vec_t v = abs_of(load(x + k * CPU__VW, lanes) * scale);
    add_power(&sum[k], v, p);
  }
}

INLINE double sum_powers(int64_t count, const float *x, float scale, double p)
{
  wide_t sum[SUMS / CPU__VW] = {{0}};
  double total = 0;
  int64_t i = 0, end = count - count % SUMS;

  for (; i < end; i += SUMS)
    add_powers(sum, x + i, SUMS, scale, p);
  if (i < count) add_powers(sum, x + i, (int)(count - i), scale, p);
  for (int k = 0; k < SUMS; k++)
    total += sum[k / CPU__VW][k % CPU__VW];
  return total;
}

/* Returns the largest |x * scale|; NaN if an element is infinite or NaN. */
static double largest(int64_t count, const float *x, float scale)
{
  vec_t most = {0}, bad = {0};
  float result = 0, finite = 0;

  for (int64_t i = 0; i < count; i += CPU__VW) {
    vec_t v = abs_of(load(x + i, count - i < CPU__VW ? (int)(count - i) : CPU__VW) * scale);
    most = choose(v > most, v, most);
    bad += v - v;
  }
  for (int j = 0; j < CPU__VW; j++) {
    if (most[j] > result) result = most[j];
    finite += bad[j];
  }
  return result + finite;
}

static double powers(int64_t count, const float *g, float scale, double p)
{
  if (isinf(p)) return largest(count, g, scale);
  if (p == 2) return sum_powers(count, g, scale, 2);
  if (p == 1) return sum_powers(count, g, scale, 1);
  return sum_powers(count, g, scale, p);
}

/* ---- rules ---- */

/* Returns the address of a state from element `first` on.  If the state is not allocated, the rule
 * does not use it with these hyper-parameters, and any valid address is returned.  (A rule is
 * scalar code, ct_rules.h, that the compiler vectorizes.) */
INLINE float *state_of(const cpu__update_t *u, int state, int64_t first)
{
  return (u->state[state] ? u->state[state] : u->w) + first;
}

#define X(rule, function, states, needs_norms, value_of)                                        \
  static void update_##rule(const cpu__update_t *u, int64_t first, int64_t count)               \
  {                                                                                             \
    const ct_hyper_t hyper = u->hyper;                                                          \
    const ct_grad_map_t map = u->map;                                                           \
    const float *restrict g = u->g + first;                                                     \
    float *restrict w = u->w + first, *restrict s0 = state_of(u, 0, first);                     \
    float *restrict s1 = state_of(u, 1, first), *restrict s2 = state_of(u, 2, first);           \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) w[i] =                              \
        function(&hyper, w[i], ct_grad_mapped(map, g[i]), s0 + i, s1 + i, s2 + i);              \
  }                                                                                             \
                                                                                                \
  INLINE void values_##rule(const cpu__update_t *u, int64_t first, int64_t count, float *value) \
  {                                                                                             \
    const ct_hyper_t hyper = u->hyper;                                                          \
    const ct_grad_map_t map = u->map;                                                           \
    const float *restrict g = u->g + first, *restrict w = u->w + first;                         \
    float *restrict s0 = state_of(u, 0, first), *restrict s1 = state_of(u, 1, first);           \
    float *restrict s2 = state_of(u, 2, first);                                                 \
    _Pragma("omp simd") for (int64_t i = 0; i < count; i++) value[i] =                          \
        value_of(&hyper, w[i], ct_grad_mapped(map, g[i]), s0 + i, s1 + i, s2 + i);              \
  }
CT_RULE_LIST(X)
#undef X

static void update(const cpu__update_t *u, int64_t first, int64_t count)
{
  switch (u->rule) {
#define X(name, function, states, needs_norms, value_of) \
  case name:                                             \
    update_##name(u, first, count);                      \
    break;
    CT_RULE_LIST(X)
#undef X
  }
}

static void values(const cpu__update_t *u, int64_t first, int64_t count, float *value)
{
  switch (u->rule) {
#define X(name, function, states, needs_norms, value_of) \
  case name:                                             \
    values_##name(u, first, count, value);               \
    break;
    CT_RULE_LIST(X)
#undef X
  }
}

/* Computes the sums of squares in blocks, so that the values stay in the L1 cache until they are
 * squared and summed. */
static void norm_sums(const cpu__update_t *u, int64_t first, int64_t count, double sums[2])
{
  enum { BLOCK = 1024 };
  float value[BLOCK];

  sums[0] = sums[1] = 0;
  for (int64_t i = 0; i < count; i += BLOCK) {
    int64_t n = count - i < BLOCK ? count - i : BLOCK;
    values(u, first + i, n, value);
    sums[0] += sum_powers(n, u->w + first + i, 1, 2);
    sums[1] += sum_powers(n, value, 1, 2);
  }
}
