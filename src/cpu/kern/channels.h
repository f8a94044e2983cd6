/** \file kern/channels.h  A value per channel: added to an activation, and the sum of each channel.
 * Module-internal. */
#ifndef CT_KERN_CHANNELS_H
#define CT_KERN_CHANNELS_H
#include "cpu/kern/op.h"

/** Hot.  Adds bias[c] to each element of channel c of y, which is float32 or bf16 in any layout. */
void cpu__channel_add(const ct_shape_t *s, const float *bias, void *y);
/** Returns the workspace in bytes of cpu__channel_sums(). */
size_t cpu__channel_sums_scratch(const ct_shape_t *s);
/** Hot.  Computes the sum of each channel of x (float32 or bf16, any layout), in double and in an
 * order that depends on the shape alone. */
void cpu__channel_sums(const ct_shape_t *s, const void *x, void *scratch, float *sums);

#endif
