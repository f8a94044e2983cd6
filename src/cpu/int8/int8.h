/** \file int8/int8.h  int8 ops: ops with uint8 activations.  Module-internal.
 *
 * Images are channels-last; rows of features are plain.  The arithmetic is that of ct_int8.h. */
#ifndef CT_CPU_INT8_H
#define CT_CPU_INT8_H
#include "cpu/kern/op.h"

/** Returns the implementation for an int8 descriptor (ct_op_is_int8()); NULL: not supported. */
const cpu__op_kind_t *cpu__int8_kind(const ct_op_desc_t *d);

extern const cpu__op_kind_t cpu__int8_gemm, cpu__int8_dynamic, cpu__int8_pool, cpu__int8_table,
    cpu__int8_add, cpu__int8_concat, cpu__int8_reorder;

/** Returns CT_NHWC for images, CT_PLAIN for tensors without spatial dims. */
ct_layout_t cpu__int8_layout(const ct_shape_t *s);
/** Returns the layout of cpu__int8_layout(): the entry cpu__op_kind_t.wants of all int8 kinds. */
ct_layout_t cpu__int8_wants(ct_dev_t *dev, const ct_op_desc_t *d);

/** Adding and subtracting this rounds a value below 2^22 to the nearest integer, ties to even. */
#define CPU__ROUNDER 12582912.0F

/** Rounds v to uint8 with saturation; v is in units of the scale and includes the zero point. */
static inline uint8_t cpu__int8_cut(float v)
{
  v = v > 0 ? v : 0;
  v = v < 255 ? v : 255;
  return (uint8_t)(int)(v + CPU__ROUNDER - CPU__ROUNDER);
}

#endif
