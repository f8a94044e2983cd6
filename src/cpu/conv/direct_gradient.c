/* Direct convolution: the gradients of weights and bias.
 *
 * Here a tile covers some channels of x and some blocks of y, for one kernel position, and sums
 * over positions of y.  With a plain x, positions along a kernel row take the place of channels.
 * An item is a part of the weights that stays in the L2 cache while rows of x and y stream past.
 * If there are few items, the rows are also divided into a fixed number of shares, whose sums are
 * added in order. */
#include "cpu/conv/direct.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <string.h>

/* Positions lo to hi of a row of y that meet the given kernel positions. */
typedef struct span {
  int64_t lo, hi;
  int first, end; /* range of overlaps */
} span_t;

enum {
  ROWS_MAX = 64,             /* rows at a time */
  PASSING_BYTES = 192 << 10, /* bytes of x and y at a time */
  POSITIONS_MIN = 32,        /* minimum length of a row segment */
  X_BLOCKS = 8,              /* per item */
  Y_GROUPS = 4,
  ITEMS = 32
};

typedef struct gradient {
  cpu__direct_t d;
  cpu__line_t line[3];
  int vecs, most_rows;        /* maximum size of a tile */
  int64_t groups;             /* number of groups of blocks of y */
  int64_t x_blocks, y_groups; /* per item */
  int64_t x_items, y_items, shares;
  int64_t rows, together; /* rows of y; rows at a time */
  int64_t segment;        /* positions of a row at a time */
  int spans;
  span_t span[2 * CPU__DIRECT_MAX + 1];
} gradient_t;

/* ---- prepare ---- */

/* The next position after `from` at which the set of kernel positions changes. */
static int64_t next_border(const cpu__line_t *l, int64_t from)
{
  int64_t next = l->phase[0].count;
  for (int m = 0; m < l->phase[0].end; m++) {
    if (l->overlap[m].lo > from && l->overlap[m].lo < next) next = l->overlap[m].lo;
    if (l->overlap[m].hi > from && l->overlap[m].hi < next) next = l->overlap[m].hi;
  }
  return next;
}

/* With a plain x, spans of y in which all positions meet the same kernel positions; else one span
 * per kernel position. */
static void find_spans(gradient_t *g)
{
  const cpu__line_t *l = &g->line[2];
  int kernel = l->phase[0].end;
  for (int m = 0; m < kernel && g->d.x.lanes > 1; m++)
    if (l->overlap[m].lo < l->overlap[m].hi)
      g->span[g->spans++] = (span_t){l->overlap[m].lo, l->overlap[m].hi, m, m + 1};
  if (g->d.x.lanes > 1) return;
  for (int64_t hi, lo = 0; lo < l->phase[0].count; lo = hi) {
    int first = 0, end = kernel;
    hi = next_border(l, lo);
    while (first < end && (lo < l->overlap[first].lo || lo >= l->overlap[first].hi))
      first++;
    while (first < end && (lo < l->overlap[end - 1].lo || lo >= l->overlap[end - 1].hi))
      end--;
    if (first < end) g->span[g->spans++] = (span_t){lo, hi, first, end};
  }
}

static void choose_rows(gradient_t *g)
{
  const cpu__direct_t *d = &g->d;
  int64_t position = d->y.lanes * g->vecs * g->y_groups;
  position += d->x.lanes * g->x_blocks * d->stride[1] * d->stride[2];
  position *= (int64_t)sizeof(float);
  int64_t size = d->y.size[2], most = PASSING_BYTES / position;
  if (most < POSITIONS_MIN) most = POSITIONS_MIN;
  g->segment = ct_div_up(size, ct_div_up(size, most));
  g->together = most / g->segment;
  if (g->together > ROWS_MAX) g->together = ROWS_MAX;
}

int cpu__gradient_prepare(const cpu__direct_t *d, void **out, size_t *scratch)
{
  gradient_t *g = *out = ct_mem_alloc(sizeof *g, "convolution");
  if (!g) return CT_ERR_NOMEM;
  g->d = *d;
  for (int i = 0; i < 3; i++)
    cpu__line_forward(d, i, &g->line[i]);
  find_spans(g);
  g->vecs = d->x.lanes > 1 ? 2 : d->tiles->vecs;
  if (g->vecs > d->y.blocks) g->vecs = (int)d->y.blocks;
  g->most_rows = d->tiles->rows[g->vecs];
  g->groups = ct_div_up(d->y.blocks, g->vecs);
  g->x_blocks = d->x.blocks < X_BLOCKS ? d->x.blocks : d->taps > 1 ? X_BLOCKS / 2 : X_BLOCKS;
  g->y_groups = g->groups < Y_GROUPS ? g->groups : Y_GROUPS;
  g->x_items = ct_div_up(d->x.blocks, g->x_blocks);
  g->y_items = ct_div_up(g->groups, g->y_groups);
  g->rows = d->y.n * d->y.size[0] * d->y.size[1];
  g->shares = ct_div_up(ITEMS, g->x_items * g->y_items);
  if (g->shares > d->y.n) g->shares = d->y.n;
  choose_rows(g);
  int64_t copies = g->shares > 1 ? g->shares * d->weights : 0;
  *scratch = (size_t)(copies + d->y.blocks * d->y.lanes) * sizeof(float);
  return CT_OK;
}

/* ---- running ---- */

/* State of one thread: an item, and the current rows, kernel row and block of x. */
typedef struct worker {
  const gradient_t *g;
  const float *x, *y;
  float *w;
  int64_t first_group, end_group, first_block, end_block;
  int64_t count; /* rows that meet the kernel row */
  int64_t a_at[ROWS_MAX], b_at[ROWS_MAX];
  int64_t tap; /* offset of the kernel row */
} worker_t;

/* Finds the rows of y that meet a row of x at this kernel row, and the offsets of both. */
static void find_rows(worker_t *w, int64_t from, int64_t to, int z, int y)
{
  const gradient_t *g = w->g;
  const cpu__direct_t *d = &g->d;
  const cpu__overlap_t *m[2] = {&g->line[0].overlap[z], &g->line[1].overlap[y]};
  w->count = 0;
  w->tap = ((int64_t)z * d->kernel[1] + y) * d->kernel[2];
  for (int64_t row = from; row < to; row++) {
    int64_t i[2] = {row / d->y.size[1] % d->y.size[0], row % d->y.size[1]}, inside = 1;
    int64_t n = row / d->y.size[1] / d->y.size[0], a = n * d->x.image, b = n * d->y.image;
    for (int k = 0; k < 2; k++) {
      inside &= i[k] >= m[k]->lo && i[k] < m[k]->hi;
      a += (m[k]->at + i[k] * g->line[k].step) * d->x.at[k];
      b += i[k] * d->y.at[k];
    }
    if (!inside) continue;
    w->a_at[w->count] = a;
    w->b_at[w->count++] = b;
  }
}

/* Adds one span of the rows for a block of x and a group of blocks of y. */
static void add_span(const worker_t *w, span_t s, int64_t block, int64_t group)
{
  const gradient_t *g = w->g;
  const cpu__direct_t *d = &g->d;
  int64_t first = group * g->vecs, left = d->y.blocks - first;
  int vecs = left < g->vecs ? (int)left : g->vecs;
  int64_t step = g->line[2].step * d->x.at[2], rows = s.end - s.first;
  const float *a = w->x + block * d->x.block + g->line[2].overlap[s.first].at * d->x.at[2];
  float *c = w->w + first * d->w_y + block * d->w_block + (w->tap + s.first) * d->w_tap;
  cpu__tile_t t = {.taps = w->count,
                   .a_at = w->a_at,
                   .b_at = w->b_at,
                   .k = s.hi - s.lo,
                   .a_row = 1,
                   .a_k = step,
                   .b_k = d->y.lanes,
                   .b_vec = d->y.block,
                   .c_row = d->y.lanes,
                   .c_vec = d->w_y,
                   .lanes = (int)d->y.lanes,
                   .add = 1};
  if (d->x.lanes > 1) { /* valid channels of the block */
    rows = d->x.channels - block * d->x.lanes;
    if (rows > d->x.lanes) rows = d->x.lanes;
  }
  int64_t n = ct_div_up(rows, g->most_rows);
  for (int64_t i = 0; i < n; i++) {
    int64_t from = rows * i / n, to = rows * (i + 1) / n;
    d->tiles->run[vecs][to - from](&t, a + from + s.lo * step,
                                   w->y + first * d->y.block + s.lo * d->y.lanes,
                                   c + from * d->y.lanes);
  }
}

/* Adds a segment of some rows. */
static void add_rows(worker_t *w, int64_t from, int64_t to, int64_t left, int64_t right)
{
  const gradient_t *g = w->g;
  for (int tap = 0; tap < g->d.kernel[0] * g->d.kernel[1]; tap++) {
    find_rows(w, from, to, tap / g->d.kernel[1], tap % g->d.kernel[1]);
    for (int64_t group = w->first_group; group < w->end_group && w->count; group++)
      for (int64_t block = w->first_block; block < w->end_block; block++)
        for (int i = 0; i < g->spans; i++) {
          span_t s = g->span[i];
          if (s.lo < left) s.lo = left;
          if (s.hi > right) s.hi = right;
          if (s.lo < s.hi) add_span(w, s, block, group);
        }
  }
}

static void run_item(worker_t *w, int64_t from, int64_t to)
{
  const gradient_t *g = w->g;
  const cpu__direct_t *d = &g->d;
  int64_t end = ct_least(w->end_group * g->vecs, d->y.blocks);
  size_t bytes = (size_t)((w->end_block - w->first_block) * d->w_block) * sizeof(float);
  for (int64_t y = w->first_group * g->vecs; y < end; y++)
    memset(w->w + y * d->w_y + w->first_block * d->w_block, 0, bytes);
  for (int64_t left = 0; left < d->y.size[2]; left += g->segment)
    for (int64_t row = from; row < to; row += g->together)
      add_rows(w, row, ct_least(row + g->together, to), left,
               ct_least(left + g->segment, d->y.size[2]));
}

/* Bias gradient of one block of channels: sums of short stretches, accumulated in double. */
static void sum_block(const gradient_t *g, const float *y, int64_t block, float *to)
{
  enum { STRETCH = 64 };
  static const int64_t nowhere = 0;
  static const float one = 1;
  const cpu__direct_t *d = &g->d;
  double sum[CPU__PANEL] = {0};
  cpu__tile_t t = {.taps = 1,
                   .a_at = &nowhere,
                   .b_at = &nowhere,
                   .a_row = 1,
                   .b_k = d->y.lanes,
                   .lanes = (int)d->y.lanes};
  int64_t positions = d->y.block / d->y.lanes;
  for (int64_t n = 0; n < d->y.n; n++)
    for (int64_t i = 0; i < positions; i += STRETCH) {
      t.k = ct_least(STRETCH, positions - i);
      d->tiles->run[1][1](&t, &one, y + n * d->y.image + block * d->y.block + i * d->y.lanes, to);
      for (int64_t c = 0; c < d->y.lanes; c++)
        sum[c] += to[c];
    }
  for (int64_t c = 0; c < d->y.lanes; c++)
    to[c] = (float)sum[c];
}

static void sum_bias(const gradient_t *g, const float *y, float *to, float *db)
{
#pragma omp parallel for
  for (int64_t block = 0; block < g->d.y.blocks; block++)
    sum_block(g, y, block, to + block * g->d.y.lanes);
  memcpy(db, to, (size_t)g->d.y.channels * sizeof *db);
}

static void add_shares(const gradient_t *g, const float *shares, float *w)
{
  int64_t count = g->d.weights;
#pragma omp parallel for
  for (int64_t i = 0; i < count; i += 16) {
    float sum[16];
    int64_t n = ct_least(16, count - i);
    memcpy(sum, shares + i, (size_t)n * sizeof *sum);
    for (int64_t s = 1; s < g->shares; s++)
      for (int64_t k = 0; k < n; k++)
        sum[k] += shares[s * count + i + k];
    memcpy(w + i, sum, (size_t)n * sizeof *sum);
  }
}

void cpu__gradient_run(const void *gradient, void *const at[CPU__ROLES])
{
  const gradient_t *g = gradient;
  float *bias = at[CPU__SCRATCH], *copies = bias + g->d.y.blocks * g->d.y.lanes;
  int64_t items = g->x_items * g->y_items;
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < items * g->shares; i++) {
    int64_t share = i / items, x = i % g->x_items, y = i % items / g->x_items;
    worker_t w = {.g = g, .x = at[CPU__X], .y = at[CPU__Y], .w = at[CPU__W]};
    if (g->shares > 1) w.w = copies + share * g->d.weights;
    w.first_block = x * g->x_blocks;
    w.end_block = ct_least(w.first_block + g->x_blocks, g->d.x.blocks);
    w.first_group = y * g->y_groups;
    w.end_group = ct_least(w.first_group + g->y_groups, g->groups);
    run_item(&w, g->rows * share / g->shares, g->rows * (share + 1) / g->shares);
  }
  if (g->shares > 1) add_shares(g, copies, at[CPU__W]);
  if (g->d.bias) sum_bias(g, at[CPU__Y], bias, at[CPU__BIAS]);
}
