/* The launches of a step as a study stores them: the fraction of the time that each takes, and the
 * bytes of gradients that it completes. */
#include "study/measure/ct_scale.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"

enum { REPEATS = 3 };

typedef struct launches {
  ct_launch_time_t *launch;
  int64_t cap;
  int n;
} launches_t;

static int add_launch(void *ctx, const ct_launch_time_t *w)
{
  launches_t *all = ctx;
  int rc = ct_mem_grow((void **)&all->launch, &all->cap, all->n + 1, sizeof *all->launch);
  if (rc == CT_OK) all->launch[all->n++] = *w;
  return rc;
}

/* Returns the index of the first launch that belongs to backward only. */
static int first_backward(const launches_t *all)
{
  int i = 0;
  while (i < all->n && (all->launch[i].pass & (CT_FWD | CT_FWD_STATS)) && !all->launch[i].again)
    i++;
  return i;
}

/* Stores the launches.  All micro-batches but the last (train.accumulate, parallel.shards) send no
 * gradients, so they are stored as one launch. */
static json_t *as_json(const launches_t *all, int micro_batches, double local_batch,
                       double bucket_bytes)
{
  double sum = 0;
  json_t *list = json_array();
  for (int i = 0; i < all->n; i++)
    sum += all->launch[i].seconds;
  if (micro_batches > 1)
    json_array_append_new(list,
                          json_pack("[f, f]", (micro_batches - 1) / (double)micro_batches, 0.));
  for (int i = 0; i < all->n; i++)
    json_array_append_new(list, json_pack("[f, f]", all->launch[i].seconds / sum / micro_batches,
                                          all->launch[i].gradient_bytes));
  return json_pack("{s:s, s:f, s:f, s:i, s:o}", "event", "timeline", "local_batch", local_batch,
                   "bucket_bytes", bucket_bytes, "loss", first_backward(all) + (micro_batches > 1),
                   "works", list);
}

int ct_scale_timeline(ct_setup_t *s, const ct_batch_t *b, json_t **out)
{
  int rc = CT_OK, micro_batches = s->step_opts.micro_batches > 1 ? s->step_opts.micro_batches : 1;
  launches_t all = {0};
  ct_batch_t micro_batch = *b;
  micro_batch.n = (b->n + micro_batches - 1) / micro_batches;
  CT_TRY(ct_trainer_time_launches(s->trainer, &micro_batch, REPEATS, add_launch, &all));
  *out = as_json(&all, micro_batches, b->n, ct_trainer_bucket_bytes(s->trainer));
  if (!*out) CT_FAIL(CT_ERR_NOMEM, "no memory for a timeline");
out:
  ct_mem_free(all.launch);
  return rc;
}
