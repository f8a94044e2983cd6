/** \file map.h  Elementwise kernel for any function of up to three inputs. Module-internal.
 *
 *     struct halve {
 *       CT_METHOD float operator()(float a, float, float) const { return a / 2; }
 *     };
 *     GPU_BY_TYPE(type, T, return gpu_map<T>(n, x, nullptr, nullptr, y, halve{}, stream));
 *
 * The function is an object, so that it can have parameters. A NULL input reads as 0. The output
 * may be one of the inputs. */
#ifndef GPU_MAP_H
#define GPU_MAP_H
#include "cuda/kernels/kernel.h"

/** Prefix of member functions that run on the device: CT_D without static. */
#ifdef __CUDACC__
#  define CT_METHOD __device__ __forceinline__
#else
#  define CT_METHOD inline
#endif

template <class T> struct gpu_inputs {
  const T *a, *b, *c;
};

template <class T> CT_D float gpu_or_zero(const T *p, int64_t i)
{
  return p ? gpu_load(p + i) : 0;
}

template <class T> CT_D gpu_pack<T> gpu_pack_or_zero(const T *p, int64_t i)
{
  gpu_pack<T> zero = {};
  return p ? gpu_load_pack(p + i) : zero;
}

template <class T, class F> CT_KERNEL void gpu_map_one(int64_t n, gpu_inputs<T> in, T *out, F f)
{
  GPU_LOOP (i, n)
    gpu_store(&out[i], f(gpu_or_zero(in.a, i), gpu_or_zero(in.b, i), gpu_or_zero(in.c, i)));
}

/* Applies f to packs; n is a multiple of the pack size. */
template <class T, class F> CT_KERNEL void gpu_map_packs(int64_t n, gpu_inputs<T> in, T *out, F f)
{
  constexpr int width = gpu_pack<T>::n;
  GPU_LOOP (i, n / width) {
    gpu_pack<T> a = gpu_pack_or_zero(in.a, i * width), b = gpu_pack_or_zero(in.b, i * width),
                c = gpu_pack_or_zero(in.c, i * width), y;
    for (int k = 0; k < width; k++)
      gpu_store(&y.v[k], f(gpu_load(&a.v[k]), gpu_load(&b.v[k]), gpu_load(&c.v[k])));
    gpu_store_pack(out + i * width, y);
  }
}

/** Computes out[i] = f(a[i], b[i], c[i]) for i < n. */
template <class T, class F>
static cudaError_t gpu_map(int64_t n, const void *a, const void *b, const void *c, void *out, F f,
                           cudaStream_t stream)
{
  gpu_inputs<T> in = {(const T *)a, (const T *)b, (const T *)c};
  int packs = gpu_is_aligned(a) && gpu_is_aligned(b) && gpu_is_aligned(c) && gpu_is_aligned(out);
  int64_t done = packs ? n / gpu_pack<T>::n * gpu_pack<T>::n : 0;
  if (done > 0)
    CT_LAUNCH((gpu_map_packs<T, F>), gpu_grid(done / gpu_pack<T>::n, 256), 256, stream, done, in,
              (T *)out, f);
  if (done < n) {
    gpu_inputs<T> rest = {in.a ? in.a + done : in.a, in.b ? in.b + done : in.b,
                          in.c ? in.c + done : in.c};
    CT_LAUNCH((gpu_map_one<T, F>), gpu_grid(n - done, 256), 256, stream, n - done, rest,
              (T *)out + done, f);
  }
  return cudaGetLastError();
}

#endif
