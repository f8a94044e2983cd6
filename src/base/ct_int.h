/** \file ct_int.h  Sizes of parts and blocks.  Layer 0.  All pure; nothing here is negative. */
#ifndef CT_INT_H
#define CT_INT_H
#include <stdint.h>

/** The smaller one. */
static inline int64_t ct_least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/** How many parts of \a b hold \a a. */
static inline int64_t ct_div_up(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/** \a a and what is missing to a multiple of \a b. */
static inline int64_t ct_round_up(int64_t a, int64_t b)
{
  return ct_div_up(a, b) * b;
}

#endif
