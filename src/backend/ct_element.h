/** \file ct_element.h  Single elements of sequences: ops that compute an element from itself, and
 * caches of others.  Layer 1, pure. */
#ifndef CT_ELEMENT_H
#define CT_ELEMENT_H
#include "backend/ct_op.h"

/** Returns 1 if the op, for sequences N x T x …, computes each element from the same element of its
 * inputs, so that it gives the same for one element as for the whole sequence.  \a n and \a t: N
 * and T. */
int ct_op_by_element(const ct_op_desc_t *d, int64_t n, int64_t t);
/** Returns NULL if the CACHE \a d is valid, else the reason. */
const char *ct_cache_check(const ct_op_desc_t *d);

#endif
