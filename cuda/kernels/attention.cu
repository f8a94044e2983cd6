/* Attention without stored scores: see attention.h. The scores of a tile of queries and keys are
 * computed in registers and used at once, as in FlashAttention (Dao et al., 2022): the forward pass
 * normalizes them as it goes (online softmax), and the backward pass recomputes them from the saved
 * logarithms. One kernel computes the gradients of queries, another one those of keys and values,
 * so that no sum is shared between blocks.
 *
 * A block owns a tile of rows (queries; in the gradients of keys and values, keys) and loops over
 * tiles of STEP rows of the other kind. Of the scores of two tiles a thread has 4 x 4: rows
 * y + i * R / 4 and columns x + 8 j, where x = across(), y = down() and R is the number of own
 * rows. A warp has 8 x and 4 y, so the rows of its threads belong to it alone. Columns of heads are
 * processed in chunks of D: each chunk of the result has its own blocks (blockIdx.y), which sum the
 * scores over all chunks. */
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
  int t, heads, wide, chunks;
  int64_t heads_total; /* heads of all samples */
  float scale;
  int whole; /* 1: rows are aligned multiples of QUAD elements */
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
    if (first + r < g.t)
      v = load_quad(from.at + (first + r) * from.step + column, g.wide - column, g.whole);
    tile[r * quads_of(D) + q] = v;
  }
}

template <int D, int R, class T>
CT_D void store_tile(const geometry &g, rows<T> to, int first, int chunk,
                     const quad sum[QUAD][D / STEP])
{
  for (int i = 0; i < QUAD; i++) {
    int r = first + down() + i * (R / QUAD);
    for (int k = 0; k < D / STEP && r < g.t; k++) {
      int column = chunk * D + (across() + k * ACROSS) * QUAD;
      store_quad(to.at + r * to.step + column, sum[i][k], g.wide - column, g.whole);
    }
  }
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

/* ---- forward ---- */

/* Replaces scores by exp(score - the row's maximum so far); factor: by which earlier sums of the
 * row are multiplied. */
CT_D void online_softmax(float s[QUAD][QUAD], float most[QUAD], float sum[QUAD], float factor[QUAD])
{
  GPU_UNROLL
  for (int i = 0; i < QUAD; i++) {
    float top = most[i], part = 0;
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
      top = gpu_larger(top, s[i][j]);
    for (int away = ACROSS / 2; away > 0; away /= 2)
      top = gpu_larger(top, other_x(top, away));
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
      part += s[i][j] = expf(s[i][j] - top);
    for (int away = ACROSS / 2; away > 0; away /= 2)
      part += other_x(part, away);
    factor[i] = expf(most[i] - top);
    sum[i] = sum[i] * factor[i] + part;
    most[i] = top;
  }
}

/* Sums of a thread's rows. */
template <int D> struct running {
  float most[QUAD], sum[QUAD];
  quad c[QUAD][D / STEP];
};

/* Adds the keys first … first + STEP - 1, whose values are in `values`. */
template <int D>
CT_D void attend_tile(const geometry &g, int first, float s[QUAD][QUAD], quad *tile,
                      const quad *values, running<D> &run)
{
  float factor[QUAD];
  for (int j = 0; j < QUAD; j++) {
    int is_key = first + across() + j * ACROSS < g.t;
    for (int i = 0; i < QUAD; i++)
      s[i][j] = is_key ? s[i][j] * g.scale : -INFINITY;
  }
  online_softmax(s, run.most, run.sum, factor);
  for (int i = 0; i < QUAD; i++)
    for (int c = 0; c < D / STEP; c++)
      for (int f = 0; f < QUAD; f++)
        run.c[i][c].v[f] *= factor[i];
  add_products<D, QUERIES>(s, tile, values, run.c);
}

template <int D, class T>
CT_D void finish_rows(const geometry &g, rows<T> c, float *stats, int first, running<D> &run)
{
  for (int i = 0; i < QUAD; i++) {
    int r = first + down() + i * (QUERIES / QUAD);
    for (int k = 0; k < D / STEP; k++)
      for (int f = 0; f < QUAD; f++)
        run.c[i][k].v[f] /= run.sum[i];
    if (stats && across() == 0 && blockIdx.y == 0 && r < g.t)
      stats[r] = run.most[i] + logf(run.sum[i]);
  }
  store_tile<D, QUERIES>(g, c, first, (int)blockIdx.y, run.c);
}

/* Returns the rows of part 0 (queries), 1 (keys) or 2 (values) of a head. */
template <class T> CT_D rows<T> part_of(const geometry &g, T *qkv, int64_t head, int part)
{
  int64_t row = (int64_t)g.heads * g.wide;
  return {qkv + head / g.heads * g.t * 3 * row + part * row + head % g.heads * g.wide, 3 * row};
}
/* Returns the rows of a head in a tensor such as c. */
template <class T> CT_D rows<T> head_of(const geometry &g, T *c, int64_t head)
{
  int64_t row = (int64_t)g.heads * g.wide;
  return {c + head / g.heads * g.t * row + head % g.heads * g.wide, row};
}

template <class T, int D>
CT_KERNEL void __launch_bounds__(QUERIES *ACROSS / QUAD)
    attend(geometry g, const T *qkv, T *c, float *stats)
{
  CT_SHARED(quad, queries, QUERIES * quads_of(D));
  CT_SHARED(quad, keys, STEP * quads_of(D));
  CT_SHARED(quad, values, STEP * quads_of(D));
  CT_SHARED(quad, tile, QUERIES * SCORES);
  int tiles = (g.t + QUERIES - 1) / QUERIES;
  for (int64_t work = blockIdx.x; work < g.heads_total * tiles; work += gridDim.x) {
    int64_t head = work / tiles;
    int own = (int)(work % tiles) * QUERIES;
    running<D> run = {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {}, {}};
    for (int first = 0; first < g.t; first += STEP) {
      float s[QUAD][QUAD] = {};
      for (int chunk = 0; chunk < g.chunks; chunk++) {
        __syncthreads(); /* the previous tiles have been read */
        if (first == 0 || g.chunks > 1)
          load_tile<D, QUERIES>(g, part_of(g, qkv, head, 0), own, chunk, queries);
        load_tile<D, STEP>(g, part_of(g, qkv, head, 1), first, chunk, keys);
        if (chunk == 0)
          load_tile<D, STEP>(g, part_of(g, qkv, head, 2), first, (int)blockIdx.y, values);
        __syncthreads();
        add_dots<D, QUERIES>(queries, keys, s);
      }
      attend_tile<D>(g, first, s, tile, values, run);
    }
    finish_rows<D>(g, head_of(g, c, head), stats ? stats + head * g.t : nullptr, own, run);
  }
}

/* ---- backward ---- */

/* Computes sums [n, heads, t]: the dot products of c and dc. */
template <class T>
CT_KERNEL void row_sums(geometry g, int64_t n, const T *c, const T *dc, float *sums)
{
  GPU_WARP_ROWS (r, n) {
    float sum = 0;
    GPU_LANES (i, g.wide)
      sum += gpu_load(&c[r * g.wide + i]) * gpu_load(&dc[r * g.wide + i]);
    sum = gpu_warp_sum(sum);
    int64_t token = r / g.heads, head = token / g.t * g.heads + r % g.heads;
    if (threadIdx.x % GPU_WARP == 0) sums[head * g.t + token % g.t] = sum;
  }
}

template <class T> struct gradients {
  const T *qkv, *dc;
  const float *stats, *sums;
  T *dqkv;
};

/* Turns scores s and the gradients ds of the probabilities into the probabilities and the gradients
 * of the products q * k. KEYS: own rows are keys, else queries. */
template <bool KEYS>
CT_D void score_gradients(const geometry &g, const float *stats, const float *sums, int own,
                          int first, float s[QUAD][QUAD], float ds[QUAD][QUAD])
{
  GPU_UNROLL
  for (int i = 0; i < QUAD; i++)
    GPU_UNROLL
  for (int j = 0; j < QUAD; j++) {
    int r = own + down() + i * (OWN / QUAD), other = first + across() + j * ACROSS;
    int query = KEYS ? other : r, is_pair = r < g.t && other < g.t;
    s[i][j] = is_pair ? expf(s[i][j] * g.scale - stats[query]) : 0;
    ds[i][j] = is_pair ? s[i][j] * (ds[i][j] - sums[query]) * g.scale : 0;
  }
}

/* KEYS: computes the gradients of keys and values, else those of queries. */
template <class T, int D, bool KEYS>
CT_KERNEL void __launch_bounds__(OWN *ACROSS / QUAD) backward(geometry g, gradients<T> o)
{
  CT_SHARED(quad, own_a, OWN * quads_of(D)); /* queries or keys */
  CT_SHARED(quad, own_b, OWN * quads_of(D)); /* dc or values */
  CT_SHARED(quad, a, STEP * quads_of(D));    /* keys or queries */
  CT_SHARED(quad, b, STEP * quads_of(D));    /* values or dc */
  CT_SHARED(quad, tile, OWN * SCORES);
  int tiles = (g.t + OWN - 1) / OWN, chunk = (int)blockIdx.y;
  for (int64_t work = blockIdx.x; work < g.heads_total * tiles; work += gridDim.x) {
    int64_t head = work / tiles;
    int own = (int)(work % tiles) * OWN;
    rows<const T> q = part_of(g, o.qkv, head, 0), k = part_of(g, o.qkv, head, 1),
                  v = part_of(g, o.qkv, head, 2), dc = head_of(g, o.dc, head);
    quad da[QUAD][D / STEP] = {}, db[QUAD][D / STEP] = {};
    for (int first = 0; first < g.t; first += STEP) {
      float s[QUAD][QUAD] = {}, ds[QUAD][QUAD] = {};
      for (int i = 1; i <= g.chunks; i++) {
        int next = (chunk + i) % g.chunks; /* the result's own chunk comes last, and stays */
        __syncthreads();
        if (first == 0 || g.chunks > 1) {
          load_tile<D, OWN>(g, KEYS ? k : q, own, next, own_a);
          load_tile<D, OWN>(g, KEYS ? v : dc, own, next, own_b);
        }
        load_tile<D, STEP>(g, KEYS ? q : k, first, next, a);
        load_tile<D, STEP>(g, KEYS ? dc : v, first, next, b);
        __syncthreads();
        add_dots<D, OWN>(own_a, a, s);
        add_dots<D, OWN>(own_b, b, ds);
      }
      score_gradients<KEYS>(g, o.stats + head * g.t, o.sums + head * g.t, own, first, s, ds);
      if (KEYS) add_products<D, OWN>(s, tile, b, db);
      add_products<D, OWN>(ds, tile, a, da);
    }
    store_tile<D, OWN>(g, part_of(g, o.dqkv, head, KEYS ? 1 : 0), own, chunk, da);
    if (KEYS) store_tile<D, OWN>(g, part_of(g, o.dqkv, head, 2), own, chunk, db);
  }
}

/* ---- launches ---- */

static int chunk_of(const gpu__attention_t *a)
{
  return a->wide <= NARROW ? NARROW : WIDE;
}

/* Returns 1 if p, which may be NULL, is aligned for four elements. */
template <class T> static int is_whole(const void *p)
{
  return gpu_vec_fit<T, QUAD>(p);
}

template <class T>
static geometry geometry_of(const gpu__attention_t *a, const void *x, const void *y, const void *z)
{
  geometry g = {};
  g.t = (int)a->t;
  g.heads = (int)a->heads;
  g.wide = (int)a->wide;
  g.chunks = (int)((a->wide + chunk_of(a) - 1) / chunk_of(a));
  g.heads_total = a->n * a->heads;
  g.scale = 1 / sqrtf((float)a->wide);
  g.whole = a->wide % QUAD == 0 && is_whole<T>(x) && is_whole<T>(y) && is_whole<T>(z);
  return g;
}

static dim3 grid_of(const geometry &g, int rows)
{
  return dim3(gpu_grid(g.heads_total * ((g.t + rows - 1) / rows), 1), (unsigned)g.chunks);
}

template <class T, int D>
static cudaError_t launch_attend(const geometry &g, const T *qkv, T *c, float *stats,
                                 cudaStream_t stream)
{
  CT_LAUNCH((attend<T, D>), grid_of(g, QUERIES), QUERIES * ACROSS / QUAD, stream, g, qkv, c, stats);
  return cudaGetLastError();
}

template <class T, int D>
static cudaError_t launch_backward(const geometry &g, const gradients<T> &o, cudaStream_t stream)
{
  CT_LAUNCH((backward<T, D, false>), grid_of(g, OWN), OWN * ACROSS / QUAD, stream, g, o);
  CT_LAUNCH((backward<T, D, true>), grid_of(g, OWN), OWN * ACROSS / QUAD, stream, g, o);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__attention_forward(ct_dtype_t type, const gpu__attention_t *a,
                                              const void *qkv, void *c, float *stats,
                                              cudaStream_t s)
{
  GPU_BY_TYPE(type, T, geometry g = geometry_of<T>(a, qkv, c, nullptr);
              return chunk_of(a) == NARROW
                         ? launch_attend<T, NARROW>(g, (const T *)qkv, (T *)c, stats, s)
                         : launch_attend<T, WIDE>(g, (const T *)qkv, (T *)c, stats, s))
  return cudaSuccess;
}

template <class T>
static cudaError_t start_backward(const gpu__attention_t *a, const T *c, const gradients<T> &o,
                                  float *sums, cudaStream_t s)
{
  geometry g = geometry_of<T>(a, o.qkv, o.dc, o.dqkv);
  int64_t n = g.heads_total * a->t;
  CT_LAUNCH(row_sums<T>, gpu_grid(n, BLOCK / GPU_WARP), BLOCK, s, g, n, c, o.dc, sums);
  return chunk_of(a) == NARROW ? launch_backward<T, NARROW>(g, o, s)
                               : launch_backward<T, WIDE>(g, o, s);
}

extern "C" cudaError_t gpu__attention_backward(ct_dtype_t type, const gpu__attention_t *a,
                                               const void *qkv, const void *c, const void *dc,
                                               const float *stats, float *sums, void *dqkv,
                                               cudaStream_t s)
{
  GPU_BY_TYPE(type, T, gradients<T> o = {(const T *)qkv, (const T *)dc, stats, sums, (T *)dqkv};
              return start_backward(a, (const T *)c, o, sums, s))
  return cudaSuccess;
}
