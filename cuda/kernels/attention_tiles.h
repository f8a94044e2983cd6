/** \file attention_tiles.h  What the kernels of attention.cu and attention_back.cu have in common.
 * Module-internal.
 *
 * A block owns a tile of rows (queries; in the gradients of keys and values, keys) and loops over
 * tiles of STEP rows of the other kind. Of the scores of two tiles a thread has 4 x 4: rows
 * y + i * R / 4 and columns x + 8 j, where x = across(), y = down() and R is the number of own
 * rows. A warp has 8 x and 4 y, so the rows of its threads belong to it alone. Columns of heads are
 * processed in chunks of D: each chunk of the result has its own blocks (blockIdx.y), which sum the
 * scores over all chunks. */
#ifndef GPU_ATTENTION_TILES_H
#define GPU_ATTENTION_TILES_H
#include "cuda/kernels/attention.h"
#include "cuda/kernels/rows.h"
#include "cuda/kernels/vec_access.h"

enum {
  QUAD = 4,
  ACROSS = 8,               /* threads side by side */
  STEP = QUAD * ACROSS,     /* rows of the tiles that blocks loop over */
  SCORES = STEP / QUAD + 1, /* quads of a row of a tile of scores */
  QUERIES = 64,             /* own rows in the forward pass */
  OWN = 32,                 /* own rows in the backward pass */
  NARROW = 32,              /* columns of a chunk, D: of small heads */
  WIDE = 64,                /* of others */
  BLOCK = 256               /* threads of row_sums */
};

typedef gpu_pack<float> quad;

struct geometry {
  int t, s, heads, group, wide, values, chunks; /* group: heads that share a head of keys */
  int64_t heads_total, kv_total;                /* heads, and heads of keys, of all samples */
  int64_t q_row, k_row, v_row, y_row;
  float scale;
  int whole; /* 1: rows are aligned multiples of QUAD elements */
  int causal;
  ct_mask_t mask;
  int64_t mask_n, mask_h;
  const int32_t *position;
  const float *flags; /* CT_MASK_FIRST, CT_MASK_KEYS */
};

/* Returns the quads of a row of a tile with D columns. One quad more than needed, so that the rows
 * of adjacent threads are in different banks. */
CT_HD constexpr int quads_of(int d)
{
  return d / QUAD + 1;
}

/* Returns the thread's x and y. The lowest bit of a lane is a bit of y: so in loads of 16 bytes, by
 * x as well as by y, neighbouring lanes share addresses, and shared memory serves half a warp at
 * once (CUTLASS interleaves the lanes of its float32 GEMMs in the same way). */
CT_D int across()
{
  return (int)threadIdx.x / 2 % ACROSS;
}
CT_D int down()
{
  int warp = (int)threadIdx.x / GPU_WARP, lane = (int)threadIdx.x % GPU_WARP;
  return warp * (GPU_WARP / ACROSS) + lane / (2 * ACROSS) * 2 + lane % 2;
}

/* Returns v of the lane whose x differs in one bit. */
CT_D float other_x(float v, int bit)
{
  return __shfl_xor_sync(0xffffffffu, v, 2 * bit);
}

/* Rows of one head in global memory. */
template <class T> struct rows {
  T *at;
  int64_t step; /* elements between rows */
  int count, wide;
};

/* ---- global memory ---- */

/* Loads four elements, of which `left` exist. */
template <class T> CT_D quad load_quad(const T *p, int left, int whole)
{
  quad out = {};
  if (whole && left > 0) {
    gpu_vec<T, QUAD> v = *reinterpret_cast<const gpu_vec<T, QUAD> *>(p);
    GPU_UNROLL
    for (int k = 0; k < QUAD; k++)
      out.v[k] = gpu_load(&v.v[k]);
    return out;
  }
  GPU_UNROLL
  for (int k = 0; k < QUAD; k++)
    if (k < left) out.v[k] = gpu_load(p + k);
  return out;
}

template <class T> CT_D void store_quad(T *p, const quad &from, int left, int whole)
{
  gpu_vec<T, QUAD> v;
  GPU_UNROLL
  for (int k = 0; k < QUAD; k++) {
    gpu_store(&v.v[k], from.v[k]);
    if (!whole && k < left) p[k] = v.v[k];
  }
  if (whole && left > 0) *reinterpret_cast<gpu_vec<T, QUAD> *>(p) = v;
}

/* Loads rows first … first + R - 1 of a chunk; zeros where there are none. */
template <int D, int R, class T>
CT_D void load_tile(const geometry &g, rows<const T> from, int first, int chunk, quad *tile)
{
  for (int i = (int)threadIdx.x; i < R * D / QUAD; i += (int)blockDim.x) {
    int r = i / (D / QUAD), q = i % (D / QUAD), column = chunk * D + q * QUAD;
    quad v = {};
    if (first + r < from.count)
      v = load_quad(from.at + (first + r) * from.step + column, from.wide - column, g.whole);
    tile[r * quads_of(D) + q] = v;
  }
}

template <int D, int R, class T>
CT_D void store_tile(const geometry &g, rows<T> to, int first, int chunk,
                     const quad sum[QUAD][D / STEP])
{
  for (int i = 0; i < QUAD; i++) {
    int r = first + down() + i * (R / QUAD);
    for (int k = 0; k < D / STEP && r < to.count; k++) {
      int column = chunk * D + (across() + k * ACROSS) * QUAD;
      store_quad(to.at + r * to.step + column, sum[i][k], to.wide - column, g.whole);
    }
  }
}

/* ---- heads and masks ---- */

/* Returns a head's rows of a tensor; of keys and values those of a head of keys. */
template <class T>
CT_D rows<T> rows_of(T *tensor, int64_t step, int64_t head, int heads, int count, int wide)
{
  return {tensor + head / heads * count * step + head % heads * wide, step, count, wide};
}
template <class T> CT_D rows<T> queries_of(const geometry &g, T *q, int64_t head)
{
  return rows_of(q, g.q_row, head, g.heads, g.t, g.wide);
}
template <class T> CT_D rows<T> keys_of(const geometry &g, T *k, int64_t head)
{
  return rows_of(k, g.k_row, head, g.heads / g.group, g.s, g.wide);
}
template <class T> CT_D rows<T> values_of(const geometry &g, T *v, int64_t head)
{
  return rows_of(v, g.v_row, head, g.heads / g.group, g.s, g.values);
}
template <class T> CT_D rows<T> outputs_of(const geometry &g, T *y, int64_t head)
{
  return rows_of(y, g.y_row, head, g.heads, g.t, g.values);
}

/* The mask of one head. */
template <class T> struct mask_of {
  const float *flags;
  const T *bias;
  int place; /* of the first query */
};

template <class T> CT_D mask_of<T> mask_at(const geometry &g, const T *bias, int64_t head)
{
  int64_t n = head / g.heads, at = n * g.mask_n + head % g.heads * g.mask_h;
  return {g.flags ? g.flags + n * g.mask_n : nullptr, bias ? bias + at : nullptr,
          g.position ? g.position[n] : 0};
}

/* Returns the number of keys that causality leaves to a query. */
template <class T> CT_D int last_of(const geometry &g, const mask_of<T> &m, int query)
{
  int seen = m.place + query + 1;
  return g.causal && seen < g.s ? seen : g.s;
}

template <class T> CT_D int meets(const geometry &g, const mask_of<T> &m, int query, int key)
{
  if (query >= g.t || key >= last_of(g, m, query)) return 0;
  if (g.mask == CT_MASK_FIRST) return (float)key >= m.flags[query];
  return g.mask != CT_MASK_KEYS || m.flags[key] != 0;
}

/* Returns what the softmax gets for a product. */
template <class T>
CT_D float score_of(const geometry &g, const mask_of<T> &m, int query, int key, float product)
{
  float bias = m.bias ? gpu_load(&m.bias[(int64_t)query * g.s + key]) : 0.0f;
  return product * g.scale + bias;
}

/* Returns the first key that one of `count` queries meets, rounded down to whole tiles. */
template <class T> CT_D int begin_of(const geometry &g, const mask_of<T> &m, int first, int count)
{
  if (g.mask != CT_MASK_FIRST) return 0;
  float least = (float)g.s;
  for (int r = first; r < first + count && r < g.t; r++)
    least = m.flags[r] < least ? m.flags[r] : least;
  return least > 0 ? (int)least / STEP * STEP : 0;
}

/* Returns the end of the keys that the queries first … first + count - 1 meet. */
template <class T> CT_D int end_of(const geometry &g, const mask_of<T> &m, int first, int count)
{
  return last_of(g, m, first + count < g.t ? first + count - 1 : g.t - 1);
}

/* ---- tiles ---- */

/* Adds the dot products of own rows with the rows of another tile. */
template <int D, int R> CT_D void add_dots(const quad *own, const quad *other, float s[QUAD][QUAD])
{
  own += down() * quads_of(D);
  other += across() * quads_of(D);
  for (int k = 0; k < D / QUAD; k++) {
    quad a[QUAD], b[QUAD];
    GPU_UNROLL
    for (int i = 0; i < QUAD; i++) {
      a[i] = own[i * (R / QUAD) * quads_of(D) + k];
      b[i] = other[i * ACROSS * quads_of(D) + k];
    }
    GPU_UNROLL
    for (int e = 0; e < QUAD; e++)
      GPU_UNROLL
    for (int i = 0; i < QUAD; i++)
      GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
      s[i][j] += a[i].v[e] * b[j].v[e];
  }
}

/* Adds tile * other to the thread's rows of a result; tile: R x STEP values s of all threads, of
 * which a warp only needs its own. */
template <int D, int R>
CT_D void add_products(const float s[QUAD][QUAD], quad *tile, const quad *other,
                       quad sum[QUAD][D / STEP])
{
  tile += down() * SCORES;
  __syncwarp(); /* the previous values have been read */
  for (int i = 0; i < QUAD; i++)
    for (int j = 0; j < QUAD; j++) {
      int column = across() + j * ACROSS;
      tile[i * (R / QUAD) * SCORES + column / QUAD].v[column % QUAD] = s[i][j];
    }
  __syncwarp();
  for (int k = 0; k < STEP / QUAD; k++) {
    quad factor[QUAD];
    GPU_UNROLL
    for (int i = 0; i < QUAD; i++)
      factor[i] = tile[i * (R / QUAD) * SCORES + k];
    GPU_UNROLL
    for (int e = 0; e < QUAD; e++)
      GPU_UNROLL
    for (int c = 0; c < D / STEP; c++) {
      quad v = other[(k * QUAD + e) * quads_of(D) + across() + c * ACROSS];
      GPU_UNROLL
      for (int i = 0; i < QUAD; i++)
        GPU_UNROLL
      for (int f = 0; f < QUAD; f++)
        sum[i][c].v[f] += factor[i].v[e] * v.v[f];
    }
  }
}

template <class T> struct inputs {
  const T *q, *k, *v, *bias;
};

/* ---- geometry ---- */

static inline int chunk_of(const geometry &g)
{
  return g.wide <= NARROW && g.values <= NARROW ? NARROW : WIDE;
}

/* Returns 1 if all tensors, which may be NULL, and their rows are aligned for four elements. */
template <class T>
static inline int is_whole(const gpu__attention_t *a, const gpu__attention_io_t *o)
{
  const void *all[] = {o->q, o->k, o->v, o->y, o->dy, o->dq, o->dk, o->dv};
  int whole = (a->wide | a->values | a->q_row | a->k_row | a->v_row | a->y_row) % QUAD == 0;
  for (int i = 0; i < 8; i++)
    whole = whole && gpu_vec_fit<T, QUAD>(all[i]);
  return whole;
}

template <class T>
static inline geometry geometry_of(const gpu__attention_t *of, const gpu__attention_io_t *o)
{
  gpu__attention_t a = gpu__attention_full(of);
  geometry g = {};
  int is_bias = a.mask == CT_MASK_BIAS;
  g.t = (int)a.t;
  g.s = (int)a.s;
  g.heads = (int)a.heads;
  g.group = (int)(a.heads / a.kv_heads);
  g.wide = (int)a.wide;
  g.values = (int)a.values;
  int chunk = chunk_of(g), most = g.wide > g.values ? g.wide : g.values;
  g.chunks = (most + chunk - 1) / chunk;
  g.heads_total = a.n * a.heads;
  g.kv_total = a.n * a.kv_heads;
  g.q_row = a.q_row;
  g.k_row = a.k_row;
  g.v_row = a.v_row;
  g.y_row = a.y_row;
  g.scale = a.scale;
  g.whole = is_whole<T>(&a, o);
  g.causal = a.causal;
  g.mask = a.mask;
  g.mask_n = a.mask_n;
  g.mask_h = a.mask_h;
  g.position = a.cached ? o->position : nullptr;
  g.flags = is_bias ? nullptr : (const float *)o->mask;
  return g;
}

template <class T>
static inline inputs<T> inputs_of(const geometry &g, const gpu__attention_io_t *o)
{
  return {(const T *)o->q, (const T *)o->k, (const T *)o->v,
          g.mask == CT_MASK_BIAS ? (const T *)o->mask : nullptr};
}

static inline dim3 grid_of(const geometry &g, int64_t heads, int length, int rows)
{
  return dim3(gpu_grid(heads * ((length + rows - 1) / rows), 1), (unsigned)g.chunks);
}

#endif
