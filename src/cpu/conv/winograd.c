/* Winograd convolution F(4x4, 3x3): forward, and backward to the data, which is a convolution of dy
 * with the weights rotated by 180 degrees and input and output channels exchanged.
 *
 * At each of the 36 positions the channels of some tiles are multiplied by the weights in a GEMM.
 * With few channels and many tiles, each thread has its own tiles, and all share the transformed
 * weights.  With many channels, threads share the transformed tiles, and each has its own output
 * channels, whose weights it transforms when needed: transformed weights have 36 numbers instead of
 * 9, do not fit the cache, and would take longer to write than to compute.
 *
 * A panel is the VECS vectors of output channels that one GEMM computes. */
#include "cpu/conv/winograd.h"
#include "cpu/conv/winograd_loops.h"
#include "cpu/tile/tile.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/loops.h"
#include <omp.h>
#include <string.h>

enum {
  TAPS = 9,
  VECS = 2, /* vectors of output channels in a panel */
};

/* Sizes are in floats unless noted. */
typedef struct conv {
  int pass, threads, relu, add;
  int64_t lanes;  /* channels per block */
  int64_t biases; /* number of channels with a bias */
  const cpu__tiles_t *tiles;
  const cpu__winograd_loops_t *loops;
  int64_t h, w;                               /* pixels of the input */
  int64_t to_h, to_w;                         /* pixels of the output */
  int64_t top, left;                          /* padding */
  int64_t rows, cols;                         /* tiles of an image */
  int64_t count;                              /* tiles of the batch */
  int64_t out;                                /* size of the output */
  int64_t from, to;                           /* channel blocks of the input, of the output */
  int64_t panels;                             /* panels of the output */
  int own_tiles;                              /* 1: each thread has its own tiles */
  int64_t group;                              /* tiles transformed together */
  int64_t once;                               /* tiles multiplied together */
  int64_t deep;                               /* channel blocks whose weights are transformed
                                                 together */
  int64_t parts;                              /* parts of a group, for different threads */
  int64_t v_position, m_position, u_position; /* strides between positions */
  int64_t v_size;                             /* transformed tiles */
  int64_t m_size;                             /* GEMM results */
  int64_t u_size;                             /* transformed weights of a panel */
  int64_t *v_block, *u_block;                 /* offsets of `deep` blocks */
} conv_t;

/* The tensors of a run, and workspace: shared (common), and per thread (own). */
typedef struct winograd_run {
  const conv_t *t;
  const float *in, *w, *bias;
  float *out, *common, *own;
  int stream; /* 1: non-temporal stores */
} run_t;

/* ---- transforms ---- */

/* Transforms one block of channels of tiles first to end into v; `origin`: first tile of the group
 * in v. */
static void transform_tiles(const run_t *r, int64_t block, int64_t first, int64_t end,
                            int64_t origin, float *v)
{
  const conv_t *t = r->t;
  for (int64_t i = first; i < end; i++) {
    cpu__tile_pos_t p = cpu__winograd_tile_pos(i, t->rows, t->cols);
    const float *image = r->in + (p.image * t->from + block) * t->h * t->w * t->lanes;
    cpu__plane_t x = {(float *)(uintptr_t)image, t->h, t->w};
    t->loops->input(&x, p.row * CPU__TILE - t->top, p.col * CPU__TILE - t->left,
                    v + (block * t->group + i - origin) * t->lanes, t->v_position);
  }
}

static int64_t vecs_of(const conv_t *t, int64_t panel)
{
  int64_t rest = t->to - panel * VECS;
  return rest < VECS ? rest : VECS;
}

/* Transforms the weights of an input block and an output panel into u: [position][input
 * channel][output channel]. */
static void transform_weights(const run_t *r, int64_t panel, int64_t block, float *u)
{
  const conv_t *t = r->t;
  int64_t vecs = vecs_of(t, panel), size = TAPS * t->lanes * t->lanes;
  int turned = t->pass == CT_BWD_DATA;
  for (int64_t v = 0; v < vecs; v++) {
    int64_t to = panel * VECS + v;
    int64_t at = turned ? block * t->to + to : to * t->from + block;
    t->loops->weights(r->w + at * size, turned, u + v * t->lanes, t->u_position, vecs * t->lanes);
  }
}

/* Computes the pixels of tiles first to end from their GEMM results. */
static void finish_tiles(const run_t *r, int64_t panel, int64_t first, int64_t end, const float *m)
{
  const conv_t *t = r->t;
  int64_t vecs = vecs_of(t, panel);
  for (int64_t v = 0; v < vecs; v++) {
    int64_t block = panel * VECS + v;
    cpu__tile_sums_t sums = {.stride = t->m_position,
                             .bias = r->bias ? r->bias + block * t->lanes : NULL,
                             .stream = r->stream,
                             .add = t->add,
                             .relu = t->relu};
    for (int64_t i = first; i < end; i++) {
      cpu__tile_pos_t p = cpu__winograd_tile_pos(i, t->rows, t->cols);
      float *image = r->out + (p.image * t->to + block) * t->to_h * t->to_w * t->lanes;
      cpu__plane_t y = {image, t->to_h, t->to_w};
      sums.at = m + (v * t->once + i - first) * t->lanes;
      t->loops->output(&sums, p.row * CPU__TILE, p.col * CPU__TILE, &y);
    }
  }
}

/* ---- GEMMs ---- */

/* Multiplies `count` tiles from v on by the weights of some blocks and a panel; writes or adds to
 * m. */
static void gemm(const conv_t *t, int64_t panel, int64_t blocks, int64_t count, const float *v,
                 const float *u, float *m, int add)
{
  int vecs = (int)vecs_of(t, panel);
  int64_t most = t->tiles->rows[vecs], steps = (count + most - 1) / most;
  cpu__tile_t tile = {.taps = blocks,
                      .a_at = t->v_block,
                      .b_at = t->u_block + (vecs - 1) * t->deep,
                      .k = t->lanes,
                      .a_row = t->lanes,
                      .a_k = 1,
                      .b_k = vecs * t->lanes,
                      .b_vec = t->lanes,
                      .c_row = t->lanes,
                      .c_vec = t->once * t->lanes,
                      .lanes = (int)t->lanes,
                      .add = add};
  for (int64_t p = 0; p < CPU__POSITIONS; p++)
    for (int64_t s = 0; s < steps; s++) {
      int64_t row = count * s / steps, rows = count * (s + 1) / steps - row;
      t->tiles->run[vecs][rows](&tile, v + p * t->v_position + row * t->lanes,
                                u + p * t->u_position, m + p * t->m_position + row * t->lanes);
    }
}

/* Computes tiles first to end of the group that begins with tile `origin`, for one panel, with
 * weights that are already transformed. */
static void with_weights(const run_t *r, int64_t panel, int64_t first, int64_t end, int64_t origin,
                         const float *v, const float *u, float *m)
{
  const conv_t *t = r->t;
  for (int64_t i = first; i < end; i += t->once) {
    int64_t stop = i + t->once < end ? i + t->once : end;
    gemm(t, panel, t->from, stop - i, v + (i - origin) * t->lanes, u, m, 0);
    finish_tiles(r, panel, i, stop, m);
  }
}

/* Computes the same tiles as with_weights(), but transforms the weights itself, `deep` blocks at a
 * time. */
static void with_own_weights(const run_t *r, int64_t panel, int64_t first, int64_t end,
                             int64_t origin, const float *v, float *u, float *m)
{
  const conv_t *t = r->t;
  int64_t row = vecs_of(t, panel) * t->lanes * t->lanes;
  for (int64_t at = 0; at < t->from; at += t->deep) {
    int64_t blocks = t->from - at < t->deep ? t->from - at : t->deep;
    for (int64_t k = 0; k < blocks; k++)
      transform_weights(r, panel, at + k, u + k * row);
    if (t->deep == t->from) {
      with_weights(r, panel, first, end, origin, v, u, m);
      return;
    }
    gemm(t, panel, blocks, end - first, v + (at * t->group + first - origin) * t->lanes, u, m,
         at > 0);
  }
  finish_tiles(r, panel, first, end, m);
}

/* ---- running ---- */

static float *own_of(const run_t *r)
{
  const conv_t *t = r->t;
  return r->own + omp_get_thread_num() * (t->m_size + (t->own_tiles ? t->v_size : t->u_size));
}

static int64_t group_end(const conv_t *t, int64_t first)
{
  return first + t->group < t->count ? first + t->group : t->count;
}

static void run_own_tiles(const run_t *r)
{
  const conv_t *t = r->t;
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < t->panels * t->from; k++) {
    int64_t panel = k / t->from, block = k % t->from;
    transform_weights(r, panel, block,
                      r->common + panel * t->u_size +
                          block * vecs_of(t, panel) * t->lanes * t->lanes);
  }
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < t->count; first += t->group) {
    int64_t end = group_end(t, first);
    float *m = own_of(r), *v = m + t->m_size;
    for (int64_t block = 0; block < t->from; block++)
      transform_tiles(r, block, first, end, first, v);
    for (int64_t panel = 0; panel < t->panels; panel++)
      with_weights(r, panel, first, end, first, v, r->common + panel * t->u_size, m);
    if (r->stream) cpu__tile_fence();
  }
}

static void run_own_channels(const run_t *r)
{
  const conv_t *t = r->t;
  for (int64_t origin = 0; origin < t->count; origin += t->group) {
    int64_t size = group_end(t, origin) - origin;
    float *v = r->common;
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < t->from * t->threads; k++) {
      int64_t block = k / t->threads, part = k % t->threads;
      transform_tiles(r, block, origin + size * part / t->threads,
                      origin + size * (part + 1) / t->threads, origin, v);
    }
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < t->panels * t->parts; k++) {
      int64_t panel = k / t->parts, part = k % t->parts;
      float *m = own_of(r), *u = m + t->m_size;
      with_own_weights(r, panel, origin + size * part / t->parts,
                       origin + size * (part + 1) / t->parts, origin, v, u, m);
      if (r->stream) cpu__tile_fence();
    }
  }
}

static int run_conv(const conv_t *t, void *const at[CPU__ROLES])
{
  int data = t->pass == CT_BWD_DATA;
  float *scratch = at[CPU__SCRATCH];
  run_t r = {.t = t,
             .in = at[data ? CPU__Y : CPU__X],
             .w = at[CPU__W],
             .out = at[data ? CPU__X : CPU__Y],
             .common = scratch + t->to * t->lanes};
  r.stream = !t->add && cpu__streams(r.out, (size_t)(t->out * (int64_t)sizeof(float)));
  r.own = r.common + (t->own_tiles ? t->panels * t->u_size : t->v_size);
  if (t->biases) {
    memset(scratch, 0, (size_t)(t->to * t->lanes) * sizeof *scratch);
    memcpy(scratch, at[CPU__BIAS], (size_t)t->biases * sizeof *scratch);
    r.bias = scratch;
  }
  if (t->own_tiles)
    run_own_tiles(&r);
  else
    run_own_channels(&r);
  return CT_OK;
}

/* ---- planning ---- */

static void set_shape(conv_t *t, const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  int data = job->pass == CT_BWD_DATA;
  const ct_shape_t *in = data ? &d->y : &d->x, *out = data ? &d->x : &d->y;
  const int *pad = d->u.conv.pad;
  *t = (conv_t){.pass = job->pass,
                .threads = job->dev->threads,
                .relu = !data && d->u.conv.relu,
                .add = d->u.conv.add,
                .biases = !data && d->u.conv.bias ? d->y.dim[1] : 0,
                .loops = cpu__winograd_loops(job->dev),
                .tiles = cpu__tiles(job->dev)};
  t->lanes = t->loops->width;
  t->h = in->dim[2];
  t->w = in->dim[3];
  t->to_h = out->dim[2];
  t->to_w = out->dim[3];
  t->top = data ? 2 - pad[0] : pad[0];
  t->left = data ? 2 - pad[1] : pad[1];
  t->rows = ct_div_up(t->to_h, CPU__TILE);
  t->cols = ct_div_up(t->to_w, CPU__TILE);
  t->count = in->dim[0] * t->rows * t->cols;
  t->from = ct_div_up(in->dim[1], t->lanes);
  t->to = ct_div_up(out->dim[1], t->lanes);
  t->panels = ct_div_up(t->to, VECS);
  t->out = in->dim[0] * t->to * t->lanes * t->to_h * t->to_w;
}

static void set_sizes(conv_t *t)
{
  t->v_position = cpu__winograd_apart(t->from * t->group * t->lanes);
  t->m_position = cpu__winograd_apart(VECS * t->once * t->lanes);
  t->u_position = cpu__winograd_apart(t->deep * t->lanes * VECS * t->lanes);
  t->v_size = CPU__POSITIONS * t->v_position;
  t->m_size = CPU__POSITIONS * t->m_position;
  t->u_size = CPU__POSITIONS * t->u_position;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
  return b == 0 ? a : common_divisor(b, a % b);
}

/* Chooses the sizes, which were fastest on Zen 5, with 1 MB of L2 cache per core.  Data that
 * threads share pass through the L3 cache and need not fit it. */
static void plan(conv_t *t)
{
  enum { OWN_TILES_MAX = 128 * 128, OWN_GROUP = 56, OWN_ONCE = 28 };
  enum { GROUP = 1024 /* tiles times lanes */, DEEP = 128 /* channels */ };
  t->parts = 1;
  t->own_tiles = t->from * t->to * t->lanes * t->lanes <= OWN_TILES_MAX;
  if (t->own_tiles) {
    int64_t groups = ct_div_up(ct_div_up(t->count, OWN_GROUP), t->threads) * t->threads;
    t->deep = t->from;
    t->group = ct_div_up(t->count, groups);
    t->once = ct_least(t->group, OWN_ONCE);
  } else {
    t->deep = ct_least(t->from, DEEP / t->lanes);
    t->group = t->once = ct_least(t->count, GROUP / t->lanes);
    /* balance the threads, unless each has many panels anyway */
    t->parts = t->panels >= 4 * t->threads ? 1 : t->threads / common_divisor(t->panels, t->threads);
    t->parts = ct_least(t->parts, ct_div_up(t->group, t->tiles->rows[VECS]));
  }
}

static int prepare_conv(const cpu__job_t *job, cpu__ready_t *out)
{
  conv_t shape, *t;
  set_shape(&shape, job);
  plan(&shape);
  set_sizes(&shape);
  t = out->own =
      ct_mem_alloc(sizeof *t + (size_t)(3 * shape.deep) * sizeof(int64_t), "convolution");
  if (!t) return CT_ERR_NOMEM;
  *t = shape;
  t->v_block = (int64_t *)(t + 1);
  t->u_block = t->v_block + t->deep;
  for (int64_t i = 0; i < t->deep; i++) {
    t->v_block[i] = i * t->group * t->lanes;
    for (int vecs = 1; vecs <= VECS; vecs++)
      t->u_block[(vecs - 1) * t->deep + i] = i * t->lanes * vecs * t->lanes;
  }
  int64_t common = t->to * t->lanes + (t->own_tiles ? t->panels * t->u_size : t->v_size);
  int64_t own = t->m_size + (t->own_tiles ? t->v_size : t->u_size);
  out->scratch = (size_t)(common + t->threads * own) * sizeof(float);
  return CT_OK;
}

/* ---- entries of the algorithm table ---------------------------------------------------------- */

static int fits(const ct_op_desc_t *d)
{
  int fit = d->x.ndim == 4 && d->u.conv.groups == 1;
  for (int i = 0; fit && i < 2; i++)
    fit = d->u.conv.kernel[i] == 3 && d->u.conv.stride[i] == 1 && d->u.conv.dilate[i] == 1 &&
          d->u.conv.pad[i] <= 2;
  return fit;
}

/* Returns the cost of a pass.  The GEMM runs at full speed; the constants, which are measured, are
 * the multiply-adds that transforming one channel of a tile costs. */
static cpu__cost_t cost_of(const cpu__job_t *job)
{
  enum { INPUT = 300, OUTPUT = 240, WEIGHTS = 160 };
  conv_t t;
  set_shape(&t, job);
  double from = (double)(t.from * t.lanes), to = (double)(t.to * t.lanes);
  double tile = CPU__POSITIONS * from * to + INPUT * from + OUTPUT * to;
  return (cpu__cost_t){(double)t.count * tile, WEIGHTS * from * to};
}

static int winograd_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  ct_layout_t blocked = cpu__blocked(job->dev);
  double direct = ct_op_flops(d, job->pass) / 2;
  if (job->dev->conv_direct) return cpu__refuse(why, "switched off");
  if (d->x.dtype != CT_F32) return cpu__refuse(why, "for float32");
  if (!fits(d)) return cpu__refuse(why, "for dense kernels of 3x3, stride 1, padding up to 2");
  if (job->at.x != blocked || job->at.y != blocked)
    return cpu__refuse(why, "for blocks of channels as wide as a vector");
  *cost = job->pass == CT_BWD_PARAM ? cpu__winograd_gradient_cost(job) : cost_of(job);
  if (cost->each > direct) return cpu__refuse(why, "the direct algorithm is faster");
  return 1;
}

/* Returns the format of the weights: [output blocks][input blocks][3][3][input][output]. */
static int winograd_stored(const cpu__job_t *job, cpu__md_t **out)
{
  const int64_t dims[4] = {job->desc->y.dim[1], job->desc->x.dim[1], 3, 3};
  return cpu__md_new(4, dims, cpu__blocked(job->dev) == CT_C16 ? CPU__I16O16 : CPU__I8O8, out);
}

static int winograd_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  int rc =
      job->pass == CT_BWD_PARAM ? cpu__winograd_gradient_prepare(job, out) : prepare_conv(job, out);
  return rc == CT_OK ? winograd_stored(job, &out->w) : rc;
}

static int winograd_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const int *pass = ready->own;
  return *pass == CT_BWD_PARAM ? cpu__winograd_gradient_run(dev, ready, at)
                               : run_conv(ready->own, at);
}

static void winograd_clear(cpu__ready_t *ready)
{
  ct_mem_free(ready->own);
}

const cpu__algo_t cpu__conv_winograd = {.name = "winograd",
                                        .relu = 1,
                                        .add = 1,
                                        .can = winograd_can,
                                        .stored = winograd_stored,
                                        .prepare = winograd_prepare,
                                        .run = winograd_run,
                                        .clear = winograd_clear};
