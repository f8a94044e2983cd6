/* The gradients of attention: see attention.h. The scores are computed again from the saved
 * logarithms. One kernel computes the gradients of queries, another one those of keys and values, a
 * third one those of a bias, so that no sum is shared between blocks. */
#include "cuda/kernels/attention_tiles.h"

/* Computes sums [n, heads, t]: the dot products of y and dy. */
template <class T>
CT_KERNEL void row_sums(geometry g, int64_t n, const T *y, const T *dy, float *sums)
{
  GPU_WARP_ROWS (r, n) {
    float sum = 0;
    int64_t token = r / g.heads, at = token * g.y_row + r % g.heads * g.values;
    GPU_LANES (i, g.values)
      sum += gpu_load(&y[at + i]) * gpu_load(&dy[at + i]);
    sum = gpu_warp_sum(sum);
    int64_t head = token / g.t * g.heads + r % g.heads;
    if (threadIdx.x % GPU_WARP == 0) sums[head * g.t + token % g.t] = sum;
  }
}

template <class T> struct gradients {
  inputs<T> in;
  const T *dy;
  const float *stats, *sums;
  T *dq, *dk, *dv, *dbias;
};

/* Turns products q * k and the gradients ds of the probabilities into the probabilities s and the
 * gradients of the scores, times `factor`. KEYS: own rows are keys, else queries. */
template <bool KEYS, class T>
CT_D void score_gradients(const geometry &g, const gradients<T> &o, int64_t head, int own,
                          int first, float factor, float s[QUAD][QUAD], float ds[QUAD][QUAD])
{
  mask_of<T> m = mask_at(g, o.in.bias, head);
  const float *stats = o.stats + head * g.t, *sums = o.sums + head * g.t;
  GPU_UNROLL
  for (int i = 0; i < QUAD; i++)
    GPU_UNROLL
  for (int j = 0; j < QUAD; j++) {
    int r = own + down() + i * (OWN / QUAD), other = first + across() + j * ACROSS;
    int query = KEYS ? other : r, key = KEYS ? r : other, is_pair = meets(g, m, query, key);
    s[i][j] = is_pair ? expf(score_of(g, m, query, key, s[i][j]) - stats[query]) : 0;
    ds[i][j] = is_pair ? s[i][j] * (ds[i][j] - sums[query]) * factor : 0;
  }
}

/* The tiles of two kinds of rows: own_a and own_b stay, a and b follow each other. */
template <class T> struct pairs {
  rows<const T> own_a, own_b, a, b;
};

/* Loads the tiles of all chunks, and computes the products of their rows. The chunk `chunk` of the
 * result comes last, and stays. */
template <int D, class T>
CT_D void add_pairs(const geometry &g, const pairs<T> &p, int own, int first, int chunk, int fresh,
                    quad *own_a, quad *own_b, quad *a, quad *b, float s[QUAD][QUAD],
                    float ds[QUAD][QUAD])
{
  for (int i = 1; i <= g.chunks; i++) {
    int next = (chunk + i) % g.chunks;
    __syncthreads();
    if (fresh || g.chunks > 1) {
      load_tile<D, OWN>(g, p.own_a, own, next, own_a);
      load_tile<D, OWN>(g, p.own_b, own, next, own_b);
    }
    load_tile<D, STEP>(g, p.a, first, next, a);
    load_tile<D, STEP>(g, p.b, first, next, b);
    __syncthreads();
    add_dots<D, OWN>(own_a, a, s);
    add_dots<D, OWN>(own_b, b, ds);
  }
}

/* Returns queries and gradients of outputs as own rows, or with KEYS keys and values. */
template <bool KEYS, class T>
CT_D pairs<T> pairs_of(const geometry &g, const gradients<T> &o, int64_t head)
{
  rows<const T> q = queries_of(g, o.in.q, head), k = keys_of(g, o.in.k, head / g.group),
                v = values_of(g, o.in.v, head / g.group), dy = outputs_of(g, o.dy, head);
  return KEYS ? pairs<T>{k, v, q, dy} : pairs<T>{q, dy, k, v};
}

/* KEYS: computes the gradients of keys and values, summed over the heads that they serve, else
 * those of queries. */
template <class T, int D, bool KEYS>
CT_KERNEL void __launch_bounds__(OWN *ACROSS / QUAD) backward(geometry g, gradients<T> o)
{
  CT_SHARED(quad, own_a, OWN * quads_of(D)); /* queries or keys */
  CT_SHARED(quad, own_b, OWN * quads_of(D)); /* dy or values */
  CT_SHARED(quad, a, STEP * quads_of(D));    /* keys or queries */
  CT_SHARED(quad, b, STEP * quads_of(D));    /* values or dy */
  CT_SHARED(quad, tile, OWN * SCORES);
  int tiles = ((KEYS ? g.s : g.t) + OWN - 1) / OWN, chunk = (int)blockIdx.y;
  int heads = KEYS ? g.group : 1;
  for (int64_t work = blockIdx.x; work < (KEYS ? g.kv_total : g.heads_total) * tiles;
       work += gridDim.x) {
    int64_t group = work / tiles;
    int own = (int)(work % tiles) * OWN, fresh = 1;
    quad da[QUAD][D / STEP] = {}, db[QUAD][D / STEP] = {};
    for (int64_t head = group * heads; head < (group + 1) * heads; head++) {
      mask_of<T> m = mask_at(g, o.in.bias, head);
      pairs<T> p = pairs_of<KEYS>(g, o, head);
      int begin = KEYS ? (g.causal ? own : 0) : begin_of(g, m, own, OWN);
      int end = KEYS ? g.t : end_of(g, m, own, OWN);
      for (int first = begin; first < end; first += STEP, fresh = 0) {
        float s[QUAD][QUAD] = {}, ds[QUAD][QUAD] = {};
        add_pairs<D>(g, p, own, first, chunk, fresh, own_a, own_b, a, b, s, ds);
        score_gradients<KEYS>(g, o, head, own, first, g.scale, s, ds);
        if (KEYS) add_products<D, OWN>(s, tile, b, db);
        add_products<D, OWN>(ds, tile, a, da);
      }
    }
    if (KEYS) {
      if (o.dk) store_tile<D, OWN>(g, keys_of(g, o.dk, group), own, chunk, da);
      if (o.dv) store_tile<D, OWN>(g, values_of(g, o.dv, group), own, chunk, db);
    } else {
      store_tile<D, OWN>(g, queries_of(g, o.dq, group), own, chunk, da);
    }
  }
}

/* Computes the gradient of a bias: sums over the samples and heads that share it, in their
 * order. */
template <class T, int D>
CT_KERNEL void __launch_bounds__(OWN *ACROSS / QUAD) bias_back(geometry g, gradients<T> o)
{
  CT_SHARED(quad, own_a, OWN * quads_of(D));
  CT_SHARED(quad, own_b, OWN * quads_of(D));
  CT_SHARED(quad, a, STEP * quads_of(D));
  CT_SHARED(quad, b, STEP * quads_of(D));
  int64_t samples = g.heads_total / g.heads, down_tiles = (g.t + OWN - 1) / OWN,
          tiles = down_tiles * ((g.s + STEP - 1) / STEP);
  int64_t biases = (g.mask_n ? samples : 1) * (g.mask_h ? g.heads : 1);
  for (int64_t work = blockIdx.x; work < biases * tiles; work += gridDim.x) {
    int64_t bias = work / tiles, n0 = g.mask_h ? bias / g.heads : bias;
    int own = (int)(work % tiles % down_tiles) * OWN;
    int first = (int)(work % tiles / down_tiles) * STEP;
    float sum[QUAD][QUAD] = {};
    for (int64_t n = g.mask_n ? n0 : 0; n < (g.mask_n ? n0 + 1 : samples); n++)
      for (int64_t h = g.mask_h ? bias % g.heads : 0; h < g.heads; h++) {
        float s[QUAD][QUAD] = {}, ds[QUAD][QUAD] = {};
        int64_t head = n * g.heads + h;
        add_pairs<D>(g, pairs_of<false>(g, o, head), own, first, 0, 1, own_a, own_b, a, b, s, ds);
        score_gradients<false>(g, o, head, own, first, 1, s, ds);
        for (int i = 0; i < QUAD; i++)
          for (int j = 0; j < QUAD; j++)
            sum[i][j] += ds[i][j];
        if (g.mask_h) break;
      }
    T *to = o.dbias + (g.mask_n ? n0 * g.mask_n : 0) + (g.mask_h ? bias % g.heads * g.mask_h : 0);
    for (int i = 0; i < QUAD; i++)
      for (int j = 0; j < QUAD; j++) {
        int query = own + down() + i * (OWN / QUAD), key = first + across() + j * ACROSS;
        if (query < g.t && key < g.s) gpu_store(&to[(int64_t)query * g.s + key], sum[i][j]);
      }
  }
}

template <class T, int D>
static cudaError_t launch_backward(const geometry &g, const gradients<T> &o, cudaStream_t s)
{
  int64_t biases = g.heads_total / (g.mask_h ? 1 : g.heads);
  if (o.dq)
    CT_LAUNCH((backward<T, D, false>), grid_of(g, g.heads_total, g.t, OWN), OWN * ACROSS / QUAD, s,
              g, o);
  if (o.dk || o.dv)
    CT_LAUNCH((backward<T, D, true>), grid_of(g, g.kv_total, g.s, OWN), OWN * ACROSS / QUAD, s, g,
              o);
  if (!g.mask_n) biases = g.mask_h ? g.heads : 1;
  if (o.dbias)
    CT_LAUNCH((bias_back<T, D>),
              gpu_grid(biases * ((g.t + OWN - 1) / OWN) * ((g.s + STEP - 1) / STEP), 1),
              OWN * ACROSS / QUAD, s, g, o);
  return cudaGetLastError();
}

template <class T>
static cudaError_t start_backward(const gpu__attention_t *a, const gpu__attention_io_t *io,
                                  cudaStream_t s)
{
  geometry g = geometry_of<T>(a, io);
  gradients<T> o = {inputs_of<T>(g, io), (const T *)io->dy, io->stats,   io->sums,
                    (T *)io->dq,         (T *)io->dk,       (T *)io->dv, (T *)io->dmask};
  int64_t n = g.heads_total * g.t;
  CT_LAUNCH(row_sums<T>, gpu_grid(n, BLOCK / GPU_WARP), BLOCK, s, g, n, (const T *)io->y, o.dy,
            io->sums);
  return chunk_of(g) == NARROW ? launch_backward<T, NARROW>(g, o, s)
                               : launch_backward<T, WIDE>(g, o, s);
}

extern "C" cudaError_t gpu__attention_backward(ct_dtype_t type, const gpu__attention_t *a,
                                               const gpu__attention_io_t *io, cudaStream_t s)
{
  if (a->n == 0) return cudaSuccess;
  GPU_BY_TYPE(type, T, return start_backward<T>(a, io, s))
  return cudaSuccess;
}
