/* Direct convolution: the gather passes, forward and backward to the data.
 *
 * The target (y, or dx) is cut into segments: neighbouring positions of a row that meet the same
 * kernel positions.  At the border, the tile first runs over the rows with kernel positions that
 * other rows lack, then over all rows.  A thread processes a band of segments with a chunk of the
 * source's channel blocks at a time, so that the chunk's weights and the band's source stay in the
 * L2 cache while all blocks of the target are computed.  Backward transposes the weights first: the
 * same sums with x and y exchanged. */
#include "cpu/conv/direct.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <math.h>
#include <omp.h>
#include <string.h>

/* A tile's sum over these overlaps of the last dim. */
typedef struct list {
  int phase, first, end;
} list_t;

/* Some rows of a segment, with kernel positions that only they have. */
typedef struct part {
  int64_t row, rows;
  int list;
} part_t;

typedef struct segment {
  int phase;
  int64_t first, rows; /* positions within the phase */
  int64_t part;        /* index of its first part */
  int parts;
  int list; /* of all rows */
} segment_t;

enum {
  LISTS_MAX = CPU__DIRECT_MAX * (CPU__DIRECT_MAX + 1) / 2 + CPU__DIRECT_MAX,
  WEIGHTS_BYTES = 128 << 10, /* weights of a chunk for the vectors of a tile */
  SOURCE_BYTES = 256 << 10,  /* source of a chunk and a band */
  ITEMS_PER_THREAD = 4
};

typedef struct gather {
  cpu__direct_t d;
  int pass;
  cpu__image_t s, t; /* source and target */
  cpu__line_t line[3];
  int64_t w_block, w_vec; /* strides for source blocks and target blocks */
  int64_t depth; /* channels per block of the source; 0: x is plain, and the sum is over kernel
                    positions */
  int vecs;
  int64_t groups;
  int64_t chunk, band;   /* source blocks and segments at a time */
  int64_t items, shares; /* parallel items over segments; over groups of blocks */
  int lists;
  list_t list[LISTS_MAX];
  int stream;        /* 1: non-temporal stores of the target */
  int64_t list_size; /* capacity in pairs of offsets */
  int64_t rows;      /* of the target: images x depth x height */
  int64_t segments;  /* per row */
  segment_t *segment;
  part_t *part;
} gather_t;

/* ---- prepare ---- */

/* Cost of a tile in half cycles per k: multiply-adds, loads of factors, loop overhead. */
static double tile_cost(int64_t rows, int64_t vecs)
{
  return fmax((double)(rows * vecs), 1.2 * (double)(rows + vecs)) + 2;
}

/* Cost of all positions of a row times some vectors. */
static double row_cost(const gather_t *g, int vecs, int most_rows)
{
  double sum = 0;
  const cpu__line_t *l = &g->line[2];
  for (int p = 0; p < l->phases; p++) {
    int64_t count = l->phase[p].count, n = ct_div_up(count, most_rows);
    if (n > 0) sum += (double)n * tile_cost(ct_div_up(count, n), vecs);
  }
  return sum;
}

static void choose_tile(gather_t *g)
{
  const cpu__tiles_t *tiles = g->d.tiles;
  double least = INFINITY;
  for (int v = 1; v <= tiles->vecs && v <= g->t.blocks; v++) {
    int64_t rest = g->t.blocks % v;
    double cost = (double)(g->t.blocks / v) * row_cost(g, v, tiles->rows[v]);
    if (rest) cost += row_cost(g, (int)rest, tiles->rows[v]);
    if (cost >= least) continue;
    least = cost;
    g->vecs = v;
  }
  g->groups = ct_div_up(g->t.blocks, g->vecs);
}

static int list_of(gather_t *g, int phase, int first, int end)
{
  int i = 0;
  list_t want = {phase, first, end};
  while (i < g->lists && memcmp(&g->list[i], &want, sizeof want) != 0)
    i++;
  if (i == g->lists) g->list[g->lists++] = want;
  return i;
}

/* Divides a segment into parts: consecutive overlaps with the same rows form one; those of all rows
 * form the segment's list. */
static int64_t divide(gather_t *g, segment_t *p, int64_t part)
{
  const cpu__line_t *l = &g->line[2];
  int64_t from = p->first, to = p->first + p->rows, lo = 0, hi = 0;
  p->part = part;
  p->list = -1;
  for (int end, m = l->phase[p->phase].first; m < l->phase[p->phase].end; m = end) {
    lo = l->overlap[m].lo > from ? l->overlap[m].lo : from;
    hi = l->overlap[m].hi < to ? l->overlap[m].hi : to;
    for (end = m + 1; end < l->phase[p->phase].end; end++) {
      int64_t low = l->overlap[end].lo > from ? l->overlap[end].lo : from;
      int64_t high = l->overlap[end].hi < to ? l->overlap[end].hi : to;
      if (low != lo || high != hi) break;
    }
    if (lo >= hi) continue;
    int list = list_of(g, p->phase, m, end);
    if (hi - lo == p->rows)
      p->list = list;
    else
      g->part[part + p->parts++] = (part_t){lo - from, hi - lo, list};
  }
  if (p->list < 0) p->list = list_of(g, p->phase, 0, 0);
  return p->parts;
}

static void find_segments(gather_t *g)
{
  int64_t at = 0, part = 0, most = g->d.tiles->rows[g->vecs];
  for (int p = 0; p < g->line[2].phases; p++) {
    int64_t count = g->line[2].phase[p].count, n = ct_div_up(count, most);
    for (int64_t i = 0; i < n; i++, at++) {
      g->segment[at] = (segment_t){.phase = p, .first = count * i / n};
      g->segment[at].rows = count * (i + 1) / n - g->segment[at].first;
      part += divide(g, &g->segment[at], part);
    }
  }
}

/* Upper limits of the numbers of segments and parts. */
static void count_segments(gather_t *g, int64_t *parts)
{
  g->segments = *parts = 0;
  for (int p = 0; p < g->line[2].phases; p++) {
    const cpu__phase_t *phase = &g->line[2].phase[p];
    int64_t n = ct_div_up(phase->count, g->d.tiles->rows[g->vecs]);
    g->segments += n;
    *parts += n * (phase->end - phase->first);
  }
}

static void choose_bands(gather_t *g)
{
  int64_t block = g->w_block * g->vecs * (int64_t)sizeof(float);
  int64_t chunks = ct_div_up(g->s.blocks * block, WEIGHTS_BYTES);
  if (chunks > g->s.blocks) chunks = g->s.blocks;
  g->chunk = ct_div_up(g->s.blocks, chunks);
  int64_t source = g->s.n * g->s.block * g->chunk * (int64_t)sizeof(float);
  int64_t all = g->rows * g->segments, wanted = ITEMS_PER_THREAD * (int64_t)g->d.threads;
  g->items = wanted < all ? wanted : all;
  g->shares = ct_div_up(wanted, g->items);
  if (g->shares > g->groups) g->shares = g->groups;
  g->band = ct_div_up(all, ct_div_up(source, SOURCE_BYTES));
}

static gather_t gather_of(const cpu__direct_t *d, int pass, int64_t *parts)
{
  int forward = pass == CT_FWD;
  gather_t g = {.d = *d, .pass = pass, .s = forward ? d->x : d->y, .t = forward ? d->y : d->x};
  for (int i = 0; i < 3; i++)
    (forward ? cpu__line_forward : cpu__line_back)(d, i, &g.line[i]);
  g.w_block = d->w_block;
  g.w_vec = d->w_block * g.s.blocks;
  if (g.s.lanes > 1) g.depth = g.s.blocks > 1 ? g.s.lanes : g.s.channels;
  g.rows = g.t.n * g.t.size[0] * g.t.size[1];
  choose_tile(&g);
  count_segments(&g, parts);
  choose_bands(&g);
  g.stream = !d->add && g.chunk >= g.s.blocks && g.line[2].phases == 1 &&
             g.t.n * g.t.image * 4 > CPU__STREAM_MIN;
  g.list_size = g.chunk * d->taps;
  return g;
}

/* Workspace in floats: transposed weights, padded bias, each thread's lists. */
static int64_t weights_space(const gather_t *g)
{
  return g->pass == CT_FWD ? 0 : g->d.weights;
}

static int64_t bias_space(const gather_t *g)
{
  return g->pass == CT_FWD && g->d.bias ? g->t.blocks * g->t.lanes : 0;
}

static int64_t lists_space(const gather_t *g)
{
  return (g->lists * 2 * g->list_size * 2 + 15) & ~(int64_t)15;
}

int cpu__gather_prepare(const cpu__direct_t *d, int pass, void **out, size_t *scratch)
{
  int64_t parts;
  gather_t made = gather_of(d, pass, &parts), *g;
  size_t segments = (size_t)made.segments * sizeof(segment_t);
  *out = g = ct_mem_alloc(sizeof *g + segments + (size_t)parts * sizeof(part_t), "convolution");
  if (!g) return CT_ERR_NOMEM;
  *g = made;
  g->segment = (segment_t *)(g + 1);
  g->part = (part_t *)(g->segment + g->segments);
  find_segments(g);
  int64_t floats = weights_space(g) + bias_space(g) + d->threads * lists_space(g);
  *scratch = (size_t)floats * sizeof(float);
  return CT_OK;
}

/* ---- running ---- */

/* State of one thread. */
typedef struct worker {
  const gather_t *g;
  const float *source, *weights, *bias;
  float *target;
  int64_t *space;
  int64_t blocks;             /* in this chunk */
  int first, last;            /* 1: first, last chunk */
  int from[2], to[2];         /* depth and height overlaps for which the lists were made */
  int64_t count[LISTS_MAX];   /* pairs in each list; -1: not made yet */
  int64_t image, at[2], s[2]; /* current row of the target: its position, and the origin in the
                                 source */
} worker_t;

static int64_t *offsets_of(const worker_t *w, int list)
{
  return w->space + list * 2 * w->g->list_size;
}

/* Makes the offsets of A and B for each tap: kernel positions and blocks of the source. */
static void make_list(worker_t *w, int list)
{
  const gather_t *g = w->g;
  const list_t *l = &g->list[list];
  int64_t n = 0, *a = offsets_of(w, list), *b = a + g->list_size;
  const int step = g->depth ? 1 : l->end - l->first; /* a plain x: one tap covers a kernel row */
  for (int z = w->from[0]; z < w->to[0]; z++)
    for (int y = w->from[1]; y < w->to[1]; y++)
      for (int64_t c = 0; c < w->blocks; c++)
        for (int x = l->first; x < l->end; x += step, n++) {
          const cpu__overlap_t *at[] = {&g->line[0].overlap[z], &g->line[1].overlap[y],
                                        &g->line[2].overlap[x]};
          int64_t tap =
              ((int64_t)at[0]->tap * g->d.kernel[1] + at[1]->tap) * g->d.kernel[2] + at[2]->tap;
          a[n] = c * g->s.block;
          for (int i = 0; i < 3; i++)
            a[n] += at[i]->at * g->s.at[i];
          b[n] = c * g->w_block + tap * g->d.w_tap;
        }
  w->count[list] = n;
}

/* Converts a row number of a dim to its phase, and *i to its number in the phase. */
static int phase_of(const cpu__line_t *l, int64_t *i)
{
  int p = 0;
  while (*i >= l->phase[p].count)
    *i -= l->phase[p++].count;
  return p;
}

/* Visits rows in the order of their phases, so that neighbours mostly share their lists. */
static void go_to_row(worker_t *w, int64_t row)
{
  const gather_t *g = w->g;
  int64_t i[2] = {row / g->t.size[1] % g->t.size[0], row % g->t.size[1]};
  int changed = 0;
  w->image = row / g->t.size[1] / g->t.size[0];
  for (int k = 0; k < 2; k++) {
    const cpu__line_t *l = &g->line[k];
    int p = phase_of(l, &i[k]), from = l->phase[p].first, to = l->phase[p].end;
    while (from < to && (i[k] < l->overlap[from].lo || i[k] >= l->overlap[from].hi))
      from++;
    while (from < to && (i[k] < l->overlap[to - 1].lo || i[k] >= l->overlap[to - 1].hi))
      to--;
    changed |= from != w->from[k] || to != w->to[k];
    w->from[k] = from;
    w->to[k] = to;
    w->at[k] = i[k] * l->phases + p;
    w->s[k] = i[k] * l->step;
  }
  for (int k = 0; changed && k < g->lists; k++)
    w->count[k] = -1;
}

/* Computes the sums of one list for some rows of a segment. */
static void sum_up(worker_t *w, cpu__tile_t *t, const segment_t *p, part_t part, int64_t group)
{
  const gather_t *g = w->g;
  const cpu__line_t *l = &g->line[2];
  int64_t row = p->first + part.row, first = group * g->vecs, left = g->t.blocks - first;
  int vecs = left < g->vecs ? (int)left : g->vecs;
  if (w->count[part.list] < 0) make_list(w, part.list);
  t->taps = w->count[part.list];
  t->a_at = offsets_of(w, part.list);
  t->b_at = t->a_at + g->list_size;
  t->k = g->depth ? g->depth : g->list[part.list].end - g->list[part.list].first;
  if (t->bias) t->bias = w->bias + first * g->t.lanes;
  const float *a = w->source + w->image * g->s.image + w->s[0] * g->s.at[0] + w->s[1] * g->s.at[1] +
                   row * l->step * g->s.at[2];
  float *c = w->target + w->image * g->t.image + first * g->t.block + w->at[0] * g->t.at[0] +
             w->at[1] * g->t.at[1] + (row * l->phases + p->phase) * g->t.at[2];
  g->d.tiles->run[vecs][part.rows](t, a, w->weights + first * g->w_vec, c);
}

static void make_segment(worker_t *w, const segment_t *p, int64_t group)
{
  const gather_t *g = w->g;
  part_t all = {0, p->rows, p->list};
  cpu__tile_t t = {.a_row = g->line[2].step * g->s.at[2],
                   .a_k = 1,
                   .b_k = g->t.lanes,
                   .b_vec = g->w_vec,
                   .c_row = g->line[2].phases * g->t.at[2],
                   .c_vec = g->t.block,
                   .lanes = (int)g->t.lanes,
                   .add = !w->first || g->d.add};
  if (p->parts && !t.add) { /* start from zero, for the parts to add to */
    int64_t count = w->count[p->list];
    w->count[p->list] = 0;
    sum_up(w, &t, p, all, group);
    w->count[p->list] = count;
  }
  t.add |= p->parts > 0;
  for (int i = 0; i < p->parts; i++)
    sum_up(w, &t, p, g->part[p->part + i], group);
  t.bias = w->last ? w->bias : NULL;
  t.stream = g->stream && !t.add;
  t.relu = w->last && g->pass == CT_FWD && g->d.relu;
  sum_up(w, &t, p, all, group);
}

/* A band of segments and a chunk of the source. */
typedef struct stage {
  int64_t from, to, chunk;
} stage_t;

/* Prefetches some blocks of the source that segment i adds into the L2 cache. */
static void fetch(const worker_t *w, int64_t i, int64_t block, int64_t end)
{
  const gather_t *g = w->g;
  const segment_t *p = &g->segment[i % g->segments];
  const int64_t *size = g->t.size;
  int64_t row = i / g->segments, step = g->line[2].step, apart = g->d.kernel[2] > 1 ? 1 : step;
  int64_t at[2] = {row / size[1] % size[0], row % size[1]}, offset = 0, rows = 1;
  for (int k = 0; k < 2; k++) {
    const cpu__line_t *l = &g->line[k];
    int last = l->phase[phase_of(l, &at[k])].end - 1;
    int64_t y = at[k] * l->step + (last < 0 ? 0 : l->overlap[last].at);
    if (y >= g->s.size[k]) return;
    if (k && g->d.kernel[k] > 1 && y >= l->step - 1) rows = l->step;
    offset += (y < 0 ? 0 : y) * g->s.at[k];
  }
  for (; block < end; block++)
    for (int64_t y = 0; y < rows; y++) {
      const float *from = w->source + row / size[1] / size[0] * g->s.image + offset;
      from += block * g->s.block + p->first * step * g->s.at[2] - y * g->s.at[1];
      for (int64_t x = 0; x < p->rows * step; x += apart)
        __builtin_prefetch(from + x * g->s.at[2], 0, 2);
    }
}

static void make_stage(worker_t *w, stage_t now, stage_t next, int64_t first, int64_t end)
{
  const gather_t *g = w->g;
  worker_t s = *w;
  s.first = now.chunk == 0;
  s.last = now.chunk + g->chunk >= g->s.blocks;
  s.blocks = s.last ? g->s.blocks - now.chunk : g->chunk;
  s.source += now.chunk * g->s.block;
  s.weights += now.chunk * g->w_block;
  s.from[0] = -1; /* the lists become invalid */
  int64_t blocks = g->s.blocks - next.chunk < g->chunk ? g->s.blocks - next.chunk : g->chunk;
  for (int64_t group = first; group < end; group++)
    for (int64_t i = now.from; i < now.to; i++) {
      int64_t ahead = next.from + i - now.from;
      if (ahead < next.to && g->depth)
        fetch(w, ahead, next.chunk + blocks * (group - first) / (end - first),
              next.chunk + blocks * (group - first + 1) / (end - first));
      if (i == now.from || i % g->segments == 0) go_to_row(&s, i / g->segments);
      make_segment(&s, &g->segment[i % g->segments], group);
    }
}

/* Computes some segments for some groups of blocks. */
static void make_item(worker_t *w, int64_t from, int64_t to, int64_t first, int64_t end)
{
  const gather_t *g = w->g;
  stage_t now = {from, from + g->band < to ? from + g->band : to, 0};
  while (now.from < to) {
    stage_t next = {now.from, now.to, now.chunk + g->chunk};
    if (next.chunk >= g->s.blocks)
      next = (stage_t){now.to, now.to + g->band < to ? now.to + g->band : to, 0};
    make_stage(w, now, next, first, end);
    now = next;
  }
  if (g->stream) cpu__tile_fence();
}

/* Transposes the weights: exchanges x and y. */
static void transpose(const gather_t *g, const float *w, float *to)
{
  const cpu__direct_t *d = &g->d;
#pragma omp parallel for collapse(2)
  for (int64_t x = 0; x < d->x.blocks; x++)
    for (int64_t y = 0; y < d->y.blocks; y++)
      for (int64_t tap = 0; tap < d->taps; tap++) {
        const float *a = w + y * d->w_y + x * d->w_block + tap * d->w_tap;
        float *b = to + x * g->w_vec + y * d->w_block + tap * d->w_tap;
        d->tiles->transpose(d->x.lanes, d->y.lanes, a, d->y.lanes, b, d->x.lanes);
      }
}

void cpu__gather_run(const void *gather, void *const at[CPU__ROLES])
{
  const gather_t *g = gather;
  int forward = g->pass == CT_FWD;
  float *weights = at[CPU__SCRATCH], *bias = weights + weights_space(g);
  float *lists = bias + bias_space(g);
  if (!forward) transpose(g, at[CPU__W], weights);
  if (forward && g->d.bias) {
    memset(bias, 0, (size_t)bias_space(g) * sizeof *bias);
    memcpy(bias, at[CPU__BIAS], (size_t)g->t.channels * sizeof *bias);
  }
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < g->items * g->shares; i++) {
    int64_t all = g->rows * g->segments, item = i / g->shares, share = i % g->shares;
    worker_t w = {.g = g,
                  .source = at[forward ? CPU__X : CPU__Y],
                  .weights = forward ? at[CPU__W] : weights,
                  .bias = bias_space(g) ? bias : NULL,
                  .target = at[forward ? CPU__Y : CPU__X]};
    w.space = (int64_t *)(lists + omp_get_thread_num() * lists_space(g));
    make_item(&w, all * item / g->items, all * (item + 1) / g->items, g->groups * share / g->shares,
              g->groups * (share + 1) / g->shares);
  }
}
