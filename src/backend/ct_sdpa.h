/** \file ct_sdpa.h  The tensors of an SDPA op.  Layer 1. */
#ifndef CT_SDPA_H
#define CT_SDPA_H
#include "backend/ct_op.h"

/** Where the queries, keys or values of a sample are. */
typedef struct ct_sdpa_side {
  int input;   /**< 0 … 2: x, x2 or x3 */
  int64_t at;  /**< element of a row with which the first head begins */
  int64_t row; /**< elements from one query, key or value to the next */
} ct_sdpa_side_t;

typedef struct ct_sdpa {
  int64_t n, heads,
      kv_heads;       /**< without heads in the descriptor, each pair of matrices is a sample
                                   with one head */
  int64_t t, s, d, e; /**< queries, keys, their features, features of values; of a head */
  ct_sdpa_side_t q, k, v;
  int64_t y_row;
  int mask; /**< input that is the mask; -1: none */
  /** elements of a mask from one sample, and from one head, to the next; 0: it is broadcast */
  int64_t mask_n, mask_h;
} ct_sdpa_t;

/** Pure.  Returns the tensors of a valid op. */
ct_sdpa_t ct_sdpa_of(const ct_op_desc_t *d);
/** Pure.  Returns NULL if the descriptor of an SDPA is valid, else the reason. */
const char *ct_sdpa_check(const ct_op_desc_t *d);
/** Pure.  Returns the number of pairs of a query and a key that meet, over all heads; masks count
 * as if they hid no key. */
double ct_sdpa_pairs(const ct_op_desc_t *d);
/** Returns the number of keys that causality leaves to the query at a place: keys 0 … place. */
static inline int64_t ct_sdpa_seen(const ct_op_desc_t *d, int64_t keys, int64_t place)
{
  return d->u.sdpa.causal && place + 1 < keys ? place + 1 : keys;
}
/** Returns the name of a mask. */
const char *ct_mask_name(ct_mask_t mask);

#endif
