/* Cross-entropy with one label per pixel. A thread handles one pixel at a time; for each class,
 * adjacent threads access adjacent memory. Exponentials are float32, all sums double; each block
 * writes the sum over its pixels to one row. */
#include "cuda/kernels/kernel.h"
#include "cuda/kernels/loss.h"
#include "cuda/kernels/loss_focal.h"

enum { THREADS = 256, AT_ONCE = 4 * THREADS }; /* AT_ONCE: pixels per block */

static int64_t rows_of(int64_t pixels)
{
  return pixels > 1 ? (pixels + AT_ONCE - 1) / AT_ONCE : 1;
}

extern "C" int64_t gpu__loss_rows(int64_t samples, int64_t pixels)
{
  return samples * rows_of(pixels);
}

/* A pixel; its logits are x[c * apart]. */
struct pixel {
  const float *x;
  int64_t apart, classes;
  float largest;
  double exp; /* sum of exp(x - largest) over the classes */
  int32_t label;
  double place;  /* weight of the sample * weight of the place */
  double weight; /* `place` * weight of the class; 0: ignored or invalid label */
  int bad;
};

CT_D double weight_of(const gpu__loss_of_t &of, int64_t c)
{
  return of.class_weight ? of.class_weight[c] : 1;
}

CT_D pixel pixel_of(const gpu__loss_of_t &of, int64_t n, int64_t i)
{
  pixel p = {
      of.x + n * of.outputs * of.pixels + i, of.pixels, of.outputs, -INFINITY, 0, 0, 0, 0, 0};
  p.label = of.labels[n * of.pixels + i];
  for (int64_t c = 0; c < p.classes; c++)
    p.largest = gpu_larger(p.largest, p.x[c * p.apart]);
  for (int64_t c = 0; c < p.classes; c++)
    p.exp += expf(p.x[c * p.apart] - p.largest);
  p.place =
      (of.sample_weight ? of.sample_weight[n] : 1) * (of.place_weight ? of.place_weight[i] : 1);
  if (of.spec.has_ignored && p.label == of.spec.ignored) return p;
  p.bad = p.label < 0 || p.label >= p.classes;
  if (!p.bad) p.weight = p.place * weight_of(of, p.label);
  return p;
}

CT_D int is_counted(const gpu__loss_of_t &of, const pixel &p)
{
  return !p.bad && !(of.spec.has_ignored && p.label == of.spec.ignored);
}

/* Returns the number of logits ranked before the label's logit in the order of argmax; NaN ranks
 * before the label. */
CT_D int ahead_of(const pixel &p)
{
  int ahead = 0;
  float own = p.x[p.label * p.apart];
  for (int64_t c = 0; c < p.classes; c++) {
    float x = p.x[c * p.apart];
    ahead += c < p.label ? !(x < own) : c > p.label && !(x <= own);
  }
  return ahead;
}

CT_D double focal_of(const gpu__loss_of_t &of, const pixel &p, int slope)
{
  if (of.spec.gamma == 0) return 1;
  double u = p.x[p.label * p.apart] - (log(p.exp) + (double)p.largest);
  return gpu_focal(of.spec.gamma, u, slope);
}

CT_D void add_pixel(const gpu__loss_of_t &of, const pixel &p, gpu__loss_row_t &row)
{
  double smoothing = of.spec.label_smoothing, rest = log(p.exp) + (double)p.largest, spread = 0;
  int ahead = ahead_of(p);
  row.sum += (1 - smoothing) * p.weight * focal_of(of, p, 0) * (rest - p.x[p.label * p.apart]);
  for (int64_t c = 0; smoothing > 0 && c < p.classes; c++)
    spread += weight_of(of, c) * (rest - p.x[c * p.apart]);
  row.sum += p.place * smoothing / (double)p.classes * spread;
  row.sum += of.spec.z_loss * p.weight * rest * rest;
  row.samples++;
  row.top1 += ahead < 1;
  row.top5 += ahead < 5;
}

/* Each block loops over rows. */
CT_KERNEL void pixels_forward(gpu__loss_of_t of, int64_t rows, int64_t of_sample,
                              gpu__loss_row_t *out)
{
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    int64_t n = r / of_sample, first = r % of_sample * AT_ONCE;
    int64_t end = first + AT_ONCE < of.pixels ? first + AT_ONCE : of.pixels;
    double sample = of.sample_weight ? of.sample_weight[n] : 1;
    gpu__loss_row_t row = {0, 0, 0, 0, 0, 0, 0, 0};
    int32_t bad_label = INT32_MIN;
    for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x) {
      pixel p = pixel_of(of, n, i);
      if (p.bad) {
        row.bad = 1;
        if (p.label > bad_label) bad_label = p.label;
      }
      double own = of.place_weight ? of.place_weight[i] : 1;
      own = is_counted(of, p) ? own * weight_of(of, p.label) : 0;
      row.weight += ct_loss_counted(&of.spec, sample, own, 1, 1 / (double)of.pixels);
      if (is_counted(of, p)) add_pixel(of, p, row);
    }
    row.sum = gpu_block_sum(row.sum);
    row.weight = gpu_block_sum(row.weight);
    row.samples = gpu_block_sum(row.samples);
    row.top1 = gpu_block_sum(row.top1);
    row.top5 = gpu_block_sum(row.top5);
    int bad = row.bad ? bad_label : INT32_MIN;
    row.bad = gpu_block_sum(row.bad);
    /* any of the invalid labels is sufficient for the message */
    CT_SHARED(int32_t, found, 1);
    if (threadIdx.x == 0) found[0] = INT32_MIN;
    __syncthreads();
    if (bad != INT32_MIN) found[0] = bad;
    __syncthreads();
    row.label = found[0];
    if (threadIdx.x == 0) out[r] = row;
    __syncthreads();
  }
}

CT_KERNEL void pixels_backward(gpu__loss_of_t of, gpu__step_params_t params,
                               const gpu__step_params_t *at, float *dx)
{
  double smoothing = of.spec.label_smoothing, weights = 0;
  for (int64_t c = 0; c < of.outputs; c++)
    weights += weight_of(of, c);
  GPU_LOOP (i, of.samples * of.pixels) {
    int64_t n = i / of.pixels;
    pixel p = pixel_of(of, n, i % of.pixels);
    float *to = dx + (p.x - of.x);
    double scale = at ? at->scale : params.scale, spread = 0, own = 0, z = 0;
    if (is_counted(of, p)) {
      own = (1 - smoothing) * p.weight * focal_of(of, p, 1);
      spread = p.place * smoothing / (double)p.classes;
      z = 2 * of.spec.z_loss * p.weight * (log(p.exp) + (double)p.largest);
    }
    float part = (float)(scale * (own + spread * weights + z) / p.exp);
    for (int64_t c = 0; c < p.classes; c++) {
      double wanted = spread * weight_of(of, c) + (c == p.label ? own : 0);
      to[c * p.apart] = part * expf(p.x[c * p.apart] - p.largest) - (float)(scale * wanted);
    }
  }
}

extern "C" cudaError_t gpu__loss_pixels(const gpu__loss_of_t *of, gpu__loss_row_t *rows,
                                        cudaStream_t stream)
{
  int64_t count = gpu__loss_rows(of->samples, of->pixels);
  CT_LAUNCH(pixels_forward, gpu_grid(count, 1), THREADS, stream, *of, count, rows_of(of->pixels),
            rows);
  return cudaGetLastError();
}

extern "C" cudaError_t gpu__loss_pixels_backward(const gpu__loss_of_t *of,
                                                 gpu__step_params_t params,
                                                 const gpu__step_params_t *at, float *dx,
                                                 cudaStream_t stream)
{
  CT_LAUNCH(pixels_backward, gpu_grid(of->samples * of->pixels, THREADS), THREADS, stream, *of,
            params, at, dx);
  return cudaGetLastError();
}
