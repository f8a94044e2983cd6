/** \file ct_range.h  From many numbers to the range that eight bits shall cover.  Layer 4.  Pure.
 *
 * Numbers are seen twice: first their lowest and highest, then how they lie between (a histogram of
 * equal bins).  Ranks can add up what they saw in between. */
#ifndef CT_RANGE_H
#define CT_RANGE_H
#include <stdint.h>

enum { CT_RANGE_BINS = 2048 };

/** How the range is chosen. */
typedef enum {
  CT_RANGE_MINMAX,     /**< lowest to highest */
  CT_RANGE_PERCENTILE, /**< so that this share of the numbers lies within, as many below as above */
  CT_RANGE_ENTROPY     /**< numbers of eight bits tell most of the original's distribution:
                          least Kullback-Leibler divergence (Migacz, "8-bit inference with
                          TensorRT", GTC 2017), about 0, or from 0 without negative numbers */
} ct_range_method_t;
#define CT_RANGE_METHODS "minmax|percentile|entropy"

/** What was seen at one place.  A zeroed one has seen nothing. */
typedef struct ct_range {
  double low, high; /**< lowest and highest, 0 among them */
  int64_t bin[CT_RANGE_BINS];
} ct_range_t;

/** First look, n numbers. */
void ct_range_widen(ct_range_t *r, const float *x, int64_t n);
/** Second look. */
void ct_range_count(ct_range_t *r, const float *x, int64_t n);
/** \a n of the numbers that were counted as 0 are none. */
void ct_range_discount(ct_range_t *r, int64_t n);
/** The range to cover; \a percent is of PERCENTILE, above 50 to 100.  Nothing seen: 0, 0. */
void ct_range_choose(const ct_range_t *r, ct_range_method_t method, double percent, float out[2]);

#endif
