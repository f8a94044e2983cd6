/* A parameter or buffer as a value. */
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/op.h"

static int operand_run(ct_op_t *op, const ct_op_args_t *a)
{
  size_t bytes = ct_shape_bytes(&op->desc.y);
  if (a->pass & CT_FWD) memcpy(a->y, a->w[0], bytes);
  if (a->pass & CT_BWD_PARAM) memcpy(a->dw[0], a->dy, bytes);
  return CT_OK;
}

const cpu__op_kind_t cpu__operand = {.size = sizeof(ct_op_t), .plain = 1, .run = operand_run};
