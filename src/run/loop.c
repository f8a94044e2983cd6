/* The training loop: epochs of steps; evaluations, checkpoints and stop requests between them.
 *
 * An error of one rank between two steps (a file, a line) does not end that rank immediately, since
 * the others would wait for it.  Its code enters the status of the next step, which all ranks
 * read. */
#include "run/loop.h"
#include "run/token_rate.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_trace.h"
#include "telemetry/ct_histograms.h"
#include "telemetry/ct_mllog.h"
#include <stdio.h>
#include <string.h>

static int is_stopped_early(const ct_early_stop_t *early, const ct_position_t *at)
{
  return early->metric && at->early.kind == early->metric && at->early.bad >= early->patience;
}

int ct_train_is_over(const ct_train_opts_t *o, const ct_early_stop_t *early,
                     const ct_position_t *at)
{
  if (at->epoch >= o->epochs || (o->steps && at->step >= o->steps)) return 1;
  return is_stopped_early(early, at);
}

static int finished(const ct__loop_t *l)
{
  return ct_train_is_over(l->o->train, &l->o->early_stop, &l->at);
}

/* 1: all samples of the epoch have been trained on, but its end (evaluation, lines) has not been
 * processed.  A run that stops at this point stores this position, and the resumed run begins with
 * the end of the epoch. */
static int is_epoch_trained(const ct__loop_t *l)
{
  return l->at.cursor == ct_sampler_epoch(&l->o->sampler);
}

static ct_schedule_point_t schedule_point(const ct__loop_t *l, int64_t step)
{
  int64_t per_epoch = ct_sampler_steps(&l->o->sampler), total = per_epoch * l->o->train->epochs;
  if (l->o->train->steps && l->o->train->steps < total) total = l->o->train->steps;
  return (ct_schedule_point_t){.opts = l->o->schedule,
                               .step = step,
                               .steps_per_epoch = per_epoch,
                               .total_steps = total,
                               .batch = l->o->sampler.batch,
                               .plateau = l->at.plateau.factor};
}

/* Returns the position of the next step to begin. */
static ct_position_t next_position(const ct__loop_t *l)
{
  ct_position_t at = l->at;
  if (!l->pending) return at;
  at.step = l->begun[l->pending - 1].step;
  at.cursor = l->begun[l->pending - 1].cursor;
  return at;
}

/* Begins the next step. \a own: the error of this rank since the previous one, which the step
 * status reports to all ranks. */
static void begin_step(ct__loop_t *l, int own)
{
  const ct_batch_t *b;
  ct_position_t at = next_position(l);
  ct__begun_step_t *s = &l->begun[l->pending];
  *s = (ct__begun_step_t){.step = at.step + 1,
                          .begin = ct_clock(),
                          .point = schedule_point(l, at.step),
                          .report = {.want_norm = ct__lines_logged(&l->lines, at.step + 1),
                                     .save_s = l->saving_s,
                                     .apart_s = l->apart_s}};
  l->saving_s = l->apart_s = 0;
  ct_meter_sample(l->meter, s->begin);
  int fed = ct_steps_take(&l->steps, at.epoch, at.cursor, &b, &s->report);
  s->samples = l->steps.none.global; /* status->samples excludes ignored samples */
  s->cursor = at.cursor + s->samples;
  s->batch = *b;
  ct_trace_span("data", NULL, -1, s->begin);
  ct_trainer_begin(l->t, b, own != CT_OK ? own : fed, &s->point, &s->report);
  l->pending++;
}

static void count_step(ct__loop_t *l, const ct__begun_step_t *s, const ct_step_status_t *status,
                       double seconds)
{
  l->slow_step_s = ct_walltime_slowest(l->slow_step_s, seconds);
  l->trained_s += seconds;
  l->trained += s->samples;
  l->sums.loss += status->loss_sum;
  l->sums.weight += status->loss_weight;
  l->sums.samples += s->samples;
  l->out->train_loss = ct__epoch_loss(&l->sums);
  l->at.step = s->step;
  l->at.cursor = s->cursor;
  ct_heartbeat_step(l->at.step);
}

/* Ends the oldest step that was begun. *own: out: the error of this rank after it. */
static int end_step(ct__loop_t *l, int *own, ct_step_status_t *status)
{
  int rc = CT_OK;
  ct__begun_step_t s = l->begun[0];
  CT_TRY(ct_trainer_end(l->t, status, &s.report));
  l->begun[0] = l->begun[1];
  l->pending--;
  double since = s.begin > l->ended ? s.begin : l->ended;
  ct_trace_span("step", NULL, s.step, since);
  l->ended = ct_clock();
  double seconds = l->ended - since;
  count_step(l, &s, status, seconds);
  ct__progress_line_step(
      &l->progress, &l->at, status->loss_weight > 0 ? status->loss_sum / status->loss_weight : 0,
      l->trained_s > 0 ? (double)l->trained / l->trained_s : 0, &s.report, seconds);
  *own = ct__lines_step(&l->lines, &l->at, status, &s.report, &s.point, seconds);
  int reported =
      ct_breakdown_lines_step(l->breakdown_lines, l->at.step, s.samples, status, &s.report);
  if (*own == CT_OK) *own = reported;
  if (status->skipped) CT_TRY(ct__skips_step(l, &s.batch, status->skipped));
out:
  return rc;
}

/* Evaluates all sets, data.val last, so that the confusion matrix has the counts of data.val. */
static int evaluate_sets(ct__loop_t *l, const ct_ask_t *ask, int64_t *stop, ct_eval_result_t *out)
{
  int rc = CT_OK;
  const ct_loop_opts_t *o = l->o;
  for (int i = 0; i < o->sets; i++) {
    ct_eval_result_t result;
    CT_TRY(
        ct_evaluate(l->t, o->set[i].data, o->eval_batch, o->workers, &o->want, ask, stop, &result));
    if (*stop) return CT_OK;
    o->set[i].last = result;
  }
  CT_TRY(ct_evaluate(l->t, o->val, o->eval_batch, o->workers, &o->want, ask, stop, out));
out:
  return rc;
}

/* Returns the evaluation that decides which model is best. */
static const ct_eval_result_t *watched(const ct__loop_t *l)
{
  for (int i = 0; i < l->o->sets; i++)
    if (strcmp(l->o->set[i].name, l->o->eval->watch) == 0) return &l->o->set[i].last;
  return &l->out->last;
}

/* Evaluates all sets. *stop: 0, or the stop request that interrupted the evaluation; then it has no
 * result. */
static int evaluate(ct__loop_t *l, int64_t *stop)
{
  int rc = CT_OK;
  const ct_loop_opts_t *o = l->o;
  ct_eval_result_t result;
  ct__stop_policy_asker_t asker;
  ct_ask_t ask = ct__stop_policy_during(l, &asker);
  int64_t epoch = l->at.epoch + (l->at.cursor > 0);
  double begin = ct_clock();
  ct_mllog_begin_epoch(o->mllog, "eval", epoch);
  ct_trainer_use_average(l->t, 1);
  rc = evaluate_sets(l, &ask, stop, &result);
  ct_trainer_use_average(l->t, 0);
  double seconds = ct_clock() - begin;
  l->apart_s += seconds;
  l->out->eval_s += seconds;
  CT_TRY(rc);
  if (*stop) return CT_OK;
  l->out->last = result;
  ct_mllog_score(o->mllog, result.regression ? "eval_error" : "eval_accuracy",
                 result.regression ? result.mae : result.top1, epoch);
  ct_mllog_end_epoch(o->mllog, "eval", epoch);
out:
  return rc;
}

/* Compares the evaluation with the best so far. */
static void judge(ct__loop_t *l)
{
  ct_scores_t scores = ct_eval_scores_of(watched(l), l->o->eval->output);
  if (ct_best_take(&l->at.best, l->o->ckpt->best, &scores, l->at.step)) l->is_best = 1;
  ct_best_take(&l->at.early, l->o->early_stop.metric, &scores, l->at.step);
}

/* The end of an epoch or run: evaluates if that is due, and writes lines.  A stop request before or
 * during the evaluation skips both. */
static int log_position(ct__loop_t *l, int evaluates, int64_t *stop)
{
  int rc = CT_OK;
  const ct_loop_opts_t *o = l->o;
  evaluates = evaluates && o->val;
  if (evaluates && !*stop) CT_TRY(evaluate(l, stop));
  if (evaluates && *stop) return CT_OK;
  if (evaluates && ct_schedule_needs_loss(o->schedule))
    ct_plateau_update(&l->at.plateau, o->schedule,
                      ct_eval_scores_of(watched(l), o->eval->output).of[CT_SCORE_LOSS]);
  if (evaluates) judge(l);
  if (evaluates || !o->val) l->evaluated_step = l->at.step;
  ct__progress_line_reset(&l->progress);
  CT_TRY_ALL(l->topo,
             ct__lines_epoch_end(&l->lines, &l->at, &l->sums, evaluates ? &l->out->last : NULL));
  l->sums = (ct__epoch_sums_t){0};
out:
  return rc;
}

static int write_histograms(const ct__loop_t *l)
{
  int64_t every = l->o->histograms_every;
  if (!l->o->events || !every || (l->at.epoch + 1) % every) return CT_OK;
  return ct_histograms(l->o->events, l->t, l->o->graph, l->at.step);
}

/* If a stop request interrupts the evaluation, the position stays at the end of the epoch, and the
 * resumed run evaluates. */
static int end_epoch(ct__loop_t *l, int64_t *stop)
{
  int rc = CT_OK;
  int64_t every = l->o->eval->every_epochs;
  int evaluates = every && (l->at.epoch + 1) % every == 0;
  CT_TRY_ALL(l->topo, write_histograms(l));
  CT_TRY(log_position(l, evaluates, stop));
  if (l->o->val && evaluates && l->evaluated_step != l->at.step) return CT_OK;
  l->at.cursor = 0;
  l->at.epoch++;
  l->at.skipped = 0;
  if (l->at.epoch < l->o->train->epochs && is_stopped_early(&l->o->early_stop, &l->at))
    CT_TRY_ALL(l->topo, ct__lines_early_stop(&l->lines, &l->at));
out:
  return rc;
}

/* Evaluates within an epoch if that is due.  An interrupted evaluation is not repeated. */
static int evaluate_between(ct__loop_t *l, int64_t *stop)
{
  int rc = CT_OK;
  int64_t every = l->o->eval->every_steps;
  if (!l->o->val || !every || l->at.step % every || *stop) return CT_OK;
  CT_TRY(evaluate(l, stop));
  if (*stop) return CT_OK;
  judge(l);
  l->evaluated_step = l->at.step;
  ct__progress_line_reset(&l->progress);
  CT_TRY_ALL(l->topo, ct__lines_eval(&l->lines, &l->at, &l->out->last));
  if (is_stopped_early(&l->o->early_stop, &l->at))
    CT_TRY_ALL(l->topo, ct__lines_early_stop(&l->lines, &l->at));
out:
  return rc;
}

static int is_multiple(int64_t step, int64_t every)
{
  return every && step % every == 0;
}

static int verified(const ct__loop_t *l, int64_t step)
{
  return is_multiple(step, l->o->verify_every);
}

/* Returns 1 if something has to be done at the next position that needs the state after exactly the
 * steps before it. Depends on the position alone, so it is identical on all ranks. */
static int is_due(const ct__loop_t *l)
{
  const ct_loop_opts_t *o = l->o;
  const ct_trace_steps_t *traced = &l->trace.steps;
  ct_position_t at = next_position(l);
  return ct_train_is_over(o->train, &o->early_stop, &at) ||
         at.cursor == ct_sampler_epoch(&o->sampler) || verified(l, at.step) ||
         (o->val && is_multiple(at.step, o->eval->every_steps)) ||
         ct__checkpointing_is_step(l, at.step) ||
         (at.step + 1 >= traced->from && at.step <= traced->to);
}

/* Begins a step and ends those before it. Leaves at most ct_trainer_lag() steps pending, and none
 * if something is due or a stop was requested. */
static int one_step(ct__loop_t *l, int *own, int64_t *stop)
{
  int rc = CT_OK;
  int64_t asked = ct__stop_policy_before_step(l);
  begin_step(l, *own);
  *own = CT_OK;
  int lag = is_due(l) ? 0 : ct_trainer_lag(l->t);
  while (l->pending > (*stop ? 0 : lag)) {
    ct_step_status_t status = {.stop = asked};
    int after;
    CT_TRY(end_step(l, &after, &status));
    if (*own == CT_OK) *own = after;
    if (!*stop) *stop = status.stop;
  }
out:
  return rc;
}

/* Runs steps until the end or a stop request. *own: this rank's code since the last step. */
static int steps(ct__loop_t *l, int *own, int64_t *stop)
{
  int rc = CT_OK, begins = 1; /* 1: an epoch, or the rest of one, begins */
  while (!finished(l) && !*stop) {
    if (begins) ct_mllog_begin_epoch(l->o->mllog, "epoch", l->at.epoch + 1);
    int64_t next = next_position(l).step + 1;
    CT_TRY(ct_trace_file_before(&l->trace, l->topo, next, &l->apart_s));
    CT_TRY(one_step(l, own, stop));
    begins = 0;
    if (l->pending) {
      if (*own == CT_OK) *own = ct__checkpointing_end(l, 0);
      continue;
    }
    CT_TRY(ct_trace_file_after(&l->trace, l->topo, l->o->dir, l->at.step, 0, &l->apart_s));
    int epoch_end = begins = is_epoch_trained(l);
    if (epoch_end) ct_mllog_end_epoch(l->o->mllog, "epoch", l->at.epoch + 1);
    if (verified(l, l->at.step)) CT_TRY(ct_trainer_verify(l->t)); /* before a checkpoint */
    CT_TRY(epoch_end ? end_epoch(l, stop) : evaluate_between(l, stop));
    if (finished(l) && !is_epoch_trained(l)) *stop = 0; /* nothing is left to stop */
    if (*stop) ct__stop_policy_log(l, *stop, ", a checkpoint follows");
    if (*own == CT_OK) *own = ct__checkpointing_end(l, 0);
    if (ct__checkpointing_due(l, epoch_end) || *stop) *own = ct__checkpointing_begin(l, *own);
  }
out:
  return rc;
}

/* Called when the evaluation at the start of this session was interrupted, so that the session made
 * no progress.  If the job's time limit was the cause, the next job would end the same way, and
 * exit status 75 would request one forever: fails.  If a signal was the cause, does not fail, since
 * the next job may not get a signal. */
static int no_further(const ct__loop_t *l, int64_t stop)
{
  static const char cure[] =
      "request more time, raise data.eval_batch, or evaluate on fewer samples (data.val)";
  int rc = CT_OK;
  char text[32];
  ct_stop_reason_t reason = ct_stop_unpack(stop).reason;
  ct_text_seconds(ct_clock() - l->begin, text, sizeof text);
  if (reason == CT_STOP_WALLTIME)
    CT_FAIL(
        CT_ERR_USAGE,
        "the job's time is too short: the evaluation at the beginning of this run was interrupted "
        "after %s, to leave %g s (job.margin_s); %s",
        text, l->o->job->margin_s, cure);
  if (reason == CT_STOP_SIGNAL)
    ct_log(CT_LOG_WARN,
           "this run was interrupted during its first evaluation, after %s; the next run restarts "
           "it: if the jobs are too short for it, %s",
           text, cure);
out:
  return rc;
}

/* Processes the end of an epoch whose samples the previous session has trained on, and saves, so
 * that later sessions do not repeat it. */
static int make_up(ct__loop_t *l, int *own, int64_t *stop)
{
  int rc = CT_OK;
  if (!is_epoch_trained(l)) return CT_OK;
  CT_TRY(end_epoch(l, stop));
  CT_TRY(no_further(l, *stop));
  if (*stop) ct__stop_policy_log(l, *stop, ", a checkpoint follows");
  *own = ct__checkpointing_begin(l, *own);
out:
  return rc;
}

/* Writes the last checkpoint of the run if one is due, and waits until it is durable. */
static int save_rest(ct__loop_t *l, int own, int64_t stop)
{
  int unsaved = l->saved_step != l->at.step && l->at.step > l->begun_step;
  const ct_ckpt_opts_t *c = l->o->ckpt; /* a run always ends with a model */
  int wanted = stop || c->every_epochs || c->every_steps || c->best == CT_SCORE_OFF;
  if (l->is_best || (unsaved && wanted)) own = ct__checkpointing_begin(l, own);
  if (own == CT_OK) own = ct__checkpointing_end(l, 1);
  return ct_agree(l->topo, own);
}

/* Evaluates a run that ended within an epoch or had nothing left to train. */
static int last_evaluation(ct__loop_t *l, int64_t *stop)
{
  int rc = CT_OK;
  l->out->idle = l->at.step == l->begun_step;
  if (!l->out->idle)
    CT_TRY(log_position(l, 1, stop));
  else if (l->o->val)
    CT_TRY(evaluate(l, stop));
  if (!*stop) return l->is_best ? save_rest(l, CT_OK, 0) : CT_OK;
  if (l->out->idle) CT_TRY(no_further(l, *stop));
  ct__stop_policy_log(l, *stop, ", in the evaluation at the end");
  CT_TRY(save_rest(l, CT_OK, *stop));
out:
  return rc;
}

static int go(ct__loop_t *l)
{
  int rc = CT_OK, own = CT_OK;
  int64_t stop = 0;
  ct_mllog_end(l->o->mllog, "init");
  ct_mllog_begin(l->o->mllog, "run", 0);
  CT_TRY(make_up(l, &own, &stop));
  CT_TRY(steps(l, &own, &stop));
  CT_TRY(ct_trace_file_after(&l->trace, l->topo, l->o->dir, l->at.step, 1, &l->apart_s));
  CT_TRY(save_rest(l, own, stop));
  if (!stop && l->evaluated_step != l->at.step) CT_TRY(last_evaluation(l, &stop));
  l->out->stopped = ct_stop_unpack(stop).reason;
out:
  return rc;
}

static int loop_prepare(ct__loop_t *l)
{
  int rc = CT_OK;
  const ct_loop_opts_t *o = l->o;
  CT_TRY(ct_trainer_prepare(l->t, ct_sampler_epoch(&o->sampler), o->sampler.batch, 1));
  if (o->val) CT_TRY(ct_trainer_prepare(l->t, o->val->info.samples, o->eval_batch, 0));
  for (int i = 0; i < o->sets; i++)
    CT_TRY(ct_trainer_prepare(l->t, o->set[i].data->info.samples, o->eval_batch, 0));
out:
  return rc;
}

static int open_steps(ct__loop_t *l)
{
  const ct_loop_opts_t *o = l->o;
  int trained = is_epoch_trained(l);
  return ct_steps_open(l->t, o->data, &o->sampler, l->at.epoch + trained,
                       trained ? 0 : l->at.cursor, o->workers, &l->steps);
}

/* Logs the energy of this run, or why it is unknown. */
static int log_energy(ct__loop_t *l)
{
  int rc = CT_OK;
  ct_loop_result_t *r = l->out;
  if (l->trained == 0) return CT_OK;
  CT_TRY(ct_meter_read(l->meter, &r->energy));
  if (r->energy.joule >= 0) r->joule_per_sample = r->energy.joule / (double)l->trained;
  if (r->energy.joule >= 0)
    ct_log(CT_LOG_INFO, "energy: %.4g J, %.4g J a sample (%s)", r->energy.joule,
           r->joule_per_sample, r->energy.from);
  else /* metrics.jsonl has the reason, too */
    ct_log(CT_LOG_DEBUG, "energy: %s", r->energy.from);
out:
  return rc;
}

/* Compares the peak that the kernel counted with the budget, on a device with the host's memory. */
static int log_peak(const ct__loop_t *l)
{
  int rc = CT_OK;
  char peak[32], most[32], budget[32];
  double own = (double)ct_mem_peak_rss(), *all = &l->out->peak_rss;
  double limit = l->o->be->host_memory ? (double)ct_trainer_budget(l->t)->bytes : 0;
  CT_TRY(ct_agree_doubles(l->topo, all, 1, 1));
  ct_text_bytes(own, peak, sizeof peak);
  ct_text_bytes(*all, most, sizeof most);
  ct_text_bytes(limit, budget, sizeof budget);
  if (limit > 0) ct_log(CT_LOG_INFO, "peak memory of a rank: %s (train.memory %s)", most, budget);
  if (limit > 0 && own > limit)
    ct_log_all(CT_LOG_WARN, "peak memory of %s, more than train.memory, %s", peak, budget);
out:
  return rc;
}

int ct_train_loop(ct_trainer_t *t, const ct_loop_opts_t *o, ct_position_t at, ct_loop_result_t *out)
{
  int rc = CT_OK;
  ct__loop_t l = {.t = t,
                  .topo = ct_trainer_topo(t),
                  .o = o,
                  .out = out,
                  .at = at,
                  .saved_step = -1,
                  .begun_step = at.step,
                  .evaluated_step = -1,
                  .begin = ct_clock(),
                  .steps.t = t};
  l.lines = (ct__lines_t){.o = o, .t = t, .begun_step = at.step, .begin = l.begin};
  l.progress = (ct__progress_line_t){.rank = l.topo->rank,
                                     .epochs = o->train->epochs,
                                     .total = schedule_point(&l, 0).total_steps,
                                     .begun_step = at.step,
                                     .begin = l.begin,
                                     .log_s = o->run->log_s,
                                     .sampler = &o->sampler,
                                     .tokens = ct__tokens_per_sample(o->data)};
  memset(out, 0, sizeof *out);
  out->energy.joule = -1;
  CT_TRY_ALL(l.topo, ct_trace_steps_read(o->run, &l.trace.steps));
  CT_TRY(loop_prepare(&l));
  CT_TRY_ALL(l.topo, ct__checkpointing_open(&l));
  CT_TRY_ALL(l.topo, open_steps(&l));
  CT_TRY_ALL(l.topo, ct__stop_policy_open(&l));
  CT_TRY(ct_breakdown_lines_open(l.topo, o->job->stragglers_every,
                                 ct_trainer_is_even(t) ? &o->sampler : NULL, o->metrics,
                                 &l.breakdown_lines));
  CT_TRY(ct_meter_open(l.topo, o->be, o->dev, 1, &l.meter));
  CT_TRY(go(&l));
  out->peak_rss = (double)ct_mem_peak_rss();
  CT_TRY(log_peak(&l));
  CT_TRY(log_energy(&l));
  CT_TRY_ALL(l.topo, ct_breakdown_lines_end(l.breakdown_lines, o->dir));
out:;
  ct_err_info_t error = *ct_err_last(); /* the error that all ranks agreed on is reported */
  ct_log_progress(NULL);
  if (l.breakdown_lines) ct_breakdown_lines_total(l.breakdown_lines, &out->breakdown);
  if (l.breakdown_lines) out->loop_s = ct_clock() - l.begin;
  ct_breakdown_lines_close(l.breakdown_lines);
  ct_meter_close(l.meter);
  ct_steps_close(&l.steps);
  ct_trace_clear();
  ct__checkpointing_close(&l);
  if (rc != CT_OK) ct_err_put(&error);
  if (rc != CT_OK) out->peak_rss = (double)ct_mem_peak_rss();
  out->at = l.at;
  out->seconds = l.trained_s;
  out->samples_per_s = l.trained_s > 0 ? (double)l.trained / l.trained_s : 0;
  int64_t tokens = ct__tokens_per_sample(o->data);
  out->tokens_per_s = out->samples_per_s * (double)tokens;
  out->flops_per_token = tokens ? ct__token_flops(o->graph, tokens) : 0;
  out->mfu =
      ct__token_mfu(out->tokens_per_s, out->flops_per_token, l.topo->size, o->train->peak_tflops);
  return rc;
}
