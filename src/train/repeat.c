/* Replays steps as CUDA graphs.
 *
 * Only full batches are replayed, for which all ranks do the same. The first step of each key runs
 * normally: in it libraries initialize themselves, and NCCL connects the ranks for the transfers
 * that are captured later. The second is captured on all ranks. If that fails on one of them, no
 * rank replays steps from then on.
 *
 * A graph with transfers must be launched by all ranks or by none, and be captured by all or by
 * none. The ranks agree on this with one small message per key, and then trust it until the memory
 * that the steps use may have moved: during an evaluation, or a step with fewer samples. In
 * between, a replayed step costs no message. A rank that fails still launches its last graph,
 * because the others wait for the transfers in it, and the step status marks the step as failed.
 */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_log.h"
#include <math.h>

/* The only place that decides which runs are replayed. Returns NULL, or the reason why steps run op
 * by op. */
static const char *obstacle(const ct_trainer_env_t *env)
{
  const ct_step_opts_t *how = &env->step_opts;
  if (env->repeat_batch < env->topo->size) return "a rank may have no samples";
  if (!how->strategy->repeats) return "in this parallel.mode the ranks agree within each step";
  if (!env->comm_ops->repeatable) return "the host takes part in reducing the gradients";
  if (ct__memory_on_host(env)) return "with optim.place host the host updates the weights";
  if (how->zero && isinf(how->clip_p))
    return "with parallel.zero the host finds the largest element of the gradients";
  return NULL;
}

void ct__repeat_make(ct_trainer_t *t)
{
  const ct_trainer_env_t *env = &t->env;
  t->repeat.key = -1;
  t->repeat.full = env->repeat_batch;
  if (!env->training || !env->repeat_batch || !env->be->repeats) return;
  const char *reason = obstacle(env);
  t->repeat.on = !reason;
  if (reason) ct_log(CT_LOG_INFO, "steps are not replayed as CUDA graphs: %s", reason);
}

int ct__repeat_is_on(const ct_trainer_t *t)
{
  return t->repeat.on;
}

void ct__repeat_doubt(ct_trainer_t *t)
{
  for (int i = 0; i < CT_REPEATS; i++)
    t->repeat.agreed[i] = 0;
}

void ct__repeat_begin(ct_trainer_t *t, const ct_batch_t *b, int slot, int want_norm)
{
  ct__repeat_t *r = &t->repeat;
  int key = 2 * slot + (want_norm != 0);
  r->key = -1;
  if (!r->on || ct__replay_is_due(t)) return; /* due: the host waits within the step */
  if (b->global != r->full) ct__repeat_doubt(t);
  if (b->global != r->full || r->seen[key]++ == 0) return;
  ct__step_note(t, t->env.be->queue->begin(t->q, key));
  r->key = key;
}

/* Captures the step on all ranks. */
static int capture(ct_trainer_t *t)
{
  const ct_topo_t *topo = t->env.topo;
  ct__step_enter(t, CT_TIME_WAIT, NULL, -1);
  int rc = t->env.be->queue->capture(t->q);
  if (rc != CT_OK && topo->size > 1) ct_err_suffix(" (rank %d on %s)", topo->rank, topo->host);
  rc = ct_agree(topo, rc);
  ct__step_leave(t);
  t->repeat.on = rc == CT_OK;
  if (rc == CT_OK) ct_log(CT_LOG_DEBUG, "captured a step as a CUDA graph");
  if (rc != CT_OK && rc != CT_ERR_COMM) /* a communication error ends the run */
    ct_log(CT_LOG_WARN, "steps run without CUDA graphs: %s", ct_err_last()->text);
  return rc == CT_OK;
}

/* Returns 1 if all ranks launch a graph, which they capture first if one rank needs to. \a same: 1
 * if this rank's graph can replay the step. */
static int agree_on_graph(ct_trainer_t *t, int same)
{
  enum { SAME, CHANGED, FAILED };
  ct__repeat_t *r = &t->repeat;
  same = same && ct_fault("step.changed") == CT_OK;
  double state = !ct__step_is_well(t) ? FAILED : same ? SAME : CHANGED;
  ct__step_sum(t, &state, 1, 1);
  r->agreed[r->key] = state == SAME || (state == CHANGED && capture(t));
  return r->agreed[r->key];
}

void ct__repeat_end(ct_trainer_t *t)
{
  ct__repeat_t *r = &t->repeat;
  const ct_queue_ops_t *queue = t->env.be->queue;
  int same = 1, whole = 1;
  if (r->key < 0) return;
  if (ct__step_is_well(t)) ct__step_note(t, queue->end(t->q, &same));
  if (!r->agreed[r->key])
    whole = agree_on_graph(t, same);
  else if (!same) /* not known to happen; the last graph would be that of another step */
    ct__step_note(t, queue->capture(t->q));
  ct__step_note(t, queue->start(t->q, whole));
  r->key = -1;
}
