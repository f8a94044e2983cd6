/** \file ct_range.h  Ranges for int8 quantization, chosen from observed values.  Layer 4.  Pure.
 *
 * The caller passes all values twice: in the first pass their minimum and maximum are found, in the
 * second pass they are counted in a histogram of equal bins between the two.  After each pass the
 * ranks can combine their results. */
#ifndef CT_RANGE_H
#define CT_RANGE_H
#include <stdint.h>

enum { CT_RANGE_BINS = 2048 };

/** How the range is chosen. */
typedef enum {
  CT_RANGE_MINMAX,     /**< minimum to maximum */
  CT_RANGE_PERCENTILE, /**< contains \a percent of the values; as many are below it as above it */
  CT_RANGE_ENTROPY     /**< the range with the smallest Kullback-Leibler divergence of the int8
                          distribution from the original (Migacz, "8-bit inference with TensorRT",
                          GTC 2017); symmetric about 0, or from 0 up without negative values */
} ct_range_method_t;
#define CT_RANGE_METHODS "minmax|percentile|entropy"

/** Values of one observation point.  All zero: no values yet. */
typedef struct ct_range {
  double low, high; /**< minimum and maximum, 0 included */
  int64_t bin[CT_RANGE_BINS];
} ct_range_t;

/** First pass: widens the range to contain n values. */
void ct_range_widen(ct_range_t *r, const float *x, int64_t n);
/** Second pass: counts n values in the histogram. */
void ct_range_count(ct_range_t *r, const float *x, int64_t n);
/** Removes \a n padding values that were counted as 0. */
void ct_range_discount(ct_range_t *r, int64_t n);
/** Chooses the range.  \a percent: for CT_RANGE_PERCENTILE, above 50 and at most 100.  Without
 * values, the range is 0 to 0. */
void ct_range_choose(const ct_range_t *r, ct_range_method_t method, double percent, float out[2]);

#endif
