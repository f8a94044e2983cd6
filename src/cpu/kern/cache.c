/* Appends elements of sequences to the caches of their samples. */
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

static int cache_run(ct_op_t *op, const ct_op_args_t *a)
{
  const ct_shape_t *x = &op->desc.x, *y = &op->desc.y;
  const int64_t wide = x->dim[2], rows = x->dim[0] * x->dim[1];
  const size_t bytes = (size_t)wide * ct_dtype_size(x->dtype);
#pragma omp parallel for if (rows * wide > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t r = 0; r < rows; r++) {
    int64_t n = r / x->dim[1], place = (a->position ? a->position[n] : 0) + r % x->dim[1];
    if (place < 0 || place >= y->dim[1]) continue;
    memcpy(cpu__at(a->y, (n * y->dim[1] + place) * wide, x->dtype),
           cpu__at(a->x, r * wide, x->dtype), bytes);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__cache = {
    .size = sizeof(ct_op_t), .bf16 = 1, .plain = 1, .run = cache_run};
