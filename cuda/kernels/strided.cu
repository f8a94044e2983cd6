/* Copies by a map of indices: one thread per element of y finds its source. If x is consecutive
 * along another dim of y than the last, blocks copy squares through shared memory, so that reads
 * and writes are both consecutive. The gradient has one thread per element of x, which sums over
 * its list. */
#include "cuda/kernels/strided.h"

#include "cuda/kernels/kernel.h"

enum { THREADS = 256, TILE = 32, TILE_ROWS = 8 };

/* Returns the element of x for the indices of y that follow from i; -1: the constant. `skip` and
 * `skip2` are dims that are left out. */
CT_D int64_t source_of(const ct_walk_t &w, int64_t i, int skip, int skip2)
{
  int64_t t[CT_MAP_DIMS], x = w.base;
  for (int e = 0; e < w.edges; e++)
    t[e] = w.edge[e].start;
  for (int d = w.dims - 1; d >= 0; d--) {
    if (d == skip || d == skip2) continue;
    int64_t move = i % w.size[d] * w.step[d];
    i /= w.size[d];
    if (w.on[d] < 0)
      x += move;
    else
      t[w.on[d]] += move;
  }
  for (int e = 0; e < w.edges; e++) {
    int64_t place = ct_edge_place(w.edge[e].edge, t[e], w.edge[e].size);
    if (place < 0) return -1;
    x += place * w.edge[e].stride;
  }
  return x;
}

template <class T> CT_KERNEL void copy(ct_walk_t w, const T *x, float value, T *y)
{
  GPU_LOOP (i, w.count) {
    int64_t from = source_of(w, i, -1, -1);
    if (from < 0)
      gpu_store(&y[i], value);
    else
      y[i] = x[from];
  }
}

/* The squares of a transposing copy: dim `along` of y, in which x is consecutive, and the last. */
struct squares_t {
  int along;
  int64_t rows, columns;       /* sizes of `along` and of the last dim */
  int64_t step;                /* of x along the last dim */
  int64_t pitch;               /* of y along `along` */
  int64_t outer, down, across; /* numbers of squares */
};

/* Returns the first element of y of the outer index i. */
CT_D int64_t target_of(const ct_walk_t &w, const squares_t &s, int64_t i)
{
  int64_t pitch = 1, y = 0;
  for (int d = w.dims - 1; d >= 0; d--) {
    if (d != s.along && d != w.dims - 1) {
      y += i % w.size[d] * pitch;
      i /= w.size[d];
    }
    pitch *= w.size[d];
  }
  return y;
}

template <class T>
CT_KERNEL void copy_squares(ct_walk_t w, squares_t s, const T *x, float value, T *y)
{
  CT_SHARED(T, tile, TILE * (TILE + 1));
  int a = (int)threadIdx.x % TILE, b = (int)threadIdx.x / TILE;
  for (int64_t k = blockIdx.x; k < s.outer * s.down * s.across; k += gridDim.x) {
    int64_t column = k % s.across * TILE, row = k / s.across % s.down * TILE;
    int64_t outer = k / s.across / s.down;
    int64_t from = source_of(w, outer, s.along, w.dims - 1), to = target_of(w, s, outer);
    __syncthreads(); /* the last square has been written */
    for (int j = b; j < TILE; j += TILE_ROWS)
      if (from >= 0 && row + a < s.rows && column + j < s.columns)
        tile[j * (TILE + 1) + a] = x[from + row + a + (column + j) * s.step];
    __syncthreads();
    for (int j = b; j < TILE; j += TILE_ROWS)
      if (row + j < s.rows && column + a < s.columns) {
        T *to_here = &y[to + (row + j) * s.pitch + column + a];
        if (from < 0)
          gpu_store(to_here, value);
        else
          *to_here = tile[a * (TILE + 1) + j];
      }
  }
}

/* Finds the squares; returns 0 if the copy has none. */
static int find_squares(const ct_walk_t *w, squares_t *s)
{
  int last = w->dims - 1;
  int64_t pitch = 1;
  if (last < 1 || w->on[last] >= 0 || w->step[last] == 0 || w->step[last] == 1) return 0;
  s->along = -1;
  for (int d = 0; d < last; d++)
    if (w->on[d] < 0 && w->step[d] == 1 && w->size[d] > 1) s->along = d;
  if (s->along < 0) return 0;
  for (int d = last; d > s->along; d--)
    pitch *= w->size[d];
  s->rows = w->size[s->along];
  s->columns = w->size[last];
  s->step = w->step[last];
  s->pitch = pitch;
  s->outer = w->count / s->rows / s->columns;
  s->down = (s->rows + TILE - 1) / TILE;
  s->across = (s->columns + TILE - 1) / TILE;
  return 1;
}

template <class T>
static void launch(const ct_walk_t *w, const void *x, float value, void *y, cudaStream_t stream)
{
  squares_t s;
  if (w->count == 0) return;
  if (find_squares(w, &s)) {
    unsigned grid = gpu_grid(s.outer * s.down * s.across, 1);
    CT_LAUNCH(copy_squares<T>, grid, TILE * TILE_ROWS, stream, *w, s, (const T *)x, value, (T *)y);
  } else {
    CT_LAUNCH(copy<T>, gpu_grid(w->count, THREADS), THREADS, stream, *w, (const T *)x, value,
              (T *)y);
  }
}

extern "C" cudaError_t gpu__strided(ct_dtype_t type, const ct_walk_t *w, const void *x,
                                    double value, void *y, cudaStream_t stream)
{
  GPU_BY_TYPE(type, T, launch<T>(w, x, (float)value, y, stream));
  return cudaGetLastError();
}

/* Sums over the loops that no dim of x belongs to. */
template <class T> CT_D double sum_loops(const ct_readers_t &r, const T *dy)
{
  int64_t i[CT_MAP_DIMS] = {0};
  double sum = 0;
  for (int b = 0; b >= 0;) {
    sum += (double)gpu_load(dy);
    for (b = r.loops - 1; b >= 0; b--) {
      dy += r.loop_step[b];
      if (++i[b] < r.loop_size[b]) break;
      dy -= r.loop_step[b] * r.loop_size[b];
      i[b] = 0;
    }
  }
  return sum;
}

template <class T> CT_KERNEL void sum(ct_readers_t r, int64_t n, const T *dy, T *dx)
{
  GPU_LOOP (i, n) {
    int64_t first[CT_MAP_DIMS], end[CT_MAP_DIMS], k[CT_MAP_DIMS], rest = i, at = 0;
    int none = 0;
    double all = 0;
    for (int s = r.dims - 1; s >= 0; s--) {
      const int64_t *begin = r.begin + r.place[s] + rest % r.size[s];
      rest /= r.size[s];
      first[s] = k[s] = begin[0];
      end[s] = begin[1];
      none |= begin[0] == begin[1];
      if (!none) at += r.at[k[s]];
    }
    for (int s = none ? -1 : 0; s >= 0;) {
      all += sum_loops<T>(r, dy + at);
      for (s = r.dims - 1; s >= 0; s--) {
        at -= r.at[k[s]];
        if (++k[s] < end[s]) break;
        k[s] = first[s];
        at += r.at[k[s]];
      }
      if (s >= 0) at += r.at[k[s]];
    }
    gpu_store(&dx[i], (float)all);
  }
}

extern "C" cudaError_t gpu__strided_sum(ct_dtype_t type, const ct_readers_t *r, const void *dy,
                                        void *dx, cudaStream_t stream)
{
  int64_t n = 1;
  for (int s = 0; s < r->dims; s++)
    n *= r->size[s];
  if (n == 0) return cudaSuccess;
  GPU_BY_TYPE(
      type, T,
      CT_LAUNCH(sum<T>, gpu_grid(n, THREADS), THREADS, stream, *r, n, (const T *)dy, (T *)dx));
  return cudaGetLastError();
}
