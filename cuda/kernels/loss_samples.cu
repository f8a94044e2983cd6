/* Losses of a sample as a whole, with the formulas of src/ref/ref_loss_samples.c.
 *
 * A block sums over AT_ONCE places of a sample at a time and writes the sums to a row of a table;
 * a block per sample then sums its rows, in an order that depends on nothing else. Exponentials are
 * float32, all sums double. */
#include "cuda/kernels/kernel.h"
#include "cuda/kernels/loss.h"
#include "cuda/kernels/loss_focal.h"

enum { THREADS = 256, OWN = 4, AT_ONCE = OWN * THREADS }; /* OWN: places of a thread */

/* The sums: first these, then of Dice per class the sums of p t and of p + t. */
enum { LOSS, WEIGHT, ERROR, SEEN, TOP1, TOP5, BAD, LABEL, SQUARES, TARGETS, FIXED };

static int sums_of(ct_loss_kind_t kind, int64_t classes)
{
  int dice = kind == CT_LOSS_DICE || kind == CT_LOSS_SIGMOID_DICE;
  return FIXED + (dice ? 2 * (int)classes : 0);
}

static int64_t rows_of(int64_t pixels)
{
  return (pixels + AT_ONCE - 1) / AT_ONCE;
}

extern "C" size_t gpu__loss_samples_bytes(ct_loss_kind_t kind, int64_t samples, int64_t outputs,
                                          int64_t pixels)
{
  int64_t rows = samples * (rows_of(pixels) + 1);
  return (size_t)(rows * sums_of(kind, outputs)) * sizeof(double);
}

/* ---- places ---- */

/* A place of a sample; its numbers are x[c * of.pixels]. */
struct place {
  const float *x, *t;
  int32_t label;
  float weight; /* 0: ignored */
  float largest, exp;
};

CT_D int is_dice(const gpu__loss_of_t &of)
{
  return of.spec.kind == CT_LOSS_DICE || of.spec.kind == CT_LOSS_SIGMOID_DICE;
}

CT_D int has_softmax(const gpu__loss_of_t &of)
{
  return of.spec.kind == CT_LOSS_DICE || of.spec.kind == CT_LOSS_SOFT_CROSS_ENTROPY;
}

CT_D place place_at(const gpu__loss_of_t &of, int64_t n, int64_t i)
{
  int64_t at = n * of.outputs * of.pixels + i;
  place p = {of.x + at, NULL, -1, of.place_weight ? of.place_weight[i] : 1, -INFINITY, 0};
  if (of.labels) p.label = of.labels[n * of.pixels + i];
  if (!of.labels) p.t = of.targets + at;
  if (of.labels && of.spec.has_ignored && p.label == of.spec.ignored) p.weight = 0;
  if (!has_softmax(of)) return p;
  for (int64_t c = 0; c < of.outputs; c++)
    p.largest = gpu_larger(p.largest, p.x[c * of.pixels]);
  for (int64_t c = 0; c < of.outputs; c++)
    p.exp += expf(p.x[c * of.pixels] - p.largest);
  return p;
}

CT_D float class_weight(const gpu__loss_of_t &of, int64_t c)
{
  return of.class_weight ? of.class_weight[c] : 1;
}

CT_D double class_weights(const gpu__loss_of_t &of)
{
  double all = 0;
  for (int64_t c = 0; c < of.outputs; c++)
    all += class_weight(of, c);
  return all;
}

CT_D float prediction(const gpu__loss_of_t &of, const place &p, int64_t c)
{
  float x = p.x[c * of.pixels];
  return has_softmax(of) ? expf(x - p.largest) / p.exp : 1 / (1 + expf(-x));
}

CT_D float target(const gpu__loss_of_t &of, const place &p, int64_t c)
{
  return p.t ? p.t[c * of.pixels] : (float)(p.label == c);
}

/* Returns the wanted probability of class c with its weight. */
CT_D double wanted(const gpu__loss_of_t &of, const place &p, int64_t c)
{
  double smoothing = of.spec.label_smoothing;
  return class_weight(of, c) *
         ((1 - smoothing) * target(of, p, c) + smoothing / (double)of.outputs);
}

CT_D int is_missing(const gpu__loss_of_t &of, float t)
{
  return of.spec.skips_nan && t != t;
}

/* ---- sums ---- */

/* Sums of a thread's places. */
struct sums {
  double v[FIXED];
  int32_t bad_label;
};

/* Counts the hit of a label; NaN ranks before the label. */
CT_D void count_hit(const gpu__loss_of_t &of, const place &p, sums &s)
{
  if (of.spec.has_ignored && p.label == of.spec.ignored) return;
  if (p.label < 0 || p.label >= of.outputs) {
    s.v[BAD]++;
    if (p.label > s.bad_label) s.bad_label = p.label;
    return;
  }
  int ahead = 0;
  float own = p.x[p.label * of.pixels];
  for (int64_t c = 0; c < of.outputs; c++) {
    float x = p.x[c * of.pixels];
    ahead += c < p.label ? !(x < own) : c > p.label && !(x <= own);
  }
  s.v[SEEN]++;
  s.v[TOP1] += ahead < 1;
  s.v[TOP5] += ahead < 5;
}

CT_D void add_relative(const gpu__loss_of_t &of, const place &p, sums &s)
{
  double t = *p.t, d = *p.x - t;
  if (is_missing(of, *p.t)) return;
  s.v[SQUARES] += p.weight * d * d;
  s.v[TARGETS] += p.weight * t * t;
  s.v[ERROR] += fabs(d);
  s.v[SEEN]++;
}

CT_D void add_soft(const gpu__loss_of_t &of, const place &p, sums &s)
{
  double all = (double)p.largest + log((double)p.exp);
  for (int64_t c = 0; c < of.outputs; c++) {
    double q = wanted(of, p, c);
    if (q != 0) s.v[LOSS] += p.weight * q * (all - p.x[c * of.pixels]);
    s.v[ERROR] += fabsf(prediction(of, p, c) - target(of, p, c));
  }
  s.v[WEIGHT] += p.weight;
}

/* Sums of Dice of a class over the places of the block. */
CT_D void add_class(const gpu__loss_of_t &of, const place *own, int count, int64_t c, sums &s,
                    double *row)
{
  double both = 0, all = 0;
  for (int k = 0; k < count; k++) {
    float p = prediction(of, own[k], c), t = target(of, own[k], c), w = own[k].weight;
    if (!of.labels) s.v[ERROR] += fabsf(p - t);
    if (w == 0) continue;
    both += w * (p * t);
    all += w * (p + t);
  }
  both = gpu_block_sum(both);
  all = gpu_block_sum(all);
  if (threadIdx.x == 0) {
    row[FIXED + 2 * c] = both;
    row[FIXED + 2 * c + 1] = all;
  }
}

/* Writes the sums of the threads of a block to a row. */
CT_D void write_row(sums &s, double *row)
{
  CT_SHARED(int32_t, found, 1);
  for (int j = 0; j < FIXED; j++) {
    double all = gpu_block_sum(s.v[j]);
    if (threadIdx.x == 0) row[j] = all;
  }
  if (threadIdx.x == 0) found[0] = 0;
  __syncthreads();
  if (s.v[BAD] > 0) found[0] = s.bad_label; /* any invalid label is sufficient for the message */
  __syncthreads();
  if (threadIdx.x == 0) row[LABEL] = found[0];
  __syncthreads();
}

/* Each block loops over rows. */
CT_KERNEL void sum_places(gpu__loss_of_t of, int64_t rows, int64_t of_sample, int width,
                          double *table)
{
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    int64_t n = r / of_sample, first = r % of_sample * AT_ONCE;
    place own[OWN];
    int count = 0;
    sums s = {{0}, INT32_MIN};
    for (int k = 0; k < OWN; k++) {
      int64_t i = first + k * (int64_t)blockDim.x + threadIdx.x;
      if (i < of.pixels) own[count++] = place_at(of, n, i);
    }
    for (int k = 0; k < count; k++) {
      if (of.labels) count_hit(of, own[k], s);
      if (of.spec.kind == CT_LOSS_RELATIVE_L2) add_relative(of, own[k], s);
      if (of.spec.kind == CT_LOSS_SOFT_CROSS_ENTROPY) add_soft(of, own[k], s);
    }
    for (int64_t c = 0; is_dice(of) && c < of.outputs; c++)
      add_class(of, own, count, c, s, table + r * width);
    write_row(s, table + r * width);
  }
}

/* Returns the row of a sample with these sums. */
CT_D gpu__loss_row_t row_of(const gpu__loss_of_t &of, int64_t n, const double *s)
{
  double sample = of.sample_weight ? of.sample_weight[n] : 1, own = s[WEIGHT], loss = s[LOSS];
  double smooth = of.spec.param, error = s[ERROR] / (double)(of.outputs * of.pixels), seen = 1;
  if (of.spec.kind == CT_LOSS_RELATIVE_L2) {
    seen = own = s[SEEN] > 0;
    loss = s[SEEN] > 0 ? sqrt(s[SQUARES] / s[TARGETS]) : 0;
    error = s[SEEN] > 0 ? s[ERROR] / s[SEEN] : 0;
  } else if (is_dice(of)) {
    double all = class_weights(of);
    own = 1;
    for (int64_t c = 0; c < of.outputs; c++)
      loss += class_weight(of, c) / all *
              (1 - (2 * s[FIXED + 2 * c] + smooth) / (s[FIXED + 2 * c + 1] + smooth));
  }
  double elements = of.spec.kind == CT_LOSS_SOFT_CROSS_ENTROPY ? (double)of.pixels : 1;
  double weight = ct_loss_counted(&of.spec, sample, own, elements, 1);
  gpu__loss_row_t row = {sample * loss, weight, error, (int32_t)seen, 0, 0, 0, 0};
  if (!of.labels) return row;
  row.abs_error = 0;
  row.samples = (int32_t)s[SEEN];
  row.top1 = (int32_t)s[TOP1];
  row.top5 = (int32_t)s[TOP5];
  row.bad = s[BAD] > 0;
  row.label = (int32_t)s[LABEL];
  return row;
}

/* Sums the rows of each sample; a block per sample. rows NULL: for the backward pass. */
CT_KERNEL void sum_samples(gpu__loss_of_t of, int64_t of_sample, int width, double *table,
                           gpu__loss_row_t *rows)
{
  double *totals = table + of.samples * of_sample * width;
  for (int64_t n = blockIdx.x; n < of.samples; n += gridDim.x) {
    for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
      double all = 0;
      for (int64_t r = n * of_sample; r < (n + 1) * of_sample; r++)
        all = j == LABEL && table[r * width + BAD] == 0 ? all
              : j == LABEL                              ? table[r * width + j]
                                                        : all + table[r * width + j];
      totals[n * width + j] = all;
    }
    __syncthreads();
    if (rows && threadIdx.x == 0) rows[n] = row_of(of, n, totals + n * width);
  }
}

static cudaError_t sum_all(const gpu__loss_of_t *of, double *table, gpu__loss_row_t *rows,
                           cudaStream_t stream)
{
  int width = sums_of(of->spec.kind, of->outputs);
  int64_t of_sample = rows_of(of->pixels), count = of->samples * of_sample;
  CT_LAUNCH(sum_places, gpu_grid(count, 1), THREADS, stream, *of, count, of_sample, width, table);
  CT_LAUNCH(sum_samples, gpu_grid(of->samples, 1), THREADS, stream, *of, of_sample, width, table,
            rows);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__loss_samples(const gpu__loss_of_t *of, double *table,
                                         gpu__loss_row_t *rows, cudaStream_t stream)
{
  return sum_all(of, table, rows, stream);
}

/* ---- backward ---- */

CT_D void dice_slopes(const gpu__loss_of_t &of, const place &p, const double *s, double scale,
                      float *dx)
{
  double all = class_weights(of), smooth = of.spec.param, mean = 0;
  for (int64_t c = 0; c < of.outputs; c++) {
    double base = s[FIXED + 2 * c + 1] + smooth, own = scale * class_weight(of, c) / all;
    double both = own * (2 * s[FIXED + 2 * c] + smooth) / (base * base);
    float v = prediction(of, p, c);
    float slope = p.weight * (float)(both - 2 * own / base * target(of, p, c));
    dx[c * of.pixels] = of.labels ? slope : slope * v * (1 - v);
    mean += v * slope;
  }
  for (int64_t c = 0; of.labels && c < of.outputs; c++)
    dx[c * of.pixels] = prediction(of, p, c) * (dx[c * of.pixels] - (float)mean);
}

CT_D void soft_slopes(const gpu__loss_of_t &of, const place &p, double scale, float *dx)
{
  double total = 0;
  for (int64_t c = 0; c < of.outputs; c++)
    total += wanted(of, p, c);
  for (int64_t c = 0; c < of.outputs; c++)
    dx[c * of.pixels] =
        (float)(scale * p.weight * (total * prediction(of, p, c) - wanted(of, p, c)));
}

CT_KERNEL void slopes(gpu__loss_of_t of, int64_t of_sample, int width, const double *table,
                      gpu__step_params_t params, const gpu__step_params_t *at, float *dx)
{
  const double *totals = table + of.samples * of_sample * width;
  GPU_LOOP (i, of.samples * of.pixels) {
    int64_t n = i / of.pixels;
    place p = place_at(of, n, i % of.pixels);
    const double *s = totals + n * width;
    double scale = (double)(at ? at->scale : params.scale);
    float *to = dx + (p.x - of.x);
    if (of.sample_weight) scale *= of.sample_weight[n];
    if (is_dice(of))
      dice_slopes(of, p, s, scale, to);
    else if (of.spec.kind == CT_LOSS_SOFT_CROSS_ENTROPY)
      soft_slopes(of, p, scale, to);
    else if (s[SQUARES] == 0 || is_missing(of, *p.t))
      *to = 0;
    else
      *to = (float)(scale / sqrt(s[SQUARES] * s[TARGETS])) * p.weight * (*p.x - *p.t);
  }
}

extern "C" cudaError_t gpu__loss_samples_backward(const gpu__loss_of_t *of, double *table,
                                                  gpu__step_params_t params,
                                                  const gpu__step_params_t *at, float *dx,
                                                  cudaStream_t stream)
{
  int width = sums_of(of->spec.kind, of->outputs);
  cudaError_t e = sum_all(of, table, NULL, stream);
  if (e != cudaSuccess) return e;
  CT_LAUNCH(slopes, gpu_grid(of->samples * of->pixels, THREADS), THREADS, stream, *of,
            rows_of(of->pixels), width, table, params, at, dx);
  return cudaGetLastError();
}
