/* Evaluation: every sample counts once, for any number of ranks and any size of the last batch.
 *
 * Ranks agree after each batch, so that an error on one of them ends the evaluation on all, and
 * reduce their sums only at the end.  Before, rank 0 broadcasts its running statistics, so that all
 * ranks evaluate the same model. */
#include "eval/ct_eval.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "eval/class_counts.h"
#include "eval/exact_sum.h"
#include "eval/field_errors.h"
#include "eval/ranking_metrics.h"
#include <math.h>
#include <string.h>

/* State of an evaluation on one rank. */
typedef struct counting {
  ct_trainer_t *t;
  ct_feed_t *feed;
  ct_eval_want_t want;
  ct__compared_t shape; /* what is compared, without its batch */
  ct__class_counts_t classes;
  ct__ranking_t ranking;
  ct__field_errors_t errors;
  const ct_dataset_t *data;
  float *logits;             /* of a batch; NULL: not needed */
  float *one;                /* of a sample */
  ct__exact_t exact;         /* windows of tokens: sum of the losses of the batches */
  ct_loss_t sum[CT_OUTPUTS]; /* per loss */
} counting_t;

/* Puts the classes of each sample, which were last, before its places. */
static void classes_first(const ct__compared_t *s, float *out, float *of_sample)
{
  int64_t count = s->classes * s->places;
  for (int64_t n = 0; n < s->n; n++) {
    memcpy(of_sample, out + n * count, (size_t)count * sizeof *out);
    for (int64_t i = 0; i < count; i++)
      out[n * count + i % s->classes * s->places + i / s->classes] = of_sample[i];
  }
}

/* Copies the outputs of a batch from the device, once for all metrics. */
static int count_outputs(counting_t *c, const ct_batch_t *b)
{
  int rc = CT_OK;
  const ct_head_t *h = &ct_trainer_heads(c->t)->of[c->want.head];
  const void *target = h->target ? b->more[h->target - 1] : NULL;
  ct__compared_t batch = c->shape;
  batch.n = b->n;
  batch.ids = b->ids;
  batch.out = c->logits;
  if (c->want.of == CT_SCORE_OF_LABELS)
    batch.labels = h->target ? target : b->labels;
  else
    batch.targets = h->target ? target : b->targets;
  CT_TRY(ct_trainer_output(c->t, h->output, c->logits));
  if (h->loss.classes_last) classes_first(&batch, c->logits, c->one);
  CT_TRY(ct__class_counts_batch(&c->classes, &batch));
  ct__ranking_batch(&c->ranking, &batch);
  ct__field_errors_batch(&c->errors, &batch);
out:
  return rc;
}

/* Finds the shape of the outputs and of what they are compared with. */
static ct__compared_t shape_of(const counting_t *c)
{
  const ct_dataset_t *d = c->data;
  const ct_head_t *h = &ct_trainer_heads(c->t)->of[c->want.head];
  const ct_more_as_t *as = h->target ? &d->more_as[h->target - 1] : NULL;
  int64_t values = ct_trainer_output_values(c->t, h->output), pixels = d->pixels;
  ct__compared_t shape = {.classes = c->want.channels,
                          .has_ignored = as ? as->has_ignored : d->has_ignored,
                          .ignored = as ? as->ignored : d->ignored};
  if (as) pixels = ct_shape_sample(&d->more.x[h->target - 1]);
  if (c->want.of == CT_SCORE_OF_LABELS) shape.classes = values / pixels;
  shape.places = values / shape.classes;
  return shape;
}

static int open_metrics(counting_t *c, int64_t samples)
{
  int rc = CT_OK;
  const char *score = c->want.score;
  c->shape = shape_of(c);
  c->classes.all = c->want.confusion;
  c->classes.by_sample = score[CT_SCORE_IOU_SAMPLE] || score[CT_SCORE_DICE_SAMPLE];
  if (score[CT_SCORE_AUC] || score[CT_SCORE_MAP]) c->ranking.classes = c->shape.classes;
  if (score[CT_SCORE_R2]) c->ranking.outputs = c->shape.classes * c->shape.places;
  if (score[CT_SCORE_RMSE] || score[CT_SCORE_VRMSE] || score[CT_SCORE_RELATIVE_L2] ||
      score[CT_SCORE_MAE])
    c->errors.channels = c->shape.classes;
  c->ranking.sets = c->want.of == CT_SCORE_OF_SETS;
  c->ranking.softmax = c->want.softmax;
  c->ranking.sigmoid = c->errors.sigmoid = c->want.sigmoid;
  CT_TRY(ct__class_counts_open(&c->classes, c->shape.places));
  CT_TRY(ct__ranking_open(&c->ranking, samples));
  CT_TRY(ct__field_errors_open(&c->errors, c->shape.places));
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
  ct_trainer_read_outputs(c->t, 0);
  if (!c->want.of) goto out;
  int64_t most = ct_feed_max(c->feed) > 0 ? ct_feed_max(c->feed) : 1;
  CT_TRY(open_metrics(c, most * ct_sampler_steps(in_order)));
  if (!c->classes.all && !c->ranking.classes && !c->ranking.outputs && !c->errors.channels)
    goto out;
  c->logits = ct_mem_array(most * c->shape.classes * c->shape.places, sizeof *c->logits,
                           "the outputs of a batch");
  c->one = ct_mem_array(c->shape.classes * c->shape.places, sizeof *c->one, "a sample's outputs");
  CT_TRY(c->logits && c->one ? CT_OK : CT_ERR_NOMEM);
  ct_trainer_read_outputs(c->t, 1);
out:
  return rc;
}

/* Evaluates this rank's part of the next batch. */
static int count_batch(counting_t *c)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  double before = c->sum[0].sum;
  ct_heartbeat_at("evaluation", -1);
  CT_TRY(ct_feed_next(c->feed, &b));
  if (c->data->info.tokens) c->sum[0].sum = 0;
  if (b && b->n) CT_TRY(ct_trainer_forward(c->t, b, &c->sum[0]));
  if (c->data->info.tokens) {
    ct__exact_add(&c->exact, c->sum[0].sum);
    c->sum[0].sum += before;
  }
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

/* Scores of classes, from counts that are those of all ranks. */
static void measure_classes(const counting_t *c, ct_scores_t *to)
{
  const ct_confusion_t *counted = c->classes.all;
  ct_prf_t macro = ct_prf_macro(counted);
  to->of[CT_SCORE_PRECISION] = macro.precision;
  to->of[CT_SCORE_RECALL] = macro.recall;
  to->of[CT_SCORE_F1] = macro.f1;
  to->of[CT_SCORE_IOU] = ct_class_mean(counted, ct_class_iou);
  to->of[CT_SCORE_DICE] = ct_class_mean(counted, ct_class_dice);
  if (c->classes.by_sample) to->of[CT_SCORE_IOU_SAMPLE] = ct__sample_mean(&c->classes.iou);
  if (c->classes.by_sample) to->of[CT_SCORE_DICE_SAMPLE] = ct__sample_mean(&c->classes.dice);
  if (!counted->set) return;
  to->of[CT_SCORE_F1_MICRO] = ct_f1_micro(counted);
  to->of[CT_SCORE_SUBSET_ACCURACY] = ct_subset_accuracy(counted);
  to->of[CT_SCORE_LABEL_ACCURACY] = ct_label_accuracy(counted);
}

/* The loss of tokens does not depend on the number of ranks: the sum is exact, and the cut
 * into the batches whose losses it adds is always the same (tokens_group()). */
static void measure_tokens(counting_t *c, const ct_topo_t *topo, double weight,
                           ct_eval_result_t *out)
{
  const ct_reader_info_t *info = &c->data->info;
  if (!info->tokens) return;
  ct_agree_sum(topo, (int64_t *)&c->exact, sizeof c->exact / sizeof(int64_t));
  out->loss = weight > 0 ? ct__exact_value(&c->exact) / weight : NAN;
  out->tokens = (int64_t)weight;
  out->more.of[CT_SCORE_BITS_PER_BYTE] =
      info->text_bytes ? out->loss / M_LN2 * (double)info->tokens / (double)info->text_bytes : NAN;
}

/* Metrics besides loss and accuracy. */
static int eval_measure(counting_t *c, const ct_topo_t *topo, double weight, ct_eval_result_t *out)
{
  int rc = CT_OK;
  double *of = out->more.of;
  for (int k = 0; k < CT_SCORE_COUNT; k++)
    of[k] = NAN;
  ct__class_counts_sum(&c->classes, topo);
  if (c->classes.all) measure_classes(c, &out->more);
  if (c->ranking.classes)
    CT_TRY(ct__ranking_auc(&c->ranking, topo, &of[CT_SCORE_AUC], &of[CT_SCORE_MAP]));
  if (c->ranking.outputs) CT_TRY(ct__ranking_r2(&c->ranking, topo, &of[CT_SCORE_R2]));
  ct__field_errors_result(&c->errors, topo, out);
  measure_tokens(c, topo, weight, out);
  of[CT_SCORE_PERPLEXITY] = exp(out->loss);
  for (int k = 0; k < CT_SCORE_COUNT; k++)
    if (!c->want.score[k]) of[k] = NAN;
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
                                    .regression = !ct_loss_of_labels(heads->of[k].loss.kind)};
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
                            .pixels = c->data->pixels};
  if (c->want.of) out->pixels = c->shape.places;
  sum_up_parts(heads, &w, out);
  CT_TRY(eval_measure(c, topo, w.loss_weight, out));
out:
  return rc;
}

/* Returns the number of windows that a rank evaluates together: of at least 4096 tokens, if the
 * batch has so many for each of 16 ranks.  It does not depend on the number of ranks, so that the
 * sums of these groups do not either, unless there are more ranks than groups in a batch. */
static int64_t tokens_group(const ct_dataset_t *d, int64_t batch, int ranks)
{
  enum { TOKENS = 4096, RANKS = 16 };
  int64_t n = (TOKENS + d->pixels - 1) / d->pixels, most = (batch + ranks - 1) / ranks;
  if (n > batch / RANKS) n = batch / RANKS;
  return n < 1 ? 1 : n < most ? n : most;
}

static int evaluate(counting_t *c, int64_t batch, int workers, const ct_ask_t *ask, int64_t *stop,
                    ct_eval_result_t *out)
{
  int rc = CT_OK;
  ct_sampler_t in_order = {.samples = c->data->info.samples, .batch = batch};
  *out = (ct_eval_result_t){0};
  *stop = 0;
  if (c->data->info.tokens) {
    int ranks = ct_trainer_topo(c->t)->size;
    in_order.group = tokens_group(c->data, batch, ranks);
    in_order.batch = in_order.group * ranks;
  }
  CT_TRY(ct_trainer_broadcast(c->t, 1));
  int own = open_counting(c, &in_order, workers);
  CT_TRY(count_all(c, ct_sampler_steps(&in_order), own, ask, stop));
  if (!*stop) CT_TRY(eval_sum_up(c, out));
out:
  ct_mem_free(c->logits);
  ct_mem_free(c->one);
  ct__class_counts_close(&c->classes);
  ct__ranking_close(&c->ranking);
  ct__field_errors_close(&c->errors);
  ct_feed_close(c->feed);
  return rc;
}

json_t *ct_eval_channels_json(const ct_eval_result_t *e)
{
  json_t *list = e->channels ? json_array() : NULL;
  for (int k = 0; list && k < e->channels; k++) {
    const ct_eval_channel_t *c = &e->channel[k];
    json_t *o = json_pack("{s:i, s:o, s:o}", "channel", k, "mae", ct_json_number(c->mae), "rmse",
                          ct_json_number(c->rmse));
    if (o && !isnan(c->vrmse)) json_object_set_new(o, "vrmse", ct_json_number(c->vrmse));
    json_array_append_new(list, o);
  }
  return list;
}

ct_scores_t ct_eval_scores(const ct_eval_result_t *e)
{
  int has_mae = e->regression || e->mae > 0;
  ct_scores_t s = e->more;
  s.of[CT_SCORE_LOSS] = e->loss;
  s.of[CT_SCORE_TOP1] = e->regression ? NAN : e->top1;
  s.of[CT_SCORE_TOP5] = e->regression ? NAN : e->top5;
  s.of[CT_SCORE_MAE] = has_mae ? e->mae : NAN;
  return s;
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
