/* Element types of weight files: their names, and conversion to float.
 *
 * Elements may be unaligned. Half precision is converted by scaling with a power of two, so that
 * its subnormals are correct even if the processor flushes float32 subnormals to zero. */
#include "weights/ct_elem.h"

static const struct {
  const char *text, *word;
  int bits, numbers;
} rows[CT_ELEMS] = {
#define ROW(name, text, word, bits, numbers) [CT_ELEM_##name] = {text, word, bits, numbers},
    CT_ELEM_LIST(ROW)
#undef ROW
};

const char *ct_elem_name(ct_elem_t e)
{
  return rows[e].text;
}

const char *ct_elem_word(ct_elem_t e)
{
  return rows[e].word;
}

int ct_elem_bits(ct_elem_t e)
{
  return rows[e].bits;
}

int ct_elem_has_numbers(ct_elem_t e)
{
  return rows[e].numbers;
}

ct_elem_t ct_elem_part(ct_elem_t e, int *parts)
{
  *parts = e == CT_ELEM_C64 ? 2 : 1;
  return e == CT_ELEM_C64 ? CT_ELEM_F32 : e;
}

static const struct {
  ct_dtype_t ours;
  ct_elem_t theirs;
} same[] = {{CT_F32, CT_ELEM_F32}, {CT_BF16, CT_ELEM_BF16}, {CT_F16, CT_ELEM_F16},
            {CT_F64, CT_ELEM_F64}, {CT_U8, CT_ELEM_U8},     {CT_I8, CT_ELEM_I8},
            {CT_I16, CT_ELEM_I16}, {CT_I32, CT_ELEM_I32},   {CT_I64, CT_ELEM_I64}};
enum { SAME = sizeof same / sizeof *same };

ct_elem_t ct_elem_of_dtype(ct_dtype_t t)
{
  int i = 0;
  while (i < SAME - 1 && same[i].ours != t)
    i++;
  return same[i].theirs;
}

int ct_elem_dtype(ct_elem_t e, ct_dtype_t *out)
{
  for (int i = 0; i < SAME; i++)
    if (same[i].theirs == e) {
      *out = same[i].ours;
      return 1;
    }
  return 0;
}

/* ---- conversion ---- */

static float bool_float(uint8_t v)
{
  return v ? 1.0F : 0.0F;
}

#define AS_IT_IS(v) (v)

/* X(element type, C type, conversion of one element) */
#define KINDS(X)                           \
  X(CT_ELEM_BOOL, uint8_t, bool_float)     \
  X(CT_ELEM_U8, uint8_t, AS_IT_IS)         \
  X(CT_ELEM_I8, int8_t, AS_IT_IS)          \
  X(CT_ELEM_I16, int16_t, AS_IT_IS)        \
  X(CT_ELEM_U16, uint16_t, AS_IT_IS)       \
  X(CT_ELEM_F16, uint16_t, ct_half_float)  \
  X(CT_ELEM_BF16, uint16_t, ct_bf16_float) \
  X(CT_ELEM_I32, int32_t, AS_IT_IS)        \
  X(CT_ELEM_U32, uint32_t, AS_IT_IS)       \
  X(CT_ELEM_F32, float, AS_IT_IS)          \
  X(CT_ELEM_F64, double, AS_IT_IS)         \
  X(CT_ELEM_I64, int64_t, AS_IT_IS)        \
  X(CT_ELEM_U64, uint64_t, AS_IT_IS)

#define CONVERT(elem, own, make)                                       \
  case elem:                                                           \
    for (int64_t i = 0; i < n; i++) {                                  \
      own v;                                                           \
      memcpy(&v, (const char *)from + (size_t)i * sizeof v, sizeof v); \
      to[i] = (NUMBER)make(v);                                         \
    }                                                                  \
    break;

void ct_elem_floats(ct_elem_t e, const void *from, int64_t n, float *to)
{
#define NUMBER float
  switch (e) {
    KINDS(CONVERT)
  default:
    break; /* cannot be converted */
  }
#undef NUMBER
}

void ct_elem_doubles(ct_elem_t e, const void *from, int64_t n, double *to)
{
#define NUMBER double
  switch (e) {
    KINDS(CONVERT)
  default:
    break;
  }
#undef NUMBER
}
