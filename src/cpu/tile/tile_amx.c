/* Micro-kernel and packing for AMX. */
#include "cpu/tile/amx.h"
#include "base/ct_int.h"
#include "cpu/onednn/glue.h"

#ifdef __x86_64__
#  ifdef __clang__
#    pragma clang attribute push(                                                        \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16"))), \
        apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,amx-bf16")
#  endif
#  include <immintrin.h>

/* oneDNN asks the system for the tile registers when it looks for AMX. */
int cpu__amx_is_there(void)
{
  return cpu__dnnl_has_amx();
}

/* Eight tiles of 16 rows of 64 bytes. */
typedef struct config {
  uint8_t palette, start, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} config_t;

void cpu__amx_begin(void)
{
  /* not on the stack: gcc does not know that the intrinsic reads all 64 bytes */
  static const config_t config = {.palette = 1,
                                  .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                  .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
  _tile_loadconfig(&config);
}

void cpu__amx_end(void)
{
  _tile_release();
}

/* Tiles 0 to 3 are C, 4 and 5 A, 6 and 7 B. */
#  define START(tile, used, at)              \
    do {                                     \
      if ((used) && t->add)                  \
        _tile_loadd(tile, at, t->c_row * 4); \
      else if (used)                         \
        _tile_zero(tile);                    \
    } while (0)

static inline __attribute__((always_inline)) void
run(const cpu__amx_t *t, const uint16_t *a, const uint16_t *b, float *c, int down, int right)
{
  START(0, 1, c);
  START(1, right, c + t->c_right);
  START(2, down, c + t->c_down);
  START(3, down && right, c + t->c_down + t->c_right);
  for (int64_t i = 0; i < t->taps; i++) {
    const uint16_t *ka = a + t->a_at[i], *kb = b + t->b_at[i];
    for (int64_t k = 0; k < t->steps; k++, ka += CPU__AMX_K, kb += CPU__AMX * CPU__AMX_K) {
      _tile_loadd(6, kb, 64);
      _tile_loadd(4, ka, t->a_row * 2);
      _tile_dpbf16ps(0, 4, 6);
      if (right) {
        _tile_loadd(7, kb + t->b_tile, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if (down) {
        _tile_loadd(5, ka + t->a_tile, t->a_row * 2);
        _tile_dpbf16ps(2, 5, 6);
      }
      if (down && right) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, t->c_row * 4);
  if (right) _tile_stored(1, c + t->c_right, t->c_row * 4);
  if (down) _tile_stored(2, c + t->c_down, t->c_row * 4);
  if (down && right) _tile_stored(3, c + t->c_down + t->c_right, t->c_row * 4);
}

void cpu__amx_run(const cpu__amx_t *t, const uint16_t *a, const uint16_t *b, float *c)
{
  if (t->down > 1 && t->right > 1)
    run(t, a, b, c, 1, 1);
  else if (t->down > 1)
    run(t, a, b, c, 1, 0);
  else if (t->right > 1)
    run(t, a, b, c, 0, 1);
  else
    run(t, a, b, c, 0, 0);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Reads 32 channels of the k-th pixel. */
static inline __attribute__((always_inline)) __m512i take(const cpu__gather_t *g, int64_t k,
                                                          int64_t c, __mmask32 there)
{
  int32_t pixel = g->table[k];
  if (pixel < 0) return _mm512_setzero_si512();
  return _mm512_maskz_loadu_epi16(there, g->image + pixel * g->channels + c);
}

/* Returns the channels from c on, at most 32, as a mask. */
static __mmask32 mask_of(const cpu__gather_t *g, int64_t c)
{
  int64_t n = ct_least(32, g->channels - c);
  return n == 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
}

void cpu__amx_pack_b(const cpu__gather_t *g, int64_t c, uint16_t *out, int64_t next)
{
  const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
  const __m512i second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
  __mmask32 there = mask_of(g, c);
  int both = g->channels - c > CPU__AMX;
  for (int64_t k = 0; k < g->k; k += 2, out += 32) {
    __m512i even = take(g, k, c, there), odd = take(g, k + 1, c, there);
    __m512i lower = _mm512_unpacklo_epi16(even, odd), upper = _mm512_unpackhi_epi16(even, odd);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64(lower, first, upper));
    if (both) _mm512_storeu_si512(out + next, _mm512_permutex2var_epi64(lower, second, upper));
  }
}

/* Transposes 16 vectors of 16 pairs. */
static inline __attribute__((always_inline)) void transpose(__m512i v[16])
{
  __m512i w[16];
#  pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
#  pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; j++) {
      v[i + 2 * j] = _mm512_unpacklo_epi64(w[i + j], w[i + j + 2]);
      v[i + 2 * j + 1] = _mm512_unpackhi_epi64(w[i + j], w[i + j + 2]);
    }
#  pragma GCC unroll 16
  for (int i = 0; i < 4; i++) { /* column i of each 128-bit lane: rows 4 * j, j in 0 to 3 */
    __m512i a = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
    __m512i b = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xdd);
    __m512i d = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
    __m512i e = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xdd);
    w[i] = _mm512_shuffle_i32x4(a, d, 0x88);
    w[i + 8] = _mm512_shuffle_i32x4(a, d, 0xdd);
    w[i + 4] = _mm512_shuffle_i32x4(b, e, 0x88);
    w[i + 12] = _mm512_shuffle_i32x4(b, e, 0xdd);
  }
#  pragma GCC unroll 16
  for (int i = 0; i < 16; i++)
    v[i] = w[i];
}

/* Packs 32 pixels as 32 elements of each row; upper: of the channels 4 to 7 of each 8. */
static inline __attribute__((always_inline)) void pack_rows(const cpu__gather_t *g, int64_t k,
                                                            int64_t c, __mmask32 there,
                                                            uint16_t *out, int64_t row, int upper)
{
  __m512i v[16];
#  pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    __m512i even = take(g, k + 2 * i, c, there), odd = take(g, k + 2 * i + 1, c, there);
    v[i] = upper ? _mm512_unpackhi_epi16(even, odd) : _mm512_unpacklo_epi16(even, odd);
  }
  transpose(v);
  int64_t rows = ct_round_up(ct_least(32, g->channels - c), CPU__AMX);
#  pragma GCC unroll 16
  for (int i = 0; i < 16; i++) {
    int64_t channel = i / 4 * 8 + i % 4 + 4 * upper;
    if (channel < rows) _mm512_storeu_si512(out + channel * row, v[i]);
  }
}

void cpu__amx_pack_a(const cpu__gather_t *g, int64_t c, uint16_t *out, int64_t row)
{
  __mmask32 there = mask_of(g, c);
  for (int64_t k = 0; k < g->k; k += CPU__AMX_K) {
    pack_rows(g, k, c, there, out + k, row, 0);
    pack_rows(g, k, c, there, out + k, row, 1);
  }
}
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#else
int cpu__amx_is_there(void)
{
  return 0;
}

/* Stubs: there is no AMX on this architecture. */
void cpu__amx_begin(void)
{
}

void cpu__amx_end(void)
{
}

void cpu__amx_run(const cpu__amx_t *t, const uint16_t *a, const uint16_t *b, float *c)
{
  (void)t, (void)a, (void)b, (void)c;
}

void cpu__amx_pack_b(const cpu__gather_t *g, int64_t c, uint16_t *out, int64_t next)
{
  (void)g, (void)c, (void)out, (void)next;
}

void cpu__amx_pack_a(const cpu__gather_t *g, int64_t c, uint16_t *out, int64_t row)
{
  (void)g, (void)c, (void)out, (void)row;
}
#endif
