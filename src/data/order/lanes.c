/* The lanes of a batch: maps a position in an epoch to a position on the line of blocks.
 *
 * Lane l has the positions [begin(l), begin(l + 1)) in the first part of the line, then whole
 * blocks, [middle(l), middle(l + 1)), then [end(l), end(l + 1)) in the last part.  The lengths of
 * the first intervals differ, so lanes start new blocks in different steps. */
#include "base/ct_hash.h"
#include "data/order/blocks.h"

/* The layout of the line in an epoch. */
typedef struct line {
  const ct_sampler_t *s;
  int64_t epoch, lanes;
  int64_t middle; /* where the whole blocks of lane 0 begin; 0: each lane is one interval */
} line_t;

int64_t ct__lanes_of(const ct_sampler_t *s)
{
  int64_t most = s->batch < s->samples ? s->batch : s->samples;
  return s->lanes < 1 ? 1 : s->lanes < most ? s->lanes : most;
}

/* Returns the number of samples in all lanes before this one. */
static int64_t before(const line_t *t, int64_t lane)
{
  int64_t in_batch, in_rest, whole = t->s->samples / t->s->batch;
  ct_sampler_cut(t->s->batch, (int)lane, (int)t->lanes, &in_batch);
  ct_sampler_cut(t->s->samples % t->s->batch, (int)lane, (int)t->lanes, &in_rest);
  return whole * in_batch + in_rest;
}

static int64_t edge(const line_t *t, int64_t place, int up)
{
  return ct__blocks_edge(t->s->blocks, t->s->seed, t->epoch, place, up);
}

/* Returns the position on the line where the lane's first interval begins. The first intervals are
 * half a block long, plus or minus up to half a block. */
static int64_t lanes_begin(const line_t *t, int64_t lane)
{
  int64_t rows = ct_blocks_rows(t->s->blocks);
  if (t->middle == 0 || lane == 0) return 0;
  if (lane == t->lanes) return t->middle;
  uint64_t spread = ct_hash_int(lane, 0) >> 32;
  return lane * rows / 2 + (int64_t)(spread * (uint64_t)(rows / 2 + 1) >> 32);
}

/* Returns the position on the line where the lane's whole blocks begin. A lane has as many whole
 * blocks as leave some samples to its last interval, which evens out the lengths of the lanes. */
static int64_t middle(const line_t *t, int64_t lane)
{
  if (t->middle == 0) return before(t, lane);
  if (lane == 0) return t->middle;
  int64_t most = ct__blocks_most(t->s->blocks);
  return edge(t, t->middle + before(t, lane) - lanes_begin(t, lane) - lane * most, 0);
}

static int64_t lanes_end(const line_t *t, int64_t lane)
{
  return middle(t, t->lanes) + before(t, lane) - lanes_begin(t, lane) -
         (middle(t, lane) - t->middle);
}

static line_t lanes_line_of(const ct_sampler_t *s, int64_t epoch)
{
  line_t t = {.s = s, .epoch = epoch, .lanes = ct__lanes_of(s)};
  int64_t rows = ct_blocks_rows(s->blocks), most = ct__blocks_most(s->blocks);
  int64_t shortest = before(&t, t.lanes) - before(&t, t.lanes - 1);
  /* the first interval may take a block and a half and the rest up to an edge, the last one two
   * blocks */
  if (shortest >= 2 * rows + 3 * most) t.middle = edge(&t, t.lanes * rows / 2 + rows / 2, 1);
  return t;
}

/* Returns the lane of the sample \a at of \a total: the inverse of ct_sampler_cut(). */
static int64_t lane_of(int64_t total, int64_t lanes, int64_t at)
{
  int64_t each = total / lanes, extra = total % lanes, large = (each + 1) * extra;
  return at < large ? at / (each + 1) : extra + (at - large) / each;
}

int64_t ct__lanes_at(const ct_sampler_t *s, int64_t epoch, int64_t position)
{
  line_t t = lanes_line_of(s, epoch);
  int64_t step = position / s->batch, in_step = position % s->batch, first, place;
  int64_t total = ct_sampler_batch(s, step * s->batch), lane = lane_of(total, t.lanes, in_step);
  int64_t each = ct_sampler_cut(s->batch, (int)lane, (int)t.lanes, &first);
  ct_sampler_cut(total, (int)lane, (int)t.lanes, &first);
  int64_t at = step * each + in_step - first;
  int64_t from = lanes_begin(&t, lane), length = lanes_begin(&t, lane + 1) - from;
  int64_t blocks = middle(&t, lane), whole = middle(&t, lane + 1) - blocks;
  if (at < length)
    place = from + at;
  else if (at - length < whole)
    place = blocks + at - length;
  else
    place = lanes_end(&t, lane) + at - length - whole;
  return ct__blocks_at(s->blocks, s->seed, epoch, place);
}
