/* Attention's heads apart and together: see heads.h.  Nothing is computed, so elements are moved as
 * units of the largest size of which a head's row is made. */
#include "cuda/kernels/heads.h"
#include "cuda/kernels/kernel.h"

enum { BLOCK = 256 };

/* Where unit i of the tensor of heads apart lies among the rows. */
CT_D int64_t among_rows(const gpu__heads_t &h, int64_t i)
{
  int64_t unit = i % h.wide, t = i / h.wide % h.t;
  int64_t head = i / (h.wide * h.t) % h.heads, sample = i / (h.wide * h.t * h.heads);
  int64_t part = sample / h.n;
  return ((((sample % h.n) * h.t + t) * h.parts + part) * h.heads + head) * h.wide + unit;
}

CT_D int64_t units(const gpu__heads_t &h)
{
  return h.n * h.t * h.parts * h.heads * h.wide;
}

template <class U> CT_KERNEL void apart(gpu__heads_t h, const U *from, U *to)
{
  GPU_LOOP (i, units(h))
    to[i] = from[among_rows(h, i)];
}

template <class U> CT_KERNEL void together(gpu__heads_t h, const U *from, U *to)
{
  GPU_LOOP (i, units(h))
    to[among_rows(h, i)] = from[i];
}

template <class U>
static void move(gpu__heads_t h, int is_apart, const void *from, void *to, cudaStream_t stream)
{
  unsigned grid = gpu_grid(h.n * h.t * h.parts * h.heads * h.wide, BLOCK);
  if (is_apart)
    CT_LAUNCH(apart<U>, grid, BLOCK, stream, h, (const U *)from, (U *)to);
  else
    CT_LAUNCH(together<U>, grid, BLOCK, stream, h, (const U *)from, (U *)to);
}

static cudaError_t any(const gpu__heads_t *heads, size_t size, int is_apart, const void *from,
                       void *to, cudaStream_t stream)
{
  gpu__heads_t h = *heads;
  int64_t row = h.wide * (int64_t)size;
  if (row % GPU_PACK_BYTES == 0) {
    h.wide = row / GPU_PACK_BYTES;
    move<gpu_pack<float>>(h, is_apart, from, to, stream);
  } else if (row % 4 == 0) {
    h.wide = row / 4;
    move<uint32_t>(h, is_apart, from, to, stream);
  } else {
    move<uint16_t>(h, is_apart, from, to, stream);
  }
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__heads_apart(const gpu__heads_t *h, size_t size, const void *rows,
                                        void *apart, cudaStream_t stream)
{
  return any(h, size, 1, rows, apart, stream);
}

extern "C" cudaError_t gpu__heads_together(const gpu__heads_t *h, size_t size, const void *apart,
                                           void *rows, cudaStream_t stream)
{
  return any(h, size, 0, apart, rows, stream);
}
