/* The launches of a step as a study stores them: the fraction of the time that each takes, and the
 * bytes of gradients that it completes. */
#include "study/measure/ct_scale.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"

enum { REPEATS = 3 };

typedef struct works {
  ct_work_time_t *work;
  int64_t cap;
  int n;
} works_t;

static int add_work(void *ctx, const ct_work_time_t *w)
{
  works_t *all = ctx;
  int rc = ct_mem_grow((void **)&all->work, &all->cap, all->n + 1, sizeof *all->work);
  if (rc == CT_OK) all->work[all->n++] = *w;
  return rc;
}

/* Index of the first launch that belongs to backward only. */
static int first_backward(const works_t *all)
{
  int i = 0;
  while (i < all->n && (all->work[i].pass & (CT_FWD | CT_FWD_STATS)))
    i++;
  return i;
}

/* All micro-batches but the last (train.accumulate, parallel.shards) send nothing, so they are
 * stored as one launch. */
static json_t *as_json(const works_t *all, int pieces, double local_batch, double bucket_bytes)
{
  double sum = 0;
  json_t *list = json_array();
  for (int i = 0; i < all->n; i++)
    sum += all->work[i].seconds;
  if (pieces > 1)
    json_array_append_new(list, json_pack("[f, f]", (pieces - 1) / (double)pieces, 0.));
  for (int i = 0; i < all->n; i++)
    json_array_append_new(list, json_pack("[f, f]", all->work[i].seconds / sum / pieces,
                                          all->work[i].gradient_bytes));
  return json_pack("{s:s, s:f, s:f, s:i, s:o}", "event", "timeline", "local_batch", local_batch,
                   "bucket_bytes", bucket_bytes, "loss", first_backward(all) + (pieces > 1),
                   "works", list);
}

int ct_scale_timeline(ct_setup_t *s, const ct_batch_t *b, json_t **out)
{
  int rc = CT_OK, pieces = s->recipe.pieces > 1 ? s->recipe.pieces : 1;
  works_t all = {0};
  ct_batch_t piece = *b;
  piece.n = (b->n + pieces - 1) / pieces;
  CT_TRY(ct_trainer_time_works(s->trainer, &piece, REPEATS, add_work, &all));
  *out = as_json(&all, pieces, b->n, ct_trainer_bucket_bytes(s->trainer));
  if (!*out) CT_FAIL(CT_ERR_NOMEM, "no memory for a timeline");
out:
  ct_mem_free(all.work);
  return rc;
}
