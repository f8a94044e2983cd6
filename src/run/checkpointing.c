/* Checkpoints of the training loop: rank 0 copies the state and continues while a thread writes it,
 * so that training waits for memory and not for the disk.  States that are divided among the ranks
 * are not copied: no rank could hold all of them, and training waits until they are written.  The
 * result of a write is reported later: when the next checkpoint is due, or at the end of the run.
 * */
#include "run/loop.h"
#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "run/ct_rundir.h"
#include <inttypes.h>

/* Appends the last good checkpoint to an error message. */
static void name_last_good(const ct__loop_t *l)
{
  ct_err_info_t e = *ct_err_last();
  if (e.code != CT_ERR_IO) return;
  if (l->good_step > 0)
    ct_err_set(e.code, e.file, e.line, "%s; the last good checkpoint is of step %" PRId64, e.text,
               l->good_step);
  else
    ct_err_set(e.code, e.file, e.line, "%s; this run has not written a checkpoint yet", e.text);
}

/* Keeps the current error. */
static void failed_line(ct__loop_t *l)
{
  ct_err_info_t first = *ct_err_last();
  ct_metrics_t *m = l->o->metrics;
  ct_metrics_begin(m, "checkpoint_failed");
  ct_metrics_int(m, "step", l->saved_step);
  ct_metrics_text(m, "error", first.text);
  ct_metrics_end(m);
  ct_err_put(&first);
}

static int done_line(ct__loop_t *l, const ct_ckpt_done_t *d)
{
  ct_metrics_t *m = l->o->metrics;
  ct_metrics_begin(m, "checkpoint");
  ct_metrics_int(m, "step", d->step);
  ct_metrics_text(m, "file", d->name);
  ct_metrics_num(m, "stall_s", l->stall_s);
  ct_metrics_num(m, "write_s", d->write_s);
  ct_metrics_int(m, "bytes", d->bytes);
  if (d->best) ct_metrics_int(m, "best", 1);
  return ct_metrics_end(m);
}

/* Waits for the previous write, if there is one, and reports its result. */
static int end_write(ct__loop_t *l)
{
  int rc = CT_OK;
  const ct_ckpt_done_t *d;
  l->writing = 0;
  ct_heartbeat_at("waiting for a checkpoint to be written", -1);
  rc = ct_ckpt_wait(l->ckpt, &d);
  if (rc != CT_OK) {
    name_last_good(l);
    failed_line(l);
    return rc;
  }
  if (!d) return CT_OK;
  ct_log(CT_LOG_DEBUG, "checkpoint %s is complete", d->name);
  l->good_step = d->step;
  l->save_s = ct_walltime_slowest(l->save_s, l->stall_s + d->write_s);
  CT_TRY(done_line(l, d));
out:
  return rc;
}

/* Handles a failed write: with `checkpoint.on_error: continue` it is a warning, unless it was the
 * last write of the run. */
static int end_one_of_many(ct__loop_t *l)
{
  int rc = end_write(l);
  if (rc == CT_OK || l->o->ckpt->on_error == CT_CKPT_STOP) return rc;
  ct_log(CT_LOG_WARN, "skipped the checkpoint of step %" PRId64 ": %s", l->saved_step,
         ct_err_last()->text);
  return CT_OK;
}

/* Adds the time since \a begin, in which training was stalled. */
static int note_time(ct__loop_t *l, double begin, int rc)
{
  double seconds = ct_clock() - begin;
  l->saving_s += seconds;
  l->out->stall_s += seconds;
  return rc;
}

int ct__checkpointing_end(ct__loop_t *l, int last)
{
  if (!l->ckpt || (!last && (!l->writing || ct_ckpt_busy(l->ckpt)))) return CT_OK;
  double begin = ct_clock();
  return note_time(l, begin, last ? end_write(l) : end_one_of_many(l));
}

double ct__checkpointing_seconds(const ct__loop_t *l)
{
  if (l->save_s > 0) return l->save_s;
  return ct_walltime_guess_save(ct_trainer_snapshot_bytes(l->t));
}

static void put(void *ctx, const ct_ckpt_item_t *item)
{
  ct_ckpt_put(ctx, item);
}

static int begin_file(ct__loop_t *l)
{
  int rc = CT_OK;
  CT_TRY(ct_rundir_check(l->o->rundir));
  CT_TRY(ct_trainer_list(l->t, l->item));
  CT_TRY(ct_ckpt_begin(l->ckpt, l->at.step, l->item, l->items, l->text, l->texts));
out:
  return rc;
}

/* States in slices: rank 0 writes them parameter by parameter, as the ranks send their parts; a
 * thread then makes the file durable. */
static int save_slices(ct__loop_t *l, int own)
{
  int rc = own;
  if (!l->ckpt) return ct_trainer_pass(l->t, &l->at, own, NULL, NULL);
  if (rc == CT_OK) rc = begin_file(l);
  CT_TRY(ct_trainer_pass(l->t, &l->at, rc, put, l->ckpt));
  l->writing = 1;
  CT_TRY(ct_ckpt_end(l->ckpt));
out:
  if (rc != CT_OK) ct_ckpt_cancel(l->ckpt);
  return rc;
}

/* Copies the state, and passes the copy to the writer. */
static int save_copy(ct__loop_t *l, int own)
{
  int rc = own;
  CT_TRY(rc);
  CT_TRY(ct_trainer_snapshot(l->t, &l->at, l->item));
  CT_TRY(ct_rundir_check(l->o->rundir));
  l->writing = 1;
  CT_TRY(ct_ckpt_save(l->ckpt, l->at.step, l->item, l->items, l->text, l->texts));
out:
  return rc;
}

static int save(ct__loop_t *l)
{
  int rc = CT_OK, is_best = l->is_best, slices = ct_trainer_snapshot_is_collective(l->t);
  double begin = ct_clock();
  l->is_best = 0;
  if (l->ckpt) rc = end_one_of_many(l);
  if (l->ckpt && is_best) ct_ckpt_mark_best(l->ckpt);
  l->saved_step = l->at.step;
  ct_heartbeat_at("saving the state for a checkpoint", -1);
  if (slices)
    CT_TRY(save_slices(l, rc));
  else if (l->ckpt)
    CT_TRY(save_copy(l, rc));
  l->stall_s = ct_clock() - begin;
out:
  return rc;
}

/* \a own: this rank's code so far.  With a collective snapshot all ranks save or none. */
int ct__checkpointing_begin(ct__loop_t *l, int own)
{
  int rc = own;
  double begin = ct_clock();
  if (ct_trainer_snapshot_is_collective(l->t)) rc = ct_agree(l->topo, own);
  return note_time(l, begin, rc == CT_OK ? save(l) : rc);
}

int ct__checkpointing_is_step(const ct__loop_t *l, int64_t step)
{
  return l->o->ckpt->every_steps && step % l->o->ckpt->every_steps == 0;
}

int ct__checkpointing_due(const ct__loop_t *l, int epoch_end)
{
  const ct_ckpt_opts_t *c = l->o->ckpt;
  if (l->is_best) return 1;
  if (epoch_end && c->every_epochs && l->at.epoch % c->every_epochs == 0) return 1;
  return ct__checkpointing_is_step(l, l->at.step);
}

int ct__checkpointing_open(ct__loop_t *l)
{
  int rc = CT_OK;
  CT_TRY(ct_path_join(l->dir, sizeof l->dir, l->o->dir, "checkpoints"));
  if (l->topo->rank) return CT_OK;
  l->items = ct_trainer_items(l->t);
  l->item = ct_mem_array(l->items, sizeof *l->item, "checkpoint");
  if (!l->item) CT_FAIL(CT_ERR_NOMEM, "out of memory for checkpoints");
  l->text[0] = (ct_ckpt_text_t){"/meta/config", l->o->config_text};
  l->text[1] = (ct_ckpt_text_t){"/meta/versions", l->o->versions};
  l->texts = 2;
  if (l->o->messages) l->text[l->texts++] = (ct_ckpt_text_t){"/meta/messages", l->o->messages};
  l->good_step = l->begun_step;
  if (l->o->ckpt->on_error == CT_CKPT_CONTINUE) ct_metrics_forgive(l->o->metrics);
  CT_TRY(ct_ckpt_open(l->dir, l->o->store, l->o->ckpt->keep, &l->ckpt));
out:
  return rc;
}

/* After an error in another part of the run, a write may still be in progress: waits for it and
 * writes its line. */
void ct__checkpointing_close(ct__loop_t *l)
{
  if (l->ckpt) end_write(l);
  ct_ckpt_close(l->ckpt);
  ct_mem_free(l->item);
}
