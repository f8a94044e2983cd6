/* Weight gradients in bf16 with AMX, of convolutions in channels last without groups.
 *
 * The gradient of a tap (kernel element) is a GEMM: x transposed (channels x pixels) times dy
 * (pixels x channels).  The pixels of dy are enumerated with gaps, which are zeros: a row is so
 * long that the element of x that a tap needs is at a constant distance, the tap's shift, in an
 * enumeration of x with the same rows.  With strides, x is split into phases: pixels whose
 * coordinates have the same remainders.  So every phase of x is packed once for all taps.
 *
 * Images are cut into units.  For some units at a time, all threads pack x and dy, and then compute
 * tiles of the gradient.  If there are few tiles, the units are dealt to parts, each with its own
 * gradient, which are summed at the end.  Neither units nor parts depend on the number of threads,
 * so nor does the result. */
#include "base/ct_err.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "cpu/conv/conv.h"
#include "cpu/gemm/primitive.h"
#include "base/ct_types.h"
#include "cpu/tile/amx.h"
#include <omp.h>
#include <string.h>

enum {
  T = CPU__AMX,
  WIDE = 2 * T,           /* channels of two tiles */
  UNIT_BYTES = 1 << 19,   /* about the size of a packed unit */
  THREAD_BYTES = 1 << 18, /* packed bytes per thread at a time */
  HOT = 256,              /* pixels of which two tiles of x and of dy stay in the L1 cache */
  SQUARE = 64,            /* blocks of the gradient that stay in the L2 cache, about */
  ENOUGH = 32             /* blocks of the gradient; if there are fewer, there are parts */
};

/* One dim of the window. */
typedef struct dim {
  int64_t x, y; /* sizes */
  int kernel, stride, pad, dilate;
  int64_t first;  /* the smallest distance of a tap, in strides */
  int64_t spread; /* the difference of the largest one from it */
} dim_t;

typedef struct amx_gradient {
  ct_op_desc_t desc;
  dim_t dim[3];
  int64_t n, in, out;          /* images, channels */
  int64_t taps, phases;        /* phases that are read */
  int64_t *shift;              /* of each tap: its phase's offset and its shift in packed x */
  int32_t *x_table, *y_table;  /* pixels of x (of each phase) and of dy in their enumerations */
  int64_t x_count;             /* entries of x_table per phase */
  int64_t pieces, unit;        /* units per image, pixels of dy in a unit */
  int64_t x_unit;              /* pixels of x in a unit */
  int64_t together, most;      /* units packed at a time, and in all */
  int64_t x_image;             /* packed elements of a phase of a unit of x */
  int64_t x_phase, y_tile;     /* packed elements of a phase, and of 16 channels of dy */
  int64_t pairs_in, pairs_out; /* pairs of tiles */
  int64_t blocks, parts;       /* blocks of 2 x 2 tiles; copies of the gradient */
  int64_t square;              /* blocks that are computed at a time */
  int32_t (*order)[2];         /* pairs of tiles of out and in, in the order of blocks */
  int64_t x_bytes, y_bytes, w_floats;
} amx_gradient_t;

/* ---- entries of the algorithm table ---------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

/* Returns the distance of a tap in strides; *phase: the rest. */
static int64_t tap_at(const dim_t *d, int k, int64_t *phase)
{
  int64_t at = (int64_t)k * d->dilate - d->pad, q = floor_div(at, d->stride);
  *phase = at - q * d->stride;
  return q;
}

static void set_dims(amx_gradient_t *t)
{
  const ct_op_desc_t *d = &t->desc;
  int space = d->x.ndim - 2;
  t->taps = 1;
  for (int i = 0; i < 3; i++) {
    int from = i - (3 - space); /* images have depth 1 */
    dim_t *m = &t->dim[i];
    *m = (dim_t){.x = 1, .y = 1, .kernel = 1, .stride = 1, .dilate = 1};
    if (from >= 0)
      *m = (dim_t){d->x.dim[2 + from],
                   d->y.dim[2 + from],
                   d->u.conv.kernel[from],
                   d->u.conv.stride[from],
                   d->u.conv.pad[from],
                   d->u.conv.dilate[from],
                   0,
                   0};
    int64_t rest;
    m->first = tap_at(m, 0, &rest);
    m->spread = tap_at(m, m->kernel - 1, &rest) - m->first;
    t->taps *= m->kernel;
  }
  t->n = d->x.dim[0];
  t->in = d->x.dim[1];
  t->out = d->y.dim[1];
}

/* Returns the length of a dim in the enumerations. */
static int64_t extent(const amx_gradient_t *t, int i)
{
  return t->dim[i].y + t->dim[i].spread;
}

/* Returns the pixels of dy of an image in its enumeration. */
static int64_t pixels_of(const amx_gradient_t *t)
{
  return t->dim[0].y * extent(t, 1) * extent(t, 2);
}

static int gradient_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  amx_gradient_t t = {.desc = *d};
  if (d->x.dtype != CT_BF16) return cpu__refuse(why, "another type of activations");
  if (job->pass != CT_BWD_PARAM) return cpu__refuse(why, "only weight gradients");
  if (job->dev->isa != CPU__AVX512 || !cpu__amx_is_there())
    return cpu__refuse(why, "the processor has no AMX");
  if (job->at.x != CT_NHWC || job->at.y != CT_NHWC) return cpu__refuse(why, "only channels last");
  if (d->u.conv.groups > 1) return cpu__refuse(why, "groups");
  set_dims(&t);
  double pixels = (double)(t.n * ct_round_up(pixels_of(&t), CPU__AMX_K));
  double in = (double)ct_round_up(t.in, T), out = (double)ct_round_up(t.out, T);
  double packing = 4 * T * pixels * (in + out / 2);
  if (ct_shape_count(&d->x) / t.n / t.in > INT32_MAX) return cpu__refuse(why, "too large");
  *cost = (cpu__cost_t){(pixels * in * out * (double)t.taps + packing) / job->dev->bf16_rate, 0};
  return 1;
}

static int gradient_stored(const cpu__job_t *job, cpu__md_t **out)
{
  return cpu__conv_weights(job->desc, CT_F32, CPU__I16O16, out);
}

/* Sets phases and shifts: tap k reads packed x from shift[k] on. */
static void set_shifts(amx_gradient_t *t, int64_t phase_of[])
{
  int64_t all = t->dim[0].stride * (int64_t)t->dim[1].stride * t->dim[2].stride;
  for (int64_t i = 0; i < all; i++)
    phase_of[i] = -1;
  t->phases = 0;
  for (int64_t k = 0; k < t->taps; k++) {
    const int64_t tap[3] = {k / t->dim[2].kernel / t->dim[1].kernel,
                            k / t->dim[2].kernel % t->dim[1].kernel, k % t->dim[2].kernel};
    int64_t phase = 0, shift = 0, rest;
    for (int i = 0; i < 3; i++) {
      int64_t q = tap_at(&t->dim[i], (int)tap[i], &rest) - t->dim[i].first;
      phase = phase * t->dim[i].stride + rest;
      shift = shift * extent(t, i) + q;
    }
    if (phase_of[phase] < 0) phase_of[phase] = t->phases++;
    t->shift[k] = shift;
    t->shift[t->taps + k] = phase_of[phase];
  }
}

/* Fills the table of a phase. */
static void fill_x(const amx_gradient_t *t, int64_t phase, int32_t *table)
{
  const dim_t *d = t->dim;
  const int64_t rest[3] = {phase / d[2].stride / d[1].stride, phase / d[2].stride % d[1].stride,
                           phase % d[2].stride};
  for (int64_t f = 0; f < t->x_count; f++) {
    const int64_t at[3] = {f / extent(t, 2) / extent(t, 1), f / extent(t, 2) % extent(t, 1),
                           f % extent(t, 2)};
    int64_t pixel = 0;
    for (int i = 0; i < 3; i++) {
      int64_t x = (at[i] + d[i].first) * d[i].stride + rest[i];
      pixel = x < 0 || x >= d[i].x || pixel < 0 ? -1 : pixel * d[i].x + x;
    }
    table[f] = (int32_t)pixel;
  }
}

static void fill_y(const amx_gradient_t *t)
{
  const dim_t *d = t->dim;
  for (int64_t f = 0; f < t->pieces * t->unit; f++) {
    int64_t w = f % extent(t, 2), h = f / extent(t, 2) % extent(t, 1);
    int64_t z = f / extent(t, 2) / extent(t, 1);
    int inside = z < d[0].y && h < d[1].y && w < d[2].y;
    t->y_table[f] = inside ? (int32_t)((z * d[1].y + h) * d[2].y + w) : -1;
  }
}

static void set_units(amx_gradient_t *t, int threads)
{
  int64_t reach = 0, pixels = pixels_of(t), in = ct_round_up(t->in, WIDE);
  int64_t out = ct_round_up(t->out, WIDE);
  for (int64_t k = 0; k < t->taps; k++)
    if (t->shift[k] > reach) reach = t->shift[k];
  int64_t fit = UNIT_BYTES / 2 / (in * t->phases + out);
  if (fit < 2 * reach + HOT) fit = 2 * reach + HOT;
  t->pieces = ct_div_up(pixels, fit);
  t->unit = ct_round_up(ct_div_up(pixels, t->pieces), CPU__AMX_K);
  t->x_unit = ct_round_up(t->unit + reach, CPU__AMX_K);
  if (t->x_unit % 64 == 0) t->x_unit += CPU__AMX_K; /* else rows of a tile share cache sets */
  t->x_count = (t->pieces - 1) * t->unit + t->x_unit;
  t->pairs_in = ct_div_up(t->in, WIDE);
  t->pairs_out = ct_div_up(t->out, WIDE);
  t->blocks = t->pairs_in * t->pairs_out * t->taps;
  t->w_floats = ct_round_up(t->in, T) * ct_round_up(t->out, T) * t->taps;
  t->most = t->n * t->pieces;
  t->parts = t->blocks >= ENOUGH ? 1 : ct_least(ct_div_up(ENOUGH, t->blocks), t->most);
  int64_t bytes = 2 * (in * t->phases * t->x_unit + out * t->unit);
  int64_t room = (int64_t)threads * THREAD_BYTES + 2 * (int64_t)sizeof(float) * t->w_floats;
  t->together = ct_least(t->most, room / bytes);
  if (t->together < ct_least(t->parts, t->most)) t->together = ct_least(t->parts, t->most);
  t->x_image = in * t->x_unit;
  t->x_phase = t->together * t->x_image;
  t->y_tile = t->together * t->unit * T + 17 * CPU__AMX_K; /* not a power of two */
  t->x_bytes = t->phases * t->x_phase * 2;
  t->y_bytes = out / T * t->y_tile * 2;
}

/* Lists pairs of tiles in squares, so that few of x and dy are read at a time. */
static void set_order(amx_gradient_t *t)
{
  int64_t side = 1, n = 0;
  while ((side + 1) * (side + 1) * t->taps <= SQUARE)
    side++;
  t->square = side * side * t->taps;
  for (int64_t o = 0; o < t->pairs_out; o += side)
    for (int64_t c = 0; c < t->pairs_in; c += side)
      for (int64_t i = o; i < ct_least(o + side, t->pairs_out); i++)
        for (int64_t j = c; j < ct_least(c + side, t->pairs_in); j++, n++) {
          t->order[n][0] = (int32_t)i;
          t->order[n][1] = (int32_t)j;
        }
}

static int gradient_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  int rc = CT_OK;
  amx_gradient_t *t = out->own = ct_mem_alloc(sizeof *t, "convolution");
  int64_t *phase_of = NULL;
  if (!t) return CT_ERR_NOMEM;
  *t = (amx_gradient_t){.desc = *job->desc};
  set_dims(t);
  int64_t all = t->dim[0].stride * (int64_t)t->dim[1].stride * t->dim[2].stride;
  phase_of = ct_mem_alloc((size_t)all * sizeof *phase_of, "phases");
  t->shift = ct_mem_alloc((size_t)t->taps * 2 * sizeof *t->shift, "shifts of taps");
  if (!phase_of || !t->shift) CT_FAIL(CT_ERR_NOMEM, "no memory for a convolution");
  set_shifts(t, phase_of);
  set_units(t, job->dev->threads);
  int64_t entries = t->phases * t->x_count + t->pieces * t->unit;
  t->x_table = ct_mem_alloc((size_t)entries * sizeof *t->x_table, "table of pixels");
  t->order = ct_mem_alloc((size_t)(t->pairs_in * t->pairs_out) * sizeof *t->order, "tiles");
  if (!t->x_table || !t->order) CT_FAIL(CT_ERR_NOMEM, "no memory for a convolution");
  set_order(t);
  t->y_table = t->x_table + t->phases * t->x_count;
  for (int64_t i = 0; i < all; i++)
    if (phase_of[i] >= 0) fill_x(t, i, t->x_table + phase_of[i] * t->x_count);
  fill_y(t);
  for (int64_t k = 0; k < t->taps; k++)
    t->shift[k] += t->shift[t->taps + k] * t->x_phase;
  int64_t copies = t->parts > 1 ? t->parts * t->w_floats : 0;
  out->scratch = (size_t)(t->x_bytes + t->y_bytes) + (size_t)copies * sizeof(float);
  rc = gradient_stored(job, &out->w);
out:
  ct_mem_free(phase_of);
  return rc;
}

static void gradient_clear(cpu__ready_t *ready)
{
  amx_gradient_t *t = ready->own;
  if (!t) return;
  ct_mem_free(t->shift);
  ct_mem_free(t->x_table);
  ct_mem_free(t->order);
  ct_mem_free(t);
}

/* ---- running --------------------------------------------------------------------------------- */

/* What all threads work on: `count` units from `first` on. */
typedef struct work {
  const uint16_t *x, *y;
  uint16_t *x_packed, *y_packed;
  float *w; /* the gradient, or its copies */
  int64_t first, count;
} work_t;

/* Packs two tiles of a unit's channels: of phases of x, then of dy. */
static void pack(const amx_gradient_t *t, const work_t *k, int64_t task)
{
  int64_t of_x = t->phases * t->pairs_in, each = of_x + t->pairs_out;
  int64_t unit = task / each, i = task % each, number = k->first + unit;
  int64_t image = number / t->pieces, from = number % t->pieces * t->unit;
  const dim_t *d = t->dim;
  if (i < of_x) {
    int64_t phase = i / t->pairs_in, c = i % t->pairs_in * WIDE;
    cpu__gather_t g = {k->x + image * d[0].x * d[1].x * d[2].x * t->in, t->in,
                       t->x_table + phase * t->x_count + from, t->x_unit};
    cpu__amx_pack_a(&g, c, k->x_packed + phase * t->x_phase + unit * t->x_image + c * t->x_unit,
                    t->x_unit);
    return;
  }
  int64_t c = (i - of_x) * WIDE;
  cpu__gather_t g = {k->y + image * d[0].y * d[1].y * d[2].y * t->out, t->out, t->y_table + from,
                     t->unit};
  cpu__amx_pack_b(&g, c, k->y_packed + c / T * t->y_tile + unit * t->unit * T, t->y_tile);
}

/* Some pixels of one or several units. */
typedef struct hot {
  int64_t units, x_at[HOT / CPU__AMX_K], y_at[HOT / CPU__AMX_K];
  int64_t steps;
} hot_t;

/* Adds the products of some pixels to blocks `from` to `to` - 1 of a part's gradient. */
static void multiply(const amx_gradient_t *t, const work_t *k, const hot_t *h, float *w,
                     int64_t from, int64_t to, int add)
{
  int64_t tiles_in = ct_div_up(t->in, T), tiles_out = ct_div_up(t->out, T);
  cpu__amx_t a = {.taps = h->units,
                  .a_at = h->x_at,
                  .b_at = h->y_at,
                  .steps = h->steps,
                  .a_row = t->x_unit,
                  .a_tile = T * t->x_unit,
                  .b_tile = t->y_tile,
                  .c_row = T,
                  .c_down = t->taps * T * T,
                  .c_right = tiles_in * t->taps * T * T,
                  .add = add};
  for (int64_t i = from; i < to; i++) {
    int64_t tap = i % t->taps, o = t->order[i / t->taps][0] * 2, c = t->order[i / t->taps][1] * 2;
    a.down = (int)ct_least(2, tiles_in - c);
    a.right = (int)ct_least(2, tiles_out - o);
    cpu__amx_run(&a, k->x_packed + t->shift[tap] + c * T * t->x_unit, k->y_packed + o * t->y_tile,
                 w + ((o * tiles_in + c) * t->taps + tap) * T * T);
  }
}

/* Computes blocks `from` to `to` - 1 of a part's gradient from its units that are packed. */
static void blocks_of(const amx_gradient_t *t, const work_t *k, int64_t part, int64_t from,
                      int64_t to)
{
  int64_t first = (part - k->first % t->parts + t->parts) % t->parts;
  int64_t pieces = ct_div_up(t->unit, HOT), several = pieces > 1 ? 1 : HOT / t->unit;
  int64_t pixels = ct_round_up(ct_div_up(t->unit, pieces), CPU__AMX_K);
  float *w = k->w + part * t->w_floats;
  int add = k->first + first >= t->parts; /* not the part's first unit */
  for (int64_t u = first; u < k->count; u += several * t->parts)
    for (int64_t p = 0; p < t->unit; p += pixels, add = 1) {
      hot_t h = {.steps = ct_least(pixels, t->unit - p) / CPU__AMX_K};
      for (int64_t v = u; v < k->count && h.units < several; v += t->parts, h.units++) {
        h.x_at[h.units] = v * t->x_image + p;
        h.y_at[h.units] = (v * t->unit + p) * T;
      }
      multiply(t, k, &h, w, from, to, add);
    }
}

/* Computes a thread's share of the blocks of all parts. */
static void share_of(const amx_gradient_t *t, const work_t *k, int64_t index, int64_t of)
{
  int64_t all = t->blocks * t->parts, i = all * index / of, end = all * (index + 1) / of;
  cpu__amx_begin();
  for (int64_t next; i < end; i = next) {
    int64_t part = i / t->blocks;
    next = ct_least(ct_least(i + t->square, end), (part + 1) * t->blocks);
    blocks_of(t, k, part, i - part * t->blocks, next - part * t->blocks);
  }
  cpu__amx_end();
}

static void run_units(const amx_gradient_t *t, const work_t *k)
{
  int64_t tasks = k->count * (t->phases * t->pairs_in + t->pairs_out);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < tasks; i++)
      pack(t, k, i);
    share_of(t, k, omp_get_thread_num(), omp_get_num_threads());
  }
}

static void sum_parts(const amx_gradient_t *t, const float *parts, float *dw)
{
#pragma omp parallel for if (t->w_floats * t->parts > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t i = 0; i < t->w_floats; i++) {
    float sum = parts[i];
    for (int64_t part = 1; part < t->parts; part++)
      sum += parts[part * t->w_floats + i];
    dw[i] = sum;
  }
}

static void sum_bias(const amx_gradient_t *t, const uint16_t *dy, float *db)
{
  int64_t rows = ct_shape_count(&t->desc.y) / t->out;
#pragma omp parallel for if (rows * t->out > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t c = 0; c < t->out; c += WIDE) {
    double sum[WIDE] = {0};
    int64_t n = ct_least(WIDE, t->out - c);
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < n; j++)
        sum[j] += ct_bf16_float(dy[i * t->out + c + j]);
    for (int64_t j = 0; j < n; j++)
      db[c + j] = (float)sum[j];
  }
}

static int gradient_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const amx_gradient_t *t = ready->own;
  (void)dev;
  char *scratch = at[CPU__SCRATCH];
  float *copies = (float *)(void *)(scratch + t->x_bytes + t->y_bytes);
  work_t k = {.x = at[CPU__X], .y = at[CPU__Y]};
  k.x_packed = (uint16_t *)(void *)scratch;
  k.y_packed = (uint16_t *)(void *)(scratch + t->x_bytes);
  k.w = t->parts > 1 ? copies : at[CPU__W];
  for (; k.first < t->most; k.first += t->together) {
    k.count = ct_least(t->together, t->most - k.first);
    run_units(t, &k);
  }
  if (t->parts > 1) sum_parts(t, copies, at[CPU__W]);
  if (t->desc.u.conv.bias) sum_bias(t, at[CPU__Y], at[CPU__BIAS]);
  return CT_OK;
}

const cpu__algo_t cpu__conv_amx_gradient = {.name = "AMX",
                                            .can = gradient_can,
                                            .stored = gradient_stored,
                                            .prepare = gradient_prepare,
                                            .run = gradient_run,
                                            .clear = gradient_clear};
