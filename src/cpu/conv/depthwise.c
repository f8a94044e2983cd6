/* Depthwise convolution for any kernel size, on blocks of channels: all but the loops, which are in
 * kern/body_depthwise.h.
 *
 * For each row and column of the output, the taps (kernel elements) inside the image are computed
 * in advance.  The gradient of x is also a depthwise convolution, of dy, in which the taps of an
 * output depend on its position modulo the stride.  The gradient of the weights is summed over
 * fixed parts of the batch, independent of the number of threads. */
#include "cpu/conv/conv.h"
#include "cpu/kern/loops.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <string.h>

enum {
  PARTS_MAX = 16, /* parts of a batch */
  BAND = 12,      /* rows processed together: they fit an L2 cache */
  PARAM_BAND = 6  /* in the gradient of the weights, which reads them several times */
};

typedef struct conv {
  ct_op_desc_t desc;
  int pass;
  const cpu__loops_t *loops;
  cpu__depthwise_t loop;
  int64_t groups;    /* groups of channels that are adjacent in memory */
  int64_t lanes;     /* channels per group */
  int64_t in_plane;  /* elements per image and group that the loop reads */
  int64_t out_plane; /* elements per image and group that the loop writes */
  int64_t taps, parts;
} conv_t;

/* ---- taps of an output ----------------------------------------------------------------------- */

/* One axis of the convolution that the loop computes; its outputs are y, or dx in the gradient of
 * x. */
typedef struct axis {
  int64_t in, out;
  int kernel, stride, pad, dilate, data;
} axis_t;

static axis_t axis_of(const ct_op_desc_t *d, int pass, int i)
{
  axis_t a = {.kernel = d->u.conv.kernel[i],
              .stride = d->u.conv.stride[i],
              .pad = d->u.conv.pad[i],
              .dilate = d->u.conv.dilate[i],
              .data = pass == CT_BWD_DATA};
  a.in = a.data ? d->y.dim[2 + i] : d->x.dim[2 + i];
  a.out = a.data ? d->x.dim[2 + i] : d->y.dim[2 + i];
  return a;
}

/* Returns the input that a tap of an output reads; -1: the tap is outside the image. */
static int64_t input_of(const axis_t *a, int64_t output, int tap)
{
  int64_t at = a->data ? output + a->pad - (int64_t)tap * a->dilate
                       : output * a->stride - a->pad + (int64_t)tap * a->dilate;
  if (a->data && (at < 0 || at % a->stride)) return -1;
  if (a->data) at /= a->stride;
  return at < a->in ? at : -1;
}

static cpu__reach_t reach_of(const axis_t *a, int64_t output)
{
  cpu__reach_t r = {.first = (int32_t)output, .count = 1};
  for (int tap = a->kernel - 1; tap >= 0; tap--) {
    int64_t in = input_of(a, output, tap);
    if (in < 0) continue;
    r.tap = tap;
    r.in = (int32_t)in;
    r.taps++;
  }
  return r;
}

/* Groups the outputs of an axis into reaches: outputs `step` apart that have the same taps inside
 * the image, up to `band` outputs in each.  Returns the number of reaches. */
static int reaches_of(const axis_t *a, int64_t step, int32_t band, cpu__reach_t *out)
{
  int count = 0;
  for (int64_t first = 0; first < a->out; first += step * band)
    for (int64_t i = first; i < first + step && i < a->out; i++) {
      int32_t n = 0;
      for (int64_t k = i; k < a->out && n < band; k += step, n++) {
        cpu__reach_t r = reach_of(a, k), *last = n ? &out[count - 1] : NULL;
        if (n && r.tap == last->tap && r.taps == last->taps) {
          last->count++;
        } else {
          out[count++] = r;
        }
      }
    }
  return count;
}

/* Sets the strides along an axis. */
static void set_steps(const axis_t *a, cpu__depthwise_t *p, int i)
{
  int step = 1;
  while (a->data && step * a->dilate % a->stride)
    step++;
  p->tap_step[i] = step;
  p->in_step[i] = a->data ? -(int64_t)step * a->dilate / a->stride : a->dilate;
  p->advance[i] = a->data ? 1 : a->stride;
  p->out_step[i] = a->data ? a->stride : 1;
}

static int set_loop(conv_t *t)
{
  axis_t high = axis_of(&t->desc, t->pass, 0), wide = axis_of(&t->desc, t->pass, 1);
  cpu__depthwise_t *p = &t->loop;
  *p = (cpu__depthwise_t){.lanes = t->lanes,
                          .in_cols = wide.in,
                          .out_cols = wide.out,
                          .kernel_cols = wide.kernel,
                          .relu = t->pass == CT_FWD && t->desc.u.conv.relu};
  set_steps(&high, p, 0);
  set_steps(&wide, p, 1);
  p->row = ct_mem_alloc((size_t)(high.out + wide.out) * sizeof *p->row, "convolution");
  if (!p->row) return CT_ERR_NOMEM;
  p->col = p->row + high.out;
  p->rows = reaches_of(&high, p->out_step[0], t->pass == CT_BWD_PARAM ? PARAM_BAND : BAND, p->row);
  p->cols = reaches_of(&wide, p->out_step[1], INT32_MAX, p->col);
  t->in_plane = high.in * wide.in * t->lanes;
  t->out_plane = high.out * wide.out * t->lanes;
  return CT_OK;
}

/* ---- entries of the algorithm table ---------------------------------------------------------- */

static int depthwise_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  int64_t c = d->x.dim[1], lanes = cpu__lanes(job->at.x);
  if (d->x.ndim != 4 || c == 1 || d->u.conv.groups != c || d->y.dim[1] != c)
    return cpu__refuse(why, "for images, one group and one output for each channel");
  if (job->at.x != job->at.y || lanes < 8) return cpu__refuse(why, "for blocks of channels");
  if (lanes == 16 && job->dev->isa != CPU__AVX512)
    return cpu__refuse(why, "blocks of 16 channels are for AVX-512");
  double taps = (double)d->u.conv.kernel[0] * d->u.conv.kernel[1];
  double pixels = (double)d->y.dim[0] * (double)d->y.dim[2] * (double)d->y.dim[3];
  double channels = (double)((c + lanes - 1) / lanes * lanes);
  /* oneDNN's kernels need fewer instructions, which counts with short vectors */
  double slow = job->dev->isa == CPU__AVX2 ? 1.1 : 1;
  if (lanes == 8 && job->dev->isa == CPU__AVX512) slow = 1.25;
  if (d->x.dtype == CT_BF16) slow *= 2; /* computed in float32 */
  *cost = (cpu__cost_t){slow * pixels * taps * channels, 0};
  return 1;
}

/* Returns the format of the weights: [c / lanes][kernel][kernel][lanes]. */
static int depthwise_stored(const cpu__job_t *job, cpu__md_t **out)
{
  const ct_op_desc_t *d = job->desc;
  const int64_t dims[5] = {d->x.dim[1], 1, 1, d->u.conv.kernel[0], d->u.conv.kernel[1]};
  return cpu__md_new(5, dims, job->at.x == CT_C16 ? CPU__O16 : CPU__O8, out);
}

static int depthwise_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = job->desc;
  conv_t *t = out->own = ct_mem_alloc(sizeof *t, "convolution");
  if (!t) return CT_ERR_NOMEM;
  t->desc = *d;
  t->pass = job->pass;
  t->lanes = cpu__lanes(job->at.x);
  t->groups = (d->x.dim[1] + t->lanes - 1) / t->lanes;
  t->loops = cpu__loops_for(job->dev, d->x.dtype, t->lanes);
  t->taps = (int64_t)d->u.conv.kernel[0] * d->u.conv.kernel[1];
  t->parts = d->x.dim[0] < PARTS_MAX ? d->x.dim[0] : PARTS_MAX;
  CT_TRY(set_loop(t));
  int64_t bias = t->groups * t->lanes;
  int64_t floats = job->pass == CT_BWD_PARAM ? t->parts * bias * (t->taps + 1) : bias;
  out->scratch = (size_t)floats * sizeof(float);
  CT_TRY(depthwise_stored(job, &out->w));
out:
  return rc;
}

static void depthwise_clear(cpu__ready_t *ready)
{
  conv_t *t = ready->own;
  if (t) ct_mem_free(t->loop.row);
  ct_mem_free(t);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Writes the bias, padded to whole groups; zeros for the gradient of x. */
static void pad_bias(const conv_t *t, const float *bias, float *to)
{
  memset(to, 0, (size_t)(t->groups * t->lanes) * sizeof *to);
  if (t->pass == CT_FWD && t->desc.u.conv.bias)
    memcpy(to, bias, (size_t)t->desc.x.dim[1] * sizeof *to);
}

static int is_line(const conv_t *t)
{
  return t->lanes * (int64_t)ct_dtype_size(t->desc.x.dtype) == 64;
}

static void convolve(const conv_t *t, const void *in, const float *w, const float *bias, void *out)
{
  int64_t images = t->desc.x.dim[0] * t->groups;
  const ct_shape_t *s = t->pass == CT_FWD ? &t->desc.y : &t->desc.x;
  ct_dtype_t dtype = s->dtype;
  cpu__depthwise_t loop = t->loop;
  /* non-temporal stores only if a vector is a cache line, or lines are written in order */
  loop.stream = t->loops->width == t->lanes && (loop.out_step[1] == 1 || is_line(t)) &&
                cpu__streams(out, (size_t)(images * t->out_plane) * ct_dtype_size(dtype));
#pragma omp parallel for if (images * t->out_plane > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t i = 0; i < images; i++)
    for (int64_t lane = 0; lane < t->lanes; lane += t->loops->width) {
      int64_t channel = i % t->groups * t->lanes + lane;
      t->loops->depthwise(&loop, cpu__at(in, i * t->in_plane + lane, dtype),
                          w + i % t->groups * t->lanes * t->taps + lane, bias + channel,
                          cpu__at(out, i * t->out_plane + lane, dtype));
    }
}

/* Sums the gradient of one group of channels over one part of the batch: writes (taps + 1) x lanes
 * sums. */
static void sum_part(const conv_t *t, const void *x, const void *dy, int64_t part, int64_t group,
                     float *sums)
{
  ct_dtype_t dtype = t->desc.x.dtype;
  int64_t n = t->desc.x.dim[0];
  memset(sums, 0, (size_t)((t->taps + 1) * t->lanes) * sizeof *sums);
  for (int64_t i = n * part / t->parts; i < n * (part + 1) / t->parts; i++)
    for (int64_t lane = 0; lane < t->lanes; lane += t->loops->width) {
      int64_t plane = i * t->groups + group;
      float *db = t->desc.u.conv.bias ? sums + t->taps * t->lanes + lane : NULL;
      t->loops->depthwise_grad(&t->loop, cpu__at(x, plane * t->in_plane + lane, dtype),
                               cpu__at(dy, plane * t->out_plane + lane, dtype), sums + lane, db);
    }
}

/* Returns the sum over the parts, in order. */
static float depthwise_total(const conv_t *t, const float *sums, int64_t group, int64_t at)
{
  double sum = 0;
  int64_t size = (t->taps + 1) * t->lanes;
  for (int64_t part = 0; part < t->parts; part++)
    sum += sums[(part * t->groups + group) * size + at];
  return (float)sum;
}

static void depthwise_gradient(const conv_t *t, const void *x, const void *dy, float *sums,
                               float *dw, float *db)
{
  int64_t size = (t->taps + 1) * t->lanes, weights = t->taps * t->lanes;
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < t->parts * t->groups; i++)
      sum_part(t, x, dy, i / t->groups, i % t->groups, sums + i * size);
#pragma omp for schedule(static)
    for (int64_t group = 0; group < t->groups; group++)
      for (int64_t k = 0; k < weights; k++)
        dw[group * weights + k] = depthwise_total(t, sums, group, k);
  }
  for (int64_t c = 0; t->desc.u.conv.bias && c < t->desc.x.dim[1]; c++)
    db[c] = depthwise_total(t, sums, c / t->lanes, weights + c % t->lanes);
}

static int depthwise_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const conv_t *t = ready->own;
  (void)dev;
  if (t->pass == CT_BWD_PARAM) {
    depthwise_gradient(t, at[CPU__X], at[CPU__Y], at[CPU__SCRATCH], at[CPU__W], at[CPU__BIAS]);
  } else {
    pad_bias(t, at[CPU__BIAS], at[CPU__SCRATCH]);
    const void *in = at[t->pass == CT_FWD ? CPU__X : CPU__Y];
    convolve(t, in, at[CPU__W], at[CPU__SCRATCH], at[t->pass == CT_FWD ? CPU__Y : CPU__X]);
  }
  return CT_OK;
}

const cpu__algo_t cpu__conv_depthwise = {.name = "depthwise",
                                         .relu = 1,
                                         .can = depthwise_can,
                                         .stored = depthwise_stored,
                                         .prepare = depthwise_prepare,
                                         .run = depthwise_run,
                                         .clear = depthwise_clear};
