/* Appends elements of sequences to the caches of their samples. */
#include <string.h>

#include "ref/ref.h"

static int cache_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  size_t row = (size_t)d->x.dim[2] * ct_dtype_size(d->x.dtype);
  for (int64_t n = 0; n < d->x.dim[0]; n++)
    for (int64_t i = 0; i < d->x.dim[1]; i++) {
      int64_t place = (a->position ? a->position[n] : 0) + i;
      if (place < 0 || place >= d->y.dim[1]) continue;
      memcpy((char *)a->y + (size_t)(n * d->y.dim[1] + place) * row,
             (const char *)a->x + (size_t)(n * d->x.dim[1] + i) * row, row);
    }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_cache = {.run = cache_run, .reduced = 1};
