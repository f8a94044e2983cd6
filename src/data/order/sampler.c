/* Divides an epoch into global batches and local batches of ranks. */
#include "data/order/ct_sampler.h"

int64_t ct_sampler_epoch(const ct_sampler_t *s)
{
  return s->drop_last ? s->samples - s->samples % s->batch : s->samples;
}

int64_t ct_sampler_steps(const ct_sampler_t *s)
{
  return (ct_sampler_epoch(s) + s->batch - 1) / s->batch;
}

int64_t ct_sampler_batch(const ct_sampler_t *s, int64_t cursor)
{
  int64_t left = s->samples - cursor;
  return left < s->batch ? left : s->batch;
}

int64_t ct_sampler_cut(int64_t total, int i, int n, int64_t *first)
{
  int64_t each = total / n, extra = total % n;
  *first = each * i + (i < extra ? i : extra);
  return each + (i < extra);
}

int64_t ct_sampler_local_batch(const ct_sampler_t *s, int64_t total, int rank, int size,
                               int64_t *first)
{
  int micro_batches = s->micro_batches > 0 ? s->micro_batches : 1;
  if (s->group > 1) {
    int64_t n = ct_sampler_cut((total + s->group - 1) / s->group, rank, size, first) * s->group;
    *first *= s->group;
    return n < total - *first ? n : total > *first ? total - *first : 0;
  }
  int64_t end,
      n = ct_sampler_cut(total, (rank + 1) * micro_batches - 1, size * micro_batches, &end);
  end += n;
  ct_sampler_cut(total, rank * micro_batches, size * micro_batches, first);
  return end - *first;
}
