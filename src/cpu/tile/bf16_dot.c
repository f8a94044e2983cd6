/* Selects the bf16 micro-kernels, and interleaves rows into pairs. */
#include "cpu/tile/bf16_dot.h"

#ifdef __x86_64__
extern const cpu__tiles_t cpu__tiles_bf16_dot;

const cpu__tiles_t *cpu__bf16_dot_tiles(const ct_dev_t *dev)
{
  if (dev->isa != CPU__AVX512 || dev->bf16_rate == 0) return NULL;
  return __builtin_cpu_supports("avx512bf16") ? &cpu__tiles_bf16_dot : NULL;
}

/* The rest is compiled for AVX-512. */
#  ifdef __clang__
#    pragma clang attribute push( \
        __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#  else
#    pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#  endif
#  define CPU__VW 16
#  define CPU__BF16
#  include "cpu/kern/vec.h"

INLINE void put_interleaved(elems_t first, elems_t second, uint32_t *out)
{
  typedef bits_t bits_mem_t __attribute__((aligned(4), may_alias));
  *(bits_mem_t *)out =
      __builtin_convertvector(first, bits_t) | __builtin_convertvector(second, bits_t) << 16;
}

INLINE elems_t take_elems(const uint16_t *row, int64_t at, int n)
{
  elems_t e = {0};
  if (n == CPU__VW) return *(const elems_mem_t *)(row + at);
  for (int j = 0; j < n; j++)
    e[j] = row[at + j];
  return e;
}

INLINE int lanes_at(int64_t count, int64_t at)
{
  return count - at < CPU__VW ? (int)(count - at) : CPU__VW;
}

void cpu__interleave_rows(int64_t count, const uint16_t *first, const uint16_t *second,
                          uint32_t *out, int64_t panel)
{
  for (int64_t i = 0; i < count; i += CPU__VW, out += panel) {
    int n = lanes_at(count, i);
    put_interleaved(take_elems(first, i, n), second ? take_elems(second, i, n) : (elems_t){0}, out);
  }
}

void cpu__interleave_floats(int64_t count, const float *first, const float *second, uint32_t *out,
                            int64_t panel)
{
  for (int64_t i = 0; i < count; i += CPU__VW, out += panel) {
    int n = lanes_at(count, i);
    put_interleaved(elems_of(load(first + i, n)),
                    second ? elems_of(load(second + i, n)) : (elems_t){0}, out);
  }
}
#  ifdef __clang__
#    pragma clang attribute pop
#  endif
#else
const cpu__tiles_t *cpu__bf16_dot_tiles(const ct_dev_t *dev)
{
  (void)dev;
  return NULL;
}

/* Stubs: there are no bf16 micro-kernels on this architecture. */
void cpu__interleave_rows(int64_t count, const uint16_t *first, const uint16_t *second,
                          uint32_t *out, int64_t panel)
{
  (void)count, (void)first, (void)second, (void)out, (void)panel;
}

void cpu__interleave_floats(int64_t count, const float *first, const float *second, uint32_t *out,
                            int64_t panel)
{
  (void)count, (void)first, (void)second, (void)out, (void)panel;
}
#endif
