/* Converts elements in the other byte order, and types that are read as a wider one, like HDF5 but
 * without its lock. */
#include "hdf5io/filter/h5_convert.h"

#include <string.h>

#include "base/ct_types.h"
#include "hdf5io/h5_glue.h"

/* Returns 1 for an unsigned integer type that uses all its bits. */
static int is_whole_unsigned(hid_t type)
{
  size_t bytes = H5Tget_size(type);
  return H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE &&
         H5Tget_precision(type) == 8 * bytes && H5Tget_offset(type) == 0;
}

int ct__h5_convert_find(hid_t type, ct__h5_convert_t *out)
{
  ct_dtype_t known;
  H5T_order_t order = H5Tget_order(type);
  size_t bytes = H5Tget_size(type);
  *out = (ct__h5_convert_t){.kind = CT__H5_AS_IT_IS, .stored = bytes, .here = bytes};
  if (order != H5T_ORDER_LE && order != H5T_ORDER_BE) return bytes == 1;
  out->swap = bytes > 1 && order != H5Tget_order(H5T_NATIVE_INT);
  if (ct__h5_type_find(type, &known)) {
    if (known != CT_F16 && known != CT_BF16) return 1;
    out->kind = known == CT_F16 ? CT__H5_HALF : CT__H5_BF16;
    out->here = 4;
    return 1;
  }
  if (!is_whole_unsigned(type) || (bytes != 2 && bytes != 4 && bytes != 8)) return 0;
  out->kind = bytes == 2 ? CT__H5_UINT16 : bytes == 4 ? CT__H5_UINT32 : CT__H5_UINT64;
  out->here = bytes == 2 ? 4 : 8;
  return 1;
}

int ct__h5_convert_nothing(const ct__h5_convert_t *c)
{
  return c->kind == CT__H5_AS_IT_IS && !c->swap;
}

#define AS_IT_IS(v) (v)
#define KEEP(v)     (v)

/* Elements may be unaligned, so they are copied. */
#define EACH(own, order, other, make)                         \
  for (size_t i = 0; i < n; i++) {                            \
    own v;                                                    \
    memcpy(&v, (const char *)from + i * sizeof v, sizeof v);  \
    other made = (other)make(order(v));                       \
    memcpy((char *)to + i * sizeof made, &made, sizeof made); \
  }                                                           \
  break
#define BOTH(own, swapped, other, make) \
  if (c->swap) {                        \
    EACH(own, swapped, other, make);    \
  }                                     \
  EACH(own, KEEP, other, make)

static void swap_only(const ct__h5_convert_t *c, const void *from, size_t n, void *to)
{
  switch (c->stored) {
  case 2:
    EACH(uint16_t, __builtin_bswap16, uint16_t, AS_IT_IS);
  case 4:
    EACH(uint32_t, __builtin_bswap32, uint32_t, AS_IT_IS);
  default:
    EACH(uint64_t, __builtin_bswap64, uint64_t, AS_IT_IS);
  }
}

void ct__h5_convert(const ct__h5_convert_t *c, const void *from, size_t n, void *to)
{
  switch (c->kind) {
  case CT__H5_AS_IT_IS:
    if (c->swap)
      swap_only(c, from, n, to);
    else
      memcpy(to, from, n * c->stored);
    break;
  case CT__H5_HALF:
    BOTH(uint16_t, __builtin_bswap16, float, ct_half_float);
  case CT__H5_BF16:
    BOTH(uint16_t, __builtin_bswap16, float, ct_bf16_float);
  case CT__H5_UINT16:
    BOTH(uint16_t, __builtin_bswap16, int32_t, AS_IT_IS);
  case CT__H5_UINT32:
    BOTH(uint32_t, __builtin_bswap32, int64_t, AS_IT_IS);
  case CT__H5_UINT64:
    BOTH(uint64_t, __builtin_bswap64, double, AS_IT_IS);
  case CT__H5_CF:
    ct__h5_cf_apply(&c->cf, from, n, to);
    break;
  }
}
