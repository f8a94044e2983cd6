/* Resizing; whole factors have short formulas of their own. One thread per element: forward
 * computes an output from one or two inputs along each axis; backward computes an input's gradient
 * from the surrounding outputs. */
#include "cuda/kernels/upsample.h"

#include "cuda/kernels/kernel.h"

enum { THREADS = 256 };

/* Returns the weight of input i in output o along an axis. */
CT_D float share_in(const gpu__upsample_t &u, int axis, int64_t o, int64_t i)
{
  if (!u.whole) return (float)ct_resize_share(&u.dim[axis], o, i);
  int64_t factor = u.out[axis] / u.in[axis];
  if (!u.linear) return o / factor == i;
  float at = ((float)o + 0.5f) / (float)factor - 0.5f;
  int64_t below = at > 0 ? (int64_t)at : 0, next = below + 1 < u.in[axis] ? below + 1 : below;
  float rest = at > 0 ? at - (float)below : 0;
  return (i == below ? 1 - rest : 0) + (i == next ? rest : 0);
}

/* Computes the range of inputs [from, to) of an output. */
CT_D void inputs_of(const gpu__upsample_t &u, int axis, int64_t o, int64_t &from, int64_t &to)
{
  if (!u.whole) {
    ct_resize_tap_t t = ct_resize_tap(&u.dim[axis], o);
    from = t.in[0];
    to = t.in[t.taps - 1] + 1;
    return;
  }
  int64_t factor = u.out[axis] / u.in[axis];
  from = o / factor;
  if (u.linear && 2 * (o % factor) + 1 < factor) from--;
  to = from + 1 + u.linear;
  if (from < 0) from = 0;
  if (to > u.in[axis]) to = u.in[axis];
}

CT_D void outputs_of(const gpu__upsample_t &u, int axis, int64_t i, int64_t &from, int64_t &to)
{
  if (!u.whole) {
    ct_resize_outputs(&u.dim[axis], i, &from, &to);
    return;
  }
  int64_t factor = u.out[axis] / u.in[axis];
  from = (i - u.linear) * factor;
  to = (i + 1 + u.linear) * factor;
  if (from < 0) from = 0;
  if (to > u.out[axis]) to = u.out[axis];
}

/* Position of an element: its index counts [outer][size][inner]. */
struct spot {
  int64_t outer, at[3], inner;
};

CT_D spot spot_of(const gpu__upsample_t &u, const int64_t *size, int64_t i)
{
  spot s;
  s.inner = i % u.inner;
  i /= u.inner;
  for (int axis = 2; axis >= 0; axis--) {
    s.at[axis] = i % size[axis];
    i /= size[axis];
  }
  s.outer = i;
  return s;
}

/* Returns the weighted sum of the elements [from, to) of the other array. */
template <class T>
CT_D float sum_of(const gpu__upsample_t &u, int back, const spot &s, const T *x, const T *x2)
{
  const int64_t *size = back ? u.out : u.in;
  int64_t from[3], to[3];
  float sum = 0;
  for (int axis = 0; axis < 3; axis++)
    if (back)
      outputs_of(u, axis, s.at[axis], from[axis], to[axis]);
    else
      inputs_of(u, axis, s.at[axis], from[axis], to[axis]);
  for (int64_t z = from[0]; z < to[0]; z++) {
    float by_z = back ? share_in(u, 0, z, s.at[0]) : share_in(u, 0, s.at[0], z);
    for (int64_t r = from[1]; r < to[1]; r++) {
      float by_r = by_z * (back ? share_in(u, 1, r, s.at[1]) : share_in(u, 1, s.at[1], r));
      for (int64_t c = from[2]; c < to[2]; c++) {
        float share = by_r * (back ? share_in(u, 2, c, s.at[2]) : share_in(u, 2, s.at[2], c));
        int64_t at = (((s.outer * size[0] + z) * size[1] + r) * size[2] + c) * u.inner + s.inner;
        if (share != 0) sum += share * (gpu_load(x + at) + (x2 ? gpu_load(x2 + at) : 0));
      }
    }
  }
  return sum;
}

template <class T> CT_KERNEL void upsample(gpu__upsample_t u, int64_t n, const T *x, T *y)
{
  GPU_LOOP (i, n)
    gpu_store(&y[i], sum_of<T>(u, 0, spot_of(u, u.out, i), x, nullptr));
}

template <class T>
CT_KERNEL void upsample_backward(gpu__upsample_t u, int64_t n, const T *dy, const T *dy2, T *dx)
{
  GPU_LOOP (i, n)
    gpu_store(&dx[i], sum_of<T>(u, 1, spot_of(u, u.in, i), dy, dy2));
}

static int64_t count(const gpu__upsample_t *u, const int64_t *size)
{
  return u->outer * size[0] * size[1] * size[2] * u->inner;
}

extern "C" cudaError_t gpu__upsample(ct_dtype_t type, const gpu__upsample_t *u, const void *x,
                                     void *y, cudaStream_t stream)
{
  int64_t n = count(u, u->out);
  GPU_BY_TYPE(
      type, T,
      CT_LAUNCH(upsample<T>, gpu_grid(n, THREADS), THREADS, stream, *u, n, (const T *)x, (T *)y));
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__upsample_backward(ct_dtype_t type, const gpu__upsample_t *u,
                                              const void *dy, const void *dy2, void *dx,
                                              cudaStream_t stream)
{
  int64_t n = count(u, u->in);
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(upsample_backward<T>, gpu_grid(n, THREADS), THREADS, stream, *u, n,
                        (const T *)dy, (const T *)dy2, (T *)dx));
  return cudaGetLastError();
}
