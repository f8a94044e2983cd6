/* Checkpoints of the loop: rank 0 copies the state and goes on while a thread writes. */
#include "train/loop.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

/* The write before this one, if it is over (or \a wait): its error. */
int ct__saves_end(ct__loop_t *l, int wait)
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
static int save(ct__loop_t *l)
{
  int rc = CT_OK;
  double begin = ct_clock();
  char file[32];
  ct_metrics_t *m = l->o->metrics;
  l->saved_step = l->at.step;
  if (!l->ckpt)
    return ct_trainer_snapshot_is_collective(l->t) ? ct_trainer_snapshot(l->t, &l->at, NULL)
                                                   : CT_OK;
  int waited = ct__saves_end(l, 1); /* the snapshot may be Collective: nobody may leave before it */
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
int ct__saves_begin(ct__loop_t *l, int own)
{
  int rc = own;
  if (ct_trainer_snapshot_is_collective(l->t)) rc = ct_agree(l->topo, own);
  return rc == CT_OK ? save(l) : rc;
}

int ct__saves_due(const ct__loop_t *l, int epoch_end)
{
  const ct_ckpt_opts_t *c = l->o->ckpt;
  if (epoch_end && c->every_epochs && l->at.epoch % c->every_epochs == 0) return 1;
  return c->every_steps && l->at.step % c->every_steps == 0;
}

int ct__saves_open(ct__loop_t *l)
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

void ct__saves_close(ct__loop_t *l)
{
  ct_ckpt_close(l->ckpt);
  ct_mem_free(l->item);
}
