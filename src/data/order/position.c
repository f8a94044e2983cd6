/* The sample at a position of an epoch.  The functions are pure: no order is kept in memory, ranks
 * need no communication, and a run can resume anywhere with any number of ranks. */
#include <stdlib.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/order/blocks.h"

int64_t ct_sampler_at(const ct_sampler_t *s, int64_t epoch, int64_t position)
{
  if (!s->shuffle) return position;
  return s->blocks ? ct__lanes_at(s, epoch, position)
                   : ct__permute(s->seed, epoch, s->samples, position);
}

int64_t ct_sampler_near(const ct_sampler_t *s, int64_t epoch, int64_t position, int64_t drawn)
{
  enum { LANES = 8 };
  if (!s->shuffle || !s->blocks) return drawn;
  int64_t start = position / s->batch * s->batch, total = ct_sampler_batch(s, start);
  int64_t group = (s->batch + ct__lanes_of(s) - 1) / ct__lanes_of(s) * LANES;
  int64_t first = (position - start) / group * group;
  int64_t n = total - first < group ? total - first : group;
  return ct_sampler_at(s, epoch, start + first + drawn % n);
}

/* ---- how well it mixes ---- */

static int compare(const void *a, const void *b)
{
  int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
  return p < q ? -1 : p > q;
}

/* Returns the sum over all blocks of the squared number of samples in the block. */
static double squares(int64_t *block, int64_t n)
{
  double sum = 0;
  qsort(block, (size_t)n, sizeof *block, compare);
  for (int64_t i = 0, k; i < n; i = k) {
    for (k = i; k < n && block[k] == block[i]; k++)
      continue;
    sum += (double)(k - i) * (double)(k - i);
  }
  return sum;
}

int ct_sampler_mixing(const ct_sampler_t *s, const ct_blocks_t *b, int64_t epoch, int steps,
                      double *mates)
{
  double sum = 0, n = 0;
  int64_t all = ct_sampler_steps(s), most = ct_sampler_batch(s, 0);
  int64_t *block = ct_mem_array(most, sizeof *block, "the blocks of a batch");
  *mates = 0;
  if (!block) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < steps && i < all; i++) {
    int64_t cursor = all * i / (steps < all ? steps : all) * s->batch;
    int64_t total = ct_sampler_batch(s, cursor);
    for (int64_t k = 0; k < total; k++)
      block[k] = ct_blocks_of(b, ct_sampler_at(s, epoch, cursor + k));
    sum += squares(block, total);
    n += (double)total;
  }
  *mates = sum / n;
  ct_mem_free(block);
  return CT_OK;
}
