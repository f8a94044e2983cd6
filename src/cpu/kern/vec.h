/** \file kern/vec.h  A vector of CPU__VW floats, for the files that compile the inner loops for one
 * instruction set.  Module-internal.
 *
 * Arithmetic is in float32.  Activations in memory are float32 or, with CPU__BF16 defined, bf16:
 * get() and put() access their elements; load() and store() access floats.
 *
 * Arithmetic and comparisons use the compilers' vector extensions: `a * b + c`, `a > b` (a mask_t,
 * each lane all ones or zero; a lane is an element of a vector).  Multiply and add are fused if the
 * instruction set allows it.  The functions below are missing in the extensions, or compilers
 * generate slow code for them.
 *
 * Loads and stores take the number of valid lanes: a loop runs its step over whole vectors with the
 * constant CPU__VW, then once for the remainder. */
#ifndef CT_KERN_VEC_H
#define CT_KERN_VEC_H
#include <stdint.h>
#include <string.h>
#include "cpu/kern/loops.h"
#ifdef __SSE2__
#  include <immintrin.h>
#elif defined(__aarch64__)
#  include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline))
/* Unrolls short loops. */
#define UNROLLED _Pragma("GCC unroll 9")

typedef float vec_t __attribute__((vector_size(CPU__VW * 4)));
typedef int32_t mask_t __attribute__((vector_size(CPU__VW * 4)));
typedef vec_t vec_mem_t __attribute__((aligned(4), may_alias));

/** Returns the count rounded down to whole vectors. */
INLINE int64_t whole(int64_t count)
{
  return count - count % CPU__VW;
}

INLINE vec_t splat(float v)
{
  return v - (vec_t){0};
}

/** Returns a where the mask is set, else 0. */
INLINE vec_t keep(mask_t m, vec_t a)
{
  return (vec_t)(m & (mask_t)a);
}

INLINE vec_t choose(mask_t m, vec_t a, vec_t b)
{
  return (vec_t)((m & (mask_t)a) | (~m & (mask_t)b));
}

/** Returns the larger of a and b; b if they are equal or one is NaN. */
INLINE vec_t max_of(vec_t a, vec_t b)
{
#if CPU__VW == 16 && defined(__SSE2__)
  return (vec_t)_mm512_max_ps((__m512)a, (__m512)b);
#elif CPU__VW == 8 && defined(__SSE2__) && defined(__AVX__)
  return (vec_t)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return choose(a > b, a, b);
#endif
}

INLINE vec_t abs_of(vec_t v)
{
  return (vec_t)((mask_t)v & 0x7fffffff);
}

/** Returns PyTorch's ReLU of v: NaN stays NaN. */
INLINE vec_t relu_of(vec_t v)
{
  return keep(~(v <= 0), v);
}

/* The functions below use intrinsics, because compilers generate code several times longer from the
 * vector extensions.  set_where() returns i where a == b, else `rest`.  add_where() returns sum + v
 * where a == i.  has_nan() returns 1 if a lane is NaN. */
#if CPU__VW == 16 && defined(__SSE2__)
INLINE mask_t set_where(vec_t a, vec_t b, int32_t i, mask_t rest)
{
  __mmask16 same = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ);
  return (mask_t)_mm512_mask_mov_epi32((__m512i)rest, same, _mm512_set1_epi32(i));
}

INLINE vec_t add_where(vec_t sum, mask_t a, int32_t i, vec_t v)
{
  __mmask16 same = _mm512_cmpeq_epi32_mask((__m512i)a, _mm512_set1_epi32(i));
  return (vec_t)_mm512_mask_add_ps((__m512)sum, same, (__m512)sum, (__m512)v);
}

INLINE int has_nan(vec_t v)
{
  return _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q) != 0;
}
#else
INLINE mask_t set_where(vec_t a, vec_t b, int32_t i, mask_t rest)
{
  mask_t same = a == b;
  return (same & i) | (~same & rest);
}

INLINE vec_t add_where(vec_t sum, mask_t a, int32_t i, vec_t v)
{
  return sum + keep(a == i, v);
}

INLINE int has_nan(vec_t v)
{
#  if CPU__VW == 8 && defined(__AVX__)
  return _mm256_movemask_ps((__m256)(v != v)) != 0;
#  elif CPU__VW == 4 && defined(__aarch64__)
  return vmaxvq_u32((uint32x4_t)(v != v)) != 0;
#  endif
  mask_t nan = v != v;
  int32_t any = 0;
  for (int j = 0; j < CPU__VW; j++)
    any |= nan[j];
  return any != 0;
}
#endif

/* load_some() and store_some() access n < CPU__VW lanes; the other lanes of a load come from
 * `rest`. */
#if CPU__VW == 16 && defined(__SSE2__)
INLINE vec_t load_some(const float *p, int n, vec_t rest)
{
  return (vec_t)_mm512_mask_loadu_ps((__m512)rest, (__mmask16)((1u << n) - 1), p);
}

INLINE void store_some(float *p, vec_t v, int n)
{
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
}

INLINE void store_bytes(uint8_t *p, mask_t v)
{
  _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((__m512i)v));
}

INLINE mask_t load_bytes(const uint8_t *p)
{
  return (mask_t)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}
#elif CPU__VW == 8 && defined(__SSE2__)
INLINE mask_t first_lanes(int n)
{
  return (mask_t){0, 1, 2, 3, 4, 5, 6, 7} < n;
}

INLINE vec_t load_some(const float *p, int n, vec_t rest)
{
  mask_t m = first_lanes(n);
  return choose(m, (vec_t)_mm256_maskload_ps(p, (__m256i)m), rest);
}

INLINE void store_some(float *p, vec_t v, int n)
{
  _mm256_maskstore_ps(p, (__m256i)first_lanes(n), (__m256)v);
}

INLINE void store_bytes(uint8_t *p, mask_t v)
{
  __m256i i = (__m256i)v;
  __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

INLINE mask_t load_bytes(const uint8_t *p)
{
  return (mask_t)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}
#else
/* The loop is fully unrolled, because a compiler would replace it by memcpy(). */
INLINE vec_t load_some(const float *p, int n, vec_t rest)
{
  UNROLLED
  for (int j = 0; j < CPU__VW - 1; j++)
    if (j < n) rest[j] = p[j];
  return rest;
}

INLINE void store_some(float *p, vec_t v, int n)
{
  UNROLLED
  for (int j = 0; j < CPU__VW - 1; j++)
    if (j < n) p[j] = v[j];
}

INLINE void store_bytes(uint8_t *p, mask_t v)
{
  for (int j = 0; j < CPU__VW; j++)
    p[j] = (uint8_t)v[j];
}

INLINE mask_t load_bytes(const uint8_t *p)
{
  mask_t v = {0};
  for (int j = 0; j < CPU__VW; j++)
    v[j] = p[j];
  return v;
}
#endif

/** Loads n lanes; the others come from `rest`. */
INLINE vec_t load_or(const float *p, int n, vec_t rest)
{
  if (n == CPU__VW) return *(const vec_mem_t *)p;
  return load_some(p, n, rest);
}

INLINE vec_t load(const float *p, int n)
{
  return load_or(p, n, (vec_t){0});
}

INLINE void store(float *p, vec_t v, int n)
{
  if (n == CPU__VW) {
    *(vec_mem_t *)p = v;
  } else {
    store_some(p, v, n);
  }
}

/* ---- elements of an activation ---- */

#ifdef CPU__BF16
#  define ELEMS_BYTES (CPU__VW * 2)
/* The upper halves of floats are bf16 values. */
typedef uint32_t bits_t __attribute__((vector_size(CPU__VW * 4)));
typedef uint16_t elems_t __attribute__((vector_size(CPU__VW * 2)));
typedef elems_t elems_mem_t __attribute__((aligned(2), may_alias));
typedef uint16_t elem_t;

/* floats_of() converts from bf16.  elems_of() converts to bf16: rounds to nearest, ties to even;
 * NaN stays NaN.  The processor's own instruction would flush denormals to 0. */
#  if CPU__VW == 16 && defined(__SSE2__)
/* Compilers would use several times as many instructions. */
INLINE vec_t floats_of(elems_t e)
{
  return (vec_t)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)e), 16);
}

INLINE elems_t elems_of(vec_t v)
{
  const __m512i upper = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x1f001d, 0x1b0019, 0x170015,
                                         0x130011, 0xf000d, 0xb0009, 0x70005, 0x30001);
  __m512i b = (__m512i)v, odd = _mm512_and_epi32(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
  __m512i sum = _mm512_add_epi32(_mm512_add_epi32(b, _mm512_set1_epi32(0x7fff)), odd);
  __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
  sum = _mm512_mask_or_epi32(sum, nan, b, _mm512_set1_epi32(0x400000));
  return (elems_t)_mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, sum));
}
#  else
INLINE vec_t floats_of(elems_t e)
{
  return (vec_t)(__builtin_convertvector(e, bits_t) << 16);
}

INLINE elems_t elems_of(vec_t v)
{
  bits_t b = (bits_t)v, upper = b >> 16, nan = (bits_t)(v != v);
  bits_t rounded = (b + 0x7fff + (upper & 1)) >> 16;
  return __builtin_convertvector((nan & (upper | 0x40)) | (~nan & rounded), elems_t);
}
#  endif

INLINE float get_one(const void *p, int64_t i)
{
  return ct_bf16_float(((const elem_t *)p)[i]);
}

INLINE void put_one(void *p, int64_t i, float v)
{
  ((elem_t *)p)[i] = ct_bf16_of(v);
}

#  if CPU__VW == 16 && defined(__SSE2__)
INLINE vec_t get_some(const elem_t *p, int n, vec_t rest)
{
  __mmask16 first = (__mmask16)((1u << n) - 1);
  vec_t v = floats_of((elems_t)_mm256_maskz_loadu_epi16(first, p));
  return (vec_t)_mm512_mask_mov_ps((__m512)rest, first, (__m512)v);
}

INLINE void put_some(elem_t *p, elems_t e, int n)
{
  _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)e);
}
#  else
INLINE vec_t get_some(const elem_t *p, int n, vec_t rest)
{
  for (int j = 0; j < n; j++)
    rest[j] = ct_bf16_float(p[j]);
  return rest;
}

INLINE void put_some(elem_t *p, elems_t e, int n)
{
  for (int j = 0; j < n; j++)
    p[j] = e[j];
}
#  endif
#else
#  define ELEMS_BYTES (CPU__VW * 4)
typedef vec_t elems_t;
typedef vec_mem_t elems_mem_t;
typedef float elem_t;

INLINE vec_t floats_of(elems_t e)
{
  return e;
}

INLINE elems_t elems_of(vec_t v)
{
  return v;
}

INLINE float get_one(const void *p, int64_t i)
{
  return ((const elem_t *)p)[i];
}

INLINE void put_one(void *p, int64_t i, float v)
{
  ((elem_t *)p)[i] = v;
}

INLINE vec_t get_some(const elem_t *p, int n, vec_t rest)
{
  return load_some(p, n, rest);
}

INLINE void put_some(elem_t *p, elems_t e, int n)
{
  store_some(p, e, n);
}
#endif

/* Stores a whole vector with a non-temporal store; p is aligned to the vector's size in memory. */
INLINE void stream_whole(elem_t *p, elems_t e)
{
#if ELEMS_BYTES == 64 && defined(__SSE2__)
  _mm512_stream_si512((__m512i *)p, (__m512i)e);
#elif ELEMS_BYTES == 32 && defined(__SSE2__)
  _mm256_stream_si256((__m256i *)p, (__m256i)e);
#elif ELEMS_BYTES == 16 && defined(__SSE2__)
  _mm_stream_si128((__m128i *)p, (__m128i)e);
#else
  *(elems_mem_t *)p = e;
#endif
}

/** Loads the n elements from i on of the activation p; lanes from n on come from `rest`. */
INLINE vec_t get_or(const void *p, int64_t i, int n, vec_t rest)
{
  const elem_t *from = (const elem_t *)p + i;
  if (n == CPU__VW) return floats_of(*(const elems_mem_t *)from);
  return get_some(from, n, rest);
}

INLINE vec_t get(const void *p, int64_t i, int n)
{
  return get_or(p, i, n, (vec_t){0});
}

/** Stores n lanes.  With `stream`, whole vectors use non-temporal stores, and p + i must be
 * aligned. */
INLINE void put(void *p, int64_t i, vec_t v, int n, int stream)
{
  elem_t *to = (elem_t *)p + i;
  elems_t e = elems_of(v);
  if (n < CPU__VW) {
    put_some(to, e, n);
  } else if (stream) {
    stream_whole(to, e);
  } else {
    *(elems_mem_t *)to = e;
  }
}

/** Ends a loop with non-temporal stores: makes them visible before all later stores. */
INLINE void put_end(int stream)
{
#ifdef __SSE2__
  if (stream) _mm_sfence();
#else
  (void)stream;
#endif
}

/* The functions below combine the lanes in a binary tree, so that the chain of dependent operations
 * has a logarithmic length: lane j and lane j + CPU__VW / 2, and so on. */

#if defined(__SSE2__) && CPU__VW >= 4
INLINE __m128 quarter_sum(vec_t v)
{
#  if CPU__VW == 16
  __m256 half =
      _mm256_add_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
  return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#  elif CPU__VW == 8
  return _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#  else
  return (__m128)v;
#  endif
}

INLINE __m128 quarter_max(vec_t v)
{
#  if CPU__VW == 16
  __m256 half =
      _mm256_max_ps(_mm512_castps512_ps256((__m512)v), _mm512_extractf32x8_ps((__m512)v, 1));
  return _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#  elif CPU__VW == 8
  return _mm_max_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
#  else
  return (__m128)v;
#  endif
}

INLINE float lanes_sum(vec_t v)
{
  __m128 four = quarter_sum(v), two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

INLINE float lanes_max(vec_t v)
{
  __m128 four = quarter_max(v), two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}
#else
INLINE float lanes_sum(vec_t v)
{
  float part[CPU__VW];
  *(vec_mem_t *)part = v;
  for (int n = CPU__VW / 2; n > 0; n /= 2)
    for (int j = 0; j < n; j++)
      part[j] += part[j + n];
  return part[0];
}

INLINE float lanes_max(vec_t v)
{
  float part[CPU__VW];
  *(vec_mem_t *)part = v;
  for (int n = CPU__VW / 2; n > 0; n /= 2)
    for (int j = 0; j < n; j++)
      part[j] = part[j] > part[j + n] ? part[j] : part[j + n];
  return part[0];
}
#endif

#endif
