/* The line of blocks of a data set: maps a position on the line to a sample, for an epoch.
 *
 * Blocks of equal length form a class, so the block of a position follows by a division.  There are
 * few classes, since only the last blocks of files differ. */
#include "data/order/blocks.h"

#include <stdlib.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"

/* A run of adjacent blocks of equal length. */
typedef struct stretch {
  int64_t rows, first, blocks;
  int64_t number; /* number of its first block, within the class; global: among all blocks, in the
                     order of samples */
  int64_t global;
} stretch_t;

typedef struct class
{
  int64_t rows, blocks;
  int64_t place; /* position on the line where the class begins */
  int stretch;   /* index of its first run in by_class */
  int to;        /* index after its last run */
} class_t;

struct ct_blocks {
  int64_t samples, blocks, rows, most;
  uint64_t hash;
  stretch_t *by_class;  /* the runs, sorted by length of their blocks */
  stretch_t *by_sample; /* the same runs, in the order of samples */
  class_t *classes;
  int stretches, nclasses;
};

/* ---- making the table ---- */

static void add_stretch(ct_blocks_t *b, int64_t first, int64_t blocks, int64_t rows)
{
  if (blocks == 0) return;
  b->by_sample[b->stretches++] =
      (stretch_t){.rows = rows, .first = first, .blocks = blocks, .global = b->blocks};
  b->blocks += blocks;
}

static int take_runs(ct_blocks_t *b, const ct_block_run_t *runs, int n)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++) {
    const ct_block_run_t *r = &runs[i];
    if (r->first != b->samples || r->samples < 0 || (r->samples > 0 && r->rows < 1))
      CT_FAIL(CT_ERR_ARG, "samples %lld to %lld in blocks of %lld do not follow %lld others",
              (long long)r->first, (long long)(r->first + r->samples), (long long)r->rows,
              (long long)b->samples);
    b->samples += r->samples;
    if (r->samples == 0) continue;
    int64_t whole = r->samples / r->rows, rest = r->samples % r->rows;
    add_stretch(b, r->first, whole, r->rows);
    add_stretch(b, r->first + whole * r->rows, rest > 0, rest);
    b->hash = ct_hash_int(r->rows, ct_hash_int(r->samples, b->hash));
  }
  if (b->samples == 0) CT_FAIL(CT_ERR_ARG, "blocks of no samples");
out:
  return rc;
}

/* Sorts the longest first. */
static int compare(const void *a, const void *b)
{
  const stretch_t *p = a, *q = b;
  if (p->rows != q->rows) return p->rows < q->rows ? 1 : -1;
  return p->first < q->first ? -1 : p->first > q->first;
}

static void make_classes(ct_blocks_t *b)
{
  int64_t place = 0, largest = 0;
  qsort(b->by_class, (size_t)b->stretches, sizeof *b->by_class, compare);
  for (int i = 0; i < b->stretches; i++) {
    stretch_t *s = &b->by_class[i];
    if (i == 0 || s->rows != b->by_class[i - 1].rows)
      b->classes[b->nclasses++] = (class_t){.rows = s->rows, .place = place, .stretch = i};
    class_t *c = &b->classes[b->nclasses - 1];
    s->number = c->blocks;
    c->blocks += s->blocks;
    c->to = i + 1;
    place += s->blocks * s->rows;
    if (c->blocks * c->rows > largest) {
      largest = c->blocks * c->rows;
      b->rows = c->rows;
    }
  }
  b->most = b->classes[0].rows;
}

int ct_blocks_make(const ct_block_run_t *runs, int n, ct_blocks_t **out)
{
  int rc = CT_OK;
  ct_blocks_t *b = ct_mem_alloc(sizeof *b, "the blocks of a data set");
  *out = NULL;
  if (!b) return CT_ERR_NOMEM;
  b->by_sample = ct_mem_array(2 * (int64_t)n, sizeof *b->by_sample, "the blocks of a data set");
  b->by_class = ct_mem_array(2 * (int64_t)n, sizeof *b->by_class, "the blocks of a data set");
  b->classes = ct_mem_array(2 * (int64_t)n, sizeof *b->classes, "the blocks of a data set");
  if (!b->by_sample || !b->by_class || !b->classes) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(take_runs(b, runs, n));
  for (int i = 0; i < b->stretches; i++)
    b->by_class[i] = b->by_sample[i];
  make_classes(b);
  *out = b;
  b = NULL;
out:
  ct_blocks_free(b);
  return rc;
}

void ct_blocks_free(ct_blocks_t *b)
{
  if (!b) return;
  ct_mem_free(b->by_sample);
  ct_mem_free(b->by_class);
  ct_mem_free(b->classes);
  ct_mem_free(b);
}

/* ---- properties of the table ---- */

int64_t ct_blocks_count(const ct_blocks_t *b)
{
  return b->blocks;
}

int64_t ct_blocks_rows(const ct_blocks_t *b)
{
  return b->rows;
}

int64_t ct__blocks_most(const ct_blocks_t *b)
{
  return b->most;
}

uint64_t ct_blocks_hash(const ct_blocks_t *b)
{
  return b->hash;
}

int64_t ct_blocks_of(const ct_blocks_t *b, int64_t sample)
{
  int low = 0, high = b->stretches - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (b->by_sample[middle].first <= sample)
      low = middle;
    else
      high = middle - 1;
  }
  const stretch_t *s = &b->by_sample[low];
  return s->global + (sample - s->first) / s->rows;
}

int64_t ct_blocks_lanes(const ct_blocks_t *b, int64_t batch)
{
  enum { FEW = 64, EACH = 8, BLOCKS = 4, LEAST = 16 };
  int64_t most = b->blocks < LEAST ? b->blocks : LEAST;
  if (most < b->blocks / BLOCKS) most = b->blocks / BLOCKS;
  if (most > batch) most = batch;
  int64_t least = (batch + most - 1) / most, each = batch / FEW; /* samples of a lane */
  if (each > EACH) each = EACH;
  if (each < least) each = least;
  /* with whole numbers of samples the shares of ranks are whole lanes more often */
  for (int64_t i = each; i >= least; i--)
    if (batch % i == 0) return batch / i;
  for (int64_t i = each + 1; i <= 2 * each; i++)
    if (batch % i == 0) return batch / i;
  return batch / each < most ? batch / each : most;
}

/* ---- the line ---- */

/* The random choices of an epoch, each with its own key.  The rounds of the full permutation have
 * the indices below 2^63. */
enum { OF_CLASS, OF_BLOCK, OF_LINE };

static uint64_t blocks_draw(uint64_t seed, int64_t epoch, int what, int64_t number)
{
  uint64_t index = (uint64_t)1 << 63 | (uint64_t)what << 60 | (uint64_t)number;
  return ct_rng_u64(seed, CT_RNG_ORDER, (uint32_t)epoch, index);
}

static const class_t *find_class(const ct_blocks_t *b, int64_t place)
{
  int low = 0, high = b->nclasses - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (b->classes[middle].place <= place)
      low = middle;
    else
      high = middle - 1;
  }
  return &b->classes[low];
}

/* Returns the offset of a position within its block, on the line before it is shifted by turn().
 * *rows: samples of the block. */
static int64_t into_block(const ct_blocks_t *b, int64_t place, int64_t *rows)
{
  const class_t *c = find_class(b, place);
  *rows = c->rows;
  return (place - c->place) % c->rows;
}

/* Shifts the line so that it begins at a random block. */
static int64_t turn(const ct_blocks_t *b, uint64_t seed, int64_t epoch, int64_t place)
{
  int64_t rows, begin = (int64_t)(blocks_draw(seed, epoch, OF_LINE, 0) % (uint64_t)b->samples);
  place += begin - into_block(b, begin, &rows);
  return place < b->samples ? place : place - b->samples;
}

int64_t ct__blocks_edge(const ct_blocks_t *b, uint64_t seed, int64_t epoch, int64_t place, int up)
{
  int64_t rows, into = into_block(b, turn(b, seed, epoch, place), &rows);
  return up && into > 0 ? place - into + rows : place - into;
}

static const stretch_t *find_stretch(const ct_blocks_t *b, const class_t *c, int64_t block)
{
  int low = c->stretch, high = c->to - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (b->by_class[middle].number <= block)
      low = middle;
    else
      high = middle - 1;
  }
  return &b->by_class[low];
}

int64_t ct__blocks_at(const ct_blocks_t *b, uint64_t seed, int64_t epoch, int64_t place)
{
  place = turn(b, seed, epoch, place);
  const class_t *c = find_class(b, place);
  int64_t block = (place - c->place) / c->rows, row = (place - c->place) % c->rows;
  block = ct__permute(blocks_draw(seed, epoch, OF_CLASS, c - b->classes), epoch, c->blocks, block);
  const stretch_t *s = find_stretch(b, c, block);
  block -= s->number;
  row = ct__permute(blocks_draw(seed, epoch, OF_BLOCK, s->global + block), epoch, c->rows, row);
  return s->first + block * s->rows + row;
}
