/* Through the epochs: steps, then what happens between them. */
#include "train/trainer.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_stop.h"
#include "train/ct_metrics.h"
#include <stdio.h>
#include <string.h>

typedef struct loop {
  ct_trainer_t *t;
  const ct_topo_t *topo;
  const ct_loop_opts_t *o;
  ct_loop_result_t *out;
  ct_position_t at;
  ct_feed_t *feed;
  ct_ckpt_t *ckpt;      /* rank 0 */
  ct_ckpt_item_t *item; /* rank 0 */
  int items;
  ct_ckpt_text_t text[2];
  char dir[CT_PATH_MAX]; /* of the checkpoints */
  int64_t saved_step;    /* of the newest checkpoint of this run; -1: none */
  int64_t begun_step, evaluated_step;
  double begin, trained_s, shown_at;
  int64_t trained; /* samples of this run */
  double loss_sum; /* of this epoch, as far as this run saw it */
  double loss_weight;
} loop_t;

/* ---- checkpoints ---- */

/* The write before this one, if it is over (or \a wait): its error. */
static int finish_write(loop_t *l, int wait)
{
  int rc = CT_OK;
  const char *file = NULL;
  if (!l->ckpt || (!wait && ct_ckpt_busy(l->ckpt))) return CT_OK;
  CT_TRY(ct_ckpt_wait(l->ckpt, &file));
  if (file) ct_log(CT_LOG_DEBUG, "checkpoint %s is complete", file);
out:
  return rc;
}

/* Rank 0 copies the state and hands it to the writer; the others give their part, or go on. */
static int save(loop_t *l)
{
  int rc = CT_OK;
  double begin = ct_clock();
  char file[32];
  ct_metrics_t *m = l->o->metrics;
  l->saved_step = l->at.step;
  if (!l->ckpt)
    return ct_trainer_snapshot_is_collective(l->t) ? ct_trainer_snapshot(l->t, &l->at, NULL)
                                                   : CT_OK;
  int waited = finish_write(l, 1); /* the snapshot may be Collective: nobody may leave before it */
  CT_TRY(ct_trainer_snapshot(l->t, &l->at, l->item));
  CT_TRY(waited);
  CT_TRY(ct_ckpt_save(l->ckpt, l->at.step, l->item, l->items, l->text, 2));
  CT_TRY(ct_text_format(file, sizeof file, "step-%08lld.h5", (long long)l->at.step));
  ct_metrics_begin(m, "checkpoint");
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_text(m, "file", file);
  ct_metrics_num(m, "stall_s", ct_clock() - begin);
  CT_TRY(ct_metrics_end(m));
out:
  return rc;
}

/* \a own: this rank's code so far.  Where the snapshot is Collective, all save or none. */
static int save_after(loop_t *l, int own)
{
  int rc = own;
  if (ct_trainer_snapshot_is_collective(l->t)) rc = ct_agree(l->topo, own);
  return rc == CT_OK ? save(l) : rc;
}

static int wanted_save(const loop_t *l, int epoch_end)
{
  const ct_ckpt_opts_t *c = l->o->ckpt;
  if (epoch_end && c->every_epochs && l->at.epoch % c->every_epochs == 0) return 1;
  return c->every_steps && l->at.step % c->every_steps == 0;
}

static int open_ckpt(loop_t *l)
{
  int rc = CT_OK;
  CT_TRY(ct_path_join(l->dir, sizeof l->dir, l->o->dir, "checkpoints"));
  if (l->topo->rank) return CT_OK;
  l->items = ct_trainer_items(l->t);
  l->item = ct_mem_array(l->items, sizeof *l->item, "checkpoint");
  if (!l->item) CT_FAIL(CT_ERR_NOMEM, "out of memory for checkpoints");
  l->text[0] = (ct_ckpt_text_t){"/meta/config", l->o->config_text};
  l->text[1] = (ct_ckpt_text_t){"/meta/versions", l->o->versions};
  CT_TRY(ct_ckpt_open(l->dir, l->o->store, l->o->ckpt->keep, &l->ckpt));
out:
  return rc;
}

/* ---- what the user sees ---- */

/* The epoch, from 1, to which the last step belonged. */
static int64_t shown_epoch(const loop_t *l)
{
  return l->at.cursor ? l->at.epoch + 1 : l->at.epoch;
}

static int first_step(const loop_t *l)
{
  ct_metrics_t *m = l->o->metrics;
  if (l->at.step != l->begun_step + 1) return CT_OK;
  ct_metrics_begin(m, "first_step");
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_num(m, "first_step_s", ct_clock() - l->begin);
  ct_metrics_num(m, "since_exec_s", ct_clock_since_exec());
  return ct_metrics_end(m);
}

/* Steps that get a line in metrics.jsonl: \a step counts from 1. */
static int logged(const loop_t *l, int64_t step)
{
  return step % l->o->run->log_every == 0 || step == l->begun_step + 1;
}

static double mean(double sum, double weight)
{
  return weight > 0 ? sum / weight : 0;
}

static int step_line(const loop_t *l, const ct_step_word_t *w, const ct_step_report_t *r, double lr,
                     double seconds)
{
  ct_metrics_t *m = l->o->metrics;
  if (!logged(l, l->at.step)) return CT_OK;
  ct_metrics_begin(m, "step");
  ct_metrics_int(m, "step", l->at.step);
  ct_metrics_int(m, "epoch", shown_epoch(l));
  ct_metrics_num(m, "loss", mean(w->loss_sum, w->loss_weight));
  ct_metrics_num(m, "lr", lr);
  ct_metrics_num(m, "samples_per_s", (double)w->samples / seconds);
  ct_metrics_num(m, "data_s", r->data_s);
  ct_metrics_num(m, "compute_s", r->compute_s);
  ct_metrics_num(m, "comm_exposed_s", r->comm_exposed_s);
  ct_metrics_num(m, "data_s_max", w->data_s_max);
  ct_metrics_num(m, "compute_s_max", w->compute_s_max);
  ct_metrics_num(m, "grad_norm", r->grad_norm);
  ct_metrics_num(m, "loss_scale", r->loss_scale);
  if (r->skipped) ct_metrics_int(m, "skipped", 1);
  ct_metrics_int(m, "samples", w->samples);
  return ct_metrics_end(m);
}

static void show_progress(loop_t *l, double loss)
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
           (long long)shown_epoch(l), (long long)l->o->train->epochs, bar, (long long)l->at.step,
           loss, (double)l->trained / (l->trained_s > 0 ? l->trained_s : 1));
  ct_log_progress(text);
}

static int epoch_line(loop_t *l)
{
  int rc = CT_OK;
  ct_metrics_t *m = l->o->metrics;
  const ct_eval_result_t *e = &l->out->last;
  if (!l->o->val) {
    ct_log(CT_LOG_INFO, "epoch %lld/%lld  loss %.4f", (long long)shown_epoch(l),
           (long long)l->o->train->epochs, l->out->train_loss);
    return CT_OK;
  }
  if (e->regression)
    ct_log(CT_LOG_INFO, "epoch %lld/%lld  loss %.4f  validation: loss %.4f  mae %.4f",
           (long long)shown_epoch(l), (long long)l->o->train->epochs, l->out->train_loss, e->loss,
           e->mae);
  else
    ct_log(CT_LOG_INFO, "epoch %lld/%lld  loss %.4f  validation: loss %.4f  top-1 %.4f  top-5 %.4f",
           (long long)shown_epoch(l), (long long)l->o->train->epochs, l->out->train_loss, e->loss,
           e->top1, e->top5);
  ct_metrics_begin(m, "eval");
  ct_metrics_int(m, "epoch", shown_epoch(l));
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

/* ---- the loop ---- */

static int finished(const loop_t *l)
{
  const ct_train_opts_t *o = l->o->train;
  return l->at.epoch >= o->epochs || (o->steps && l->at.step >= o->steps);
}

static void advance(loop_t *l, int64_t samples)
{
  l->at.step++;
  l->at.cursor += samples;
  if (l->at.cursor < l->o->sampler.samples) return;
  l->at.cursor = 0;
  l->at.epoch++;
}

/* An error of this rank's own between two steps is carried into the next step, where all ranks learn of
 * it: *own goes in, and the next such error comes out. */
static ct_schedule_point_t schedule_point(const loop_t *l)
{
  int64_t per_epoch = ct_sampler_steps(&l->o->sampler), total = per_epoch * l->o->train->epochs;
  if (l->o->train->steps && l->o->train->steps < total) total = l->o->train->steps;
  return (ct_schedule_point_t){.opts = l->o->schedule,
                               .step = l->at.step,
                               .steps_per_epoch = per_epoch,
                               .total_steps = total,
                               .batch = l->o->sampler.batch,
                               .plateau = l->at.plateau.factor};
}

static int one_step(loop_t *l, int *own, ct_step_word_t *word)
{
  int rc = *own;
  ct_step_report_t report = {.want_norm = logged(l, l->at.step + 1)};
  const ct_batch_t *b = NULL;
  ct_batch_t none = {.epoch = l->at.epoch,
                     .cursor = l->at.cursor,
                     .global = ct_sampler_batch(&l->o->sampler, l->at.cursor)};
  double begin = ct_clock();
  ct_schedule_point_t at = schedule_point(l);
  int fed = l->feed ? ct_feed_next(l->feed, &b) : CT_OK;
  if (rc == CT_OK) rc = fed;
  report.data_s = ct_clock() - begin;
  word->stop = ct_stop_asked();
  CT_TRY(ct_trainer_step(l->t, b ? b : &none, rc, &at, word, &report));
  double seconds = ct_clock() - begin;
  l->trained_s += seconds;
  l->trained += none.global;
  l->loss_sum += word->loss_sum;
  l->loss_weight += word->loss_weight;
  l->out->train_loss = mean(l->loss_sum, l->loss_weight);
  advance(l, none.global); /* word->samples is without those that the loss ignores */
  show_progress(l, mean(word->loss_sum, word->loss_weight));
  *own = step_line(l, word, &report, ct_trainer_lr(l->t, &at), seconds);
  if (*own == CT_OK) *own = first_step(l);
out:
  return rc;
}

static int between_epochs(loop_t *l)
{
  int rc = CT_OK;
  const ct_loop_opts_t *o = l->o;
  if (o->val) CT_TRY(ct_evaluate(l->t, o->val, o->eval_batch, o->workers, &l->out->last));
  if (o->val && ct_schedule_needs_loss(o->schedule))
    ct_plateau_update(&l->at.plateau, o->schedule, l->out->last.loss);
  l->evaluated_step = l->at.step;
  CT_TRY_ALL(l->topo, epoch_line(l));
  l->loss_sum = 0;
  l->loss_weight = 0;
out:
  return rc;
}

static int verified(const loop_t *l)
{
  return l->o->verify_every && l->at.step % l->o->verify_every == 0;
}

/* Who is asked to stop does so at once, unless the rates to come depend on this evaluation. */
static int evaluates(const loop_t *l, int epoch_end, int stop)
{
  return epoch_end && (!stop || ct_schedule_needs_loss(l->o->schedule));
}

static int go(loop_t *l)
{
  int rc = CT_OK, own = CT_OK;
  while (!finished(l) && !l->out->stopped) {
    ct_step_word_t word = {0};
    int64_t epoch = l->at.epoch;
    CT_TRY(one_step(l, &own, &word));
    int epoch_end = l->at.epoch > epoch;
    if (verified(l)) CT_TRY(ct_trainer_verify(l->t)); /* before any of it is saved */
    if (evaluates(l, epoch_end, word.stop != 0)) CT_TRY(between_epochs(l));
    l->out->stopped = word.stop && !finished(l);
    if (own == CT_OK) own = finish_write(l, 0);
    if (wanted_save(l, epoch_end) || l->out->stopped) own = save_after(l, own);
  }
  int ends_unsaved = l->saved_step != l->at.step && l->at.step > l->begun_step;
  if (ends_unsaved && (l->o->ckpt->every_epochs || l->o->ckpt->every_steps))
    own = save_after(l, own);
  if (own == CT_OK) own = finish_write(l, 1);
  CT_TRY(ct_agree(l->topo, own));
  if (l->out->stopped || l->evaluated_step == l->at.step) return CT_OK;
  if (l->at.step > l->begun_step)
    CT_TRY(between_epochs(l)); /* ended within an epoch */
  else if (l->o->val)
    CT_TRY(ct_evaluate(l->t, l->o->val, l->o->eval_batch, l->o->workers, &l->out->last));
out:
  return rc;
}

static int prepare(loop_t *l)
{
  int rc = CT_OK;
  const ct_loop_opts_t *o = l->o;
  CT_TRY(ct_trainer_prepare(l->t, o->sampler.samples, o->sampler.batch, 1));
  if (o->val) CT_TRY(ct_trainer_prepare(l->t, o->val->info.samples, o->eval_batch, 0));
out:
  return rc;
}

/* In the mode dp rank 0 gets the whole batches, and the others none. */
static int open_feed(loop_t *l)
{
  int rc = CT_OK;
  const ct_loop_opts_t *o = l->o;
  int dp = l->t->env.recipe.dp, rank = dp ? 0 : l->topo->rank, size = dp ? 1 : l->topo->size;
  if (dp && l->topo->rank) return CT_OK;
  ct_feed_opts_t f = ct_trainer_feed_opts(l->t, 1);
  f.rank = rank;
  f.size = size;
  f.epoch = l->at.epoch;
  f.cursor = l->at.cursor;
  f.workers = o->workers;
  CT_TRY(ct_feed_open(o->data, &o->sampler, &f, &l->feed));
  ct_trainer_follow(l->t, ct_trainer_feed(l->feed));
out:
  return rc;
}

int ct_train_loop(ct_trainer_t *t, const ct_loop_opts_t *o, ct_position_t at, ct_loop_result_t *out)
{
  int rc = CT_OK;
  loop_t l = {.t = t,
              .topo = t->env.topo,
              .o = o,
              .out = out,
              .at = at,
              .saved_step = -1,
              .begun_step = at.step,
              .evaluated_step = -1,
              .begin = ct_clock()};
  memset(out, 0, sizeof *out);
  CT_TRY_ALL(l.topo, prepare(&l));
  CT_TRY_ALL(l.topo, open_ckpt(&l));
  CT_TRY_ALL(l.topo, open_feed(&l));
  CT_TRY(go(&l));
out:;
  ct_err_info_t error = *ct_err_last(); /* what all agreed on is what is told */
  ct_log_progress(NULL);
  ct_trainer_follow(t, (ct_look_t){0});
  ct_feed_close(l.feed);
  ct_ckpt_close(l.ckpt);
  ct_mem_free(l.item);
  if (rc != CT_OK) ct_err_put(&error);
  out->at = l.at;
  out->seconds = l.trained_s;
  out->samples_per_s = l.trained_s > 0 ? (double)l.trained / l.trained_s : 0;
  return rc;
}
