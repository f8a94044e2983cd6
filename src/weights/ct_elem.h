/** \file ct_elem.h  Element types of weight files and their conversion. Layer 3.
 *
 * Weight files have more types than this program computes with (ct_dtype_t). Types whose row below
 * has numbers = 1 (whole bytes, real values) are converted to float32; `inspect` lists the others,
 * and loading them fails with an error that names the type. All functions are pure. */
#ifndef CT_ELEM_H
#define CT_ELEM_H
#include "base/ct_types.h"

/** X(NAME, text, word, bits, numbers): text: name in NumPy or PyTorch; word: name in safetensors
 * (in the order of its reference implementation, by which its writer sorts); bits per element;
 * numbers: 1 if elements can be converted to float32. */
#define CT_ELEM_LIST(X)                                  \
  X(BOOL, "bool", "BOOL", 8, 1)                          \
  X(F4, "float4_e2m1fn_x2", "F4", 4, 0)                  \
  X(F6_E2M3, "float6_e2m3fn", "F6_E2M3", 6, 0)           \
  X(F6_E3M2, "float6_e3m2fn", "F6_E3M2", 6, 0)           \
  X(U8, "uint8", "U8", 8, 1)                             \
  X(I8, "int8", "I8", 8, 1)                              \
  X(F8_E5M2, "float8_e5m2", "F8_E5M2", 8, 0)             \
  X(F8_E4M3, "float8_e4m3fn", "F8_E4M3", 8, 0)           \
  X(F8_E8M0, "float8_e8m0fnu", "F8_E8M0", 8, 0)          \
  X(F8_E4M3FNUZ, "float8_e4m3fnuz", "F8_E4M3FNUZ", 8, 0) \
  X(F8_E5M2FNUZ, "float8_e5m2fnuz", "F8_E5M2FNUZ", 8, 0) \
  X(I16, "int16", "I16", 16, 1)                          \
  X(U16, "uint16", "U16", 16, 1)                         \
  X(F16, "float16", "F16", 16, 1)                        \
  X(BF16, "bfloat16", "BF16", 16, 1)                     \
  X(I32, "int32", "I32", 32, 1)                          \
  X(U32, "uint32", "U32", 32, 1)                         \
  X(F32, "float32", "F32", 32, 1)                        \
  X(C64, "complex64", "C64", 64, 0)                      \
  X(F64, "float64", "F64", 64, 1)                        \
  X(I64, "int64", "I64", 64, 1)                          \
  X(U64, "uint64", "U64", 64, 1)

#define CT_ELEM_ENUM(name, text, word, bits, numbers) CT_ELEM_##name,
typedef enum { CT_ELEM_LIST(CT_ELEM_ENUM) CT_ELEMS } ct_elem_t;
#undef CT_ELEM_ENUM

/** Returns the name in NumPy or PyTorch: "float32". */
const char *ct_elem_name(ct_elem_t e);
/** Returns the name in safetensors: "F32". */
const char *ct_elem_word(ct_elem_t e);
int ct_elem_bits(ct_elem_t e);
/** Returns 1 if ct_elem_floats() can convert elements of this type. */
int ct_elem_has_numbers(ct_elem_t e);
/** Returns the real type of which an element is made, and of how many: complex64 is two float32,
 * real and imaginary part; any other type is itself. */
ct_elem_t ct_elem_part(ct_elem_t e, int *parts);
/** Returns the element type of a dtype of this program. */
ct_elem_t ct_elem_of_dtype(ct_dtype_t t);
/** Finds the dtype of this program with the same bits. Returns 1, or 0 if this program has no dtype
 * with these bits. */
int ct_elem_dtype(ct_elem_t e, ct_dtype_t *out);

/** Converts n little-endian elements at any address to float32: floats and integers to nearest,
 * ties to even, as torch.Tensor.float() does; bool to 0 or 1. \a e must have numbers. */
void ct_elem_floats(ct_elem_t e, const void *from, int64_t n, float *to);
/** Converts n elements to float64 as ct_elem_floats() does to float32; the result is exact except
 * for large 64-bit integers. */
void ct_elem_doubles(ct_elem_t e, const void *from, int64_t n, double *to);

#endif
