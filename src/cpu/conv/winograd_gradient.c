/* Winograd gradient of the weights: x and dy are transformed, 36 GEMMs sum over the tiles, and the
 * sums are transformed back.
 *
 * Transforms are more than twice as large as their inputs, so they are made in chunks of tiles and
 * used while they are in the cache.  With few channels, each thread has its own tiles, chunks and
 * sums; the sums of the threads are added in order at the end.  With many channels the sums are
 * large: then all threads transform a chunk together, and each thread computes some units of the
 * sums.  A unit is up to 64 input channels by four vectors of output channels. */
#include "base/ct_int.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/conv/winograd.h"
#include "cpu/conv/winograd_loops.h"
#include "cpu/tile/tile.h"
#include <math.h>
#include <string.h>

enum {
  UNIT_IN = 64,  /* input channels of a unit */
  UNIT_VECS = 4, /* vectors of output channels of a unit */
  TILE_VECS = 2,
  APART_MAX = 5 << 17,      /* maximum floats of the sums if each thread has its own */
  CHUNK_APART = 96,         /* tiles of a thread's chunk: fewer make short GEMMs, more exceed the
                               caches */
  CHUNK_TOGETHER = 4 << 20, /* floats of both transforms of a chunk that threads share */
};

typedef struct gradient {
  int pass, apart;
  int threads;
  int parts;             /* parts of the tiles with separate sums: one per thread, or 1 */
  int lanes;             /* channels per block */
  int bias;              /* 1: computes the bias gradient */
  int64_t n;             /* images */
  int64_t biases;        /* output channels */
  int64_t blocks[2];     /* channel blocks of x and dy */
  int64_t h[2], w[2];    /* size of x and dy */
  int64_t top, left;     /* padding */
  int64_t rows, cols;    /* tiles of an image */
  int64_t tiles;         /* tiles of the batch */
  int64_t chunk;         /* maximum tiles of a chunk */
  int64_t group[2];      /* channels stored together in a transform of x or dy */
  int64_t groups[2];     /* number of groups in a transform of x or dy */
  int64_t position[2];   /* stride between positions of a transform in floats */
  int64_t unit;          /* floats of a unit's sums */
  int64_t unit_position; /* floats of one position of a unit's sums */
  int64_t transforms;    /* floats of both transforms of a chunk */
  int64_t sums;          /* floats of a part's sums */
  const cpu__winograd_loops_t *loops;
  const cpu__tiles_t *micro;
} gradient_t;

/* A range of tiles. */
typedef struct range {
  int64_t first, end;
} range_t;

static range_t winograd_gradient_share(range_t of, int parts, int k)
{
  int64_t count = of.end - of.first;
  return (range_t){of.first + count * k / parts, of.first + count * (k + 1) / parts};
}

/* ---- sizes ---- */

static int64_t units(const gradient_t *t)
{
  return t->groups[0] * t->groups[1];
}

static void set_chunk(gradient_t *t, int64_t tiles)
{
  t->chunk = tiles;
  t->transforms = 0;
  for (int i = 0; i < 2; i++) {
    t->position[i] = cpu__winograd_apart(t->groups[i] * tiles * t->group[i]);
    t->transforms += CPU__POSITIONS * t->position[i];
  }
}

static void set_units(gradient_t *t, int64_t in)
{
  t->group[0] = ct_least(in, t->blocks[0] * t->lanes);
  t->group[1] = UNIT_VECS * t->lanes;
  for (int i = 0; i < 2; i++)
    t->groups[i] = ct_div_up(t->blocks[i] * t->lanes, t->group[i]);
  t->unit_position = cpu__winograd_apart(t->group[0] * t->group[1]);
  t->unit = CPU__POSITIONS * t->unit_position;
  t->sums = units(t) * t->unit;
}

static void choose_sizes(gradient_t *t)
{
  set_units(t, UNIT_IN);
  int64_t each = CPU__POSITIONS * (t->blocks[0] + t->blocks[1]) * t->lanes;
  t->apart = t->sums <= APART_MAX;
  if (t->apart) {
    t->parts = (int)ct_least(t->threads, t->tiles);
    set_chunk(t, ct_least(ct_div_up(t->tiles, t->parts), CHUNK_APART));
    return;
  }
  t->parts = 1;
  for (int64_t in = UNIT_IN; units(t) < t->threads && in > t->lanes; in /= 2)
    set_units(t, in / 2);
  int64_t most = CHUNK_TOGETHER / each, chunks = ct_div_up(t->tiles, most > 1 ? most : 1);
  if (t->tiles * each <= t->sums)
    chunks = 1; /* takes no more memory than the sums of several
                                                 chunks */
  set_chunk(t, ct_div_up(t->tiles, chunks));
  if (chunks == 1) t->sums = t->threads * t->unit;
}

/* Returns the cost, fitted on Zen 5.  GEMMs run at about 80% of the peak rate, transforming a tile
 * costs as much as 10 more channels, and the constant cost is that of transforming the sums. */
cpu__cost_t cpu__winograd_gradient_cost(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  double lanes = cpu__lanes(job->at.x);
  double in = lanes * ceil((double)d->x.dim[1] / lanes);
  double out = lanes * ceil((double)d->y.dim[1] / lanes);
  double tiles = (double)d->y.dim[0] * ceil((double)d->y.dim[2] / CPU__TILE) *
                 ceil((double)d->y.dim[3] / CPU__TILE);
  double macs = CPU__POSITIONS * in * out;
  return (cpu__cost_t){1.3 * tiles * macs * (1 + 10 / in + 10 / out), 30 * macs};
}

int cpu__winograd_gradient_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  const ct_op_desc_t *d = job->desc;
  const ct_shape_t *shape[2] = {&d->x, &d->y};
  gradient_t *t = out->own = ct_mem_alloc(sizeof *t, "convolution");
  if (!t) return CT_ERR_NOMEM;
  t->pass = job->pass;
  t->threads = job->dev->threads;
  t->loops = cpu__winograd_loops(job->dev);
  t->micro = cpu__tiles(job->dev);
  t->lanes = t->loops->width;
  t->bias = d->u.conv.bias;
  t->n = d->y.dim[0];
  t->biases = d->y.dim[1];
  for (int i = 0; i < 2; i++) {
    t->blocks[i] = ct_div_up(shape[i]->dim[1], t->lanes);
    t->h[i] = shape[i]->dim[2];
    t->w[i] = shape[i]->dim[3];
  }
  t->top = d->u.conv.pad[0];
  t->left = d->u.conv.pad[1];
  t->rows = ct_div_up(t->h[1], CPU__TILE);
  t->cols = ct_div_up(t->w[1], CPU__TILE);
  t->tiles = t->n * t->rows * t->cols;
  choose_sizes(t);
  out->scratch = (size_t)(t->parts * (t->transforms + t->sums)) * sizeof(float) +
                 (size_t)(t->threads * t->blocks[1] * t->lanes) * sizeof(double);
  return CT_OK;
}

/* ---- memory ---- */

typedef struct tensors {
  const float *from[2];     /* x and dy */
  float *transforms, *sums; /* for all parts */
  double *db;               /* [thread][output channel] */
  float *dw, *bias;
} tensors_t;

static tensors_t tensors_of(const gradient_t *t, void *const at[CPU__ROLES])
{
  tensors_t m = {.from = {at[CPU__X], at[CPU__Y]},
                 .transforms = at[CPU__SCRATCH],
                 .dw = at[CPU__W],
                 .bias = t->bias ? at[CPU__BIAS] : NULL};
  m.sums = m.transforms + t->parts * t->transforms;
  m.db = (double *)(void *)(m.sums + t->parts * t->sums);
  return m;
}

/* Returns the address of the column of channel c in the transform of x (i = 0) or dy (i = 1). */
static float *column(const gradient_t *t, float *transforms, int i, int64_t c)
{
  float *side = transforms + (i ? CPU__POSITIONS * t->position[0] : 0);
  return side + c / t->group[i] * t->chunk * t->group[i] + c % t->group[i];
}

/* ---- transforms ---- */

static void step(const gradient_t *t, cpu__tile_pos_t *p)
{
  if (++p->col < t->cols) return;
  p->col = 0;
  if (++p->row < t->rows) return;
  p->row = 0;
  p->image++;
}

/* Transforms channel block b of x (i = 0) or dy (i = 1), for the tiles r, into the rows of these
 * tiles in `to`. */
static void transform_block(const gradient_t *t, const float *from, int i, int64_t b, range_t r,
                            float *to, float *sums)
{
  enum { SIDE = CPU__TILE };
  cpu__tile_pos_t p = cpu__winograd_tile_pos(r.first, t->rows, t->cols);
  int64_t plane = t->h[i] * t->w[i] * t->lanes;
  for (int64_t k = r.first; k < r.end; k++, to += t->group[i], step(t, &p)) {
    cpu__plane_t image = {from + (p.image * t->blocks[i] + b) * plane, t->h[i], t->w[i]};
    if (i)
      t->loops->spread(&image, SIDE * p.row, SIDE * p.col, to, t->position[1], sums);
    else
      t->loops->input(&image, SIDE * p.row - t->top, SIDE * p.col - t->left, to, t->position[0]);
  }
}

/* Transforms tiles r, all of one image; first: first tile of their chunk; db: bias gradient,
 * accumulated. */
static void transform_some(const gradient_t *t, const tensors_t *m, range_t r, int64_t first,
                           float *transforms, double *db)
{
  for (int i = 0; i < 2; i++)
    for (int64_t b = 0; b < t->blocks[i]; b++) {
      float sums[16] = {0};
      float *to = column(t, transforms, i, b * t->lanes) + (r.first - first) * t->group[i];
      transform_block(t, m->from[i], i, b, r, to, i && m->bias ? sums : NULL);
      for (int c = 0; i && m->bias && c < t->lanes; c++)
        db[b * t->lanes + c] += (double)sums[c];
    }
}

/* Transforms tiles r image by image, in memory order. */
static void transform(const gradient_t *t, const tensors_t *m, range_t r, int64_t first,
                      float *transforms, double *db)
{
  int64_t image = t->rows * t->cols;
  for (int64_t k = r.first, end; k < r.end; k = end) {
    end = ct_least((k / image + 1) * image, r.end);
    transform_some(t, m, (range_t){k, end}, first, transforms, db);
  }
}

/* ---- GEMMs ---- */

/* Adds the contribution of `tiles` tiles of a chunk to unit u; add 0: overwrites. */
static void gemm(const gradient_t *t, float *transforms, int64_t u, int64_t tiles, int add,
                 float *sums)
{
  static const int64_t start[1];
  int64_t in = u / t->groups[1] * t->group[0], out = u % t->groups[1] * t->group[1];
  const float *a = column(t, transforms, 0, in), *b = column(t, transforms, 1, out);
  int64_t rows = ct_least(t->group[0], t->blocks[0] * t->lanes - in);
  int64_t vecs = ct_least(UNIT_VECS, t->blocks[1] - out / t->lanes);
  cpu__tile_t job = {.taps = 1,
                     .a_at = start,
                     .b_at = start,
                     .k = tiles,
                     .a_row = 1,
                     .a_k = t->group[0],
                     .b_k = t->group[1],
                     .b_vec = t->lanes,
                     .c_row = t->group[1],
                     .c_vec = t->lanes,
                     .lanes = t->lanes,
                     .add = add};
  for (int k = 0; k < CPU__POSITIONS; k++)
    for (int64_t v = 0; v < vecs; v += TILE_VECS) {
      int64_t wide = ct_least(TILE_VECS, vecs - v);
      int64_t most = ct_div_up(rows, ct_div_up(rows, t->micro->rows[wide]));
      for (int64_t i = 0; i < rows; i += most)
        t->micro->run[wide][ct_least(most, rows - i)](
            &job, a + k * t->position[0] + i, b + k * t->position[1] + v * t->lanes,
            sums + k * t->unit_position + i * t->group[1] + v * t->lanes);
    }
}

/* ---- results ---- */

/* Computes the weight gradient of unit u; sums: the unit's sums of the first part. */
static void finish_unit(const gradient_t *t, const tensors_t *m, int64_t u, const float *sums,
                        int parts)
{
  int64_t in = t->group[0] / t->lanes, first = u / t->groups[1] * in;
  int64_t end = ct_least(first + in, t->blocks[0]), out = u % t->groups[1] * UNIT_VECS;
  cpu__gathered_t g = {
      .part = t->sums, .position = t->unit_position, .row = t->group[1], .parts = parts};
  for (int64_t o = out; o < ct_least(out + UNIT_VECS, t->blocks[1]); o++)
    for (int64_t i = first; i < end; i++) {
      g.u = sums + (i - first) * t->lanes * t->group[1] + (o - out) * t->lanes;
      t->loops->gather(&g, m->dw + (o * t->blocks[0] + i) * 9 * t->lanes * t->lanes);
    }
}

static void finish_bias(const gradient_t *t, const tensors_t *m, int64_t channels)
{
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0;
    for (int k = 0; k < t->threads; k++)
      sum += m->db[k * t->blocks[1] * t->lanes + c];
    m->bias[c] = (float)sum;
  }
}

/* ---- running ---- */

/* Sums part k of the tiles, chunk by chunk, into the part's own sums. */
static void sum_part(const gradient_t *t, const tensors_t *m, int k)
{
  range_t all = winograd_gradient_share((range_t){0, t->tiles}, t->parts, k);
  float *transforms = m->transforms + k * t->transforms, *sums = m->sums + k * t->sums;
  for (int64_t first = all.first; first < all.end; first += t->chunk) {
    range_t r = {first, ct_least(first + t->chunk, all.end)};
    transform(t, m, r, first, transforms, m->db + k * t->blocks[1] * t->lanes);
    for (int64_t u = 0; u < units(t); u++)
      gemm(t, transforms, u, r.end - first, first > all.first, sums + u * t->unit);
  }
}

static void run_apart(const gradient_t *t, const tensors_t *m)
{
#pragma omp parallel
  {
#pragma omp for schedule(static, 1)
    for (int k = 0; k < t->parts; k++)
      sum_part(t, m, k);
#pragma omp for schedule(static)
    for (int64_t u = 0; u < units(t); u++)
      finish_unit(t, m, u, m->sums + u * t->unit, t->parts);
  }
}

/* Sums the units of thread k over a chunk.  With several chunks the sums of each unit stay in
 * memory; with one chunk the sums are transformed back immediately. */
static void sum_units(const gradient_t *t, const tensors_t *m, int k, range_t r)
{
  int alone = t->chunk == t->tiles;
  range_t own = winograd_gradient_share((range_t){0, units(t)}, t->threads, k);
  for (int64_t u = own.first; u < own.end; u++) {
    float *sums = m->sums + (alone ? k : u) * t->unit;
    gemm(t, m->transforms, u, r.end - r.first, r.first > 0, sums);
    if (r.end == t->tiles) finish_unit(t, m, u, sums, 1);
  }
}

static void run_together(const gradient_t *t, const tensors_t *m)
{
#pragma omp parallel
  for (int64_t first = 0; first < t->tiles; first += t->chunk) {
    range_t r = {first, ct_least(first + t->chunk, t->tiles)};
#pragma omp for schedule(static, 1)
    for (int k = 0; k < t->threads; k++)
      transform(t, m, winograd_gradient_share(r, t->threads, k), first, m->transforms,
                m->db + k * t->blocks[1] * t->lanes);
#pragma omp for schedule(static, 1)
    for (int k = 0; k < t->threads; k++)
      sum_units(t, m, k, r);
  }
}

int cpu__winograd_gradient_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const gradient_t *t = ready->own;
  tensors_t m = tensors_of(t, at);
  (void)dev;
  if (m.bias) memset(m.db, 0, (size_t)(t->threads * t->blocks[1] * t->lanes) * sizeof *m.db);
  if (t->apart)
    run_apart(t, &m);
  else
    run_together(t, &m);
  if (m.bias) finish_bias(t, &m, t->biases);
  return CT_OK;
}
