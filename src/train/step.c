/* State of the steps in progress, for every strategy: the time breakdown; the first failure, which
 * all ranks learn through the step status; and the losses. Each micro-batch stores its own sums of
 * each loss; those of a loss are divided by a common divisor, on which the ranks agree if samples
 * have different weights.
 *
 * With ct_trainer_lag() 1 a step is begun before the previous one is ended. Then all that the
 * device writes for the host exists twice and steps use it alternately, and the host waits for the
 * event at the end of a step. The time breakdown belongs to no single step: it covers the time from
 * the end of a step to the end of the next, whatever was done in it. */
#include "train/trainer.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_trace.h"
#include "job/ct_stop.h"
#include "plan/ct_loss.h"
#include <math.h>
#include <string.h>

/* Bytes of the losses of a step. */
static size_t losses_bytes(const ct_trainer_t *t)
{
  return (size_t)t->micro_batches * (size_t)t->heads.n * sizeof(ct_loss_t);
}

int ct__step_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  void *micro_batch_loss = NULL;
  char *weight = NULL;
  size_t bytes = t->need.bytes[CT_MEMORY_CLASS_WEIGHTS];
  for (int k = 0; k < CT_OUTPUTS; k++)
    t->step.divisor[k] = 1;
  CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_STAGING, 2 * losses_bytes(t), &micro_batch_loss));
  t->step.micro_batch_loss = micro_batch_loss;
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_CLASS_WEIGHTS, &weight));
  t->step.class_weight = weight;
  for (int i = 0; i < 2; i++) /* a step needs no memory for them */
    CT_TRY(t->env.be->queue->mark(t->q, &t->step.begun[i].done));
  if (!bytes) return CT_OK;
  for (int k = 0; k < t->heads.n; k++) {
    const ct_head_t *h = &t->heads.of[k];
    const float *from[] = {h->class_weight, h->place_weight};
    for (int places = 0; places < 2; places++) {
      size_t own, at = ct__memory_class_weights(&t->env, k, places, &own);
      if (own) CT_TRY(t->env.be->mem->copy(t->q, weight + at, from[places], own));
    }
  }
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

void ct__step_free(ct_trainer_t *t)
{
  for (int i = 0; i < 2; i++)
    t->env.be->queue->unmark(t->step.begun[i].done);
  t->env.be->mem->free(t->env.dev, CT_MEM_STAGING, t->step.micro_batch_loss);
}

/* Returns the losses of micro-batch p. */
static ct_loss_t *losses(const ct_trainer_t *t, int p)
{
  return t->step.micro_batch_loss + (t->step.slot * t->micro_batches + p) * t->heads.n;
}

const ct_loss_t *ct__step_losses(const ct_trainer_t *t)
{
  return losses(t, 0);
}

void ct__step_restart(ct_trainer_t *t)
{
  t->step.ended = 0;
}

/* ---- failures ---- */

void ct__step_clear(ct_trainer_t *t)
{
  ct__step_t *s = &t->step;
  if (!s->pending) s->times = (ct_step_times_t){0};
  s->now = s->own = CT_TIME_COMPUTE;
  s->since = ct_clock();
  s->failed = CT_OK;
  memset(losses(t, 0), 0, losses_bytes(t));
}

int ct__step_note(ct_trainer_t *t, int rc)
{
  if (rc != CT_OK && t->step.failed == CT_OK) {
    t->step.failed = rc;
    t->step.failure = *ct_err_last();
  }
  return rc;
}

int ct__step_is_well(const ct_trainer_t *t)
{
  return t->step.failed == CT_OK;
}

int ct__step_outcome(const ct_trainer_t *t)
{
  if (t->step.failed != CT_OK) ct_err_put(&t->step.failure);
  return t->step.failed;
}

/* ---- time ---- */

static double work_of(const ct_step_times_t *t)
{
  return t->s[CT_TIME_COMPUTE] + t->s[CT_TIME_UPDATE];
}

static void turn_to(ct__step_t *s, ct_step_time_t kind)
{
  double now = ct_clock();
  s->times.s[s->now] += now - s->since;
  if (ct_trace_is_on())
    ct_trace_between(s->doing ? s->doing : ct_step_time_name(s->now), NULL, s->detail, s->since,
                     now);
  s->doing = NULL;
  s->detail = -1;
  s->since = now;
  s->now = kind;
}

void ct__step_turn(ct_trainer_t *t, ct_step_time_t own)
{
  t->step.own = own;
  turn_to(&t->step, own);
}

/* Moves the time that the device waited for other ranks out of the compute time. If a later step is
 * enqueued, the device may have waited while the host waited elsewhere, and only waits of the last
 * \a blocked seconds, in which the host waited for the device, count. */
static void take_out_waits(ct_trainer_t *t, int later, double blocked)
{
  double transfers, groups, *s = t->step.times.s;
  t->env.comm_ops->waited(t->env.comm, t->step.slot, &transfers, &groups);
  double waits = transfers + groups, share = later && waits > blocked ? blocked / waits : 1;
  turn_to(&t->step, t->step.own);
  if (share * waits > s[CT_TIME_COMPUTE]) return; /* implausible measurement */
  s[CT_TIME_COMPUTE] -= share * waits;
  s[CT_TIME_WAIT] += share * transfers;
  s[CT_TIME_BATCHNORM] += share * groups;
}

/* Returns 1 for a single rank, which never waits for others, so that reading the clock for every
 * call is not worth its cost. */
static int is_alone(const ct_trainer_t *t)
{
  return t->env.topo->size == 1 && !ct_trace_is_on();
}

void ct__step_enter(ct_trainer_t *t, ct_step_time_t kind, const char *doing, int64_t detail)
{
  if (is_alone(t)) return;
  turn_to(&t->step, kind);
  t->step.doing = doing;
  t->step.detail = detail;
  if (doing && t->env.topo->size > 1)
    ct_heartbeat_enter(doing, detail);
  else if (doing)
    ct_heartbeat_at(doing, detail);
}

void ct__step_leave(ct_trainer_t *t)
{
  if (is_alone(t)) return;
  turn_to(&t->step, t->step.own);
}

void ct__step_sum(ct_trainer_t *t, double *io, int n, int max)
{
  ct__step_enter(t, CT_TIME_WAIT, NULL, -1);
  ct__step_note(t, ct_agree_doubles(t->env.topo, io, n, max));
  ct__step_leave(t);
}

static double exposed(const ct_step_times_t *t)
{
  return ct_step_times_all(t) - ct_step_times_busy(t) + t->s[CT_TIME_MOVE];
}

/* Accounts for the time before the step is begun. */
static void take_in(ct__step_t *s, const ct_step_report_t *r)
{
  double between = s->since - s->ended - r->data_s - r->save_s - r->apart_s;
  s->times.s[CT_TIME_DATA] += r->data_s;
  s->times.s[CT_TIME_SAVE] += r->save_s;
  s->times.s[CT_TIME_OTHER] += s->ended > 0 && between > 0 ? between : 0;
}

/* Copies the times into the step status. */
static void report_times(const ct_step_times_t *t, ct_step_status_t *status)
{
  status->time_sum = status->time_max = *t;
  status->busy_max = ct_step_times_busy(t);
  status->work_max = work_of(t);
}

/* ---- the losses ---- */

static double weight_of(const ct_head_t *h, int32_t label)
{
  if (h->loss.has_ignored && label == h->loss.ignored) return 0;
  return h->class_weight ? h->class_weight[label] : 1;
}

static int64_t pixels_of(const ct_trainer_t *t, const ct_head_t *h)
{
  return ct_loss_pixels(&h->loss, ct__memory_output(&t->env, h));
}

/* Returns 1 if samples, pixels or outputs may count differently in a loss. */
static int has_weights(const ct_head_t *h)
{
  const ct_loss_spec_t *o = &h->loss;
  if (o->divisor == CT_DIVISOR_SAMPLES) return o->sample_weighted;
  if (o->divisor != CT_DIVISOR_WEIGHTS) return 0;
  if (ct_loss_is_point(o->kind)) return o->sample_weighted || o->place_weighted || o->skips_nan;
  int by_class = o->kind == CT_LOSS_CROSS_ENTROPY && (o->weighted || o->has_ignored);
  int by_place = o->place_weighted &&
                 (o->kind == CT_LOSS_CROSS_ENTROPY || o->kind == CT_LOSS_SOFT_CROSS_ENTROPY);
  return o->sample_weighted || o->skips_nan || by_class || by_place;
}

/* Returns the divisor of a loss without weights. */
static double count_elements(const ct_trainer_t *t, const ct_head_t *h, int64_t samples)
{
  if (h->loss.divisor == CT_DIVISOR_NONE) return 1;
  if (h->loss.divisor == CT_DIVISOR_SAMPLES) return (double)samples;
  return (double)(samples * ct_loss_elements(&h->loss, ct__memory_output(&t->env, h)));
}

/* Returns the weight of sample i in a loss of labels, apart from its own. */
static double weigh_labels(const ct_trainer_t *t, const ct_head_t *h, const ct_batch_t *b,
                           int64_t i)
{
  int64_t pixels = pixels_of(t, h);
  double sum = 0, share = h->target || !b->mix ? 1 : b->mix[i];
  const int32_t *labels = h->target ? b->more[h->target - 1] : b->labels;
  for (int64_t k = 0; k < pixels; k++) {
    double own = share * weight_of(h, labels[i * pixels + k]);
    if (share < 1) own += (1 - share) * weight_of(h, b->labels2[i * pixels + k]);
    sum += own * (h->place_weight ? h->place_weight[k] : 1);
  }
  return sum;
}

/* Returns that of sample i in a loss of targets: the mean place weight of outputs whose target is
 * not missing; relative L2: whether there are any; of probabilities: the sum of place weights. */
static double weigh_targets(const ct_trainer_t *t, const ct_head_t *h, const ct_batch_t *b,
                            int64_t i)
{
  int64_t count = ct_shape_sample(ct__memory_output(&t->env, h)), seen = 0, places = count;
  int point = ct_loss_is_point(h->loss.kind);
  const float *all = h->target ? b->more[h->target - 1] : b->targets;
  double sum = 0;
  if (!point && h->loss.kind != CT_LOSS_RELATIVE_L2)
    places = ct_loss_elements(&h->loss, ct__memory_output(&t->env, h));
  for (int64_t k = 0; k < places; k++) {
    if (h->loss.skips_nan && isnan(all[i * count + k])) continue;
    sum += h->place_weight ? h->place_weight[k] : 1;
    seen++;
  }
  if (h->loss.kind == CT_LOSS_RELATIVE_L2) return seen > 0;
  return point ? sum / (double)count : sum;
}

/* Returns the sum of the weights of this rank's samples, pixels or outputs in a loss. */
static double sum_weights(const ct_trainer_t *t, const ct_head_t *h, const ct_batch_t *b)
{
  const ct_loss_spec_t *o = &h->loss;
  double sum = 0;
  int dice = o->kind == CT_LOSS_DICE || o->kind == CT_LOSS_SIGMOID_DICE;
  int whole = o->divisor == CT_DIVISOR_SAMPLES || dice;
  for (int64_t i = 0; i < b->n; i++) {
    double own = whole                              ? 1
                 : o->kind == CT_LOSS_CROSS_ENTROPY ? weigh_labels(t, h, b, i)
                 : o->one_hot && !o->place_weighted ? 1
                                                    : weigh_targets(t, h, b, i);
    sum += (b->weights ? b->weights[i] : 1) * own;
  }
  return sum;
}

/* Divisors of the losses: the number of samples or pixels over all ranks, or the sum of their
 * weights, on which the ranks agree in one message. If that sum is 0 the batch counts as nothing:
 * its loss and gradients are 0, including those of label smoothing, which involve all classes.
 * PyTorch divides by 0 in this case. */
static void find_divisors(ct_trainer_t *t, const ct_batch_t *b)
{
  double sum[CT_OUTPUTS] = {0};
  int any = 0, well = ct__step_is_well(t), n = t->heads.n;
  const ct_head_t *h = t->heads.of;
  for (int k = 0; k < n; k++) {
    any |= has_weights(&h[k]);
    if (well && has_weights(&h[k])) sum[k] = sum_weights(t, &h[k], b);
  }
  if (any) ct__step_sum(t, sum, n, 0);
  for (int k = 0; k < n; k++) {
    double all = well ? count_elements(t, &h[k], b->global) : 1;
    t->step.divisor[k] = !has_weights(&h[k]) ? all : sum[k] > 0 ? sum[k] : INFINITY;
  }
}

/* Returns the weights of classes, or with \a places of places, of loss k; NULL: there are none. */
static const float *weights_at(const ct_trainer_t *t, int k, int places)
{
  size_t bytes, at = ct__memory_class_weights(&t->env, k, places, &bytes);
  return bytes ? (const float *)(const void *)(t->step.class_weight + at) : NULL;
}

void ct__step_bind_loss(const ct_trainer_t *t, int p, ct_bind_t *bind)
{
  double scale = ct_scaler_scale(&t->progress.scaler);
  bind->loss = losses(t, p);
  for (int k = 0; k < t->heads.n; k++) {
    const ct_head_t *h = &t->heads.of[k];
    float own = (float)(scale * h->weight / t->step.divisor[k]);
    *(k ? &bind->more[k - 1].scale : &bind->loss_scale) = own;
    *(k ? &bind->more[k - 1].class_weight : &bind->class_weight) = weights_at(t, k, 0);
    *(k ? &bind->more[k - 1].place_weight : &bind->place_weight) = weights_at(t, k, 1);
  }
}

void ct__step_add_loss(const ct_trainer_t *t, int k, ct_loss_t *sum)
{
  for (int p = 0; p < t->micro_batches; p++) {
    const ct_loss_t *l = &losses(t, p)[k];
    sum->sum += l->sum;
    sum->weight += l->weight;
    sum->abs_error += l->abs_error;
    sum->samples += l->samples;
    sum->top1 += l->top1;
    sum->top5 += l->top5;
  }
}

/* Checks that the loss is finite. With loss scaling an overflow is normal until the scale cannot be
 * lowered further. */
static int check_loss(const ct_trainer_t *t, const ct__begun_t *b, double sum)
{
  const ct_scaler_t *scaler = &t->progress.scaler;
  if (isfinite(sum) || (scaler->on && ct_scaler_scale(scaler) > 1e-3)) return CT_OK;
  return ct_err_set(
      CT_ERR_NONFINITE, __FILE__, __LINE__,
      "the loss is %g at step %lld (epoch %lld, samples %lld to %lld of it): lower the "
      "learning rate, or look for bad values in the data",
      sum, (long long)b->number + 1, (long long)b->epoch + 1, (long long)b->sample,
      (long long)b->sample + b->n - 1);
}

void ct_loss_report(const ct_loss_t l[], int n, ct_step_status_t *status)
{
  for (int k = 0; n > 1 && k < n; k++)
    status->loss[k] = (ct_step_loss_t){.sum = l[k].sum,
                                       .weight = l[k].weight,
                                       .abs_error = l[k].abs_error,
                                       .samples = l[k].samples,
                                       .top1 = l[k].top1,
                                       .top5 = l[k].top5};
  status->loss_sum = l->sum;
  status->loss_weight = l->weight;
  status->abs_error = l->abs_error;
  status->samples = l->samples;
  status->top1 = l->top1;
  status->top5 = l->top5;
}

void ct_loss_combine(const ct_heads_t *heads, ct_step_status_t *status)
{
  double sum = 0;
  if (heads->of[0].loss.divisor == CT_DIVISOR_NONE) status->loss_weight = 1;
  if (heads->n < 2) return;
  for (int k = 0; k < heads->n; k++) {
    ct_step_loss_t *l = &status->loss[k];
    if (heads->of[k].loss.divisor == CT_DIVISOR_NONE) l->weight = 1;
    if (l->weight > 0) sum += heads->of[k].weight * (l->sum / l->weight);
  }
  status->loss_weight = (double)status->samples;
  status->loss_sum = sum * status->loss_weight;
}

/* ---- start and end ---- */

void ct__step_begin(ct_trainer_t *t, const ct_batch_t *b, int rc_in, ct_step_report_t *report)
{
  ct_heartbeat_at("forward and backward", -1);
  t->step.slot = (int)(t->progress.steps % 2);
  ct__step_clear(t);
  if (t->env.comm_ops->measure) t->env.comm_ops->measure(t->env.comm, t->step.slot);
  take_in(&t->step, report);
  ct__step_note(t, rc_in);
  find_divisors(t, b);
  report->samples = ct__step_is_well(t) ? b->global : 0;
}

int ct_trainer_lag(const ct_trainer_t *t)
{
  const ct_trainer_env_t *e = &t->env;
  const ct_step_opts_t *how = &e->step_opts;
  int host_waits = !e->be->repeats || !e->comm_ops->repeatable || !how->strategy->repeats ||
                   (how->zero && isinf(how->clip_p)) || how->qat || ct__memory_on_host(e);
  return host_waits || t->progress.scaler.on ? 0 : how->lag;
}

int ct__step_slot(const ct_trainer_t *t)
{
  return t->step.slot;
}

int ct__step_pending(const ct_trainer_t *t)
{
  return t->step.pending;
}

ct_event_t *ct__step_done(const ct_trainer_t *t, int slot)
{
  return t->step.begun[slot].done;
}

void ct__step_begun(ct_trainer_t *t, const ct_batch_t *b)
{
  ct__step_t *s = &t->step;
  ct__begun_t *begun = &s->begun[s->slot];
  if (ct_trainer_lag(t)) ct__step_note(t, t->env.be->queue->mark(t->q, &begun->done));
  begun->number = t->progress.steps;
  begun->failed = s->failed;
  if (s->failed != CT_OK) begun->failure = s->failure;
  begun->n = b ? b->n : 0;
  begun->skipped = b ? b->skipped : 0;
  begun->epoch = b ? b->epoch : 0;
  begun->sample = b ? b->cursor + b->first : 0;
  s->pending++;
  turn_to(s, CT_TIME_OTHER);
  s->ended = s->since;
}

void ct__step_wait(ct_trainer_t *t)
{
  ct__step_t *s = &t->step;
  const ct_queue_ops_t *queue = t->env.be->queue;
  s->slot = (int)((t->progress.steps - s->pending) % 2);
  const ct__begun_t *begun = &s->begun[s->slot];
  s->failed = begun->failed;
  if (s->failed != CT_OK) s->failure = begun->failure;
  turn_to(s, CT_TIME_COMPUTE);
  int later = s->pending > 1 && begun->done; /* 1: a later step is enqueued */
  ct__step_note(t, later ? queue->wait(begun->done) : queue->sync(t->q));
  take_out_waits(t, later, ct_clock() - s->since);
}

void ct__step_end(ct_trainer_t *t, ct_step_status_t *status)
{
  ct_loss_t all[CT_OUTPUTS] = {{0}};
  const ct__begun_t *b = &t->step.begun[t->step.slot];
  int by_sample = t->heads.n == 1 && pixels_of(t, &t->heads.of[0]) == 1;
  for (int k = 0; k < t->heads.n; k++) {
    ct__step_add_loss(t, k, &all[k]);
    if (ct__step_is_well(t) && b->n) ct__step_note(t, check_loss(t, b, all[k].sum));
  }
  *status = (ct_step_status_t){.err = ct__step_outcome(t),
                               .skipped = b->skipped,
                               .err_rank = t->env.topo->rank,
                               .stop = ct_stop_with_signal(status->stop, t->env.topo->rank)};
  if (ct__step_is_well(t)) ct_loss_report(all, t->heads.n, status);
  if (ct__step_is_well(t) && !by_sample) status->samples = b->n;
}

int ct__step_over(ct_trainer_t *t, ct_step_status_t *status, ct_step_report_t *report)
{
  ct__step_t *s = &t->step;
  turn_to(s, CT_TIME_WORD);
  report_times(&s->times, status);
  int rc = ct_step_agree(t->env.topo, status);
  ct_loss_combine(&t->heads, status);
  turn_to(s, CT_TIME_OTHER);
  s->ended = s->since;
  s->pending--;
  report->times = s->times;
  report->data_s = s->times.s[CT_TIME_DATA];
  report->compute_s = work_of(&s->times);
  report->comm_exposed_s = exposed(&s->times);
  s->times = (ct_step_times_t){0};
  return rc;
}
