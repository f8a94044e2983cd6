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
  double norms[PIECES][2];
};

extern "C" size_t gpu__update_bytes(void)
{
  return sizeof(work_t);
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
  ct_grad_stat_t one = {v, !isfinite(v)};
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
  const double *norms;
  const step_t *ready; /* computed by an earlier kernel; NULL: each block computes them */
};

CT_D void make_step(const plan_t &p, step_t *step)
{
  const gpu__step_params_t *params = p.at ? p.at : &p.params;
  step->skip = !ct_grad_map(&params->ctl, params->scale, &step->map);
  step->hyper = params->hyper;
  step->hyper.ratio = ct_rule_ratio(p.rule, &params->hyper, p.norms);
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

/* Prepares the inputs for a kernel with \a blocks blocks. */
static plan_t plan(int rule, unsigned blocks, const gpu__step_params_t *params,
                   const gpu__step_params_t *at, const double *norms, work_t *work,
                   cudaStream_t stream)
{
  plan_t p = {rule, *params, at, norms, nullptr};
  if (blocks <= FEW_BLOCKS) return p;
  CT_LAUNCH(make_ready, 1, 1, stream, p, &work->step);
  p.ready = &work->step;
  return p;
}

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

template <rule_t *RULE, int STATES> CT_KERNEL void update(gpu__range_t r, int packs, plan_t plan)
{
  const step_t step = block_step(plan);
  if (step.skip) return;
  GPU_LOOP (i, (r.count + WIDTH - 1) / WIDTH) {
    elements_t e = load_elements<STATES>(r, i * WIDTH, packs);
    for (int k = 0; k < WIDTH; k++)
      e.w.v[k] = follow<RULE>(step, &e, k);
    store_four(r.w, i * WIDTH, r.count, packs, e.w);
    store_states<STATES>(r, i * WIDTH, packs, e);
    if (r.reduced && r.reduced_type == CT_BF16)
      store_reduced<gpu_bf16>(r.reduced, i * WIDTH, r.count, packs, e.w);
    if (r.reduced && r.reduced_type == CT_F16)
      store_reduced<gpu_f16>(r.reduced, i * WIDTH, r.count, packs, e.w);
  }
}

template <rule_t *RULE, int STATES>
CT_KERNEL void norms_partial(gpu__range_t r, int packs, plan_t plan, double (*piece)[2])
{
  const step_t step = block_step(plan);
  double weights = 0, values = 0;
  for (int64_t i = step.skip ? r.count : gpu_first(); i * WIDTH < r.count; i += gpu_stride()) {
    elements_t e = load_elements<STATES>(r, i * WIDTH, packs);
    for (int k = 0; k < WIDTH && i * WIDTH + k < r.count; k++) {
      double w = e.w.v[k], value = follow<RULE>(step, &e, k);
      weights += w * w;
      values += value * value;
    }
    store_states<STATES>(r, i * WIDTH, packs, e);
  }
  weights = gpu_block_sum(weights);
  values = gpu_block_sum(values);
  if (threadIdx.x == 0) {
    piece[blockIdx.x][0] = weights;
    piece[blockIdx.x][1] = values;
  }
}

CT_KERNEL void norms_all(int pieces, const double (*piece)[2], double *norms)
{
  double sum[2] = {};
  for (int i = (int)threadIdx.x; i < pieces; i += THREADS)
    for (int k = 0; k < 2; k++)
      sum[k] += piece[i][k];
  for (int k = 0; k < 2; k++) {
    double all = gpu_block_sum(sum[k]);
    if (threadIdx.x == 0) norms[k] = all;
  }
}

static int all_aligned(const gpu__range_t *r)
{
  int aligned =
      gpu_is_aligned(r->w) && gpu_is_aligned(r->g) && gpu_vec_fit<gpu_bf16, WIDTH>(r->reduced);
  for (int s = 0; s < CT_RULE_STATES; s++)
    aligned = aligned && gpu_is_aligned(r->state[s]);
  return aligned;
}

/* ct_rule_gradient() reads no state. */
#define MEASURED_STATES(value_of, states) ((rule_t *)value_of == ct_rule_gradient ? 0 : states)

extern "C" cudaError_t gpu__norms(ct_rule_t rule, const gpu__range_t *r,
                                  const gpu__step_params_t *params, const gpu__step_params_t *at,
                                  double *norms, void *work, cudaStream_t stream)
{
  work_t *w = (work_t *)work;
  unsigned pieces = pieces_of(r->count);
  if (r->count == 0) return cudaMemsetAsync(norms, 0, 2 * sizeof *norms, stream);
  plan_t p = plan((int)rule, pieces, params, at, nullptr, w, stream);
  double(*piece)[2] = pieces > 1 ? w->norms : (double(*)[2])norms;
  switch (rule) {
#define X(name, function, states, needs_norms, value_of)                                     \
  case name:                                                                                 \
    CT_LAUNCH((norms_partial<value_of, MEASURED_STATES(value_of, states)>), pieces, THREADS, \
              stream, *r, all_aligned(r), p, piece);                                         \
    break;
    CT_RULE_LIST(X)
#undef X
  default:
    return cudaErrorInvalidValue;
  }
  if (pieces > 1) CT_LAUNCH(norms_all, 1, THREADS, stream, (int)pieces, w->norms, norms);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__update(ct_rule_t rule, const gpu__range_t *r,
                                   const gpu__step_params_t *params, const gpu__step_params_t *at,
                                   const double *norms, void *work, cudaStream_t stream)
{
  unsigned blocks = gpu_grid((r->count + WIDTH - 1) / WIDTH, THREADS);
  if (r->count == 0) return cudaSuccess;
  plan_t p = plan((int)rule, blocks, params, at, norms, (work_t *)work, stream);
  switch (rule) {
#define X(name, function, states, needs_norms, value_of)                                   \
  case name:                                                                               \
    CT_LAUNCH((update<function, states>), blocks, THREADS, stream, *r, all_aligned(r), p); \
    break;
    CT_RULE_LIST(X)
#undef X
  default:
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
