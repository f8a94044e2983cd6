/* Reductions: see reduce.h. */
#include "cuda/kernels/reduce.h"
#include "backend/ct_op.h"
#include "cuda/kernels/rows.h"

enum { BLOCK = 256 };

/* A line of x, and the threads that share it: `wide` lanes, of which this thread is `lane`. */
template <class T> struct line_t {
  const T *x;
  int64_t start;
  int lane, wide;
};

CT_D int64_t place(const gpu__dims_t &d, int64_t i)
{
  if (d.n == 1) return i * d.step[0];
  int64_t at = 0;
  for (int k = 0; k < d.n; k++) {
    at += i % d.size[k] * d.step[k];
    i /= d.size[k];
  }
  return at;
}

/* The lanes of a line share its elements. */
#define LINE_LOOP(i, d, l) for (int64_t i = (l).lane; i < (d).count; i += (l).wide)

template <class T> CT_D float at(const gpu__reduce_t &d, const line_t<T> &l, int64_t i)
{
  return gpu_load(l.x + l.start + place(d.reduced, i));
}

CT_D double lanes_sum(int wide, double v)
{
  return wide > 1 ? gpu_warp_sum(v) : v;
}

CT_D float lanes_max(int wide, float v)
{
  return wide > 1 ? gpu_warp_max(v) : v;
}

CT_D double lanes_product(int wide, double v)
{
  for (int away = GPU_WARP / 2; away > 0 && wide > 1; away /= 2)
    v *= __shfl_xor_sync(0xffffffffu, v, away);
  return v;
}

/* ---- sums over a line ---- */

template <class T> CT_D double sum_of(const gpu__reduce_t &d, const line_t<T> &l)
{
  double sum = 0;
  LINE_LOOP(i, d, l)
  sum += at(d, l, i);
  return lanes_sum(l.wide, sum);
}

/* The largest of sign * x, or of |x| if sign is 0. */
template <class T> CT_D float most_of(const gpu__reduce_t &d, const line_t<T> &l, float sign)
{
  float most = sign == 0 ? 0 : -INFINITY;
  LINE_LOOP(i, d, l)
  {
    float v = at(d, l, i);
    most = gpu_larger(sign == 0 ? fabsf(v) : sign * v, most);
  }
  return lanes_max(l.wide, most);
}

/* The product of all elements but the zeros, and their number. */
template <class T> CT_D double product_of(const gpu__reduce_t &d, const line_t<T> &l, double *zeros)
{
  double product = 1, none = 0;
  LINE_LOOP(i, d, l)
  {
    float v = at(d, l, i);
    product *= v == 0 ? 1.0 : (double)v;
    none += v == 0;
  }
  *zeros = lanes_sum(l.wide, none);
  return lanes_product(l.wide, product);
}

template <class T> CT_D double squares_of(const gpu__reduce_t &d, const line_t<T> &l, double mean)
{
  double sum = 0;
  LINE_LOOP(i, d, l)
  {
    double v = at(d, l, i) - mean;
    sum += v * v;
  }
  return lanes_sum(l.wide, sum);
}

template <class T> CT_D double exps_of(const gpu__reduce_t &d, const line_t<T> &l, float most)
{
  double sum = 0;
  LINE_LOOP(i, d, l)
  sum += expf(at(d, l, i) - most);
  return lanes_sum(l.wide, sum);
}

template <class T> CT_D double norm_of(const gpu__reduce_t &d, const line_t<T> &l)
{
  double sum = 0;
  if (isinf(d.p)) return most_of(d, l, 0);
  if (d.p == 2) return sqrt(squares_of(d, l, 0));
  LINE_LOOP(i, d, l)
  {
    float v = fabsf(at(d, l, i));
    sum += d.p == 1 ? v : powf(v, (float)d.p);
  }
  sum = lanes_sum(l.wide, sum);
  return d.p == 1 ? sum : pow(sum, 1 / d.p);
}

/* The number of elements that equal y; or whose size does. */
template <class T>
CT_D float equal_to(const gpu__reduce_t &d, const line_t<T> &l, float y, int sizes)
{
  double n = 0;
  LINE_LOOP(i, d, l)
  {
    float v = at(d, l, i);
    n += (sizes ? fabsf(v) : v) == y;
  }
  return (float)lanes_sum(l.wide, n);
}

/* The index of the first element that equals y, or of the first NaN if y is NaN. */
template <class T> CT_D int64_t first_equal(const gpu__reduce_t &d, const line_t<T> &l, float y)
{
  int64_t first = d.count;
  LINE_LOOP(i, d, l)
  {
    float v = at(d, l, i);
    if ((v == y || (v != v && y != y)) && i < first) first = i;
  }
  for (int away = GPU_WARP / 2; away > 0 && l.wide > 1; away /= 2) {
    long long other = __shfl_xor_sync(0xffffffffu, (long long)first, away);
    if (other < first) first = other;
  }
  return first;
}

template <class T> CT_D double reduced(const gpu__reduce_t &d, const line_t<T> &l)
{
  double n = (double)d.count, v, zeros;
  float most;
  switch (d.mode) {
  case CT_RED_SUM:
    return sum_of(d, l);
  case CT_RED_MEAN:
    return sum_of(d, l) / n;
  case CT_RED_AMAX:
  case CT_RED_MAX:
    return most_of(d, l, 1);
  case CT_RED_AMIN:
  case CT_RED_MIN:
    return -most_of(d, l, -1);
  case CT_RED_PROD:
    v = product_of(d, l, &zeros);
    return zeros > 0 ? 0 * v : v;
  case CT_RED_NORM:
    return norm_of(d, l);
  case CT_RED_LOGSUMEXP:
    most = most_of(d, l, 1);
    v = exps_of(d, l, most);
    return isinf(most) ? (double)most : most + log(v);
  default: /* variance, standard deviation */
    v = squares_of(d, l, sum_of(d, l) / n) / (n - d.correction);
    return d.mode == CT_RED_STD ? sqrt(v) : v;
  }
}

/* Returns the line of this thread. */
template <class T> CT_D line_t<T> line_of(const gpu__reduce_t &d, const T *x, int64_t line)
{
  line_t<T> l = {x, place(d.kept, line), d.rows ? (int)(threadIdx.x % GPU_WARP) : 0,
                 d.rows ? GPU_WARP : 1};
  return l;
}

/* The warps or the threads of the grid share the lines. */
#define EACH_LINE(i, d)                                                            \
  for (int64_t i = (d).rows ? gpu_first() / GPU_WARP : gpu_first(); i < (d).lines; \
       i += (d).rows ? gpu_stride() / GPU_WARP : gpu_stride())

template <class T> CT_KERNEL void reduce_lines(gpu__reduce_t d, const T *x, T *y)
{
  EACH_LINE(i, d)
  {
    line_t<T> l = line_of(d, x, i);
    double v = reduced(d, l);
    if (l.lane == 0) gpu_store(y + i, (float)v);
  }
}

/* ---- gradients ---- */

CT_D float signed_like(float v, float g)
{
  return v > 0 ? g : v < 0 ? -g : 0;
}

/* The coefficients of a line's gradients. */
struct slope_t {
  float g, m; /* factor; another value, which depends on the mode */
  int64_t first;
};

template <class T>
CT_D slope_t find_slope(const gpu__reduce_t &d, const line_t<T> &l, float y, float g)
{
  slope_t s = {g, y, 0};
  double n = (double)d.count, of = n - d.correction, zeros, all;
  switch (d.mode) {
  case CT_RED_MEAN:
    s.g = (float)(g / n);
    break;
  case CT_RED_AMAX:
  case CT_RED_AMIN:
    s.g = g / equal_to(d, l, y, 0);
    break;
  case CT_RED_MAX:
  case CT_RED_MIN:
    s.first = first_equal(d, l, y);
    break;
  case CT_RED_PROD:
    all = product_of(d, l, &zeros) * g;
    s.g = zeros > 0 ? 0 : (float)all;
    s.m = zeros == 1 ? (float)all : 0;
    break;
  case CT_RED_NORM:
    if (isinf(d.p)) s.g = g / equal_to(d, l, y, 1);
    if (d.p == 2) s.g = y == 0 ? 0 : g / y;
    break;
  case CT_RED_VAR:
  case CT_RED_STD:
    s.m = (float)(sum_of(d, l) / n);
    s.g = (float)(g * (d.mode == CT_RED_VAR ? 2 : y == 0 ? 0 : 1 / (double)y) / of);
    break;
  default:
    break;
  }
  return s;
}

CT_D float norm_slope(const gpu__reduce_t &d, const slope_t &s, float v)
{
  if (isinf(d.p)) return fabsf(v) == s.m ? signed_like(v, s.g) : 0;
  if (d.p == 2) return s.g * v;
  if (d.p == 1) return signed_like(v, s.g);
  return v == 0 ? 0 : signed_like(v, s.g * powf(fabsf(v) / s.m, (float)d.p - 1));
}

CT_D float slope_at(const gpu__reduce_t &d, const slope_t &s, float v, int64_t i)
{
  switch (d.mode) {
  case CT_RED_AMAX:
  case CT_RED_AMIN:
    return v == s.m ? s.g : 0;
  case CT_RED_MAX:
  case CT_RED_MIN:
    return i == s.first ? s.g : 0;
  case CT_RED_PROD:
    return v == 0 ? s.m : s.g / v;
  case CT_RED_NORM:
    return norm_slope(d, s, v);
  case CT_RED_VAR:
  case CT_RED_STD:
    return s.g * (v - s.m);
  case CT_RED_LOGSUMEXP:
    return s.g * expf(v - s.m);
  default:
    return s.g;
  }
}

template <class T>
CT_KERNEL void reduce_slopes(gpu__reduce_t d, const T *x, const T *y, const T *dy, T *dx)
{
  EACH_LINE(k, d)
  {
    line_t<T> l = line_of(d, x, k);
    slope_t s = find_slope(d, l, d.uses_y ? gpu_load(y + k) : 0, gpu_load(dy + k));
    LINE_LOOP(i, d, l)
    {
      int64_t to = l.start + place(d.reduced, i);
      gpu_store(dx + to, slope_at(d, s, d.uses_x ? gpu_load(x + to) : 0, i));
    }
  }
}

/* ---- the cumulative sum: a thread handles a line ---- */

template <class T> CT_KERNEL void add_up(gpu__reduce_t d, int back, const T *x, T *y)
{
  GPU_LOOP (k, d.lines) {
    int64_t start = place(d.kept, k);
    double sum = 0;
    for (int64_t i = 0; i < d.count; i++) {
      int64_t to = start + place(d.reduced, back ? d.count - 1 - i : i);
      sum += gpu_load(x + to);
      gpu_store(y + to, (float)sum);
    }
  }
}

static unsigned grid_of(const gpu__reduce_t *d)
{
  return gpu_grid(d->lines, d->rows ? BLOCK / GPU_WARP : BLOCK);
}

extern "C" cudaError_t gpu__reduce(ct_dtype_t type, const gpu__reduce_t *d, const void *x, void *y,
                                   cudaStream_t stream)
{
  if (d->mode == CT_RED_CUMSUM)
    GPU_BY_TYPE(
        type, T,
        CT_LAUNCH(add_up<T>, gpu_grid(d->lines, BLOCK), BLOCK, stream, *d, 0, (const T *)x, (T *)y))
  else
    GPU_BY_TYPE(type, T,
                CT_LAUNCH(reduce_lines<T>, grid_of(d), BLOCK, stream, *d, (const T *)x, (T *)y))
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__reduce_back(ct_dtype_t type, const gpu__reduce_t *d, const void *x,
                                        const void *y, const void *dy, void *dx,
                                        cudaStream_t stream)
{
  if (d->mode == CT_RED_CUMSUM)
    GPU_BY_TYPE(type, T,
                CT_LAUNCH(add_up<T>, gpu_grid(d->lines, BLOCK), BLOCK, stream, *d, 1, (const T *)dy,
                          (T *)dx))
  else
    GPU_BY_TYPE(type, T,
                CT_LAUNCH(reduce_slopes<T>, grid_of(d), BLOCK, stream, *d, (const T *)x,
                          (const T *)y, (const T *)dy, (T *)dx))
  return cudaGetLastError();
}
