/** \file ct_int.h  Integer arithmetic for sizes.  Layer 0.  All functions are pure; arguments are
 * not negative. */
#ifndef CT_INT_H
#define CT_INT_H
#include <stdint.h>

/** Returns the minimum of a and b. */
static inline int64_t ct_least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/** Returns a / b, rounded up. */
static inline int64_t ct_div_up(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/** Returns \a a rounded up to a multiple of \a b. */
static inline int64_t ct_round_up(int64_t a, int64_t b)
{
  return ct_div_up(a, b) * b;
}

#endif
