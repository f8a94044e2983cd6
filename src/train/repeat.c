/* Steps that are started as a whole, as CUDA graphs.
 *
 * Only whole batches are repeated, for which all ranks do the same; the first of a kind is done
 * piece by piece, since libraries set themselves up in it.  When the second has become a graph on
 * every rank, all start it; if one rank cannot, none does, now and later.  Once graphs are agreed
 * on, a rank that fails starts its last one all the same: the others wait for the transfers in it,
 * and the step word says that the step is void. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_log.h"

void ct__repeat_make(ct_trainer_t *t)
{
  const ct_trainer_env_t *env = &t->env;
  t->repeat.key = -1;
  t->repeat.full = env->repeat_batch;
  t->repeat.on = env->training && env->repeat_batch >= env->topo->size && env->be->repeats &&
                 env->comm_ops->repeatable && !env->recipe.zero && env->recipe.way->repeats;
}

/* Before the first graph of a key: a rank that failed does not know what batch the others have. */
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
  /* a rank that failed starts its last graph: its messages are those of any batch */
  if (ct__step_is_well(t) && b->global != r->full) return;
  if (ct__step_note(t, t->env.be->queue->begin(t->q, key)) == CT_OK) r->key = key;
}

/* The first graph of a key.  The peers' outcome decides like the own one. */
static int agree(ct_trainer_t *t, int rc)
{
  ct__repeat_t *r = &t->repeat;
  int well = ct__step_is_well(t);
  rc = ct_agree(t->env.topo, well ? rc : ct__step_outcome(t));
  r->agreed[r->key] = rc == CT_OK;
  if (rc == CT_OK) return 1;
  r->on = 0;
  if (well && rc != CT_ERR_COMM) /* that ends the run, and is told then */
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
