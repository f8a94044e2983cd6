/* Pooling, channels last.
 *
 * Each block loops over lines of outputs (backward: of inputs). Its threads handle the columns of a
 * line with W adjacent channels each: one pack, or a single channel if packs do not fit. So
 * adjacent threads access adjacent memory, and everything that depends only on the line is uniform
 * in a block. Backward gathers: for each input it visits the windows that contain it, so that no
 * element is written twice. */
#include "cuda/kernels/pool.h"

#include "cuda/kernels/map.h"

/* W adjacent elements, loaded or stored at once. */
template <class T, int W> struct alignas(sizeof(T) * W) lanes {
  T v[W];
};

template <int W, class T> CT_D lanes<T, W> load(const T *p)
{
  return *reinterpret_cast<const lanes<T, W> *>(p);
}

template <class T, int W> CT_D void store(T *p, const lanes<T, W> &v)
{
  *reinterpret_cast<lanes<T, W> *>(p) = v;
}

template <class T, int W> CT_D void store_floats(T *p, const float (&v)[W])
{
  lanes<T, W> out;
  for (int k = 0; k < W; k++)
    gpu_store(&out.v[k], v[k]);
  store(p, out);
}

/* ---- geometry ---- */

/* Indices from … to - 1 along one axis. */
struct span {
  int from, to;
};

struct box {
  span depths, rows, columns;
};

/* A line of outputs or inputs. */
struct line {
  int64_t image;
  int depth, row;
};

/* Returns the part of output i's window that is inside the image. */
CT_D span window(const gpu__windows_t &g, int axis, int i)
{
  int64_t in = g.in[axis], out = g.out[axis];
  if (g.adaptive) return {(int)(i * in / out), (int)(((i + 1) * in + out - 1) / out)};
  int from = i * g.stride[axis] - g.pad[axis], to = from + g.kernel[axis], step = g.dilate[axis];
  if (from < 0) from += (-from + step - 1) / step * step;
  return {from, min(to, g.in[axis])};
}

CT_D box window(const gpu__windows_t &g, const line &l, int column)
{
  return {window(g, 0, l.depth), window(g, 1, l.row), window(g, 2, column)};
}

/* Returns the outputs whose windows contain input i. */
CT_D span windows_with(const gpu__windows_t &g, int axis, int i)
{
  int64_t in = g.in[axis], out = g.out[axis];
  if (g.adaptive) return {(int)(i * out / in), (int)(((i + 1) * out + in - 1) / in)};
  int ahead = i + g.pad[axis] - g.kernel[axis]; /* windows that start at or before this index end
                                                   before i */
  int last = (i + g.pad[axis]) / g.stride[axis];
  return {ahead < 0 ? 0 : ahead / g.stride[axis] + 1, min(last + 1, g.out[axis])};
}

CT_D box windows_with(const gpu__windows_t &g, const line &l, int column)
{
  return {windows_with(g, 0, l.depth), windows_with(g, 1, l.row), windows_with(g, 2, column)};
}

/* Returns the index of input i within output o's window. */
CT_D int pos_in_window(const gpu__windows_t &g, int axis, int o, int i)
{
  if (g.adaptive) return i - (int)((int64_t)o * g.in[axis] / g.out[axis]);
  return i - (o * g.stride[axis] - g.pad[axis]);
}

CT_D int64_t line_count(const gpu__windows_t &g, const int (&size)[3])
{
  return g.batch * size[0] * size[1];
}

CT_D line line_of(int64_t i, const int (&size)[3])
{
  return {i / size[1] / size[0], (int)(i / size[1] % size[0]), (int)(i % size[1])};
}

/* Returns the offset of the line's first element. */
CT_D int64_t offset(const gpu__windows_t &g, const int (&size)[3], const line &l)
{
  return ((l.image * size[0] + l.depth) * size[1] + l.row) * size[2] * g.channels;
}

/* ---- maximum ---- */

/* The first maximum in scan order. As in PyTorch, NaN counts as the maximum, and the last of
 * several NaNs wins. */
template <int W> struct largest {
  float value[W];
  int pos[W];
};

template <int W> CT_D largest<W> nothing_yet(int pos)
{
  largest<W> best;
  for (int k = 0; k < W; k++) {
    best.value[k] = -INFINITY;
    best.pos[k] = pos;
  }
  return best;
}

template <class T, int W> CT_D void consider(largest<W> &best, const lanes<T, W> &x, int pos)
{
  for (int k = 0; k < W; k++) {
    float v = gpu_load(&x.v[k]);
    if (!(v > best.value[k] || v != v)) continue;
    best.value[k] = v;
    best.pos[k] = pos;
  }
}

/* Returns the maximum of one window, at one column of an output line, for W channels from c on. */
template <class T, int W>
CT_D largest<W> find_largest(const gpu__windows_t &g, const T *x, const line &l, int column, int c)
{
  box in = window(g, l, column);
  int d0 = pos_in_window(g, 0, l.depth, 0), h0 = pos_in_window(g, 1, l.row, 0);
  int w0 = pos_in_window(g, 2, column, 0), rows = g.kernel[1], columns = g.kernel[2];
  largest<W> best = nothing_yet<W>(((in.depths.from + d0) * rows + in.rows.from + h0) * columns +
                                   in.columns.from + w0);
  for (int d = in.depths.from; d < in.depths.to; d += g.dilate[0])
    for (int h = in.rows.from; h < in.rows.to; h += g.dilate[1]) {
      const T *from = x + offset(g, g.in, {l.image, d, h}) + c;
      int pos = ((d + d0) * rows + h + h0) * columns + w0;
      for (int w = in.columns.from; w < in.columns.to; w += g.dilate[2])
        consider(best, load<W>(from + w * g.channels), pos + w);
    }
  return best;
}

/* P: type of the stored positions; (P)-1: none. */
template <class T, class P, int W>
CT_KERNEL void max_forward(gpu__windows_t g, int relu, const T *x, T *y, P *argmax)
{
  int pieces = g.channels / W;
  for (int64_t i = blockIdx.x; i < line_count(g, g.out); i += gridDim.x) {
    line l = line_of(i, g.out);
    int64_t to = offset(g, g.out, l);
    for (int j = threadIdx.x; j < g.out[2] * pieces; j += blockDim.x) {
      largest<W> best = find_largest<T, W>(g, x, l, j / pieces, j % pieces * W);
      lanes<P, W> kept;
      for (int k = 0; k < W; k++) {
        int cut = relu && best.value[k] <= 0;
        kept.v[k] = cut ? (P)-1 : (P)best.pos[k];
        if (cut) best.value[k] = 0;
      }
      store_floats(y + to + j * W, best.value);
      if (argmax) store(argmax + to + j * W, kept);
    }
  }
}

/* ---- average ---- */

/* Returns the size of output o's window along an axis, inside the padded image. */
CT_D float padded(const gpu__windows_t &g, int axis, int o)
{
  int from = o * g.stride[axis] - g.pad[axis];
  return (float)(min(from + g.kernel[axis], g.in[axis] + g.pad[axis]) - from);
}

/* Returns the weight of each element of an output's window in its average. */
CT_D float share_of(const gpu__windows_t &g, const box &in, const line &l, int column)
{
  if (g.divisor) return 1 / (float)g.divisor;
  if (g.include_pad && !g.adaptive)
    return 1 / (padded(g, 0, l.depth) * padded(g, 1, l.row) * padded(g, 2, column));
  return 1 / ((float)(in.depths.to - in.depths.from) * (float)(in.rows.to - in.rows.from) *
              (float)(in.columns.to - in.columns.from));
}

/* Returns the mean of one window. */
template <class T, int W>
CT_D void find_mean(const gpu__windows_t &g, const T *x, const line &l, int column, int c,
                    float (&mean)[W])
{
  box in = window(g, l, column);
  float share = share_of(g, in, l, column);
  for (int d = in.depths.from; d < in.depths.to; d++)
    for (int h = in.rows.from; h < in.rows.to; h++)
      for (int w = in.columns.from; w < in.columns.to; w++) {
        lanes<T, W> v = load<W>(x + offset(g, g.in, {l.image, d, h}) + w * g.channels + c);
        for (int k = 0; k < W; k++)
          mean[k] += gpu_load(&v.v[k]);
      }
  for (int k = 0; k < W; k++)
    mean[k] *= share;
}

template <class T, int W> CT_KERNEL void average_forward(gpu__windows_t g, const T *x, T *y)
{
  int pieces = g.channels / W;
  for (int64_t i = blockIdx.x; i < line_count(g, g.out); i += gridDim.x) {
    line l = line_of(i, g.out);
    int64_t to = offset(g, g.out, l);
    for (int j = threadIdx.x; j < g.out[2] * pieces; j += blockDim.x) {
      float mean[W] = {};
      find_mean(g, x, l, j / pieces, j % pieces * W, mean);
      store_floats(y + to + j * W, mean);
    }
  }
}

/* Global average: threads along x handle channels, threads along y split the pixels. */
enum { MEAN_BLOCK = 256 };
template <class T, int W>
CT_KERNEL void mean_of_space(int64_t batch, int64_t space, int channels, const T *x, T *y)
{
  CT_SHARED(float, part, MEAN_BLOCK *W);
  int pieces = channels / W, across = (pieces - 1) / (int)blockDim.x + 1;
  for (int64_t i = blockIdx.x; i < batch * across; i += gridDim.x) {
    int64_t image = i / across;
    int piece = (int)(i % across) * (int)blockDim.x + (int)threadIdx.x;
    float sum[W] = {};
    for (int64_t s = threadIdx.y; piece < pieces && s < space; s += blockDim.y) {
      lanes<T, W> v = load<W>(x + (image * space + s) * channels + piece * W);
      for (int k = 0; k < W; k++)
        sum[k] += gpu_load(&v.v[k]);
    }
    for (int k = 0; k < W; k++)
      part[k * MEAN_BLOCK + gpu_thread()] = sum[k];
    __syncthreads();
    for (int k = 0; k < W && threadIdx.y == 0; k++) {
      for (int other = 1; other < (int)blockDim.y; other++)
        sum[k] += part[k * MEAN_BLOCK + gpu_thread() + other * (int)blockDim.x];
      sum[k] /= (float)space;
    }
    if (threadIdx.y == 0 && piece < pieces) store_floats(y + image * channels + piece * W, sum);
    __syncthreads();
  }
}

/* ---- backward ---- */

/* An element of y: its position and offset. */
struct output {
  int depth, row, column;
  int64_t at;
};

/* The gradient of y, with one or two summands. */
template <class T> struct gradient {
  const T *dy, *dy2;
};

template <class T, int W>
CT_D void load_gradient(const gradient<T> &from, int64_t at, float (&v)[W])
{
  lanes<T, W> a = load<W>(from.dy + at), b = {};
  if (from.dy2) b = load<W>(from.dy2 + at);
  for (int k = 0; k < W; k++)
    v[k] = gpu_load(&a.v[k]) + gpu_load(&b.v[k]);
}

/* Contribution of an output to an input of its window. */
template <class T, class P> struct max_gradient {
  gradient<T> from;
  const P *argmax;
  template <int W>
  CT_METHOD void add(const gpu__windows_t &g, const output &o, const line &l, int column,
                     float (&sum)[W]) const
  {
    int d = pos_in_window(g, 0, o.depth, l.depth), h = pos_in_window(g, 1, o.row, l.row);
    int w = pos_in_window(g, 2, o.column, column);
    lanes<P, W> kept = load<W>(argmax + o.at);
    float v[W];
    load_gradient(from, o.at, v);
    for (int k = 0; k < W; k++)
      if (kept.v[k] == (P)((d * g.kernel[1] + h) * g.kernel[2] + w)) sum[k] += v[k];
  }
};

template <class T> struct average_gradient {
  gradient<T> from;
  template <int W>
  CT_METHOD void add(const gpu__windows_t &g, const output &o, const line &l, int,
                     float (&sum)[W]) const
  {
    line out = {l.image, o.depth, o.row};
    float share = share_of(g, window(g, out, o.column), out, o.column), v[W];
    load_gradient(from, o.at, v);
    for (int k = 0; k < W; k++)
      sum[k] += share * v[k];
  }
};

/* Returns the sum over all outputs whose windows contain one input. */
template <class F, int W>
CT_D void gather(const gpu__windows_t &g, const F &from, const line &l, int column, int c,
                 float (&sum)[W])
{
  box out = windows_with(g, l, column);
  for (int d = out.depths.from; d < out.depths.to; d++)
    for (int h = out.rows.from; h < out.rows.to; h++)
      for (int w = out.columns.from; w < out.columns.to; w++) {
        int64_t at = offset(g, g.out, {l.image, d, h}) + w * g.channels + c;
        from.add(g, {d, h, w, at}, l, column, sum);
      }
}

template <class T, int W, class F> CT_KERNEL void backward(gpu__windows_t g, F from, T *dx)
{
  int pieces = g.channels / W;
  for (int64_t i = blockIdx.x; i < line_count(g, g.in); i += gridDim.x) {
    line l = line_of(i, g.in);
    int64_t to = offset(g, g.in, l);
    for (int j = threadIdx.x; j < g.in[2] * pieces; j += blockDim.x) {
      float sum[W] = {};
      gather(g, from, l, j / pieces, j % pieces * W, sum);
      store_floats(dx + to + j * W, sum);
    }
  }
}

/* ---- launches ---- */

/* Returns 1 if all arrays, which may be NULL, permit packs. */
template <class T>
static int fits_packs(const gpu__windows_t *g, const void *a, const void *b, const void *c,
                      const void *d)
{
  return g->channels % gpu_pack<T>::n == 0 && gpu_is_aligned(a) && gpu_is_aligned(b) &&
         gpu_is_aligned(c) && gpu_is_aligned(d);
}

/* Returns the threads per block: whole warps, and not many more threads than work items in a
 * line. */
static unsigned threads_for(int64_t work)
{
  return work < 256 ? (unsigned)((work + GPU_WARP - 1) / GPU_WARP * GPU_WARP) : 256;
}

/* One block per line of `size`, up to the grid limit, with `width` channels per thread. */
#define LAUNCH_LINES(kernel, g, size, width, stream, ...)                              \
  CT_LAUNCH(kernel, gpu_grid((g)->batch *(size)[0] * (size)[1], 1),                    \
            threads_for((int64_t)(size)[2] * ((g)->channels / (width))), stream, *(g), \
            __VA_ARGS__)

extern "C" size_t gpu__pool_argmax_size(const gpu__windows_t *g)
{
  int64_t count = (int64_t)g->kernel[0] * g->kernel[1] * g->kernel[2];
  return count <= GPU_POOL_BYTE_ARGMAX ? sizeof(uint8_t) : sizeof(int32_t);
}

template <class T>
static cudaError_t max_pool(const gpu__windows_t *g, int relu, const void *from, void *to,
                            void *argmax, cudaStream_t stream)
{
  constexpr int width = gpu_pack<T>::n;
  const T *x = (const T *)from;
  T *y = (T *)to;
  if (gpu__pool_argmax_size(g) > 1)
    LAUNCH_LINES((max_forward<T, int32_t, 1>), g, g->out, 1, stream, relu, x, y, (int32_t *)argmax);
  else if (fits_packs<T>(g, x, y, argmax, NULL))
    LAUNCH_LINES((max_forward<T, uint8_t, width>), g, g->out, width, stream, relu, x, y,
                 (uint8_t *)argmax);
  else
    LAUNCH_LINES((max_forward<T, uint8_t, 1>), g, g->out, 1, stream, relu, x, y, (uint8_t *)argmax);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__max_pool(ct_dtype_t type, const gpu__windows_t *g, int relu,
                                     const void *x, void *y, void *argmax, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, return max_pool<T>(g, relu, x, y, argmax, stream))
  return cudaSuccess;
}

template <class T>
static cudaError_t max_pool_backward(const gpu__windows_t *g, const void *argmax,
                                     const gradient<T> &from, void *to, cudaStream_t stream)
{
  constexpr int width = gpu_pack<T>::n;
  T *dx = (T *)to;
  max_gradient<T, uint8_t> bytes = {from, (const uint8_t *)argmax};
  max_gradient<T, int32_t> ints = {from, (const int32_t *)argmax};
  if (gpu__pool_argmax_size(g) > 1)
    LAUNCH_LINES((backward<T, 1, max_gradient<T, int32_t>>), g, g->in, 1, stream, ints, dx);
  else if (fits_packs<T>(g, argmax, from.dy, from.dy2, dx))
    LAUNCH_LINES((backward<T, width, max_gradient<T, uint8_t>>), g, g->in, width, stream, bytes,
                 dx);
  else
    LAUNCH_LINES((backward<T, 1, max_gradient<T, uint8_t>>), g, g->in, 1, stream, bytes, dx);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__max_pool_backward(ct_dtype_t type, const gpu__windows_t *g,
                                              const void *argmax, const void *dy, const void *dy2,
                                              void *dx, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, gradient<T> from = {(const T *)dy, (const T *)dy2};
              return max_pool_backward<T>(g, argmax, from, dx, stream))
  return cudaSuccess;
}

/* Launches the global average: as many threads along x as channels, the rest along y. */
template <class T, int W>
static void launch_mean(const gpu__windows_t *g, const T *x, T *y, cudaStream_t stream)
{
  int64_t space = (int64_t)g->in[0] * g->in[1] * g->in[2];
  int pieces = g->channels / W, wide = 1;
  while (wide < pieces && wide < GPU_WARP)
    wide *= 2;
  CT_LAUNCH((mean_of_space<T, W>), gpu_grid(g->batch * ((pieces - 1) / wide + 1), 1),
            dim3((unsigned)wide, (unsigned)(MEAN_BLOCK / wide)), stream, g->batch, space,
            g->channels, x, y);
}

template <class T>
static cudaError_t average_pool(const gpu__windows_t *g, const void *from, void *to,
                                cudaStream_t stream)
{
  constexpr int width = gpu_pack<T>::n;
  const T *x = (const T *)from;
  T *y = (T *)to;
  int packs = fits_packs<T>(g, x, y, NULL, NULL);
  int whole = g->adaptive && g->out[0] == 1 && g->out[1] == 1 && g->out[2] == 1;
  if (whole && packs)
    launch_mean<T, width>(g, x, y, stream);
  else if (whole)
    launch_mean<T, 1>(g, x, y, stream);
  else if (packs)
    LAUNCH_LINES((average_forward<T, width>), g, g->out, width, stream, x, y);
  else
    LAUNCH_LINES((average_forward<T, 1>), g, g->out, 1, stream, x, y);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__average_pool(ct_dtype_t type, const gpu__windows_t *g, const void *x,
                                         void *y, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, return average_pool<T>(g, x, y, stream))
  return cudaSuccess;
}

template <class T>
static cudaError_t average_pool_backward(const gpu__windows_t *g, const average_gradient<T> &from,
                                         void *to, cudaStream_t stream)
{
  constexpr int width = gpu_pack<T>::n;
  T *dx = (T *)to;
  if (fits_packs<T>(g, from.from.dy, from.from.dy2, dx, NULL))
    LAUNCH_LINES((backward<T, width, average_gradient<T>>), g, g->in, width, stream, from, dx);
  else
    LAUNCH_LINES((backward<T, 1, average_gradient<T>>), g, g->in, 1, stream, from, dx);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__average_pool_backward(ct_dtype_t type, const gpu__windows_t *g,
                                                  const void *dy, const void *dy2, void *dx,
                                                  cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, average_gradient<T> from = {{(const T *)dy, (const T *)dy2}};
              return average_pool_backward<T>(g, from, dx, stream))
  return cudaSuccess;
}
