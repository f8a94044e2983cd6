/* Fully connected layers in bf16 with the processor's bf16 dot products (tile/bf16_dot.h).
 *
 * Forward and backward to data multiply the rows, unpacked, by weights that each run packs into
 * panels of 16 columns, [columns / 16][k / 2][16] pairs.  Backward to weights sums over the rows:
 * it packs x and dy in the same way, a few hundred rows at a time, so that the copies stay in the
 * caches.  Each element is summed in the order of k, for any number of threads. */
#include "cpu/kinds.h"
#include "cpu/kern/loops.h"
#include "cpu/gemm/algorithm.h"
#include "cpu/tile/bf16_dot.h"
#include "cpu/tile/gemm_tiled.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <omp.h>
#include <string.h>

enum {
  LANES = 16,
  COLUMNS = 128, /* columns of a result block: its panels stay in the L2 cache */
  ROWS = 56,     /* rows of a result block: whole tiles */
  DEPTH = 256    /* rows that backward to weights packs at a time */
};

typedef struct linear {
  const cpu__tiles_t *tiles;
  int pass, bias, relu, threads;
  int64_t rows, in, out;
  size_t bias_at,
      own_at; /* offsets in scratch, after the panels: bias; accumulators of each thread */
} linear_t;

static int64_t panels(int64_t columns)
{
  return (columns + LANES - 1) / LANES;
}

static int linear_bf16_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  int64_t k = job->pass == CT_FWD ? d->x.dim[1] : d->y.dim[1];
  if (d->x.dtype != CT_BF16) return cpu__refuse(why, "another type of activations");
  if (!cpu__bf16_dot_tiles(job->dev))
    return cpu__refuse(why, "the processor has no bfloat16 dot products");
  if (job->pass != CT_BWD_PARAM && k % 2) return cpu__refuse(why, "an odd number of features");
  /* oneDNN can use AMX */
  *cost = (cpu__cost_t){ct_op_flops(d, job->pass) / 2 * (job->dev->bf16_rate > 2 ? 2 : 0.8), 0};
  return 1;
}

static int linear_bf16_stored(const cpu__job_t *job, cpu__md_t **out)
{
  return cpu__md_new(2, (int64_t[]){job->desc->y.dim[1], job->desc->x.dim[1]}, CT_PLAIN, out);
}

static size_t panel_bytes(int64_t columns, int64_t pairs)
{
  return (size_t)(panels(columns) * pairs * LANES) * sizeof(uint32_t);
}

static int linear_bf16_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  const ct_op_desc_t *d = job->desc;
  linear_t *l = out->own = ct_mem_alloc(sizeof *l, "linear");
  if (!l) return CT_ERR_NOMEM;
  *l = (linear_t){.tiles = cpu__bf16_dot_tiles(job->dev),
                  .pass = job->pass,
                  .bias = job->desc->u.linear.bias,
                  .relu = d->u.linear.relu,
                  .threads = job->dev->threads,
                  .rows = d->x.dim[0],
                  .in = d->x.dim[1],
                  .out = d->y.dim[1]};
  int64_t pairs = (l->rows < DEPTH ? l->rows + 1 : DEPTH) / 2;
  size_t own = ROWS * COLUMNS * sizeof(float);
  if (job->pass == CT_FWD) l->bias_at = panel_bytes(l->out, l->in / 2);
  if (job->pass == CT_BWD_DATA) l->bias_at = panel_bytes(l->in, l->out / 2);
  if (job->pass == CT_BWD_PARAM)
    l->bias_at = panel_bytes(l->in, pairs) + panel_bytes(l->out, pairs);
  l->own_at = l->bias_at + panel_bytes(l->out, 1);
  out->scratch = l->own_at + (size_t)l->threads * own;
  return linear_bf16_stored(job, &out->w);
}

static void linear_bf16_clear(cpu__ready_t *ready)
{
  ct_mem_free(ready->own);
}

/* ---- forward, and backward to data ----------------------------------------------------------- */

/* Packs panel p of the transposed weights: 16 outputs; buffer: owned by the thread. */
static void pack_outputs(const ct_dev_t *dev, const linear_t *l, const float *w, int64_t p,
                         uint32_t *panel, uint16_t *buffer)
{
  int64_t n = l->out - p * LANES < LANES ? l->out - p * LANES : LANES;
  enum { PIECE = 2 * COLUMNS };
  for (int64_t i = 0; i < l->in; i += PIECE) {
    int64_t width = l->in - i < PIECE ? l->in - i : PIECE;
    for (int64_t j = 0; j < n; j++)
      cpu__loops(dev, CT_BF16)
          ->from_floats(width, w + (p * LANES + j) * l->in + i, buffer + j * width, 0, 0);
    l->tiles->transpose(n, width / 2, (const float *)(const void *)buffer, width / 2,
                        (float *)(void *)(panel + i / 2 * LANES), LANES);
  }
}

static void pack_weights(const ct_dev_t *dev, const linear_t *l, const float *w, char *scratch)
{
  uint32_t *packed = (uint32_t *)(void *)scratch;
  int64_t size = (l->pass == CT_FWD ? l->in : l->out) / 2 * LANES;
  if (l->pass == CT_FWD) {
#pragma omp for schedule(static)
    for (int64_t p = 0; p < panels(l->out); p++)
      pack_outputs(dev, l, w, p, packed + p * size,
                   (uint16_t *)(void *)(scratch + l->own_at +
                                        (size_t)omp_get_thread_num() * ROWS * COLUMNS * 4));
  } else {
#pragma omp for schedule(static)
    for (int64_t k = 0; k < l->out / 2; k++)
      cpu__interleave_floats(l->in, w + 2 * k * l->in, w + (2 * k + 1) * l->in, packed + k * LANES,
                             size);
  }
}

/* Computes the ROWS x COLUMNS block of the result at (row, column); sums: the thread's
 * accumulators. */
static void gemm_block(const ct_dev_t *dev, const linear_t *l, const uint16_t *a,
                       const char *scratch, uint16_t *c, int64_t row, int64_t column, float *sums)
{
  int forward = l->pass == CT_FWD;
  int64_t k = forward ? l->in : l->out, columns = forward ? l->out : l->in;
  int64_t height = l->rows - row < ROWS ? l->rows - row : ROWS;
  int64_t width = columns - column < COLUMNS ? columns - column : COLUMNS;
  static const int64_t start[1] = {0};
  cpu__tile_t t = {.taps = 1,
                   .a_at = start,
                   .b_at = start,
                   .k = k / 2,
                   .a_row = k / 2,
                   .a_k = 1,
                   .b_k = LANES,
                   .b_vec = k / 2 * LANES,
                   .c_row = COLUMNS,
                   .c_vec = LANES};
  if (forward) t.bias = (const float *)(const void *)(scratch + l->bias_at) + column;
  cpu__gemm_tiles(l->tiles, &t, height, width, (const float *)(const void *)(a + row * k),
                  (const float *)(const void *)scratch + column * (k / 2), sums);
  for (int64_t i = 0; i < height; i++)
    cpu__loops(dev, CT_BF16)
        ->from_floats(width, sums + i * COLUMNS, c + (row + i) * columns + column,
                      forward && l->relu, 0);
}

/* Computes c = a * the packed weights; forward also adds the bias, which may be NULL. */
static void gemm_rows(const ct_dev_t *dev, const linear_t *l, const uint16_t *a, const float *w,
                      const float *bias, uint16_t *c, char *scratch)
{
  int64_t columns = l->pass == CT_FWD ? l->out : l->in;
  int64_t across = (columns + COLUMNS - 1) / COLUMNS, down = (l->rows + ROWS - 1) / ROWS;
  memset(scratch + l->bias_at, 0, panel_bytes(l->out, 1));
  if (bias) memcpy(scratch + l->bias_at, bias, (size_t)l->out * sizeof *bias);
#pragma omp parallel
  {
    pack_weights(dev, l, w, scratch);
    float *sums = (float *)(void *)(scratch + l->own_at) + omp_get_thread_num() * ROWS * COLUMNS;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < across * down; i++)
      gemm_block(dev, l, a, scratch, c, i % down * ROWS, i / down * COLUMNS, sums);
  }
}

/* ---- backward to weights --------------------------------------------------------------------- */

/* Computes COLUMNS columns of 16 rows of dw. */
static void gemm_panel(const linear_t *l, int64_t p, int64_t column, int64_t pairs, int add,
                       const uint32_t *x, const uint32_t *dy, float *dw)
{
  static const int64_t start[1] = {0};
  cpu__tile_t t = {.taps = 1,
                   .a_at = start,
                   .b_at = start,
                   .k = pairs,
                   .a_row = 1,
                   .a_k = LANES,
                   .b_k = LANES,
                   .b_vec = pairs * LANES,
                   .c_row = l->in,
                   .c_vec = LANES,
                   .add = add};
  int64_t height = l->out - p * LANES < LANES ? l->out - p * LANES : LANES;
  int64_t width = l->in - column < COLUMNS ? l->in - column : COLUMNS;
  cpu__gemm_tiles(
      l->tiles, &t, height, width, (const float *)(const void *)(dy + p * pairs * LANES),
      (const float *)(const void *)(x + column * pairs), dw + p * LANES * l->in + column);
}

/* Sums up some columns of dy, in double and in the order of the rows. */
static void sum_columns(const ct_dev_t *dev, const linear_t *l, const uint16_t *dy, int64_t column,
                        int add, float *db)
{
  float row[COLUMNS];
  double sums[COLUMNS] = {0};
  int64_t width = l->out - column < COLUMNS ? l->out - column : COLUMNS;
  for (int64_t r = 0; r < l->rows; r++) {
    cpu__loops(dev, CT_BF16)->to_floats(width, dy + r * l->out + column, row);
    for (int64_t j = 0; j < width; j++)
      sums[j] += row[j];
  }
  for (int64_t j = 0; j < width; j++)
    db[column + j] = (float)(sums[j] + (add ? db[column + j] : 0));
}

static void weights_gradient(const ct_dev_t *dev, const linear_t *l, const uint16_t *x,
                             const uint16_t *dy, int add, float *dw, float *db, char *scratch)
{
  int64_t across = (l->in + COLUMNS - 1) / COLUMNS;
#pragma omp parallel
  {
    for (int64_t first = 0; first < l->rows; first += DEPTH) {
      int64_t rows = l->rows - first < DEPTH ? l->rows - first : DEPTH, pairs = (rows + 1) / 2;
      uint32_t *px = (uint32_t *)(void *)scratch;
      uint32_t *pdy = px + panels(l->in) * pairs * LANES;
#pragma omp for schedule(static)
      for (int64_t k = 0; k < pairs; k++) {
        int64_t r = first + 2 * k;
        int both = 2 * k + 1 < rows;
        const uint16_t *of_x = x + r * l->in, *of_dy = dy + r * l->out;
        cpu__interleave_rows(l->in, of_x, both ? of_x + l->in : NULL, px + k * LANES,
                             pairs * LANES);
        cpu__interleave_rows(l->out, of_dy, both ? of_dy + l->out : NULL, pdy + k * LANES,
                             pairs * LANES);
      }
#pragma omp for schedule(static)
      for (int64_t i = 0; i < panels(l->out) * across; i++)
        gemm_panel(l, i % panels(l->out), i / panels(l->out) * COLUMNS, pairs, first > 0 || add, px,
                   pdy, dw);
    }
#pragma omp for schedule(static)
    for (int64_t column = 0; column < (db ? l->out : 0); column += COLUMNS)
      sum_columns(dev, l, dy, column, add, db);
  }
}

static int linear_bf16_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const linear_t *l = ready->own;
  void *bias = l->bias ? at[CPU__BIAS] : NULL;
  if (l->pass == CT_FWD)
    gemm_rows(dev, l, at[CPU__X], at[CPU__W], bias, at[CPU__Y], at[CPU__SCRATCH]);
  else if (l->pass == CT_BWD_DATA)
    gemm_rows(dev, l, at[CPU__Y], at[CPU__W], NULL, at[CPU__X], at[CPU__SCRATCH]);
  else
    weights_gradient(dev, l, at[CPU__X], at[CPU__Y], 0, at[CPU__W], bias, at[CPU__SCRATCH]);
  return CT_OK;
}

static int linear_bf16_run_adding(ct_dev_t *dev, const cpu__ready_t *ready,
                                  void *const at[CPU__ROLES])
{
  const linear_t *l = ready->own;
  weights_gradient(dev, l, at[CPU__X], at[CPU__Y], 1, at[CPU__W], l->bias ? at[CPU__BIAS] : NULL,
                   at[CPU__SCRATCH]);
  return CT_OK;
}

const cpu__algo_t cpu__linear_bf16 = {.name = "bf16 pairs",
                                      .relu = 1,
                                      .can = linear_bf16_can,
                                      .stored = linear_bf16_stored,
                                      .prepare = linear_bf16_prepare,
                                      .run = linear_bf16_run,
                                      .run_adding = linear_bf16_run_adding,
                                      .clear = linear_bf16_clear};
