#include "train/trainer.h"
#include "base/ct_err.h"

/* This rank's parts of all batches; a failure ends it for this rank alone. */
static int count_mine(ct_trainer_t *t, ct_feed_t *feed, ct_loss_t *sum)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  for (;;) {
    CT_TRY(ct_feed_next(feed, &b));
    if (!b) break;
    if (b->n) CT_TRY(ct_trainer_forward(t, b, sum));
  }
out:
  return rc;
}

int ct_evaluate(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
                ct_eval_result_t *out)
{
  const ct_topo_t *topo = t->env.topo;
  ct_feed_t *feed = NULL;
  ct_loss_t sum = {0};
  ct_sampler_t in_order = {.samples = d->info.samples, .batch = batch};
  *out = (ct_eval_result_t){0};
  int rc = ct_trainer_broadcast(t, 1);
  if (rc != CT_OK) return rc;
  rc = ct_feed_open(d, &in_order, topo->rank, topo->size, 0, 0, workers, 1, &feed);
  if (rc == CT_OK) rc = count_mine(t, feed, &sum);
  ct_feed_close(feed);
  ct_step_word_t w = {.err = rc,
                      .err_rank = topo->rank,
                      .loss_sum = sum.sum,
                      .samples = sum.samples,
                      .top1 = sum.top1,
                      .top5 = sum.top5};
  if ((rc = ct_step_agree(topo, &w)) != CT_OK) return rc;
  double n = w.samples ? (double)w.samples : 1;
  *out = (ct_eval_result_t){w.loss_sum / n, (double)w.top1 / n, (double)w.top5 / n, w.samples};
  return CT_OK;
}
