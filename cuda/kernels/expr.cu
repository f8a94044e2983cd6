/* Elementwise programs: each thread interprets the program for a few elements at a time, which
 * share the cost of decoding a step. Sums over broadcast dims are made by kernels of their own, in
 * a fixed order; and random numbers. */
#include "cuda/kernels/expr.h"

#include "backend/ct_random.h"
#include "cuda/kernels/expr_fn.h"
#include "cuda/kernels/map.h"

enum {
  THREADS = 256,
  EACH = 4,      /* elements of a thread */
  COLUMNS = 32,  /* adjacent sums of a block */
  CHUNK = 256,   /* least terms of a chunk */
  CHUNKS = 64,   /* most chunks */
  SHORT_SUM = 64 /* sums of fewer terms are made by fewer threads */
};

/* The elements' values by operand number, but without the constants. */
typedef float slots_t[CT_EXPR_INPUTS + CT_EXPR_STEPS][EACH];

CT_D int slot_of(int operand)
{
  return operand < CT_EXPR_CONST ? operand : operand - CT_EXPR_CONSTS;
}

CT_D int is_const(int operand)
{
  return operand >= CT_EXPR_CONST && operand < CT_EXPR_STEP;
}

/* Returns the offset of element i of y in input k. */
CT_D int64_t place(const ct_expr_view_t &v, int k, int64_t i)
{
  int64_t at = 0;
  if (v.whole[k]) return i;
  for (int j = v.dims - 1; j > 0; j--) {
    int64_t rest = i / v.dim[j];
    at += (i - rest * v.dim[j]) * v.stride[k][j];
    i = rest;
  }
  return at + i * v.stride[k][0];
}

/* Reads the inputs in the set `which` of the thread's elements first + j * THREADS. */
template <class T>
CT_D void read_inputs(const gpu__expr_t &e, const gpu__expr_arrays_t &a, uint32_t which,
                      int64_t first, int count, slots_t value)
{
  for (int k = 0; k < e.view.inputs; k++) {
    if (!(which >> k & 1)) continue;
    int wide = k > 0 && k <= e.program.weight;
    for (int j = 0; j < count; j++) {
      int64_t at = place(e.view, k, first + j * THREADS);
      value[k][j] = wide ? ((const float *)a.in[k])[at] : gpu_load((const T *)a.in[k] + at);
    }
  }
}

CT_D float operand_at(const ct_expr_t &p, const slots_t value, int operand, int j)
{
  return is_const(operand) ? (float)p.value[operand - CT_EXPR_CONST] : value[slot_of(operand)][j];
}

/* Computes the results of the steps in the set `which`. */
CT_D void compute_steps(const ct_expr_t &p, uint32_t which, slots_t value)
{
  for (int i = 0; i < p.steps; i++) {
    const ct_expr_step_t s = p.step[i];
    if (!(which >> (CT_EXPR_STEP + i) & 1)) continue;
    for (int j = 0; j < EACH; j++)
      value[CT_EXPR_INPUTS + i][j] =
          fn_value(s.fn, operand_at(p, value, s.of[0], j), operand_at(p, value, s.of[1], j),
                   operand_at(p, value, s.of[2], j));
  }
}

CT_D void clear(slots_t v)
{
  for (int i = 0; i < CT_EXPR_INPUTS + CT_EXPR_STEPS; i++)
    for (int j = 0; j < EACH; j++)
      v[i][j] = 0;
}

/* Returns the number of this thread's elements of a tile. */
CT_D int elements_of(int64_t count, int64_t first)
{
  int64_t rest = (count - first + THREADS - 1) / THREADS;
  return rest < 0 ? 0 : rest < EACH ? (int)rest : EACH;
}

template <class T> CT_KERNEL void expr_forward(gpu__expr_t e, gpu__expr_arrays_t a)
{
  slots_t value;
  clear(value);
  for (int64_t tile = blockIdx.x; tile * THREADS * EACH < e.view.count; tile += gridDim.x) {
    int64_t first = tile * THREADS * EACH + threadIdx.x;
    int count = elements_of(e.view.count, first);
    read_inputs<T>(e, a, 0xffffffffu, first, count, value);
    compute_steps(e.program, 0xffffffffu, value);
    for (int j = 0; j < count; j++)
      gpu_store((T *)a.y + first + j * THREADS, value[CT_EXPR_INPUTS + e.program.steps - 1][j]);
  }
}

/* Adds the gradients of the operands of step i. */
CT_D void pull_step(const ct_expr_t &p, const uint32_t wanted[3], int i, const slots_t value,
                    slots_t gradient)
{
  const ct_expr_step_t s = p.step[i];
  for (int k = 0; k < 3; k++) {
    if (!(wanted[k] >> i & 1)) continue;
    for (int j = 0; j < EACH; j++)
      gradient[slot_of(s.of[k])][j] +=
          fn_pull(s.fn, k, operand_at(p, value, s.of[0], j), operand_at(p, value, s.of[1], j),
                  operand_at(p, value, s.of[2], j), gradient[CT_EXPR_INPUTS + i][j],
                  value[CT_EXPR_INPUTS + i][j]);
  }
}

template <class T>
CT_KERNEL void expr_backward(gpu__expr_t e, gpu__expr_arrays_t a, gpu__expr_pulls_t what)
{
  slots_t value, gradient;
  clear(value);
  for (int64_t tile = blockIdx.x; tile * THREADS * EACH < e.view.count; tile += gridDim.x) {
    int64_t first = tile * THREADS * EACH + threadIdx.x;
    int count = elements_of(e.view.count, first);
    read_inputs<T>(e, a, what.need.value, first, count, value);
    compute_steps(e.program, what.need.value, value);
    clear(gradient);
    for (int j = 0; j < count; j++) {
      int64_t i = first + j * THREADS;
      gradient[CT_EXPR_INPUTS + e.program.steps - 1][j] =
          gpu_load((const T *)a.dy + i) + (a.dy2 ? gpu_load((const T *)a.dy2 + i) : 0);
    }
    for (int i = e.program.steps - 1; i >= 0; i--)
      pull_step(e.program, what.step, i, value, gradient);
    for (int k = 0; k < e.view.inputs; k++) {
      for (int j = 0; j < count; j++) {
        int64_t i = first + j * THREADS;
        if (a.all[k]) a.all[k][i] = gradient[k][j];
        if (!a.dx[k]) continue;
        if (k > 0 && k <= e.program.weight)
          ((float *)a.dx[k])[i] = gradient[k][j];
        else
          gpu_store((T *)a.dx[k] + i, gradient[k][j]);
      }
    }
  }
}

/* ---- programs of one step ---- */

/* Most programs are a function alone, such as a GELU.  Without the interpreter's tables, which are
 * in memory, it is as fast as a copy. */
struct one_step {
  int fn;
  int from[3];       /* per operand: the input that it reads; -1: a constant */
  float constant[3]; /* per operand */
  CT_METHOD float operand(int k, float a, float b, float c) const
  {
    return from[k] == 0 ? a : from[k] == 1 ? b : from[k] == 2 ? c : constant[k];
  }
};

/* Returns 1 if the program has one step, and all inputs have the shape and the type of y. */
static int is_one_step(const gpu__expr_t *e, one_step *out)
{
  const ct_expr_step_t *s = &e->program.step[0];
  if (e->program.steps != 1 || e->program.weight) return 0;
  for (int k = 0; k < e->view.inputs; k++)
    if (!e->view.whole[k]) return 0;
  out->fn = s->fn;
  for (int k = 0; k < 3; k++) {
    int input = s->of[k] < CT_EXPR_CONST; /* there is no earlier step to read */
    out->from[k] = input ? s->of[k] : -1;
    out->constant[k] = input ? 0 : (float)e->program.value[s->of[k] - CT_EXPR_CONST];
  }
  return 1;
}

struct step_value {
  one_step s;
  CT_METHOD float operator()(float a, float b, float c) const
  {
    return fn_value(s.fn, s.operand(0, a, b, c), s.operand(1, a, b, c), s.operand(2, a, b, c));
  }
};

/* The gradient of one input: of the operands in the set `pulls`.  The inputs are dy and the first
 * two of the program, or with `sum` dy, dy2 and the first one. */
struct step_pull {
  one_step s;
  int pulls, sum, needs_result;
  CT_METHOD float operator()(float dy, float a, float b) const
  {
    float g = sum ? dy + a : dy, in0 = sum ? b : a, in1 = sum ? 0 : b, out = 0;
    float o[3] = {s.operand(0, in0, in1, 0), s.operand(1, in0, in1, 0), s.operand(2, in0, in1, 0)};
    float r = needs_result ? fn_value(s.fn, o[0], o[1], o[2]) : 0;
    if (pulls & 1) out += fn_pull(s.fn, 0, o[0], o[1], o[2], g, r);
    if (pulls & 2) out += fn_pull(s.fn, 1, o[0], o[1], o[2], g, r);
    if (pulls & 4) out += fn_pull(s.fn, 2, o[0], o[1], o[2], g, r);
    return out;
  }
};

/* Runs backward to input k. */
static cudaError_t pull_input(const gpu__expr_t *e, ct_dtype_t type, const gpu__expr_pulls_t *what,
                              const gpu__expr_arrays_t *a, int k, step_pull f, cudaStream_t stream)
{
  const void *read[2]; /* an input that is not needed may lie anywhere */
  for (int i = 0; i < 2; i++)
    read[i] = i < e->view.inputs && what->need.value >> i & 1 ? a->in[i] : NULL;
  const void *second = f.sum ? a->dy2 : read[0], *third = f.sum ? read[0] : read[1];
  for (int o = 0; o < 3; o++)
    f.pulls |= (f.s.from[o] == k && (what->step[o] & 1)) << o;
  GPU_BY_TYPE(type, T, return gpu_map<T>(e->view.count, a->dy, second, third, a->dx[k], f, stream));
  return cudaErrorInvalidValue;
}

/* Runs backward of a program of one step; returns 0 if it has another form. */
static int one_step_backward(const gpu__expr_t *e, ct_dtype_t type, const gpu__expr_pulls_t *what,
                             const gpu__expr_arrays_t *a, cudaStream_t stream, cudaError_t *error)
{
  step_pull f = {};
  int inputs = e->view.inputs;
  if (!is_one_step(e, &f.s) || inputs > 2 || (inputs == 2 && a->dy2)) return 0;
  f.sum = a->dy2 != NULL;
  f.needs_result = (int)(what->need.value >> CT_EXPR_STEP & 1);
  for (int last = 0; last < 2; last++) /* a gradient in the memory of dy comes last */
    for (int k = 0; k < inputs && *error == cudaSuccess; k++)
      if (a->dx[k] && (a->dx[k] == a->dy) == last)
        *error = pull_input(e, type, what, a, k, f, stream);
  return 1;
}

extern "C" cudaError_t gpu__expr_forward(const gpu__expr_t *e, ct_dtype_t type,
                                         const gpu__expr_arrays_t *a, cudaStream_t stream)
{
  step_value f;
  if (e->view.count == 0) return cudaSuccess;
  if (is_one_step(e, &f.s))
    GPU_BY_TYPE(type, T,
                return gpu_map<T>(e->view.count, a->in[0], e->view.inputs > 1 ? a->in[1] : nullptr,
                                  e->view.inputs > 2 ? a->in[2] : nullptr, a->y, f, stream));
  GPU_BY_TYPE(
      type, T,
      CT_LAUNCH(expr_forward<T>, gpu_grid(e->view.count, THREADS * EACH), THREADS, stream, *e, *a));
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__expr_backward(const gpu__expr_t *e, ct_dtype_t type,
                                          const gpu__expr_pulls_t *what,
                                          const gpu__expr_arrays_t *a, cudaStream_t stream)
{
  cudaError_t error = cudaSuccess;
  if (e->view.count == 0) return cudaSuccess;
  if (one_step_backward(e, type, what, a, stream, &error)) return error;
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(expr_backward<T>, gpu_grid(e->view.count, THREADS * EACH), THREADS, stream,
                        *e, *a, *what));
  return cudaGetLastError();
}

/* ---- sums over broadcast dims ---- */

/* The dims of y along which an input is not broadcast, whose elements have a sum each, and the
 * others, along which the sums are. */
struct sums {
  int kept, summed;
  int64_t kept_dim[CT_MAX_DIMS + 1], kept_step[CT_MAX_DIMS + 1], to[CT_MAX_DIMS + 1];
  int64_t dim[CT_MAX_DIMS + 1], step[CT_MAX_DIMS + 1];
  int64_t elements, terms, chunks, chunk;
  int columns; /* adjacent sums of a block; a power of two */
};

static sums sums_of(const ct_expr_view_t *v, int input)
{
  sums s = {};
  int64_t at = v->count;
  s.elements = s.terms = 1;
  for (int j = 0; j < v->dims; j++) {
    at = v->dim[j] ? at / v->dim[j] : 0;
    if (v->stride[input][j]) {
      s.kept_dim[s.kept] = v->dim[j];
      s.kept_step[s.kept] = at;
      s.to[s.kept++] = v->stride[input][j];
      s.elements *= v->dim[j];
    } else {
      s.dim[s.summed] = v->dim[j];
      s.step[s.summed++] = at;
      s.terms *= v->dim[j];
    }
  }
  int inner = v->stride[input][v->dims - 1] != 0;
  s.columns = inner || s.terms < SHORT_SUM ? COLUMNS : 1;
  s.chunks = (s.terms + CHUNK - 1) / CHUNK;
  if (s.chunks > CHUNKS) s.chunks = CHUNKS;
  if (s.chunks < 1) s.chunks = 1;
  s.chunk = (s.terms + s.chunks - 1) / s.chunks;
  return s;
}

CT_D int64_t offset_in(int dims, const int64_t *dim, const int64_t *step, int64_t i)
{
  int64_t at = 0;
  for (int j = dims - 1; j >= 0; j--) {
    int64_t rest = i / dim[j];
    at += (i - rest * dim[j]) * step[j];
    i = rest;
  }
  return at;
}

/* Each block makes the sums of `columns` elements over one chunk of their terms. */
CT_KERNEL void sum_chunks(sums s, const float *all, double *part)
{
  CT_SHARED(double, shared, THREADS);
  int column = (int)threadIdx.x % s.columns, row = (int)threadIdx.x / s.columns;
  int rows = THREADS / s.columns;
  int64_t begin = (int64_t)blockIdx.y * s.chunk, end = begin + s.chunk;
  if (end > s.terms) end = s.terms;
  for (int64_t group = blockIdx.x; group * s.columns < s.elements; group += gridDim.x) {
    int64_t i = group * s.columns + column;
    double sum = 0;
    if (i < s.elements) {
      int64_t base = offset_in(s.kept, s.kept_dim, s.kept_step, i);
      for (int64_t t = begin + row; t < end; t += rows)
        sum += (double)all[base + offset_in(s.summed, s.dim, s.step, t)];
    }
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int away = rows / 2; away > 0; away /= 2) {
      if (row < away) shared[threadIdx.x] += shared[threadIdx.x + away * s.columns];
      __syncthreads();
    }
    if (row == 0 && i < s.elements) part[blockIdx.y * s.elements + i] = shared[threadIdx.x];
    __syncthreads();
  }
}

template <class T> CT_KERNEL void sum_parts(sums s, const double *part, T *dx)
{
  GPU_LOOP (i, s.elements) {
    double sum = part[i];
    for (int64_t c = 1; c < s.chunks; c++)
      sum += part[c * s.elements + i];
    gpu_store(dx + offset_in(s.kept, s.kept_dim, s.to, i), (float)sum);
  }
}

extern "C" int64_t gpu__expr_chunks(const ct_expr_view_t *v, int input)
{
  return sums_of(v, input).chunks;
}

extern "C" cudaError_t gpu__expr_sum(const ct_expr_view_t *v, int input, ct_dtype_t type,
                                     const float *all, double *part, void *dx, cudaStream_t stream)
{
  sums s = sums_of(v, input);
  if (s.elements == 0) return cudaSuccess;
  dim3 grid(gpu_grid(s.elements, s.columns), (unsigned)s.chunks);
  CT_LAUNCH(sum_chunks, grid, THREADS, stream, s, all, part);
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(sum_parts<T>, gpu_grid(s.elements, THREADS), THREADS, stream, s,
                        (const double *)part, (T *)dx));
  return cudaGetLastError();
}

/* ---- random numbers ---- */

template <class T>
CT_KERNEL void random_blocks(int64_t samples, int64_t space, ct_random_draw_t draw,
                             gpu__step_params_t params, const gpu__step_params_t *at, T *y)
{
  const gpu__step_params_t &d = at ? *at : params;
  const int64_t blocks = (space + CT_DROPOUT_BLOCK - 1) / CT_DROPOUT_BLOCK;
  draw.seed = ct_dropout_seed(d.seed, d.step);
  GPU_LOOP (i, samples * blocks) {
    int64_t n = i / blocks, b = i % blocks;
    float v[CT_DROPOUT_BLOCK];
    ct_random_values(&draw, d.first + n, b, v);
    for (int k = 0; k < CT_DROPOUT_BLOCK; k++)
      if (b * CT_DROPOUT_BLOCK + k < space)
        gpu_store(y + n * space + b * CT_DROPOUT_BLOCK + k, v[k]);
  }
}

extern "C" cudaError_t gpu__random(ct_dtype_t type, int64_t samples, int64_t space, int kind,
                                   double p, uint32_t layer, const gpu__step_params_t *params,
                                   const gpu__step_params_t *at, void *y, cudaStream_t stream)
{
  ct_random_draw_t draw = ct_random_make(0, 0, layer, (ct_random_t)kind, p);
  int64_t work = samples * ((space + CT_DROPOUT_BLOCK - 1) / CT_DROPOUT_BLOCK);
  if (work == 0) return cudaSuccess;
  GPU_BY_TYPE(type, T,
              CT_LAUNCH(random_blocks<T>, gpu_grid(work, THREADS), THREADS, stream, samples, space,
                        draw, *params, at, (T *)y));
  return cudaGetLastError();
}
