/** \file ct_element.h  Ops that compute an element of a sequence from that element alone.  Layer 1,
 * pure. */
#ifndef CT_ELEMENT_H
#define CT_ELEMENT_H
#include "backend/ct_op.h"

/** Returns 1 if the op, for sequences N x T x …, computes each element from the same element of its
 * inputs, so that it gives the same for one element as for the whole sequence.  \a n and \a t: N
 * and T. */
int ct_op_by_element(const ct_op_desc_t *d, int64_t n, int64_t t);

#endif
