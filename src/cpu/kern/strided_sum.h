/** \file strided_sum.h  Gradients of copies that read an element several times. 
 * Module-internal. */
#ifndef CT_CPU_STRIDED_SUM_H
#define CT_CPU_STRIDED_SUM_H
#include "backend/ct_strided.h"
#include "cpu/kern/op.h"

/** Hot.  Writes to each element of dx the sum of dy over the places that read it, in double and in
 * a fixed order.  \a t: the type of both. */
void cpu__strided_sum(const ct_readers_t *r, ct_dtype_t t, const void *dy, void *dx);

#endif
