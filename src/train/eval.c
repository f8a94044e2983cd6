#include "train/ct_confusion.h"
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* What one rank counts, and with what. */
typedef struct counting {
  ct_trainer_t *t;
  ct_feed_t *feed;
  ct_confusion_t *confusion; /* NULL: not asked for */
  const ct_dataset_t *data;
  float *logits; /* of a batch */
  ct_loss_t sum;
} counting_t;

static int count_classes(counting_t *c, const ct_batch_t *b)
{
  int rc = CT_OK;
  CT_TRY(ct_trainer_logits(c->t, c->logits));
  for (int64_t i = 0; i < b->n; i++) {
    if (c->data->has_ignored && b->labels[i] == c->data->ignored) continue;
    ct_confusion_add(c->confusion, 1, c->logits + i * c->confusion->classes, &b->labels[i]);
  }
out:
  return rc;
}

/* This rank's parts of all batches; a failure ends it for this rank alone. */
static int count_mine(counting_t *c)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  for (;;) {
    CT_TRY(ct_feed_next(c->feed, &b));
    if (!b) break;
    if (b->n) CT_TRY(ct_trainer_forward(c->t, b, &c->sum));
    if (b->n && c->confusion) CT_TRY(count_classes(c, b));
  }
out:
  return rc;
}

static int count_all(counting_t *c, int64_t batch, int workers)
{
  int rc = CT_OK;
  const ct_topo_t *topo = c->t->env.topo;
  ct_sampler_t in_order = {.samples = c->data->info.samples, .batch = batch};
  ct_feed_opts_t o = ct_trainer_feed_opts(c->t, 0);
  o.rank = topo->rank;
  o.size = topo->size;
  o.workers = workers;
  o.one_epoch = 1;
  CT_TRY(ct_feed_open(c->data, &in_order, &o, &c->feed));
  if (c->confusion) {
    int64_t n = ct_feed_max(c->feed) > 0 ? ct_feed_max(c->feed) : 1;
    c->logits = ct_mem_array(n * c->confusion->classes, sizeof *c->logits, "the logits");
    CT_TRY(c->logits ? CT_OK : CT_ERR_NOMEM);
  }
  ct_look_t before = ct_trainer_follow(c->t, ct_trainer_feed(c->feed));
  rc = count_mine(c);
  ct_trainer_follow(c->t, before);
out:
  ct_mem_free(c->logits);
  ct_feed_close(c->feed);
  return rc;
}

int ct_evaluate_classes(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
                        ct_eval_result_t *out, ct_confusion_t *confusion)
{
  const ct_topo_t *topo = t->env.topo;
  counting_t c = {.t = t, .confusion = confusion, .data = d};
  *out = (ct_eval_result_t){0};
  int rc = ct_trainer_broadcast(t, 1);
  if (rc != CT_OK) return rc;
  rc = count_all(&c, batch, workers);
  ct_step_word_t w = {.err = rc, .err_rank = topo->rank};
  ct__loss_tell(&c.sum, &w);
  if ((rc = ct_step_agree(topo, &w)) != CT_OK) return rc;
  if (confusion) ct_agree_sum(topo, confusion->count, confusion->classes * confusion->classes);
  double n = w.samples ? (double)w.samples : 1;
  *out = (ct_eval_result_t){.loss = w.loss_sum / (w.loss_weight > 0 ? w.loss_weight : n),
                            .top1 = (double)w.top1 / n,
                            .top5 = (double)w.top5 / n,
                            .mae = w.abs_error / n,
                            .regression = d->info.targets > 0,
                            .samples = w.samples};
  return CT_OK;
}

int ct_evaluate(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
                ct_eval_result_t *out)
{
  return ct_evaluate_classes(t, d, batch, workers, out, NULL);
}
