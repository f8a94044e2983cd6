/* What the loop tells: lines of metrics.jsonl for programs, lines of the log and the progress bar
 * for people. Only rank 0 has a file and a terminal; the others go through the same calls, which do
 * nothing there. */
#include "run/loop.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include <stdio.h>
#include <string.h>

/* From 1: the one to which the last step belonged. */
static int64_t epoch_of(const ct__loop_t *l)
{
  return l->at.cursor ? l->at.epoch + 1 : l->at.epoch;
}

static int first_step(const ct__loop_t *l)
{
  ct_metrics_t *m = l->o->metrics;
  if (l->at.step != l->begun_step + 1) return CT_OK;
  ct_metrics_begin(m, "first_step");
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_num(m, "first_step_s", ct_clock() - l->begin);
  ct_metrics_num(m, "since_exec_s", ct_clock_since_exec());
  return ct_metrics_end(m);
}

int ct__lines_logged(const ct__loop_t *l, int64_t step)
{
  return step % l->o->run->log_every == 0 || step == l->begun_step + 1;
}

static int step_line(const ct__loop_t *l, const ct_step_word_t *w, const ct_step_report_t *r,
                     double lr, double seconds)
{
  ct_metrics_t *m = l->o->metrics;
  ct_metrics_begin(m, "step");
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_int(m, "epoch", epoch_of(l));
  ct_metrics_num(m, "loss", ct__loop_mean(w->loss_sum, w->loss_weight));
  ct_metrics_num(m, "lr", lr);
  ct_metrics_num(m, "samples_per_s", (double)w->samples / seconds);
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

int ct__lines_step(const ct__loop_t *l, const ct_step_word_t *w, const ct_step_report_t *r,
                   double lr, double seconds)
{
  int rc = CT_OK;
  if (ct__lines_logged(l, l->at.step)) CT_TRY(step_line(l, w, r, lr, seconds));
  CT_TRY(first_step(l));
out:
  return rc;
}

void ct__lines_progress(ct__loop_t *l, double loss)
{
  char text[160], bar[31];
  double now = ct_clock();
  int64_t samples = l->o->sampler.samples;
  if (l->topo->rank || now - l->shown_at < 0.1) return;
  l->shown_at = now;
  int full = (int)(30 * (l->at.cursor ? l->at.cursor : samples) / samples);
  memset(bar, '.', 30);
  memset(bar, '#', (size_t)full);
  bar[30] = 0;
  snprintf(text, sizeof text, "epoch %lld/%lld [%s] step %lld  loss %.4f  %.0f samples/s",
           (long long)epoch_of(l), (long long)l->o->train->epochs, bar, (long long)l->at.step, loss,
           (double)l->trained / (l->trained_s > 0 ? l->trained_s : 1));
  ct_log_progress(text);
}

int ct__lines_epoch_end(ct__loop_t *l)
{
  int rc = CT_OK;
  ct_metrics_t *m = l->o->metrics;
  const ct_eval_result_t *e = &l->out->last;
  char epoch[80];
  size_t n = (size_t)snprintf(epoch, sizeof epoch, "epoch %lld/%lld", (long long)epoch_of(l),
                              (long long)l->o->train->epochs);
  if (l->loss_weight > 0) /* else it was trained by the run before */
    snprintf(epoch + n, sizeof epoch - n, "  loss %.4f", l->out->train_loss);
  if (!l->o->val) {
    ct_log(CT_LOG_INFO, "%s", epoch);
    return CT_OK;
  }
  if (e->regression)
    ct_log(CT_LOG_INFO, "%s  validation: loss %.4f  mae %.4f", epoch, e->loss, e->mae);
  else
    ct_log(CT_LOG_INFO, "%s  validation: loss %.4f  top-1 %.4f  top-5 %.4f", epoch, e->loss,
           e->top1, e->top5);
  ct_metrics_begin(m, "eval");
  ct_metrics_int(m, "epoch", epoch_of(l));
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_num(m, "loss", e->loss);
  if (!e->regression) ct_metrics_num(m, "top1", e->top1);
  if (!e->regression) ct_metrics_num(m, "top5", e->top5);
  if (e->regression || e->mae > 0) ct_metrics_num(m, "mae", e->mae);
  ct_metrics_int(m, "samples", e->samples);
  CT_TRY(ct_metrics_end(m));
out:
  return rc;
}

int ct__lines_early_stop(ct__loop_t *l)
{
  ct_metrics_t *m = l->o->metrics;
  const ct_best_t *b = &l->at.early;
  const char *metric = ct_score_word((int)b->kind);
  ct_log(CT_LOG_INFO,
         "train.early_stop: no better %s than %.4f, of step %lld, in %lld evaluations: training "
         "ends",
         metric, b->value, (long long)b->step, (long long)b->bad);
  ct_metrics_begin(m, "early_stop");
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_int(m, "epoch", l->at.epoch);
  ct_metrics_text(m, "metric", metric);
  ct_metrics_num(m, "best", b->value);
  ct_metrics_int(m, "best_step", b->step);
  return ct_metrics_end(m);
}
