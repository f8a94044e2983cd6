/* Replays steps as CUDA graphs.
 *
 * Only full batches are replayed, for which all ranks do the same. The first step of each key runs
 * normally, since libraries initialize themselves in it; the second is captured. If the capture
 * succeeds on every rank, all ranks launch the graph; if it fails on one rank, no rank replays
 * steps, now or later. Once graphs are in use, a rank that fails still launches its last graph,
 * because the others wait for the transfers in it, and the step status marks the step as failed. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_log.h"

void ct__repeat_make(ct_trainer_t *t)
{
  const ct_trainer_env_t *env = &t->env;
  t->repeat.key = -1;
  t->repeat.full = env->repeat_batch;
  t->repeat.on = env->training && env->repeat_batch >= env->topo->size && env->be->repeats &&
                 env->comm_ops->repeatable && !env->step_opts.zero &&
                 env->step_opts.strategy->repeats;
}

/* Returns 1 if all ranks have a full batch. Needed before the first graph of a key, since a rank
 * that failed does not know the batch of the others. */
static int all_have_whole(ct_trainer_t *t, const ct_batch_t *b)
{
  double others = !ct__step_is_well(t) || b->global != t->repeat.full;
  ct__step_sum(t, &others, 1, 0);
  return others == 0;
}

void ct__repeat_begin(ct_trainer_t *t, const ct_batch_t *b, int slot, int want_norm)
{
  ct__repeat_t *r = &t->repeat;
  int key = 2 * slot + (want_norm != 0);
  r->key = -1;
  if (!r->on) return;
  if (!r->agreed[key] && (!all_have_whole(t, b) || r->seen[key]++ == 0)) return;
  /* after a failure the last graph is launched, whose messages are the same for any batch */
  if (ct__step_is_well(t) && b->global != r->full) return;
  if (ct__step_note(t, t->env.be->queue->begin(t->q, key)) == CT_OK) r->key = key;
}

/* Decides whether the first graph of a key is used: only if it was captured on all ranks. */
static int agree(ct_trainer_t *t, int rc)
{
  ct__repeat_t *r = &t->repeat;
  int well = ct__step_is_well(t);
  rc = ct_agree(t->env.topo, well ? rc : ct__step_outcome(t));
  r->agreed[r->key] = rc == CT_OK;
  if (rc == CT_OK) return 1;
  r->on = 0;
  if (well && rc != CT_ERR_COMM) /* a communication error ends the run and is reported elsewhere */
    ct_log(CT_LOG_INFO, "steps are not repeated as CUDA graphs: %s", ct_err_last()->text);
  return 0;
}

void ct__repeat_end(ct_trainer_t *t)
{
  ct__repeat_t *r = &t->repeat;
  const ct_queue_ops_t *queue = t->env.be->queue;
  int rc = CT_OK, whole = 1;
  if (r->key < 0) return;
  if (ct__step_is_well(t)) rc = queue->end(t->q);
  if (r->agreed[r->key])
    ct__step_note(t, rc);
  else
    whole = agree(t, rc);
  ct__step_note(t, queue->start(t->q, whole));
  r->key = -1;
}
