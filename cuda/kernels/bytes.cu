/* Converts samples stored as bytes on the device, by a scale and offset per channel: only a quarter
 * of the data is transferred. */
#include "cuda/kernels/bytes.h"

#include "cuda/kernels/kernel.h"

/* Returns a * x + b, rounded twice like the conversion on the host: not contracted to an FMA. */
CT_D float affine_of(float a, float x, float b)
{
#ifdef __CUDACC__
  return __fadd_rn(__fmul_rn(a, x), b);
#else
  return a * x + b;
#endif
}

/* A thread handles all channels of a pixel. Images have few channels, and a warp's accesses are
 * contiguous in any layout. */
template <class T>
CT_KERNEL void from_bytes(int64_t pixels, int64_t channels, int64_t space, int x_last, int y_last,
                          const uint8_t *x, const float *affine, T *y)
{
  GPU_LOOP (i, pixels) {
    int64_t first =
        i / space * channels * space + i % space; /* index of channel 0 if channels are first */
    for (int64_t c = 0; c < channels; c++) {
      int64_t from = x_last ? i * channels + c : first + c * space;
      int64_t to = y_last ? i * channels + c : first + c * space;
      gpu_store(&y[to], affine_of(affine[c], (float)x[from], affine[channels + c]));
    }
  }
}

extern "C" cudaError_t gpu__from_bytes(ct_dtype_t to, int64_t batch, int64_t channels,
                                       int64_t space, int x_last, int y_last, const uint8_t *x,
                                       const float *affine, void *y, cudaStream_t stream)
{
  int64_t pixels = batch * space;
  if (pixels == 0) return cudaSuccess;
  GPU_BY_TYPE(to, T,
              CT_LAUNCH(from_bytes<T>, gpu_grid(pixels, 256), 256, stream, pixels, channels, space,
                        x_last, y_last, x, affine, (T *)y))
  return cudaGetLastError();
}
