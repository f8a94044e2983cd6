/* The shuffle filter, and unshuffling.
 *
 * Elements of 2, 4 and 8 bytes, by far the most common sizes, use vector instructions: AVX2 if
 * available, else 16-byte vectors, which every 64-bit machine has. */
#include <string.h>

#include "hdf5io/filter/h5_filter.h"
#ifdef __x86_64__
#  include <immintrin.h>
#endif

#define UNROLLED _Pragma("GCC unroll 8")

static int know(ct__h5_step_t *step, size_t n, const unsigned *values)
{
  step->item = values[0];
  return n > 0 && step->item > 0;
}

static const char *filter_shuffle_decode(ct__h5_decoder_t *d, const ct__h5_step_t *step,
                                         ct__h5_bytes_t from, uint8_t *to, size_t *bytes)
{
  (void)d;
  if (from.n > *bytes) return "it is too long";
  *bytes = from.n;
  ct__h5_unshuffle(from.at, from.n, step->item, to);
  return NULL;
}

const ct__h5_filter_t ct__h5_filter_shuffle = {H5Z_FILTER_SHUFFLE, .know = know,
                                               .decode = filter_shuffle_decode};

/* Processes the elements from `done` to n, one at a time. */
static void one_by_one(const uint8_t *from, size_t n, size_t item, size_t done, uint8_t *to)
{
  for (size_t k = 0; k < item; k++)
    for (size_t i = done; i < n; i++)
      to[i * item + k] = from[k * n + i];
}

/* ---- vectors of 16 bytes ---- */

typedef uint8_t v16_t __attribute__((vector_size(16)));

static inline v16_t low(v16_t a, v16_t b)
{
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

static inline v16_t high(v16_t a, v16_t b)
{
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15,
                                 31);
}

/* Interleaving the first half of the vectors with the second half, log2(item) times, is the
 * transpose: it turns 16 bytes of each plane into 16 elements. */
static inline __attribute__((always_inline)) size_t by_16(const uint8_t *from, size_t n,
                                                          size_t item, uint8_t *to)
{
  size_t i = 0;
  for (; i + 16 <= n; i += 16) {
    v16_t a[8], b[8];
    UNROLLED
    for (size_t k = 0; k < item; k++)
      memcpy(&a[k], from + k * n + i, 16);
    UNROLLED
    for (size_t half = item / 2, left = item; left > 1; left /= 2) {
      UNROLLED
      for (size_t k = 0; k < half; k++) {
        b[2 * k] = low(a[k], a[k + half]);
        b[2 * k + 1] = high(a[k], a[k + half]);
      }
      memcpy(a, b, sizeof a);
    }
    memcpy(to + i * item, a, 16 * item);
  }
  return i;
}

static size_t portable(const uint8_t *from, size_t n, size_t item, uint8_t *to)
{
  if (item == 2) return by_16(from, n, 2, to);
  if (item == 4) return by_16(from, n, 4, to);
  if (item == 8) return by_16(from, n, 8, to);
  return 0;
}

/* ---- vectors of 32 bytes: two halves, each as above, reordered at the end ---- */

#ifdef __x86_64__
static inline __attribute__((always_inline, target("avx2"))) size_t
by_32(const uint8_t *from, size_t n, size_t item, uint8_t *to)
{
  size_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i a[8], b[8];
    UNROLLED
    for (size_t k = 0; k < item; k++)
      a[k] = _mm256_loadu_si256((const __m256i *)(const void *)(from + k * n + i));
    UNROLLED
    for (size_t half = item / 2, left = item; left > 1; left /= 2) {
      UNROLLED
      for (size_t k = 0; k < half; k++) {
        b[2 * k] = _mm256_unpacklo_epi8(a[k], a[k + half]);
        b[2 * k + 1] = _mm256_unpackhi_epi8(a[k], a[k + half]);
      }
      UNROLLED
      for (size_t k = 0; k < item; k++)
        a[k] = b[k];
    }
    __m256i *out = (__m256i *)(void *)(to + i * item);
    UNROLLED
    for (size_t k = 0; k < item; k += 2) {
      _mm256_storeu_si256(out + k / 2, _mm256_permute2x128_si256(a[k], a[k + 1], 0x20));
      _mm256_storeu_si256(out + item / 2 + k / 2, _mm256_permute2x128_si256(a[k], a[k + 1], 0x31));
    }
  }
  return i;
}

__attribute__((target("avx2"))) static size_t avx2(const uint8_t *from, size_t n, size_t item,
                                                   uint8_t *to)
{
  if (item == 2) return by_32(from, n, 2, to);
  if (item == 4) return by_32(from, n, 4, to);
  if (item == 8) return by_32(from, n, 8, to);
  return 0;
}
#endif

void ct__h5_unshuffle(const uint8_t *from, size_t bytes, size_t item, uint8_t *to)
{
  size_t n = bytes / item, done;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2"))
    done = avx2(from, n, item, to);
  else
#endif
    done = portable(from, n, item, to);
  one_by_one(from, n, item, done, to);
  memcpy(to + n * item, from + n * item, bytes - n * item);
}
