/* Layouts of uint8 activations. */
#include "cpu/int8/int8.h"

ct_layout_t cpu__int8_layout(const ct_shape_t *s)
{
  return s->ndim > 3 ? CT_NHWC : CT_PLAIN;
}

ct_layout_t cpu__int8_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return cpu__int8_layout(&d->x);
}
