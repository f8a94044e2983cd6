/* Gradients of W_ih and W_hh of LSTM and GRU.
 *
 * Both are computed together and transposed: inputs x gates.  Then the gradients of the gates, the
 * large operand, are the vectors of the micro-kernel and are read as they were stored, once for
 * both; only the inputs are packed.  A group of gates stays in the L1 cache while the panels of
 * inputs, packed for some rows, stream from the L2 cache.  The bias is the weight of one more
 * input, which is 1. */
#include "base/ct_int.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/rnn.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* Maximum panels packed at a time, and their floats: 768 KB. */
enum { PANELS = 64, PACKED = PANELS * CPU__PANEL * 192 };
enum { VECS = 2 }; /* vectors of a group */

/* A panel of up to 16 inputs. */
typedef struct panel {
  const cpu__rnn_grad_t *g;
  int64_t first, lanes, inputs; /* inputs: with that of the bias */
} panel_t;

/* Some rows of a block. */
typedef struct rows {
  int64_t t0, steps, first, count;
} rows_t;

/* A thread's part of the result: panels p0 to p1 and groups g0 to g1. */
typedef struct part {
  int64_t p0, p1, g0, g1;
} part_t;

static int64_t group_floats(const cpu__rnn_t *k)
{
  return VECS * k->tiles->width;
}

static int64_t group_count(const cpu__rnn_t *k)
{
  return ct_div_up(k->wide, group_floats(k));
}

int64_t cpu__rnn_panels(const cpu__rnn_t *k)
{
  return k->n * k->t * group_count(k) * group_floats(k);
}

int64_t cpu__rnn_turned(const cpu__rnn_t *k, int64_t in)
{
  return (in + 1) * group_count(k) * group_floats(k);
}

void cpu__rnn_pack_rows(const cpu__rnn_t *k, cpu__rnn_part_t p, const float *rows, float *panels)
{
  int64_t columns = group_count(k) * group_floats(k), begin = p.first * p.steps;
  cpu__pack_t pack = {.k = p.n * p.steps, .k_step = k->row, .k16 = 16 * k->row, .lane = 1};
  panels += p.t0 * k->n * columns + begin * CPU__PANEL;
  for (int64_t j = 0; j < columns; j += CPU__PANEL) {
    pack.lanes = j < k->wide ? (int)ct_least(k->wide - j, CPU__PANEL) : 0;
    k->tiles->pack(&pack, rows + j, panels + j * p.steps * k->n);
  }
}

/* ---- panels of inputs ---- */

static int64_t inputs_of(const cpu__rnn_grad_t *g)
{
  return g->in + (g->db != NULL);
}

static int64_t panel_count(const cpu__rnn_t *k, const cpu__rnn_grad_t *g)
{
  return ct_div_up(inputs_of(g), ct_least(k->tiles->rows[VECS], CPU__PANEL));
}

static panel_t panel_of(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2], int64_t i)
{
  int64_t before = panel_count(k, g);
  if (i >= before) {
    i -= before;
    g++;
  }
  int64_t count = panel_count(k, g), inputs = inputs_of(g), first = inputs * i / count;
  return (panel_t){g, first, inputs * (i + 1) / count - first, inputs};
}

/* Returns the inputs of a sample's step; NULL: they are 0. */
static const float *inputs_at(const cpu__rnn_t *k, const cpu__rnn_grad_t *g, int64_t sample,
                              int64_t step)
{
  if (step < g->delay) return NULL;
  return g->from + (sample * k->t + cpu__rnn_place(k, step - g->delay)) * g->in;
}

/* Packs the inputs of one row. */
static void pack_row(const panel_t *p, const float *from, float *to)
{
  int64_t there = p->g->in - p->first;
  if (!from)
    memset(to, 0, CPU__PANEL * sizeof *to);
  else if (there >= CPU__PANEL)
    memcpy(to, from + p->first, CPU__PANEL * sizeof *to);
  else if (there > 0)
    memcpy(to, from + p->first, (size_t)there * sizeof *to);
  if (there < p->lanes) to[there] = 1;
}

static void pack_inputs(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2], const rows_t *r,
                        const panel_t *panel, int64_t panels, float *packed)
{
  for (int64_t i = 0; i < r->count; i++) {
    int64_t sample = (r->first + i) / r->steps, step = r->t0 + (r->first + i) % r->steps;
    const float *from[2] = {inputs_at(k, g, sample, step), inputs_at(k, g + 1, sample, step)};
    for (int64_t p = 0; p < panels; p++)
      pack_row(panel + p, from[panel[p].g - g], packed + (p * r->count + i) * CPU__PANEL);
  }
}

/* ---- GEMM ---- */

/* Prefetches part i of n of some floats.  Always inlined: gcc would remove a call to a function
 * that only prefetches. */
static inline __attribute__((always_inline)) void fetch(const float *from, int64_t floats,
                                                        int64_t i, int64_t n)
{
  for (int64_t j = floats * i / n; j < floats * (i + 1) / n; j += 16)
    __builtin_prefetch(from + j, 0, 3);
}

/* Returns the panels of a group in some rows. */
static const float *group_at(const cpu__rnn_t *k, const float *panels, const rows_t *r, int64_t i)
{
  int64_t floats = group_floats(k);
  return panels + r->t0 * k->n * group_count(k) * floats + i * floats * r->steps * k->n +
         r->first * CPU__PANEL;
}

/* Multiplies packed panels of inputs by the groups of a part. */
static void multiply(const cpu__rnn_t *k, const rows_t *r, const panel_t *panel, int64_t panels,
                     const part_t *part, const float *packed)
{
  static const int64_t start[1] = {0};
  int width = k->tiles->width;
  int64_t wide = group_floats(k), apart = r->steps * k->n * CPU__PANEL;
  cpu__tile_t t = {.taps = 1, .a_at = start, .b_at = start, .k = r->count, .lanes = width};
  t.a_row = 1;
  t.a_k = t.b_k = CPU__PANEL;
  t.b_vec = width == CPU__PANEL ? apart : width;
  t.c_row = wide;
  t.c_vec = width;
  t.add = r->t0 > 0 || r->first > 0;
  for (int64_t i = part->g0; i < part->g1; i++)
    for (int64_t p = 0; p < panels; p++) {
      const panel_t *at = panel + p;
      const float *gates = group_at(k, at->g->panels, r, i);
      const float *next = group_at(k, panel->g->panels, r, i + 1);
      for (int64_t v = 0; v < wide && i + 1 < part->g1; v += CPU__PANEL)
        fetch(next + v / CPU__PANEL * apart, r->count * CPU__PANEL, p, panels);
      k->tiles->run[VECS][at->lanes](&t, packed + p * r->count * CPU__PANEL, gates,
                                     at->g->turned + (i * at->inputs + at->first) * wide);
    }
}

/* Runs all rows for some panels. */
static void run_panels(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2], const part_t *part,
                       float *packed)
{
  panel_t panel[PANELS];
  int64_t panels = part->p1 - part->p0;
  for (int64_t p = 0; p < panels; p++)
    panel[p] = panel_of(k, g, part->p0 + p);
  for (int64_t t0 = 0; t0 < k->t; t0 += k->steps) {
    int64_t steps = ct_least(k->steps, k->t - t0), rows = steps * k->n;
    int64_t count = ct_div_up(rows, k->depth);
    for (int64_t i = 0; i < count; i++) {
      int64_t first = rows * i / count;
      rows_t r = {
          .t0 = t0, .steps = steps, .first = first, .count = rows * (i + 1) / count - first};
      pack_inputs(k, g, &r, panel, panels, packed);
      multiply(k, &r, panel, panels, part, packed);
    }
  }
}

/* ---- result ---- */

/* Transposes a group of a panel, which here may have any 16 inputs, into dw and db. */
static void turn(const cpu__rnn_t *k, panel_t p, int64_t group)
{
  float columns[VECS * CPU__PANEL * CPU__PANEL];
  const cpu__rnn_grad_t *g = p.g;
  int64_t wide = group_floats(k), first = group * wide, there = ct_least(wide, k->wide - first);
  int64_t inputs = ct_least(p.lanes, g->in - p.first);
  k->tiles->transpose(p.lanes, wide, g->turned + (group * p.inputs + p.first) * wide, wide, columns,
                      CPU__PANEL);
  for (int64_t j = 0; j < there; j++) {
    const float *from = columns + j * CPU__PANEL;
    memcpy(g->dw + (first + j) * g->in + p.first, from, (size_t)inputs * sizeof *from);
    if (inputs < p.lanes) g->db[first + j] = from[inputs];
  }
}

/* Transposes the result of panels p0 to p1 of the same gradient. */
static void turn_panels(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2], int64_t p0, int64_t p1,
                        const part_t *part)
{
  if (p0 >= p1) return;
  panel_t first = panel_of(k, g, p0), last = panel_of(k, g, p1 - 1), some = first;
  int64_t end = last.first + last.lanes;
  for (; some.first < end; some.first += CPU__PANEL) {
    some.lanes = ct_least(CPU__PANEL, end - some.first);
    for (int64_t i = part->g0; i < part->g1; i++)
      turn(k, some, i);
  }
}

static void run_part(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2], const part_t *part,
                     float *packed)
{
  int64_t most = ct_least(PANELS, PACKED / CPU__PANEL / k->depth);
  for (int64_t p = part->p0; p < part->p1; p += most) {
    part_t some = *part;
    some.p0 = p;
    some.p1 = ct_least(part->p1, p + most);
    run_panels(k, g, &some, packed);
  }
  int64_t second = panel_count(k, g);
  turn_panels(k, g, part->p0, ct_least(part->p1, second), part);
  turn_panels(k, g, part->p0 > second ? part->p0 : second, part->p1, part);
}

/* Returns the number of threads along the panels.  In units of a tile's time, packing takes 2 per
 * panel, and loading a group takes 0.4. */
static int along_panels(int64_t panels, int64_t groups, int threads)
{
  double least = INFINITY;
  int best = 1;
  for (int along = 1; along <= threads; along++) {
    double p = (double)ct_div_up(panels, along), g = (double)ct_div_up(groups, threads / along);
    if (p * g + 2 * p + 0.4 * g >= least) continue;
    least = p * g + 2 * p + 0.4 * g;
    best = along;
  }
  return best;
}

/* Sets the gradients of a batch without samples. */
static void clear(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2])
{
  for (int i = 0; i < 2; i++) {
    memset(g[i].dw, 0, (size_t)(k->wide * g[i].in) * sizeof(float));
    if (g[i].db) memset(g[i].db, 0, (size_t)k->wide * sizeof(float));
  }
}

void cpu__rnn_weights(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2])
{
  const ct_dev_t *dev = k->head.dev;
  int64_t panels = panel_count(k, g) + panel_count(k, g + 1), groups = group_count(k);
  int parallel = k->n * k->t * k->h > CPU__PARALLEL_MIN;
  int along = parallel ? along_panels(panels, groups, dev->threads) : 1;
  int across = parallel ? dev->threads / along : 1;
  size_t workspace = cpu__gemm_workspace() / sizeof(float);
  if (k->n == 0) {
    clear(k, g);
    return;
  }

#pragma omp parallel for if (parallel) schedule(static)
  for (int i = 0; i < along * across; i++) {
    int64_t row = i / across, col = i % across;
    part_t part = {.p0 = panels * row / along, .p1 = panels * (row + 1) / along};
    part.g0 = groups * col / across;
    part.g1 = groups * (col + 1) / across;
    run_part(k, g, &part, dev->packing + (size_t)omp_get_thread_num() * workspace);
  }
}
