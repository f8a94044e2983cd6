/* Attention without stored scores: see attention.h. The scores of a tile of queries and keys are
 * computed in registers and used at once, as in FlashAttention (Dao et al., 2022), and normalized
 * as the block goes (online softmax). Only tiles with keys that a query may meet are computed. */
#include "cuda/kernels/attention_tiles.h"

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
    float shift = top == -INFINITY ? 0 : top; /* no key so far */
    GPU_UNROLL
    for (int j = 0; j < QUAD; j++)
      part += s[i][j] = expf(s[i][j] - shift);
    for (int away = ACROSS / 2; away > 0; away /= 2)
      part += other_x(part, away);
    factor[i] = expf(most[i] - shift);
    sum[i] = sum[i] * factor[i] + part;
    most[i] = top;
  }
}

/* Sums of a thread's rows. */
template <int D> struct running {
  float most[QUAD], sum[QUAD];
  quad c[QUAD][D / STEP];
};

/* Adds the keys first … first + STEP - 1, whose values are in `values`, to the queries from `own`
 * on. */
template <int D, class T>
CT_D void attend_tile(const geometry &g, const mask_of<T> &m, int own, int first,
                      float s[QUAD][QUAD], quad *tile, const quad *values, running<D> &run)
{
  float factor[QUAD];
  for (int j = 0; j < QUAD; j++)
    for (int i = 0; i < QUAD; i++) {
      int query = own + down() + i * (QUERIES / QUAD), key = first + across() + j * ACROSS;
      s[i][j] = meets(g, m, query, key) ? score_of(g, m, query, key, s[i][j]) : -INFINITY;
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
        run.c[i][k].v[f] = run.sum[i] == 0 ? 0 : run.c[i][k].v[f] / run.sum[i];
    if (stats && across() == 0 && blockIdx.y == 0 && r < g.t)
      stats[r] = run.sum[i] == 0 ? INFINITY : run.most[i] + logf(run.sum[i]);
  }
  store_tile<D, QUERIES>(g, c, first, (int)blockIdx.y, run.c);
}

template <class T, int D>
CT_KERNEL void __launch_bounds__(QUERIES *ACROSS / QUAD)
    attend(geometry g, inputs<T> in, T *y, float *stats)
{
  CT_SHARED(quad, queries, QUERIES * quads_of(D));
  CT_SHARED(quad, keys, STEP * quads_of(D));
  CT_SHARED(quad, values, STEP * quads_of(D));
  CT_SHARED(quad, tile, QUERIES * SCORES);
  int tiles = (g.t + QUERIES - 1) / QUERIES;
  for (int64_t work = blockIdx.x; work < g.heads_total * tiles; work += gridDim.x) {
    int64_t head = work / tiles;
    int own = (int)(work % tiles) * QUERIES;
    mask_of<T> m = mask_at(g, in.bias, head);
    rows<const T> q = queries_of(g, in.q, head), k = keys_of(g, in.k, head / g.group),
                  v = values_of(g, in.v, head / g.group);
    int begin = begin_of(g, m, own, QUERIES), end = end_of(g, m, own, QUERIES);
    k.count = v.count = end; /* a cache may have anything behind it */
    running<D> run = {{-INFINITY, -INFINITY, -INFINITY, -INFINITY}, {}, {}};
    for (int first = begin; first < end; first += STEP) {
      float s[QUAD][QUAD] = {};
      for (int chunk = 0; chunk < g.chunks; chunk++) {
        __syncthreads(); /* the previous tiles have been read */
        if (first == begin || g.chunks > 1) load_tile<D, QUERIES>(g, q, own, chunk, queries);
        load_tile<D, STEP>(g, k, first, chunk, keys);
        if (chunk == 0) load_tile<D, STEP>(g, v, first, (int)blockIdx.y, values);
        __syncthreads();
        add_dots<D, QUERIES>(queries, keys, s);
      }
      attend_tile<D>(g, m, own, first, s, tile, values, run);
    }
    finish_rows<D>(g, outputs_of(g, y, head), stats ? stats + head * g.t : nullptr, own, run);
  }
}

template <class T, int D>
static cudaError_t launch_attend(const geometry &g, const gpu__attention_io_t *o, cudaStream_t s)
{
  CT_LAUNCH((attend<T, D>), grid_of(g, g.heads_total, g.t, QUERIES), QUERIES * ACROSS / QUAD, s, g,
            inputs_of<T>(g, o), (T *)o->y, o->stats);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__attention_forward(ct_dtype_t type, const gpu__attention_t *a,
                                              const gpu__attention_io_t *io, cudaStream_t s)
{
  if (a->n == 0) return cudaSuccess;
  GPU_BY_TYPE(type, T, geometry g = geometry_of<T>(a, io);
              return chunk_of(g) == NARROW ? launch_attend<T, NARROW>(g, io, s)
                                           : launch_attend<T, WIDE>(g, io, s))
  return cudaSuccess;
}
