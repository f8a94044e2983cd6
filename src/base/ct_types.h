/** \file ct_types.h  Element types, layouts and shapes.  Layer 0.
 *
 * The integer rule of the project: `int` is a rank, a small count or a code; `int64_t` counts
 * elements, samples, steps and file offsets; `size_t` is bytes and nothing else. */
#ifndef CT_TYPES_H
#define CT_TYPES_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Declares a function in a header that GPU kernels and the host share. */
#ifdef __CUDACC__
#  define CT_INLINE static inline __host__ __device__
#else
#  define CT_INLINE static inline
#endif

#define CT_MAX_DIMS 8

typedef enum { CT_F32, CT_BF16, CT_F16, CT_F64, CT_U8, CT_I8, CT_I16, CT_I32, CT_I64 } ct_dtype_t;

/** How the elements of an activation lie in memory.  Parameters have no layout here: the op that
 * owns them chooses it (ct_backend.h, pack). */
typedef enum {
  CT_PLAIN, /**< row-major in the order of the dims: N C H W */
  CT_C8,    /**< N C/8 H W 8: channels in blocks of 8, the last block padded with zeros */
  CT_C16,   /**< N C/16 H W 16 */
  CT_NHWC   /**< N H W C */
} ct_layout_t;

/** A tensor without its memory.  In most tensors dim[0] is the batch N and dim[1] channels or
 * features; unused: 1. */
typedef struct ct_shape {
  ct_dtype_t dtype;
  ct_layout_t layout;
  int ndim;
  unsigned batch; /**< shapes of a graph, which are of one sample: bit i is set if dim i of a batch
                       of n samples is n * dim[i]; 0 elsewhere */
  int64_t dim[CT_MAX_DIMS];
} ct_shape_t;

#define CT_INPUTS_EXTRA 7
#define CT_INPUT_NAME   64
/** Extra inputs of a network: arrays of a sample besides the first input, each with its own shape.
 */
typedef struct ct_inputs {
  int n;
  char name[CT_INPUTS_EXTRA][CT_INPUT_NAME]; /**< layers refer to it as input.NAME */
  ct_shape_t x[CT_INPUTS_EXTRA];             /**< of one sample: float32 plain, dim[0] == 1 */
} ct_inputs_t;
#define CT_TARGETS_MORE CT_INPUTS_EXTRA /**< targets of a sample after the first */
/** Returns 1 if names and dims are equal. */
int ct_inputs_same(const ct_inputs_t *a, const ct_inputs_t *b);
/** Writes the names and shapes, "meta=16, wave=1x64", to buf (returned). */
const char *ct_inputs_text(const ct_inputs_t *in, char *buf, size_t cap);

/** Returns a plain float32 shape with the given dims: ct_shape(2, n, features).  It is a macro, so
 * that an int among the dims is converted to int64_t. */
#define ct_shape(ndim, ...) ct_shape_dims((ndim), (const int64_t[CT_MAX_DIMS]){__VA_ARGS__})
ct_shape_t ct_shape_dims(int ndim, const int64_t dim[CT_MAX_DIMS]);
/** Returns the number of elements without padding.  This and the next three functions return the
 * largest value of their type if the result would overflow. */
int64_t ct_shape_count(const ct_shape_t *s);
/** Returns the number of elements of one sample: all dims but the first. */
int64_t ct_shape_sample(const ct_shape_t *s);
/** Returns the number of elements with the padding of the layout. */
int64_t ct_shape_padded(const ct_shape_t *s);
/** Returns the number of bytes with the padding of the layout. */
size_t ct_shape_bytes(const ct_shape_t *s);
/** Returns 1 if the dims are equal; ignores dtype and layout. */
int ct_shape_same(const ct_shape_t *a, const ct_shape_t *b);
/** Writes the dims, "64x3x32x32", to buf (returned). */
const char *ct_shape_text(const ct_shape_t *s, char *buf, size_t cap);
/** Convert bfloat16, which is the upper half of a float32, to and from float32.  ct_bf16_of()
 * rounds to nearest, ties to even; NaN stays NaN. */
CT_INLINE float ct_bf16_float(uint16_t v)
{
  uint32_t bits = (uint32_t)v << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}
CT_INLINE uint16_t ct_bf16_of(float f)
{
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (f != f) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
/** Converts an IEEE half (1 sign bit, 5 bits of exponent, 10 bits of mantissa) to float32. */
CT_INLINE float ct_half_float(uint16_t v)
{
  uint32_t sign = (uint32_t)(v & 0x8000) << 16, rest = v & 0x7fff, bits;
  float small = (float)rest * 0x1p-24f, f;
  if (rest >= 0x7c00)
    bits = sign | 0x7f800000 | (rest & 0x3ff) << 13;
  else if (rest >= 0x400)
    bits = sign | ((rest << 13) + ((127 - 15) << 23));
  else
    return sign ? -small : small;
  memcpy(&f, &bits, sizeof f);
  return f;
}

size_t ct_dtype_size(ct_dtype_t t);
/** Returns the number at \a p; \a t must be an integer type. */
int64_t ct_dtype_whole(ct_dtype_t t, const void *p);
/** Returns NumPy's name of a type: "float32", "uint8", … */
const char *ct_dtype_name(ct_dtype_t t);
const char *ct_layout_name(ct_layout_t l);

#endif
