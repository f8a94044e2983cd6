/* The samples that are packed and their order: shuffled or not, then a range, then some classes. */
#include <inttypes.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "pack/job.h"

static int has_only(const ct_pack_job_t *job)
{
  return job->only_last > 0;
}

static int order_choose(const ct_pack_source_t *src, const ct_pack_job_t *job, ct__pack_order_t *o)
{
  int rc = CT_OK;
  int64_t n = 0;
  if (!src->label) CT_FAIL(CT_ERR_USAGE, "pack: --only is of labels, not of --targets");
  int64_t *chosen = ct_mem_array(o->samples, sizeof *chosen, "samples of some classes");
  if (!chosen) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < o->samples; i++) {
    int64_t index = ct_sampler_at(&o->sampler, 0, o->first + i);
    int32_t label = src->label(src->state, index);
    if (label >= job->only_first && label < job->only_last) chosen[n++] = index;
  }
  o->chosen = chosen;
  o->samples = n;
  if (n == 0)
    CT_FAIL(CT_ERR_USAGE, "%s: no samples found of the classes %" PRId64 " to %" PRId64,
            src->inputs[0], job->only_first, job->only_last - 1);
out:
  return rc;
}

int ct__pack_order_open(const ct_pack_source_t *src, const ct_pack_job_t *job,
                        ct__pack_order_t *out)
{
  int rc = CT_OK;
  int64_t end = job->last < src->samples ? job->last : src->samples;
  *out = (ct__pack_order_t){
      .sampler = {.seed = job->seed, .samples = src->samples, .batch = 1, .shuffle = job->shuffle},
      .first = job->first,
      .samples = end - job->first};
  if (out->samples < 1)
    CT_FAIL(CT_ERR_USAGE,
            "%s: has %" PRId64 " rows, none of which is in the range that begins at %" PRId64,
            src->inputs[0], src->samples, job->first);
  if (has_only(job)) CT_TRY(order_choose(src, job, out));
out:
  if (rc != CT_OK) ct__pack_order_close(out);
  return rc;
}

void ct__pack_order_close(ct__pack_order_t *o)
{
  ct_mem_free(o->chosen);
  *o = (ct__pack_order_t){0};
}

void ct__pack_order_fill(const ct__pack_order_t *o, int64_t position, int64_t n, int64_t index[])
{
  for (int64_t i = 0; i < n; i++)
    index[i] = o->chosen ? o->chosen[position + i]
                         : ct_sampler_at(&o->sampler, 0, o->first + position + i);
}

uint64_t ct__pack_order_hash(const ct_pack_source_t *src, const ct_pack_job_t *job)
{
  uint64_t hash = ct_hash_int(src->samples, src->identity);
  hash = ct_hash_int(job->shuffle ? 1 : 0, hash);
  hash = ct_hash_int(job->shuffle ? (int64_t)job->seed : 0, hash);
  hash = ct_hash_int(job->first, hash);
  hash = ct_hash_int(job->last, hash);
  hash = ct_hash_int(job->only_first, hash);
  return ct_hash_int(job->only_last, hash);
}
