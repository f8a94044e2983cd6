/* Losses, with the formulas of src/ref/ref_loss.c.
 *
 * Each block loops over rows: samples, or with the classes last their places. Exponentials are
 * float32, all sums double. Each row writes its
 * contribution to a table, which one block then sums, so that results do not depend on the order in
 * which blocks finish. */
#include "cuda/kernels/loss.h"

#include "cuda/kernels/kernel.h"
#include "cuda/kernels/loss_focal.h"
#include "cuda/kernels/vec_access.h"

enum { PACK = 8 }; /* outputs that a thread reads at a time */

/* ---- labels ---- */

/* The labels of a sample and their weights; unused: -1 with weight 0. */
struct aims {
  int32_t label[2];
  double share[2];
  int32_t bad, bad_label;
};

CT_D void set_aim(const gpu__loss_of_t &of, aims &to, int which, int32_t label, double share)
{
  const ct_loss_spec_t &spec = of.spec;
  to.label[which] = -1;
  to.share[which] = 0;
  if (spec.kind == CT_LOSS_CROSS_ENTROPY && spec.has_ignored && label == spec.ignored) return;
  if (label < 0 || label >= of.outputs) {
    to.bad = 1;
    to.bad_label = label;
    return;
  }
  to.label[which] = label;
  to.share[which] = share;
}

CT_D aims aims_of(const gpu__loss_of_t &of, int64_t n)
{
  aims a = {{-1, -1}, {0, 0}, 0, 0};
  double first = of.mix ? of.mix[n] : 1;
  if (!of.labels) return a;
  set_aim(of, a, 0, of.labels[n], first);
  if (first < 1 && !a.bad) set_aim(of, a, 1, of.labels2[n], 1 - first);
  return a;
}

/* Calls f(i, x[i]) for this thread's outputs, which it reads W at a time: a thread that waits for
 * each one leaves most of the memory's rate unused.  W above 1: x is aligned to 16 bytes. */
template <int W, class F> CT_D void each_output(const float *x, int64_t n, F f)
{
  int64_t whole = n / W * W;
  for (int64_t i = W * (int64_t)threadIdx.x; i < whole; i += W * (int64_t)blockDim.x) {
    float v[W];
    gpu_load_floats<float, W>(v, x + i);
    for (int k = 0; k < W; k++)
      f(i + k, v[k]);
  }
  for (int64_t i = whole + threadIdx.x; i < n; i += blockDim.x)
    f(i, x[i]);
}

/* Counts the outputs ranked before the label's output: larger, or equal with a lower index, which
 * is the order of argmax. NaN ranks before the label, so that NaN is never a correct prediction. */
template <int W>
CT_D void count_hits(const float *x, int64_t outputs, int32_t label, gpu__loss_row_t &row)
{
  int ahead = 0;
  float own = x[label];
  each_output<W>(x, outputs, [&](int64_t i, float v) {
    ahead += i < label ? !(v < own) : i > label && !(v <= own);
  });
  ahead = gpu_block_sum(ahead);
  row.top1 = ahead < 1;
  row.top5 = ahead < 5;
}

/* ---- cross-entropy of a distribution q over the classes: -sum of q log(softmax(x)) ---- */

CT_D double sample_weight(const gpu__loss_of_t &of, int64_t n)
{
  return of.sample_weight ? of.sample_weight[n / of.rows] : 1;
}

CT_D double place_weight(const gpu__loss_of_t &of, int64_t i)
{
  return of.place_weight ? of.place_weight[i] : 1;
}

CT_D double class_weight(const gpu__loss_of_t &of, int64_t i)
{
  return of.class_weight ? of.class_weight[i] : 1;
}

/* Returns q of class i. */
CT_D double wanted(const gpu__loss_of_t &of, const aims &a, int64_t i)
{
  double smoothing = of.spec.label_smoothing;
  double q = (a.share[0] + a.share[1]) * smoothing / (double)of.outputs;
  if (i == a.label[0]) q += a.share[0] * (1 - smoothing);
  if (i == a.label[1]) q += a.share[1] * (1 - smoothing);
  return q * class_weight(of, i);
}

template <int W> CT_D float largest_of(const float *x, int64_t n)
{
  float max = -INFINITY;
  each_output<W>(x, n, [&](int64_t, float v) { max = gpu_larger(max, v); });
  return gpu_block_max(max);
}

/* Returns the weight of row n apart from that of its sample. */
CT_D double own_weight(const gpu__loss_of_t &of, const aims &a, int64_t n)
{
  double own = 0;
  for (int k = 0; k < 2; k++)
    if (a.label[k] >= 0) own += a.share[k] * class_weight(of, a.label[k]);
  return own * place_weight(of, n % of.rows);
}

/* Multiplies labels by their focal factors, or those of their slopes. */
CT_D void apply_focal(const gpu__loss_of_t &of, const float *x, float largest, int slope, aims &a)
{
  double exp = 0;
  if (of.spec.gamma == 0) return;
  for (int64_t i = threadIdx.x; i < of.outputs; i += blockDim.x)
    exp += expf(x[i] - largest);
  double all = log(gpu_block_sum(exp)) + (double)largest;
  for (int k = 0; k < 2; k++)
    if (a.label[k] >= 0) a.share[k] *= gpu_focal(of.spec.gamma, x[a.label[k]] - all, slope);
}

/* Sums over the classes of exp(x - largest), q, and q (largest - x). The loss is q log(exp) +
 * below. */
struct softmax_sums {
  float largest;
  double exp, q, below;
};

template <int W>
CT_D softmax_sums sums_of(const gpu__loss_of_t &of, const float *x, float largest, const aims &a)
{
  softmax_sums s = {largest, 0, 0, 0};
  int all = of.spec.label_smoothing > 0; /* else q is 0 but for the labels */
  each_output<W>(x, of.outputs, [&](int64_t i, float v) {
    s.exp += expf(v - s.largest);
    double q = all ? wanted(of, a, i) : 0;
    if (q == 0) return; /* 0 times infinity would be NaN */
    s.q += q;
    s.below += q * ((double)s.largest - v);
  });
  s.exp = gpu_block_sum(s.exp);
  if (all) {
    s.q = gpu_block_sum(s.q);
    s.below = gpu_block_sum(s.below);
  }
  for (int k = 0; k < 2 && !all; k++) {
    double q = a.label[k] >= 0 ? a.share[k] * class_weight(of, a.label[k]) : 0;
    if (q == 0) continue;
    s.q += q;
    s.below += q * ((double)s.largest - x[a.label[k]]);
  }
  return s;
}

/* The row's contribution; *s: its sums, without a focal factor. */
template <int W>
CT_D gpu__loss_row_t cross_entropy(const gpu__loss_of_t &of, int64_t n, softmax_sums *s)
{
  const float *x = of.x + n * of.line;
  aims a = aims_of(of, n);
  gpu__loss_row_t row = {0, 0, 0, 0, 0, 0, a.bad, a.bad_label};
  float largest = largest_of<W>(x, of.outputs);
  row.weight = own_weight(of, a, n);
  apply_focal(of, x, largest, 0, a);
  *s = sums_of<W>(of, x, largest, a);
  double all = log(s->exp) + (double)s->largest;
  row.sum = place_weight(of, n % of.rows) * (s->q * log(s->exp) + s->below);
  row.sum += of.spec.z_loss * row.weight * all * all;
  if (a.label[0] < 0) return row;
  row.samples = 1;
  count_hits<W>(x, of.outputs, a.label[0], row);
  return row;
}

/* Writes the gradient of row n; s: its sums, which are right without a focal factor. dx may be
 * x. */
template <class T, int W>
CT_D void cross_entropy_slopes(const gpu__loss_of_t &of, int64_t n, softmax_sums s, float scale,
                               T *dx)
{
  const float *x = of.x + n * of.line;
  aims a = aims_of(of, n);
  double z = 2 * of.spec.z_loss * own_weight(of, a, n), place = place_weight(of, n % of.rows);
  apply_focal(of, x, s.largest, 1, a);
  if (of.spec.gamma != 0) s = sums_of<W>(of, x, s.largest, a);
  z *= log(s.exp) + (double)s.largest;
  float part = (float)((place * s.q + z) / s.exp), own = (float)place;
  int all = of.spec.label_smoothing > 0;
  __syncthreads(); /* before dx overwrites the logits of labels */
  auto slope = [&](int64_t i, float v) {
    float want = all || i == a.label[0] || i == a.label[1] ? own * (float)wanted(of, a, i) : 0;
    return scale * (part * expf(v - s.largest) - want);
  };
  int64_t whole = of.outputs / W * W;
  dx += n * of.line;
  for (int64_t i = W * (int64_t)threadIdx.x; i < whole; i += W * (int64_t)blockDim.x) {
    float v[W];
    gpu_load_floats<float, W>(v, x + i);
    for (int k = 0; k < W; k++)
      v[k] = slope(i + k, v[k]);
    gpu_store_floats<T, W>(dx + i, v);
  }
  for (int64_t i = whole + threadIdx.x; i < of.outputs; i += blockDim.x)
    gpu_store(&dx[i], slope(i, x[i]));
}

/* ---- losses of outputs one by one ---- */

CT_D float target_of(const gpu__loss_of_t &of, const aims &a, int64_t n, int64_t i)
{
  if (!of.labels) return of.targets[n * of.outputs + i];
  return (float)((i == a.label[0] ? a.share[0] : 0) + (i == a.label[1] ? a.share[1] : 0));
}

CT_D float sigmoid(float v)
{
  float e = expf(-fabsf(v));
  return (v >= 0 ? 1 : e) / (1 + e);
}

/* Returns log(1 + exp(v)) without overflow. */
CT_D float softplus(float v)
{
  return (v > 0 ? v : 0) + log1pf(expf(-fabsf(v)));
}

CT_D float sign_or_nan(float d)
{
  return d != d ? d : (float)(d > 0) - (float)(d < 0);
}

/* Of an output: the loss, its slope, the absolute error of the prediction. */
struct point {
  float loss, slope, error;
};

CT_D point bce_of(const ct_loss_spec_t &o, float x, float t, float pos)
{
  float p = sigmoid(x), rest = sigmoid(-x), alpha = (float)o.alpha, gamma = (float)o.gamma;
  float weight = alpha > 0 ? alpha * t + (1 - alpha) * (1 - t) : 1;
  point v = {pos * t * softplus(-x) + (1 - t) * softplus(x), (1 - t) * p - pos * t * rest,
             fabsf(p - t)};
  if (gamma > 0) {
    float wrong = p * (1 - t) + rest * t, factor = powf(wrong, gamma);
    float change = wrong > 0 ? gamma * factor / wrong * (p * rest) * (1 - 2 * t) : 0;
    v.slope = v.slope * factor + v.loss * change;
    v.loss *= factor;
  }
  return {weight * v.loss, weight * v.slope, v.error};
}

CT_D point huber_of(float d, float limit, float by)
{
  float size = fabsf(d);
  if (size < limit) return {0.5f * d * d / by, d / by, size};
  return {limit / by * (size - 0.5f * limit), limit / by * sign_or_nan(d), size};
}

CT_D point kl_of(int logs, float x, float t)
{
  float p = expf(x), q = logs ? expf(t) : t;
  if (logs) return {q * (t - x), -q, fabsf(p - q)};
  return {(t > 0 ? t * logf(t) : 0) - t * x, -t, fabsf(p - t)};
}

CT_D point poisson_of(int logs, float x, float t)
{
  const float eps = 1e-8f;
  if (logs) return {expf(x) - t * x, expf(x) - t, fabsf(expf(x) - t)};
  return {x - t * logf(x + eps), 1 - t / (x + eps), fabsf(x - t)};
}

CT_D point hinge_of(float margin, float x, float t)
{
  float below = margin - x, loss = 0, slope = 0;
  if (t != -1) {
    loss += x;
    slope += 1;
  }
  if (t != 1 && !(below < 0)) {
    loss += below;
    slope -= 1;
  }
  return {loss, slope, fabsf(x - t)};
}

CT_D point point_of(const ct_loss_spec_t &o, float x, float t, float pos)
{
  float d = x - t, size = (float)o.param;
  switch (o.kind) {
  case CT_LOSS_MSE:
    return {d * d, 2 * d, fabsf(d)};
  case CT_LOSS_L1:
    return {fabsf(d), sign_or_nan(d), fabsf(d)};
  case CT_LOSS_BCE:
    return bce_of(o, x, t, pos);
  case CT_LOSS_HUBER:
    return huber_of(d, size, 1);
  case CT_LOSS_SMOOTH_L1:
    if (size > 0) return huber_of(d, size, size);
    return {fabsf(d), sign_or_nan(d), fabsf(d)};
  case CT_LOSS_KL:
    return kl_of(o.logs, x, t);
  case CT_LOSS_POISSON:
    return poisson_of(o.logs, x, t);
  case CT_LOSS_SOFT_MARGIN:
    return {softplus(-t * x), -t * sigmoid(-t * x), fabsf(d)};
  case CT_LOSS_HINGE_EMBEDDING:
    return hinge_of(size, x, t);
  case CT_LOSS_CROSS_ENTROPY: /* not of outputs one by one */
  case CT_LOSS_DICE:
  case CT_LOSS_SIGMOID_DICE:
  case CT_LOSS_RELATIVE_L2:
  case CT_LOSS_SOFT_CROSS_ENTROPY:
    break;
  }
  return {NAN, NAN, NAN};
}

CT_D int is_missing(const gpu__loss_of_t &of, float t)
{
  return of.spec.skips_nan && t != t;
}

CT_D gpu__loss_row_t points(const gpu__loss_of_t &of, int64_t n)
{
  const float *x = of.x + n * of.outputs;
  aims a = aims_of(of, n);
  double sum = 0, abs_error = 0, weights = 0;
  int seen = 0;
  for (int64_t i = threadIdx.x; i < of.outputs; i += blockDim.x) {
    float t = target_of(of, a, n, i);
    if (is_missing(of, t)) continue;
    point v = point_of(of.spec, x[i], t, (float)class_weight(of, i));
    double place = place_weight(of, i);
    sum += place * v.loss;
    abs_error += v.error;
    weights += place;
    seen++;
  }
  sum = gpu_block_sum(sum);
  abs_error = gpu_block_sum(abs_error);
  weights = gpu_block_sum(weights);
  seen = gpu_block_sum(seen);
  gpu__loss_row_t row = {sum * of.share,
                         weights / (double)of.outputs,
                         seen ? abs_error / seen : 0,
                         seen > 0,
                         0,
                         0,
                         a.bad,
                         a.bad_label};
  if (a.label[0] >= 0) count_hits<1>(x, of.outputs, a.label[0], row);
  return row;
}

CT_D void point_slopes(const gpu__loss_of_t &of, int64_t n, float scale, float *dx)
{
  int64_t first = n * of.outputs;
  aims a = aims_of(of, n);
  float share = scale * (float)of.share;
  for (int64_t i = threadIdx.x; i < of.outputs; i += blockDim.x) {
    float t = target_of(of, a, n, i), place = share * (float)place_weight(of, i);
    point v = point_of(of.spec, of.x[first + i], t, (float)class_weight(of, i));
    dx[first + i] = is_missing(of, t) ? 0 : place * v.slope;
  }
}

/* ---- sum over samples ---- */

CT_KERNEL void forward(gpu__loss_of_t of, gpu__loss_row_t *rows)
{
  for (int64_t n = blockIdx.x; n < of.samples * of.rows; n += gridDim.x) {
    softmax_sums sums;
    gpu__loss_row_t row =
        of.spec.kind == CT_LOSS_CROSS_ENTROPY ? cross_entropy<1>(of, n, &sums) : points(of, n);
    row.sum *= sample_weight(of, n);
    row.weight =
        ct_loss_counted(&of.spec, sample_weight(of, n), row.weight, 1, 1 / (double)of.rows);
    if (threadIdx.x == 0) rows[n] = row;
  }
}

CT_KERNEL void backward(gpu__loss_of_t of, gpu__step_params_t params, const gpu__step_params_t *at,
                        float *dx)
{
  for (int64_t n = blockIdx.x; n < of.samples * of.rows; n += gridDim.x) {
    float scale = (at ? at->scale : params.scale) * (float)sample_weight(of, n);
    if (of.spec.kind != CT_LOSS_CROSS_ENTROPY) {
      point_slopes(of, n, scale, dx);
      continue;
    }
    const float *x = of.x + n * of.line;
    softmax_sums sums = sums_of<1>(of, x, largest_of<1>(x, of.outputs), aims_of(of, n));
    cross_entropy_slopes<float, 1>(of, n, sums, scale, dx);
  }
}

/* Rows first to first + count, whose logits are in `of`; back: also their gradients, to dx. */
template <class T, int W>
CT_KERNEL void chunk_rows(gpu__loss_of_t of, int64_t first, int64_t count, gpu__loss_row_t *rows,
                          gpu__step_params_t params, const gpu__step_params_t *at, int back, T *dx)
{
  for (int64_t n = first + blockIdx.x; n < first + count; n += gridDim.x) {
    float scale = (at ? at->scale : params.scale) * (float)sample_weight(of, n);
    softmax_sums sums;
    gpu__loss_row_t row = cross_entropy<W>(of, n, &sums);
    row.sum *= sample_weight(of, n);
    row.weight =
        ct_loss_counted(&of.spec, sample_weight(of, n), row.weight, 1, 1 / (double)of.rows);
    if (threadIdx.x == 0) rows[n] = row;
    if (back) cross_entropy_slopes<T, W>(of, n, sums, scale, dx);
  }
}

/* Stores the first invalid label; run by one thread. */
CT_D void report_bad(const gpu__loss_of_t &of, int64_t count, const gpu__loss_row_t *rows,
                     gpu__bad_label_t *bad)
{
  int64_t n = 0, of_sample = count / of.samples;
  while (!rows[n].bad)
    n++;
  *bad = {n / of_sample, of.outputs, rows[n].label, 1};
}

/* Sums the table; run by one block. */
CT_KERNEL void sum_up(gpu__loss_of_t of, int64_t count, const gpu__loss_row_t *rows,
                      ct_loss_t *loss, gpu__bad_label_t *bad)
{
  ct_loss_t all = {0, 0, 0, 0, 0, 0};
  int wrong = 0;
  for (int64_t n = threadIdx.x; n < count; n += blockDim.x) {
    all.sum += rows[n].sum;
    all.weight += rows[n].weight;
    all.abs_error += rows[n].abs_error;
    all.samples += rows[n].samples;
    all.top1 += rows[n].top1;
    all.top5 += rows[n].top5;
    wrong += rows[n].bad;
  }
  all = {gpu_block_sum(all.sum),     gpu_block_sum(all.weight), gpu_block_sum(all.abs_error),
         gpu_block_sum(all.samples), gpu_block_sum(all.top1),   gpu_block_sum(all.top5)};
  wrong = gpu_block_sum(wrong);
  if (threadIdx.x != 0) return;
  if (wrong) {
    all.sum = NAN;
    report_bad(of, count, rows, bad);
  }
  *loss = all;
}

/* ---- launches ---- */

/* Returns the threads per block: one warp for a few classes, more if each thread would have several
 * outputs. */
static unsigned threads_for(int64_t outputs)
{
  unsigned threads = GPU_WARP;
  while (threads < 512 && threads * 4 < outputs)
    threads *= 2;
  return threads;
}

extern "C" cudaError_t gpu__loss_sum_up(const gpu__loss_of_t *of, int64_t count,
                                        const gpu__loss_row_t *rows, ct_loss_t *loss,
                                        gpu__bad_label_t *bad, cudaStream_t stream)
{
  CT_LAUNCH(sum_up, 1, 256, stream, *of, count, rows, loss, bad);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__loss(const gpu__loss_of_t *of, gpu__loss_row_t *rows, ct_loss_t *loss,
                                 gpu__bad_label_t *bad, cudaStream_t stream)
{
  int64_t count = gpu__loss_rows(of->samples * of->rows, of->pixels);
  if (of->pixels > 1) {
    cudaError_t e = gpu__loss_pixels(of, rows, stream);
    if (e != cudaSuccess) return e;
  } else {
    CT_LAUNCH(forward, gpu_grid(of->samples * of->rows, 1), threads_for(of->outputs), stream, *of,
              rows);
  }
  CT_LAUNCH(sum_up, 1, 256, stream, *of, count, rows, loss, bad);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__loss_chunk(const gpu__loss_of_t *of, int64_t first, int64_t count,
                                       gpu__loss_row_t *rows, gpu__step_params_t params,
                                       const gpu__step_params_t *at, ct_dtype_t type, void *dx,
                                       cudaStream_t stream)
{
  gpu__loss_of_t from = *of;
  from.x -= first * of->line; /* row n of the batch is row n - first of the chunk */
  unsigned grid = gpu_grid(count, 1), threads = threads_for(of->outputs);
  if (of->line % PACK == 0 && gpu_is_aligned(of->x) && gpu_is_aligned(dx)) {
    GPU_BY_TYPE(type, T,
                CT_LAUNCH((chunk_rows<T, PACK>), grid, threads, stream, from, first, count, rows,
                          params, at, dx != NULL, (T *)dx - first * of->line));
  } else {
    GPU_BY_TYPE(type, T,
                CT_LAUNCH((chunk_rows<T, 1>), grid, threads, stream, from, first, count, rows,
                          params, at, dx != NULL, (T *)dx - first * of->line));
  }
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__loss_backward(const gpu__loss_of_t *of, gpu__step_params_t params,
                                          const gpu__step_params_t *at, float *dx,
                                          cudaStream_t stream)
{
  if (of->pixels > 1) return gpu__loss_pixels_backward(of, params, at, dx, stream);
  CT_LAUNCH(backward, gpu_grid(of->samples * of->rows, 1), threads_for(of->outputs), stream, *of,
            params, at, dx);
  return cudaGetLastError();
}
