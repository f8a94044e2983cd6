/* Separates and merges attention heads: see heads.h. No arithmetic: elements are moved in the
 * largest units that divide a head's row. */
#include "cuda/kernels/heads.h"
#include "cuda/kernels/kernel.h"

enum { BLOCK = 256 };

/* Returns the index in the merged layout of unit i of the separated layout. I: index type; 32-bit
 * divisions are much cheaper. */
template <class I> CT_D int64_t among_rows(const gpu__heads_t &h, I i)
{
  I unit = i % (I)h.wide;
  i /= (I)h.wide;
  I t = i % (I)h.t;
  i /= (I)h.t;
  I head = i % (I)h.heads;
  i /= (I)h.heads;
  I sample = i % (I)h.n, part = i / (I)h.n;
  return (((sample * h.t + t) * h.parts + part) * h.heads + head) * h.wide + unit;
}

template <class U, class I> CT_KERNEL void apart(int64_t n, gpu__heads_t h, const U *from, U *to)
{
  GPU_LOOP (i, n)
    to[i] = from[among_rows(h, (I)i)];
}

template <class U, class I> CT_KERNEL void together(int64_t n, gpu__heads_t h, const U *from, U *to)
{
  GPU_LOOP (i, n)
    to[among_rows(h, (I)i)] = from[i];
}

template <class U, class I>
static void launch(int64_t n, gpu__heads_t h, int is_apart, const void *from, void *to,
                   cudaStream_t stream)
{
  unsigned grid = gpu_grid(n, BLOCK);
  if (is_apart)
    CT_LAUNCH((apart<U, I>), grid, BLOCK, stream, n, h, (const U *)from, (U *)to);
  else
    CT_LAUNCH((together<U, I>), grid, BLOCK, stream, n, h, (const U *)from, (U *)to);
}

template <class U>
static void move(gpu__heads_t h, int is_apart, const void *from, void *to, cudaStream_t stream)
{
  int64_t n = h.n * h.t * h.parts * h.heads * h.wide;
  if (n <= INT32_MAX)
    launch<U, uint32_t>(n, h, is_apart, from, to, stream);
  else
    launch<U, int64_t>(n, h, is_apart, from, to, stream);
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
