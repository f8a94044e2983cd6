/** \file exact_sum.h  Sums of doubles that are the same in any order, and so at any number of
 * ranks: a fixed-point number as wide as the range of a double (Kulisch's accumulator). */
#ifndef CT_EXACT_SUM_H
#define CT_EXACT_SUM_H
#include <stdint.h>

#define CT__EXACT_LIMBS 70
/** A sum of numbers of at least 0; all zero: no numbers.  Made of int64_t alone, so that the sum of
 * two is the sum of their members (ct_agree_sum()).  Exact for up to 2^30 numbers. */
typedef struct ct__exact {
  int64_t limb[CT__EXACT_LIMBS]; /**< limb k counts 2^(32 k - 1152) */
  int64_t nan, inf;              /**< how many numbers were so */
} ct__exact_t;

/** Adds x >= 0. */
void ct__exact_add(ct__exact_t *s, double x);
/** Returns the sum as a double. */
double ct__exact_value(const ct__exact_t *s);

#endif
