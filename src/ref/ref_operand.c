/* A parameter or buffer as a value. */
#include "ref/ref.h"

static int operand_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  for (int64_t i = 0; i < ct_shape_count(&d->y); i++) {
    if (a->pass & CT_FWD) ct__ref_set(d->y.dtype, a->y, i, ((const float *)a->w[0])[i]);
    if (a->pass & CT_BWD_PARAM) ((float *)a->dw[0])[i] = (float)ct__ref_get(d->y.dtype, a->dy, i);
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_operand = {.run = operand_run, .reduced = 1};
