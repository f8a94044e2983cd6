/* The optimizer: gradient statistics, norms, and the rules of backend/ct_rules.h, each compiled
 * into one pass over weights, gradients and states. The device decides without the host whether a
 * step is skipped and how much its gradient is clipped. */
#include "cuda/kernels/update.h"

#include "backend/ct_update.h"
#include "cuda/kernels/vec_access.h"

enum {
  THREADS = 256,
  WIDTH = 4,
  PIECES = 1024,
  PIECE_MIN = 16 * THREADS,
  FEW_BLOCKS = 64 /* up to this many blocks each compute the step's properties themselves, which
                     saves a launch */
};

/* Properties of the step, common to all elements. */
struct step_t {
  int skip;
  ct_grad_map_t map;
  ct_hyper_t hyper;
};

/* Workspace in device memory. */
struct work_t {
  step_t step;
  ct_grad_stat_t stat[PIECES];
  double norms[1][2]; /* of each chunk */
};

/* Returns at least the number of chunks. */
static int64_t chunk_limit(int64_t count, int segments)
{
  return count / CT_SEGMENT_CHUNK + (segments > 0 ? segments : 1);
}

extern "C" size_t gpu__update_bytes(int64_t count, int segments)
{
  return sizeof(work_t) + (size_t)chunk_limit(count, segments) * sizeof(double[2]);
}

/* Returns the number of partial sums, which depends only on the length of the range. */
static unsigned pieces_of(int64_t count)
{
  int64_t n = (count + PIECE_MIN - 1) / PIECE_MIN;
  return n < PIECES ? (unsigned)n : (unsigned)PIECES;
}

/* ---- groups of four elements ---- */

typedef gpu_vec<float, WIDTH> four_t;

/* Loads four elements; elements beyond the end are 0. Whether packs are used does not affect
 * results. */
CT_D four_t load_four(const float *p, int64_t first, int64_t count, int packs)
{
  four_t four = {};
  if (packs && first + WIDTH <= count) return *(const four_t *)(p + first);
  for (int k = 0; k < WIDTH && first + k < count; k++)
    four.v[k] = p[first + k];
  return four;
}

CT_D void store_four(float *p, int64_t first, int64_t count, int packs, const four_t &four)
{
  if (packs && first + WIDTH <= count)
    *(four_t *)(p + first) = four;
  else
    for (int k = 0; k < WIDTH && first + k < count; k++)
      p[first + k] = four.v[k];
}

/* ---- gradient statistics ---- */

enum norm_t { SUM, SQUARES, POWERS, LARGEST };

template <norm_t NORM> CT_D void add_power(ct_grad_stat_t *sum, float v, double p)
{
  ct_grad_stat_t one = {v, isfinite(v) ? 0.0 : 1.0};
  if (NORM == SQUARES) one.power *= one.power;
  if (NORM == POWERS) one.power = pow(one.power, p);
  ct_grad_stat_add(sum, &one, NORM == LARGEST ? (double)INFINITY : 1);
}

/* Returns the result in every thread of the block. */
template <norm_t NORM> CT_D ct_grad_stat_t block_stat(const ct_grad_stat_t &mine)
{
  ct_grad_stat_t all;
  all.nonfinite = gpu_block_sum(mine.nonfinite);
  if (NORM == LARGEST)
    all.power = gpu_block_max((float)mine.power);
  else
    all.power = gpu_block_sum(mine.power);
  return all;
}

template <norm_t NORM>
CT_KERNEL void gradstat_pieces(int64_t count, const float *g, int packs, double p, float scale,
                               const gpu__step_params_t *at, ct_grad_stat_t *piece)
{
  ct_grad_stat_t sum = {};
  if (at) scale = at->scale;
  GPU_LOOP (i, (count + WIDTH - 1) / WIDTH) {
    four_t q = load_four(g, i * WIDTH, count, packs);
    for (int k = 0; k < WIDTH && i * WIDTH + k < count; k++)
      add_power<NORM>(&sum, fabsf(q.v[k] * scale), p);
  }
  sum = block_stat<NORM>(sum);
  if (threadIdx.x == 0) piece[blockIdx.x] = sum;
}

template <norm_t NORM>
CT_KERNEL void gradstat_all(int pieces, const ct_grad_stat_t *piece, ct_grad_stat_t *stat)
{
  const double p = NORM == LARGEST ? (double)INFINITY : 1;
  ct_grad_stat_t sum = {};
  for (int i = (int)threadIdx.x; i < pieces; i += THREADS)
    ct_grad_stat_add(&sum, &piece[i], p);
  sum = block_stat<NORM>(sum);
  if (threadIdx.x == 0) ct_grad_stat_add(stat, &sum, p);
}

template <norm_t NORM>
static cudaError_t gradstat(double p, int64_t count, const float *g, float scale,
                            const gpu__step_params_t *at, ct_grad_stat_t *stat, work_t *work,
                            cudaStream_t stream)
{
  unsigned pieces = pieces_of(count);
  CT_LAUNCH(gradstat_pieces<NORM>, pieces, THREADS, stream, count, g, gpu_is_aligned(g), p, scale,
            at, work->stat);
  CT_LAUNCH(gradstat_all<NORM>, 1, THREADS, stream, (int)pieces, work->stat, stat);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__gradstat(double p, int64_t count, const float *g,
                                     const gpu__step_params_t *params, const gpu__step_params_t *at,
                                     ct_grad_stat_t *stat, void *work, cudaStream_t stream)
{
  work_t *w = (work_t *)work;
  if (count == 0) return cudaSuccess;
  if (isinf(p)) return gradstat<LARGEST>(p, count, g, params->scale, at, stat, w, stream);
  if (p == 1) return gradstat<SUM>(p, count, g, params->scale, at, stat, w, stream);
  if (p == 2) return gradstat<SQUARES>(p, count, g, params->scale, at, stat, w, stream);
  return gradstat<POWERS>(p, count, g, params->scale, at, stat, w, stream);
}

/* ---- rules ---- */

/* Inputs for the properties of a step. */
struct plan_t {
  int rule;
  gpu__step_params_t params;
  const gpu__step_params_t *at;
  const step_t *ready; /* computed by an earlier kernel; NULL: each block computes them */
};

CT_D void make_step(const plan_t &p, step_t *step)
{
  const gpu__step_params_t *params = p.at ? p.at : &p.params;
  step->skip = !ct_grad_map(&params->ctl, params->scale, &step->map);
  step->hyper = params->hyper;
}

/* Run by one thread. */
CT_KERNEL void make_ready(plan_t p, step_t *step)
{
  make_step(p, step);
}

/* Returns the result in every thread of the block. */
CT_D step_t block_step(const plan_t &p)
{
  CT_SHARED(step_t, step, 1);
  if (p.ready) return *p.ready;
  if (threadIdx.x == 0) make_step(p, step);
  __syncthreads();
  return *step;
}

/* Prepares the inputs for a kernel with \a blocks blocks. Without statistics, which are in host
 * memory, every block computes the properties itself. */
static plan_t plan(int rule, unsigned blocks, const gpu__step_params_t *params,
                   const gpu__step_params_t *at, work_t *work, cudaStream_t stream)
{
  plan_t p = {rule, *params, at, nullptr};
  if (blocks <= FEW_BLOCKS || !params->ctl.stat) return p;
  CT_LAUNCH(make_ready, 1, 1, stream, p, &work->step);
  p.ready = &work->step;
  return p;
}

/* ---- chunks ---- */

/* A chunk of a parameter: elements first … end - 1 of the arrays in r. */
struct chunk_t {
  gpu__range_t r; /* the parameter */
  int packs;      /* 1: its arrays are aligned */
  int64_t first, end;
};

CT_D int64_t chunks_of(const gpu__range_t &r)
{
  if (!r.segment) return ct_segment_chunks(r.count);
  const ct_segment_t *last = &r.segment[r.segments - 1];
  return last->chunk - r.segment->chunk + ct_segment_chunks(last->count);
}

/* Returns the segment of a chunk, by bisection. */
CT_D int segment_of(const gpu__range_t &r, int64_t chunk)
{
  int low = 0, high = r.segments;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (r.segment[middle].chunk - r.segment->chunk <= chunk)
      low = middle;
    else
      high = middle;
  }
  return low;
}

CT_D int is_fit(const void *p, uintptr_t bytes)
{
  return (uintptr_t)p % bytes == 0;
}

CT_D int all_aligned(const gpu__range_t &r)
{
  int aligned = is_fit(r.w, GPU_PACK_BYTES) && is_fit(r.g, GPU_PACK_BYTES) &&
                is_fit(r.reduced, GPU_PACK_BYTES / 2);
  for (int s = 0; s < CT_RULE_STATES; s++)
    aligned = aligned && is_fit(r.state[s], GPU_PACK_BYTES);
  return aligned;
}

CT_D chunk_t chunk_at(const gpu__range_t &all, int64_t chunk)
{
  chunk_t c = {all, 0, 0, 0};
  if (all.segment) {
    const ct_segment_t s = all.segment[segment_of(all, chunk)];
    chunk -= s.chunk - all.segment->chunk;
    c.r.count = s.count;
    c.r.w += s.weight;
    c.r.g += s.first;
    if (all.reduced) c.r.reduced = (uint16_t *)all.reduced + s.first;
    if (all.norms) c.r.norms += 2 * s.norms;
    for (int k = 0; k < CT_RULE_STATES; k++)
      if (all.state[k]) c.r.state[k] += s.state;
  }
  c.packs = all_aligned(c.r);
  c.first = chunk * CT_SEGMENT_CHUNK;
  c.end = c.first + CT_SEGMENT_CHUNK < c.r.count ? c.first + CT_SEGMENT_CHUNK : c.r.count;
  return c;
}

/* The blocks of the grid share the chunks; c: number of the chunk. */
#define CHUNKS(c, r) for (int64_t c = blockIdx.x; c < chunks_of(r); c += gridDim.x)
/* The threads of a block share the groups of four elements of a chunk; i: the first element. */
#define FOURS(i, chunk) \
  for (int64_t i = (chunk).first + threadIdx.x * WIDTH; i < (chunk).end; i += THREADS * WIDTH)

typedef float rule_t(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2);

/* Four elements of each array of a range. */
struct elements_t {
  four_t w, g, state[CT_RULE_STATES];
};

template <int STATES> CT_D elements_t load_elements(const gpu__range_t &r, int64_t first, int packs)
{
  elements_t e = {};
  e.w = load_four(r.w, first, r.count, packs);
  e.g = load_four(r.g, first, r.count, packs);
  for (int s = 0; s < STATES; s++)
    if (r.state[s]) e.state[s] = load_four(r.state[s], first, r.count, packs);
  return e;
}

template <int STATES>
CT_D void store_states(const gpu__range_t &r, int64_t first, int packs, const elements_t &e)
{
  for (int s = 0; s < STATES; s++)
    if (r.state[s]) store_four(r.state[s], first, r.count, packs, e.state[s]);
}

/* Applies the rule to element k and updates its states. */
template <rule_t *RULE> CT_D float follow(const step_t &step, elements_t *e, int k)
{
  return RULE(&step.hyper, e->w.v[k], ct_grad_mapped(step.map, e->g.v[k]), &e->state[0].v[k],
              &e->state[1].v[k], &e->state[2].v[k]);
}

template <class T>
CT_D void store_reduced(void *reduced, int64_t first, int64_t count, int packs, const four_t &w)
{
  gpu_vec<T, WIDTH> q;
  T *to = (T *)reduced + first;
  for (int k = 0; k < WIDTH; k++)
    gpu_store(&q.v[k], w.v[k]);
  if (packs && first + WIDTH <= count)
    *(gpu_vec<T, WIDTH> *)to = q;
  else
    for (int k = 0; k < WIDTH && first + k < count; k++)
      to[k] = q.v[k];
}

template <rule_t *RULE, int STATES> CT_KERNEL void update(gpu__range_t r, plan_t plan)
{
  step_t step = block_step(plan);
  if (step.skip) return;
  CHUNKS(n, r)
  {
    const chunk_t c = chunk_at(r, n);
    step.hyper.ratio = ct_rule_ratio(plan.rule, &step.hyper, c.r.norms);
    FOURS(i, c)
    {
      elements_t e = load_elements<STATES>(c.r, i, c.packs);
      for (int k = 0; k < WIDTH; k++)
        e.w.v[k] = follow<RULE>(step, &e, k);
      store_four(c.r.w, i, c.r.count, c.packs, e.w);
      store_states<STATES>(c.r, i, c.packs, e);
      if (r.reduced && r.reduced_type == CT_BF16)
        store_reduced<gpu_bf16>(c.r.reduced, i, c.r.count, c.packs, e.w);
      if (r.reduced && r.reduced_type == CT_F16)
        store_reduced<gpu_f16>(c.r.reduced, i, c.r.count, c.packs, e.w);
    }
  }
}

template <rule_t *RULE, int STATES>
CT_KERNEL void norms_of_chunks(gpu__range_t r, plan_t plan, double (*piece)[2])
{
  const step_t step = block_step(plan);
  CHUNKS(n, r)
  {
    double weights = 0, values = 0;
    const chunk_t c = chunk_at(r, n);
    FOURS(i, c)
    {
      if (step.skip) break;
      elements_t e = load_elements<STATES>(c.r, i, c.packs);
      for (int k = 0; k < WIDTH && i + k < c.r.count; k++) {
        double w = e.w.v[k], value = follow<RULE>(step, &e, k);
        weights += w * w;
        values += value * value;
      }
      store_states<STATES>(c.r, i, c.packs, e);
    }
    weights = gpu_block_sum(weights);
    values = gpu_block_sum(values);
    if (threadIdx.x > 0) continue;
    piece[n][0] = weights;
    piece[n][1] = values;
  }
}

/* Sums the chunks of each parameter, one parameter per block. */
CT_KERNEL void norms_of_segments(gpu__range_t r, const double (*piece)[2])
{
  const ct_segment_t one = {0, 0, r.count, 0, 0, 0}, *segment = r.segment ? r.segment : &one;
  for (int s = (int)blockIdx.x; s < (r.segment ? r.segments : 1); s += (int)gridDim.x) {
    double sum[2] = {};
    int64_t first = segment[s].chunk - segment->chunk;
    int64_t end = first + ct_segment_chunks(segment[s].count);
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS)
      for (int k = 0; k < 2; k++)
        sum[k] += piece[i][k];
    for (int k = 0; k < 2; k++) {
      double all = gpu_block_sum(sum[k]);
      if (threadIdx.x == 0) r.norms[2 * segment[s].norms + k] = all;
    }
  }
}

/* ct_rule_gradient() reads no state. */
#define MEASURED_STATES(value_of, states) ((rule_t *)value_of == ct_rule_gradient ? 0 : states)

extern "C" cudaError_t gpu__norms(ct_rule_t rule, const gpu__range_t *r,
                                  const gpu__step_params_t *params, const gpu__step_params_t *at,
                                  void *work, cudaStream_t stream)
{
  work_t *w = (work_t *)work;
  unsigned blocks = gpu_grid(chunk_limit(r->count, r->segments), 1);
  if (r->count == 0 && !r->segment)
    return cudaMemsetAsync(r->norms, 0, 2 * sizeof *r->norms, stream);
  plan_t p = plan((int)rule, blocks, params, at, w, stream);
  switch (rule) {
#define X(name, function, states, needs_norms, value_of)                                       \
  case name:                                                                                   \
    CT_LAUNCH((norms_of_chunks<value_of, MEASURED_STATES(value_of, states)>), blocks, THREADS, \
              stream, *r, p, w->norms);                                                        \
    break;
    CT_RULE_LIST(X)
#undef X
  default:
    return cudaErrorInvalidValue;
  }
  CT_LAUNCH(norms_of_segments, gpu_grid(r->segment ? r->segments : 1, 1), THREADS, stream, *r,
            w->norms);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__update(ct_rule_t rule, const gpu__range_t *r,
                                   const gpu__step_params_t *params, const gpu__step_params_t *at,
                                   void *work, cudaStream_t stream)
{
  unsigned blocks = gpu_grid(chunk_limit(r->count, r->segments), 1);
  if (r->count == 0) return cudaSuccess;
  plan_t p = plan((int)rule, blocks, params, at, (work_t *)work, stream);
  switch (rule) {
#define X(name, function, states, needs_norms, value_of)                   \
  case name:                                                               \
    CT_LAUNCH((update<function, states>), blocks, THREADS, stream, *r, p); \
    break;
    CT_RULE_LIST(X)
#undef X
  default:
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
