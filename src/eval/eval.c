/* Evaluation: every sample counts once, for any number of ranks and any size of the last batch.
 *
 * Ranks agree after each batch, so that an error on one of them ends the evaluation on all, and
 * reduce their sums only at the end.  Before, rank 0 broadcasts its running statistics, so that all
 * ranks evaluate the same model. */
#include "eval/ct_eval.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "eval/ranking_metrics.h"
#include <math.h>
#include <string.h>

/* State of an evaluation on one rank. */
typedef struct counting {
  ct_trainer_t *t;
  ct_feed_t *feed;
  ct_eval_want_t want;
  ct__ranking_t ranking;
  const ct_dataset_t *data;
  float *logits;             /* of a batch; NULL: not needed */
  ct_loss_t sum[CT_OUTPUTS]; /* per loss */
} counting_t;

static void count_classes(counting_t *c, const ct_batch_t *b)
{
  int64_t pixels = c->data->pixels, sample = c->want.confusion->classes * pixels;
  for (int64_t i = 0; i < b->n * pixels; i++) {
    if (c->data->has_ignored && b->labels[i] == c->data->ignored) continue;
    const float *logits = c->logits + i / pixels * sample + i % pixels;
    ct_confusion_add(c->want.confusion, logits, pixels, b->labels[i]);
  }
}

static int count_outputs(counting_t *c, const ct_batch_t *b)
{
  int rc = CT_OK;
  CT_TRY(ct_trainer_output(c->t, ct_trainer_heads(c->t)->of[0].output, c->logits));
  if (c->want.confusion) count_classes(c, b);
  ct__ranking_batch(&c->ranking, b, c->logits, c->data->has_ignored, c->data->ignored);
out:
  return rc;
}

static int open_counting(counting_t *c, const ct_sampler_t *in_order, int workers)
{
  int rc = CT_OK;
  ct_feed_opts_t o = ct_trainer_feed_opts(c->t, 0);
  o.workers = workers;
  o.one_epoch = 1;
  CT_TRY(ct_feed_open(c->data, in_order, &o, &c->feed));
  int64_t most = ct_feed_max(c->feed) > 0 ? ct_feed_max(c->feed) : 1;
  int64_t outputs = ct_trainer_outputs(c->t);
  if (c->want.confusion) {
    outputs = c->want.confusion->classes * c->data->pixels;
    memset(c->want.confusion->count, 0,
           sizeof(int64_t) * (size_t)(c->want.confusion->classes * c->want.confusion->classes));
  }
  if (c->want.auc) c->ranking.classes = outputs;
  if (c->want.r2) c->ranking.outputs = outputs;
  c->ranking.softmax = c->want.softmax;
  c->ranking.sigmoid = c->want.sigmoid;
  CT_TRY(ct__ranking_open(&c->ranking, most * ct_sampler_steps(in_order)));
  if (c->want.confusion || c->want.auc || c->want.r2) {
    c->logits = ct_mem_array(most * outputs, sizeof *c->logits, "the logits");
    CT_TRY(c->logits ? CT_OK : CT_ERR_NOMEM);
  }
out:
  return rc;
}

/* Evaluates this rank's part of the next batch. */
static int count_batch(counting_t *c)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  ct_heartbeat_at("evaluation", -1);
  CT_TRY(ct_feed_next(c->feed, &b));
  if (b && b->n) CT_TRY(ct_trainer_forward(c->t, b, &c->sum[0]));
  for (int k = 1; b && b->n && k < ct_trainer_heads(c->t)->n; k++)
    ct_trainer_add_loss(c->t, k, &c->sum[k]);
  if (b && b->n && c->logits) CT_TRY(count_outputs(c, b));
out:
  return rc;
}

/* Evaluates all batches; \a own: this rank's code so far.  After the last batch a stop request no
 * longer matters. */
static int count_all(counting_t *c, int64_t batches, int own, const ct_ask_t *ask, int64_t *stop)
{
  int rc = CT_OK;
  const ct_topo_t *topo = ct_trainer_topo(c->t);
  CT_TRY(ct_agree(topo, own));
  ct_prefetch_t before = ct_trainer_follow(c->t, ct_trainer_feed(c->feed));
  for (int64_t i = 1; i <= batches && rc == CT_OK && !*stop; i++) {
    ct_step_status_t w = {.err = count_batch(c)};
    if (ask && i < batches) w.stop = ask->stop(ask->ctx);
    rc = ct_step_agree(topo, &w);
    *stop = w.stop;
  }
  ct_trainer_follow(c->t, before);
out:
  return rc;
}

/* Metrics besides loss and accuracy. */
static int eval_measure(counting_t *c, const ct_topo_t *topo, ct_eval_result_t *out)
{
  int rc = CT_OK;
  const ct_confusion_t *counted = c->want.confusion;
  if (counted) {
    ct_agree_sum(topo, counted->count, counted->classes * counted->classes);
    out->macro = ct_prf_macro(counted);
  }
  if (c->want.auc) CT_TRY(ct__ranking_auc(&c->ranking, topo, &out->auc));
  if (c->want.r2) CT_TRY(ct__ranking_r2(&c->ranking, topo, &out->r2));
out:
  return rc;
}

static void sum_up_parts(const ct_heads_t *heads, const ct_step_status_t *w, ct_eval_result_t *out)
{
  out->parts = heads->n > 1 ? heads->n : 0;
  for (int k = 0; k < out->parts; k++) {
    const ct_step_loss_t *l = &w->loss[k];
    double n = l->samples ? (double)l->samples : 1;
    out->part[k] = (ct_eval_part_t){.name = heads->of[k].name,
                                    .loss = l->weight > 0 ? l->sum / l->weight : NAN,
                                    .top1 = (double)l->top1 / n,
                                    .top5 = (double)l->top5 / n,
                                    .mae = l->abs_error / n,
                                    .regression = heads->of[k].loss.kind != CT_LOSS_CROSS_ENTROPY};
  }
}

static int eval_sum_up(counting_t *c, ct_eval_result_t *out)
{
  int rc = CT_OK;
  const ct_topo_t *topo = ct_trainer_topo(c->t);
  ct_step_status_t w = {0};
  const ct_heads_t *heads = ct_trainer_heads(c->t);
  ct_loss_report(c->sum, heads->n, &w);
  CT_TRY(ct_step_agree(topo, &w));
  const ct_step_status_t of_first = w;
  if (heads->n > 1) w.samples = c->data->info.samples;
  ct_loss_combine(heads, &w);
  w.samples = of_first.samples;
  double n = w.samples ? (double)w.samples : 1;
  *out = (ct_eval_result_t){.loss = w.loss_weight > 0 ? w.loss_sum / w.loss_weight : NAN,
                            .top1 = (double)w.top1 / n,
                            .top5 = (double)w.top5 / n,
                            .mae = w.abs_error / n,
                            .regression = c->data->info.targets > 0,
                            .samples = c->data->pixels > 1 || heads->n > 1 ? c->data->info.samples
                                                                           : w.samples,
                            .pixels = c->data->pixels,
                            .macro = {NAN, NAN, NAN},
                            .auc = NAN,
                            .r2 = NAN};
  sum_up_parts(heads, &w, out);
  CT_TRY(eval_measure(c, topo, out));
out:
  return rc;
}

static int evaluate(counting_t *c, int64_t batch, int workers, const ct_ask_t *ask, int64_t *stop,
                    ct_eval_result_t *out)
{
  int rc = CT_OK;
  ct_sampler_t in_order = {.samples = c->data->info.samples, .batch = batch};
  *out = (ct_eval_result_t){0};
  *stop = 0;
  CT_TRY(ct_trainer_broadcast(c->t, 1));
  int own = open_counting(c, &in_order, workers);
  CT_TRY(count_all(c, ct_sampler_steps(&in_order), own, ask, stop));
  if (!*stop) CT_TRY(eval_sum_up(c, out));
out:
  ct_mem_free(c->logits);
  ct__ranking_close(&c->ranking);
  ct_feed_close(c->feed);
  return rc;
}

ct_scores_t ct_eval_scores(const ct_eval_result_t *e)
{
  int has_mae = e->regression || e->mae > 0;
  return (ct_scores_t){.of = {[CT_SCORE_LOSS] = e->loss,
                              [CT_SCORE_TOP1] = e->regression ? NAN : e->top1,
                              [CT_SCORE_TOP5] = e->regression ? NAN : e->top5,
                              [CT_SCORE_MAE] = has_mae ? e->mae : NAN,
                              [CT_SCORE_PRECISION] = e->macro.precision,
                              [CT_SCORE_RECALL] = e->macro.recall,
                              [CT_SCORE_F1] = e->macro.f1,
                              [CT_SCORE_AUC] = e->auc,
                              [CT_SCORE_R2] = e->r2}};
}

ct_scores_t ct_eval_scores_of(const ct_eval_result_t *e, const char *output)
{
  ct_eval_result_t one = *e;
  if (!output[0] || !e->parts) return ct_eval_scores(e);
  for (int k = 0; k < e->parts; k++) {
    const ct_eval_part_t *p = &e->part[k];
    if (strcmp(p->name, output) != 0) continue;
    one.loss = p->loss;
    one.top1 = p->top1;
    one.top5 = p->top5;
    one.mae = p->mae;
    one.regression = p->regression;
  }
  return ct_eval_scores(&one);
}

int ct_evaluate(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
                const ct_eval_want_t *want, const ct_ask_t *ask, int64_t *stop,
                ct_eval_result_t *out)
{
  counting_t c = {.t = t, .data = d};
  if (want) c.want = *want;
  return evaluate(&c, batch, workers, ask, stop, out);
}
