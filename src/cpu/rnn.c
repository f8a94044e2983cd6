/* Common parts of LSTM and GRU: blocks of steps, and the GEMMs of their inputs. */
#include "cpu/rnn.h"
#include "base/ct_int.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/tile/gemm_tiled.h"
#include <string.h>

/* Maximum rows of a block: gates of 4 x 256 then take 800 KB, which fit the L2 caches of two
 * threads beside the packed weights.  Large weights (in floats) do not fit: they are read, and
 * their gradients written, once per block, so that a block has more rows. */
enum { ROWS = 192, ROWS_OF_LARGE = 512, LARGE = 1 << 20 };

void cpu__rnn_prepare(cpu__rnn_t *k, int gates)
{
  const ct_op_desc_t *d = &k->head.desc;
  k->loops = cpu__loops(k->head.dev, CT_F32);
  k->tiles = cpu__tiles(k->head.dev);
  k->n = d->x.dim[0];
  k->t = d->x.dim[1];
  k->f = d->x.dim[2];
  k->h = d->y.dim[2];
  k->wide = gates * k->h;
  k->row = cpu__rnn_padded(k->wide);
  k->depth = k->wide * (k->f + k->h) > LARGE ? ROWS_OF_LARGE : ROWS;
  k->steps = ct_least(k->t, k->n > 0 && k->n < k->depth ? k->depth / k->n : 1);
  k->reverse = d->u.rnn.reverse;
  k->bias = !d->u.rnn.no_bias;
}

/* Runs all blocks for some samples. */
static void run_samples(const cpu__rnn_t *k, int back, cpu__rnn_run_t *run, const void *buffers,
                        const ct_op_args_t *a, int64_t first, int64_t n)
{
  int64_t blocks = ct_div_up(k->t, k->steps);
  for (int64_t i = 0; i < blocks; i++) {
    int64_t t0 = (back ? blocks - 1 - i : i) * k->steps;
    cpu__rnn_part_t p = {.t0 = t0, .steps = ct_least(k->steps, k->t - t0), .first = first, .n = n};
    run(k, buffers, a, p);
  }
}

void cpu__rnn_blocks(const cpu__rnn_t *k, int back, cpu__rnn_run_t *run, const void *buffers,
                     const ct_op_args_t *a)
{
  int chunks = (int)ct_least(k->n, k->head.dev->threads);

#pragma omp parallel for if (k->n * k->t * k->h > CPU__PARALLEL_MIN) schedule(static)
  for (int i = 0; i < chunks; i++) {
    int64_t first = k->n * i / chunks;
    run_samples(k, back, run, buffers, a, first, k->n * (i + 1) / chunks - first);
  }
}

/* ---- weights ---- */

int64_t cpu__rnn_packed(const cpu__rnn_t *k, int back, int64_t in)
{
  return back ? cpu__gemm_tiled_packed(k->tiles, k->wide, in)
              : cpu__gemm_tiled_packed(k->tiles, in, k->wide);
}

/* Packs one vector of columns. */
static void pack_vector(const cpu__rnn_t *k, int back, const float *w, int64_t in, int64_t j,
                        float *packed)
{
  int64_t width = k->tiles->width;
  if (back)
    cpu__gemm_tiled_pack(k->tiles, k->wide, ct_least(in - j, width), w + j, in,
                         packed + j * k->wide);
  else
    cpu__gemm_tiled_pack_transposed(k->tiles, in, ct_least(k->wide - j, width), w + j * in, in,
                                    packed + j * in);
}

void cpu__rnn_pack_weights(const cpu__rnn_t *k, int back, void *const w[2], float *const packed[2])
{
  const int64_t in[2] = {k->f, k->h};
  for (int i = 0; i < 2; i++) {
    if (!packed[i]) continue;
    int64_t columns = back ? in[i] : k->wide, width = k->tiles->width;

#pragma omp parallel for if (k->wide * in[i] > CPU__PARALLEL_MIN) schedule(static)
    for (int64_t j = 0; j < columns; j += width)
      pack_vector(k, back, w[i], in[i], j, packed[i]);
  }
}

/* ---- inputs ---- */

/* Returns the GEMM of padded rows with packed weights. */
static cpu__tile_t of_rows(const cpu__rnn_t *k, int64_t a_row, int64_t depth, int64_t c_row)
{
  static const int64_t start[1] = {0};
  int width = k->tiles->width;
  return (cpu__tile_t){.taps = 1,
                       .a_at = start,
                       .b_at = start,
                       .k = depth,
                       .a_row = a_row,
                       .a_k = 1,
                       .b_k = width,
                       .b_vec = depth * width,
                       .c_row = c_row,
                       .c_vec = width};
}

/* Multiplies rows by packed weights.  Rows of large depth do not fit the L2 cache. */
static void multiply(const cpu__rnn_t *k, const cpu__tile_t *t, int64_t rows, int64_t columns,
                     const float *a, const float *w, float *c)
{
  if (k->depth == ROWS || k->tiles->width != CPU__PANEL) {
    cpu__gemm_tiles(k->tiles, t, rows, columns, a, w, c);
    return;
  }
  cpu__gemm_t g = {.m = rows, .n = columns, .k = t->k, .bias = t->bias};
  g.a = cpu__row_major(a, t->a_row);
  g.b = cpu__panels(w, t->k);
  g.c = cpu__row_major(c, t->c_row);
  cpu__gemm_blocked(k->head.dev, &g);
}

/* Returns the first step of a sample's rows in x, where they are in order of place. */
static int64_t in_sequence(const cpu__rnn_t *k, int64_t sample, int64_t step)
{
  return (sample * k->t + cpu__rnn_place(k, step)) * k->f;
}

void cpu__rnn_inputs(const cpu__rnn_t *k, cpu__rnn_part_t p, const float *x, const float *w_ih,
                     const float *bias, float *copy, float *out)
{
  int64_t apart = cpu__rnn_padded(k->f);
  float *to = copy += cpu__rnn_begin(k, p) * apart;
  for (int64_t i = p.first; i < p.first + p.n; i++)
    for (int64_t s = 0; s < p.steps; s++, to += apart)
      memcpy(to, x + in_sequence(k, i, p.t0 + s), (size_t)k->f * sizeof *x);
  cpu__tile_t t = of_rows(k, apart, k->f, k->row);
  t.bias = bias;
  multiply(k, &t, p.n * p.steps, k->wide, copy, w_ih, out);
}

void cpu__rnn_data(const cpu__rnn_t *k, cpu__rnn_part_t p, const float *rows, const float *w_ih,
                   float *copy, float *dx)
{
  int64_t apart = cpu__rnn_padded(k->f);
  const float *from = copy += cpu__rnn_begin(k, p) * apart;
  cpu__tile_t t = of_rows(k, k->row, k->wide, apart);
  multiply(k, &t, p.n * p.steps, k->f, rows, w_ih, copy);
  for (int64_t i = p.first; i < p.first + p.n; i++)
    for (int64_t s = 0; s < p.steps; s++, from += apart)
      memcpy(dx + in_sequence(k, i, p.t0 + s), from, (size_t)k->f * sizeof *dx);
}
