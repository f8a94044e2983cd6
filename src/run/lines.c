/* Lines of the training loop: metrics.jsonl for programs, the log for people.  Only rank 0 has a
 * metrics file and a terminal; on other ranks the same calls do nothing. */
#include "run/lines.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "telemetry/ct_metrics.h"
#include "run/progress.h"
#include "run/token_rate.h"

static int first_step(const ct__lines_t *l, int64_t step)
{
  ct_metrics_t *m = l->o->metrics;
  if (step != l->begun_step + 1) return CT_OK;
  ct_metrics_begin(m, "first_step");
  ct_metrics_int(m, "step", step);
  ct_metrics_num(m, "first_step_s", ct_clock() - l->begin);
  ct_metrics_num(m, "since_exec_s", ct_clock_since_exec());
  return ct_metrics_end(m);
}

int ct__lines_logged(const ct__lines_t *l, int64_t step)
{
  return step % l->o->run->log_every == 0 || step == l->begun_step + 1;
}

/* {"layer4.*": 0.001, …}: the learning rates of parameter groups that have their own. */
static void group_rates(const ct__lines_t *l, const ct_schedule_point_t *point)
{
  const char *match;
  double lr;
  if (!l->o->metrics || !ct_trainer_group_lr(l->t, point, 0, &match, &lr)) return;
  json_t *rates = json_object();
  for (int i = 0; rates && ct_trainer_group_lr(l->t, point, i, &match, &lr); i++)
    if (json_object_set_new(rates, match, json_real(lr)) != 0) break;
  ct_metrics_json(l->o->metrics, "lr_groups", rates);
}

/* Writes NAME_OUTPUT, a metric of one of several losses. */
static void part_num(ct_metrics_t *m, const char *name, const char *output, double value)
{
  char key[CT_NAME_MAX + 16];
  snprintf(key, sizeof key, "%s_%s", name, output);
  ct_metrics_num(m, key, value);
}

static void step_losses(const ct__lines_t *l, const ct_step_status_t *w)
{
  const ct_heads_t *heads = ct_trainer_heads(l->t);
  for (int k = 0; heads->n > 1 && k < heads->n; k++) {
    const ct_step_loss_t *one = &w->loss[k];
    part_num(l->o->metrics, "loss", heads->of[k].name,
             one->weight > 0 ? one->sum / one->weight : 0);
  }
}

/* Writes the rates of windows of tokens. */
static void token_rates(const ct__lines_t *l, double samples_per_s)
{
  int64_t tokens = ct__tokens_per_sample(l->o->data);
  double rate = samples_per_s * (double)tokens, peak = l->o->train->peak_tflops;
  if (!tokens || !l->o->metrics) return;
  ct_metrics_num(l->o->metrics, "tokens_per_s", rate);
  if (peak > 0)
    ct_metrics_num(l->o->metrics, "mfu",
                   ct__token_mfu(rate, ct__token_flops(l->o->graph, tokens),
                                 ct_trainer_topo(l->t)->size, peak));
}

static int step_line(const ct__lines_t *l, const ct_position_t *at, const ct_step_status_t *w,
                     const ct_step_report_t *r, const ct_schedule_point_t *point, double seconds)
{
  ct_metrics_t *m = l->o->metrics;
  ct_metrics_begin(m, "step");
  ct_metrics_int(m, "step", at->step);
  ct_metrics_int(m, "epoch", ct__progress_line_epoch(at));
  ct_metrics_num(m, "loss", w->loss_weight > 0 ? w->loss_sum / w->loss_weight : 0);
  step_losses(l, w);
  ct_metrics_num(m, "lr", ct_trainer_lr(l->t, point));
  group_rates(l, point);
  ct_metrics_num(m, "samples_per_s", (double)w->samples / seconds);
  token_rates(l, (double)w->samples / seconds);
  ct_metrics_num(m, "data_s", r->data_s);
  ct_metrics_num(m, "compute_s", r->compute_s);
  ct_metrics_num(m, "comm_exposed_s", r->comm_exposed_s);
  ct_metrics_num(m, "data_s_max", w->time_max.s[CT_TIME_DATA]);
  ct_metrics_num(m, "compute_s_max", w->work_max);
  ct_metrics_num(m, "grad_norm", r->grad_norm);
  ct_metrics_num(m, "loss_scale", r->loss_scale);
  if (r->skipped) ct_metrics_int(m, "skipped", 1);
  ct_metrics_int(m, "samples", w->samples);
  return ct_metrics_end(m);
}

int ct__lines_step(const ct__lines_t *l, const ct_position_t *at, const ct_step_status_t *w,
                   const ct_step_report_t *r, const ct_schedule_point_t *point, double seconds)
{
  int rc = CT_OK;
  if (ct__lines_logged(l, at->step)) CT_TRY(step_line(l, at, w, r, point, seconds));
  CT_TRY(first_step(l, at->step));
out:
  return rc;
}

/* Writes the `epoch` line; its loss is the mean over the steps that ran in this session. */
static int epoch_line(const ct__lines_t *l, const ct_position_t *at, const ct__epoch_sums_t *sums)
{
  ct_metrics_t *m = l->o->metrics;
  ct_metrics_begin(m, "epoch");
  ct_metrics_int(m, "epoch", ct__progress_line_epoch(at));
  ct_metrics_int(m, "step", at->step);
  ct_metrics_num(m, "loss", ct__epoch_loss(sums));
  ct_metrics_int(m, "samples", sums->samples);
  return ct_metrics_end(m);
}

static void eval_parts(ct_metrics_t *m, const ct_eval_result_t *e)
{
  for (int k = 0; k < e->parts; k++) {
    const ct_eval_part_t *p = &e->part[k];
    part_num(m, "loss", p->name, p->loss);
    if (p->regression) {
      part_num(m, "mae", p->name, p->mae);
    } else {
      part_num(m, "top1", p->name, p->top1);
      part_num(m, "top5", p->name, p->top5);
    }
  }
}

/* Appends "  cls: loss 0.1  top-1 0.9" of each of several losses. */
static size_t parts_text(const ct_eval_result_t *e, char *text, size_t n, size_t cap)
{
  for (int k = 0; k < e->parts && n < cap; k++) {
    const ct_eval_part_t *p = &e->part[k];
    n += (size_t)snprintf(text + n, cap - n, "  %s: loss %.4f  %s %.4f", p->name, p->loss,
                          p->regression ? "mae" : "top-1", p->regression ? p->mae : p->top1);
  }
  return n;
}

/* Writes the scores after mae that were measured. */
static void more_scores(ct_metrics_t *m, const ct_eval_result_t *e)
{
  for (int k = CT_SCORE_MAE + 1; k < CT_SCORE_COUNT; k++)
    if (!isnan(e->more.of[k])) ct_metrics_num(m, ct_score_word(k), e->more.of[k]);
}

/* Writes a list with the errors of each channel. */
static void channel_errors(ct_metrics_t *m, const ct_eval_result_t *e)
{
  json_t *list = m ? ct_eval_channels_json(e) : NULL;
  if (list) ct_metrics_json(m, "channels", list);
}

/* Writes the `eval` line of a data set; \a set: NULL for data.val. */
static int eval_line(const ct__lines_t *l, const ct_position_t *at, const char *set,
                     const ct_eval_result_t *e)
{
  ct_metrics_t *m = l->o->metrics;
  ct_metrics_begin(m, "eval");
  if (set) ct_metrics_text(m, "set", set);
  ct_metrics_int(m, "epoch", ct__progress_line_epoch(at));
  ct_metrics_int(m, "step", at->step);
  ct_metrics_num(m, "loss", e->loss);
  eval_parts(m, e);
  if (!e->parts && !e->regression) ct_metrics_num(m, "top1", e->top1);
  if (!e->parts && !e->regression) ct_metrics_num(m, "top5", e->top5);
  if (!e->parts && (e->regression || e->mae > 0)) ct_metrics_num(m, "mae", e->mae);
  more_scores(m, e);
  channel_errors(m, e);
  ct_metrics_int(m, "samples", e->samples);
  if (e->tokens) ct_metrics_int(m, "tokens", e->tokens);
  return ct_metrics_end(m);
}

/* "epoch 3/10  step 120  loss 0.1  validation: loss 0.2  top-1 0.9  top-5 1  f1 0.9"; metrics after
 * top-5 only if eval.metrics names them.  \a e NULL: no evaluation. */
static void log_line(const ct__lines_t *l, const char *where, const char *set,
                     const ct_eval_result_t *e)
{
  const ct_scores_t scores = e ? ct_eval_scores(e) : (ct_scores_t){0};
  const ct_opt_texts_t *named = &l->o->eval->metrics;
  char text[1200];
  size_t n = (size_t)snprintf(text, sizeof text, "%s", where);
  if (e && e->parts) {
    n += (size_t)snprintf(text + n, sizeof text - n, "  %s: loss %.4f", set, e->loss);
    n = parts_text(e, text, n, sizeof text);
  } else if (e && e->regression)
    n += (size_t)snprintf(text + n, sizeof text - n, "  %s: loss %.4f  mae %.4f", set, e->loss,
                          e->mae);
  else if (e)
    n += (size_t)snprintf(text + n, sizeof text - n, "  %s: loss %.4f  top-1 %.4f  top-5 %.4f", set,
                          e->loss, e->top1, e->top5);
  if (e && e->tokens)
    n += (size_t)snprintf(text + n, sizeof text - n, "  perplexity %.4f",
                          scores.of[CT_SCORE_PERPLEXITY]);
  for (int i = 0; e && i < named->n && n < sizeof text; i++)
    if (ct_score_kind(named->v[i]) > CT_SCORE_MAE)
      n += (size_t)snprintf(text + n, sizeof text - n, "  %s %.4f", named->v[i],
                            scores.of[ct_score_kind(named->v[i])]);
  ct_log(CT_LOG_INFO, "%s", text);
}

/* Logs the validation result after the text \a head, and the result of each other set after \a
 * where. */
static int eval_lines(const ct__lines_t *l, const ct_position_t *at, const char *head,
                      const char *where, const ct_eval_result_t *e)
{
  int rc = CT_OK;
  log_line(l, head, "validation", e);
  CT_TRY(eval_line(l, at, NULL, e));
  for (int i = 0; i < l->o->sets; i++) {
    const ct_eval_set_t *s = &l->o->set[i];
    log_line(l, where, s->name, &s->last);
    CT_TRY(eval_line(l, at, s->name, &s->last));
  }
out:
  return rc;
}

int ct__lines_epoch_end(const ct__lines_t *l, const ct_position_t *at, const ct__epoch_sums_t *sums,
                        const ct_eval_result_t *e)
{
  int rc = CT_OK;
  char epoch[80], where[80];
  size_t n =
      (size_t)snprintf(epoch, sizeof epoch, "epoch %lld/%lld",
                       (long long)ct__progress_line_epoch(at), (long long)l->o->train->epochs);
  memcpy(where, epoch, sizeof where);
  if (sums->weight > 0) { /* otherwise a previous session has trained this epoch */
    snprintf(epoch + n, sizeof epoch - n, "  loss %.4f", ct__epoch_loss(sums));
    CT_TRY(epoch_line(l, at, sums));
  }
  if (e)
    CT_TRY(eval_lines(l, at, epoch, where, e));
  else
    log_line(l, epoch, NULL, NULL);
out:
  return rc;
}

int ct__lines_eval(const ct__lines_t *l, const ct_position_t *at, const ct_eval_result_t *e)
{
  char epoch[80];
  snprintf(epoch, sizeof epoch, "epoch %lld/%lld  step %lld",
           (long long)ct__progress_line_epoch(at), (long long)l->o->train->epochs,
           (long long)at->step);
  return eval_lines(l, at, epoch, epoch, e);
}

int ct__lines_early_stop(const ct__lines_t *l, const ct_position_t *at)
{
  ct_metrics_t *m = l->o->metrics;
  const ct_best_t *b = &at->early;
  const char *metric = ct_score_word((int)b->kind);
  ct_log(CT_LOG_INFO,
         "train.early_stop: no better %s than %.4f, of step %lld, in %lld evaluations: training "
         "ends",
         metric, b->value, (long long)b->step, (long long)b->bad);
  ct_metrics_begin(m, "early_stop");
  ct_metrics_int(m, "step", at->step);
  ct_metrics_int(m, "epoch", at->epoch);
  ct_metrics_text(m, "metric", metric);
  ct_metrics_num(m, "best", b->value);
  ct_metrics_int(m, "best_step", b->step);
  return ct_metrics_end(m);
}
