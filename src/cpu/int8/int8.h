/** \file int8/int8.h  Ops with activations in eight bits.  Module-internal.
 *
 * Bytes lie channels last; rows of features lie as they are.  Arithmetic is that of ct_int8.h. */
#ifndef CT_CPU_INT8_H
#define CT_CPU_INT8_H
#include "cpu/kern/op.h"

/** How a descriptor with ct_op_is_int8() is computed; NULL: not here. */
const cpu__op_kind_t *cpu__int8_kind(const ct_op_desc_t *d);

extern const cpu__op_kind_t cpu__int8_product, cpu__int8_dynamic, cpu__int8_pool, cpu__int8_table,
    cpu__int8_add, cpu__int8_concat, cpu__int8_reorder;

/** CT_NHWC of an image, CT_PLAIN of what has no space. */
ct_layout_t cpu__int8_layout(const ct_shape_t *s);
/** For cpu__op_kind_t.wants. */
ct_layout_t cpu__int8_wants(ct_dev_t *dev, const ct_op_desc_t *d);

/** Adding this and taking it away again leaves the nearest whole number, ties to even, of what is
 * below 2^22. */
#define CPU__ROUNDER 12582912.0F

/** The byte of a number in units of the scale, zero included. */
static inline uint8_t cpu__int8_cut(float v)
{
  v = v > 0 ? v : 0;
  v = v < 255 ? v : 255;
  return (uint8_t)(int)(v + CPU__ROUNDER - CPU__ROUNDER);
}

#endif
