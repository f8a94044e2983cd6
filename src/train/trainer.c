/* The trainer's public interface: creation and destruction, steps, forward passes.
 *
 * Its parts are created in the order of their dependencies; after each stage that may fail on one
 * rank, the ranks agree on the result. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include <string.h>

static int make_parts(ct_trainer_t *t)
{
  int rc = CT_OK;
  if (t->env.training) CT_TRY(ct__slices_make(t));
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_WEIGHTS, &t->weight));
  CT_TRY(ct__arenas_take(t, CT_MEMORY_BUFFERS, t->map.buffer_bytes, &t->buffer));
  CT_TRY(ct__reduced_make(t));
  CT_TRY(ct__qat_make(t));
  CT_TRY(ct__step_make(t));
  CT_TRY(ct__input_make(t));
  CT_TRY(ct__one_value_make(t));
  if (!t->env.training) return CT_OK;
  CT_TRY(ct__sync_bn_make(t));
  CT_TRY(ct__update_make(t));
  CT_TRY(ct__average_make(t));
  CT_TRY(t->env.step_opts.strategy->make(t));
  CT_TRY(ct__replay_make(t));
out:
  return rc;
}

static ct_trainer_t *new_trainer(const ct_trainer_env_t *env)
{
  ct_trainer_t *t = ct_mem_alloc(sizeof *t, "trainer");
  if (!t) return NULL;
  t->env = *env;
  ct_step_opts_t *how = &t->env.step_opts;
  if (!how->strategy) how->strategy = &ct_strategy_ddp;
  if (how->clip_p == 0) how->clip_p = 2;
  t->max_n = ct__memory_capacity(&t->env);
  t->micro_batches = ct__memory_micro_batches(&t->env, env->training);
  t->outputs = ct_shape_sample(&env->graph->layer[ct_graph_output(env->graph, 0)].out);
  t->heads = ct__memory_heads(env);
  return t;
}

int ct_trainer_create(const ct_trainer_env_t *env, ct_trainer_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_trainer_t *t = new_trainer(env);
  CT_TRY_ALL(env->topo, t ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(env->topo, env->be->queue->create(env->dev, &t->q));
  CT_TRY(ct__sync_bn_open(t));
  CT_TRY(ct__plans_make(t));
  CT_TRY(ct_agree_same(env->topo, "layout of the parameters", t->map.layout));
  CT_TRY_ALL(env->topo, make_parts(t));
  ct__repeat_make(t);
  if (env->training) {
    CT_TRY(ct__update_open(t));
    CT_TRY(ct__arenas_make_gradient(t));
  }
  CT_TRY(ct__arrays_init(t));
  CT_TRY(ct_trainer_broadcast(t, 0));
  CT_TRY(ct_trainer_verify(t));
  *out = t;
  t = NULL;
out:
  ct_trainer_destroy(t);
  return rc;
}

static size_t tracked_bytes(const ct_trainer_t *t)
{
  return (size_t)t->env.graph->layers * sizeof *t->tracked;
}

int ct_trainer_remember(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_mem_ops_t *mem = t->env.be->mem;
  size_t weights = t->need.bytes[CT_MEMORY_WEIGHTS];
  size_t buffers = t->map.buffer_bytes, counts = tracked_bytes(t);
  if (!t->first_state)
    t->first_state =
        ct_mem_alloc(weights + buffers + counts, "the weights to begin with once more");
  CT_TRY(t->first_state ? CT_OK : CT_ERR_NOMEM);
  ct__slices_settle(t);
  CT_TRY(mem->copy(t->q, t->first_state, t->weight, weights));
  if (buffers) CT_TRY(mem->copy(t->q, t->first_state + weights, t->buffer, buffers));
  memcpy(t->first_state + weights + buffers, t->tracked, counts);
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

int ct_trainer_restart(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_mem_ops_t *mem = t->env.be->mem;
  size_t weights = t->need.bytes[CT_MEMORY_WEIGHTS], buffers = t->map.buffer_bytes;
  ct__slices_settle(t);
  CT_TRY(ct__average_restart(t));
  CT_TRY(mem->copy(t->q, t->weight, t->first_state, weights));
  if (buffers) CT_TRY(mem->copy(t->q, t->buffer, t->first_state + weights, buffers));
  memcpy(t->tracked, t->first_state + weights + buffers, tracked_bytes(t));
  CT_TRY(ct__update_restart(t));
  ct__reduced_swap(t);
  ct__step_restart(t);
out:
  return rc;
}

void ct_trainer_destroy(ct_trainer_t *t)
{
  if (!t) return;
  ct__slices_settle(t);
  t->env.be->queue->destroy(t->q);
  ct__input_free(t);
  ct__state_free(t);
  ct__plans_free(t);
  ct__update_free(t);
  ct__slices_free(t);
  ct__reduced_free(t);
  ct__qat_free(t);
  ct__average_free(t);
  t->env.step_opts.strategy->free(t);
  ct__replay_free(t);
  ct__step_free(t);
  ct__arenas_free(t);
  ct_mem_free(t->tracked);
  ct_mem_free(t->first_state);
  ct_mem_free(t);
}

/* ---- a step, a forward pass ---- */

void ct_trainer_begin(ct_trainer_t *t, const ct_batch_t *b, int rc_in,
                      const ct_schedule_point_t *at, ct_step_report_t *report)
{
  ct__step_begin(t, b, rc_in, report);
  ct__update_begin(t, report);
  ct__step_note(t, ct__reduced_refresh(t));
  if (ct__step_is_well(t)) ct__step_note(t, ct__qat_round(t));
  t->env.step_opts.strategy->step(t, b, at, report);
  if (ct__step_is_well(t)) ct__step_note(t, ct__average_step(t));
  if (ct__step_is_well(t)) ct__input_prefetch(t);
  if (ct__step_is_well(t)) ct__one_value_count(t, b);
  if (ct_trainer_lag(t)) ct__step_note(t, ct__input_copied(t));
  ct__step_begun(t, b);
  t->progress.steps++;
}

int ct_trainer_end(ct_trainer_t *t, ct_step_status_t *status, ct_step_report_t *report)
{
  ct__step_wait(t);
  ct__update_report(t, report);
  ct__step_end(t, status);
  int rc = ct__step_over(t, status, report);
  if (rc == CT_OK) return rc;
  /* transfers may wait for a rank that failed, until the communicator aborts them; what follows
   * frees memory, for which a device would wait without end */
  ct_err_info_t failure = *ct_err_last();
  (void)t->env.be->queue->sync(t->q);
  ct_err_put(&failure);
  return rc;
}

int ct_trainer_step(ct_trainer_t *t, const ct_batch_t *b, int rc_in, const ct_schedule_point_t *at,
                    ct_step_status_t *status, ct_step_report_t *report)
{
  ct_trainer_begin(t, b, rc_in, at, report);
  return ct_trainer_end(t, status, report);
}

static int trainer_forward(ct_trainer_t *t, const ct_batch_t *b)
{
  int rc = CT_OK;
  const ct__variant_t *v;
  CT_TRY(ct_fault("eval.forward"));
  CT_TRY(ct__input_take(t, b, -1));
  ct__slices_settle(t);
  CT_TRY(ct__reduced_refresh(t));
  CT_TRY(ct__qat_round(t));
  CT_TRY(ct__plans_use(t, b->n, 0, &v));
  ct_bind_t bind = ct__input_bind(t, b, 0, 0, 0);
  for (int i = 0; i < v->plan->launches; i++)
    CT_TRY(ct_plan_run(v->plan, i, &bind, t->q));
out:
  return rc;
}

int ct_trainer_forward(ct_trainer_t *t, const ct_batch_t *b, ct_loss_t *sum)
{
  ct__step_clear(t);
  ct__step_note(t, trainer_forward(t, b));
  ct__input_prefetch(t);
  ct__step_note(t, t->env.be->queue->sync(t->q)); /* the caller may reuse its batch after the
                                                     return */
  if (ct__step_is_well(t)) ct__step_add_loss(t, 0, sum);
  return ct__step_outcome(t);
}

void ct_trainer_add_loss(const ct_trainer_t *t, int k, ct_loss_t *sum)
{
  ct__step_add_loss(t, k, sum);
}

const ct_heads_t *ct_trainer_heads(const ct_trainer_t *t)
{
  return &t->heads;
}

/* ---- queries ---- */

static int hash_memory(ct_trainer_t *t, const char *from, size_t bytes, uint64_t *hash)
{
  enum { PIECE = 1 << 16 };
  int rc = CT_OK;
  char piece[PIECE];
  for (size_t at = 0; at < bytes; at += PIECE) {
    size_t n = bytes - at < PIECE ? bytes - at : PIECE;
    CT_TRY(t->env.be->mem->copy(t->q, piece, from + at, n));
    CT_TRY(t->env.be->queue->sync(t->q));
    *hash = ct_hash(piece, n, *hash);
  }
out:
  return rc;
}

/* Weights in slices are the same on all ranks as their reduced copy. */
static int hash_weights(ct_trainer_t *t, uint64_t *out)
{
  int rc = CT_OK;
  size_t low = t->map.low_bytes;
  *out = 0;
  ct__slices_settle(t);
  CT_TRY(hash_memory(t, t->reduced, low / 2, out));
  CT_TRY(hash_memory(t, ct__slices_whole(t, t->weight, low), t->map.weight_bytes - low, out));
out:
  return rc;
}

int ct_trainer_verify(ct_trainer_t *t)
{
  int rc = CT_OK;
  char what[64];
  uint64_t hash = 0;
  CT_TRY_ALL(t->env.topo, hash_weights(t, &hash));
  CT_TRY(ct_text_format(what, sizeof what, "the parameters after step %lld",
                        (long long)t->progress.steps));
  CT_TRY(ct_agree_same(t->env.topo, what, hash));
out:
  return rc;
}

double ct_trainer_lr(const ct_trainer_t *t, const ct_schedule_point_t *at)
{
  return ct_schedule_lr(at, t->env.optim->lr);
}

int ct_trainer_group_lr(const ct_trainer_t *t, const ct_schedule_point_t *at, int i,
                        const char **match, double *lr)
{
  if (!ct_param_group_rate(t->env.optim, i, match, lr)) return 0;
  *lr = ct_schedule_lr(at, *lr);
  return 1;
}

const ct_topo_t *ct_trainer_topo(const ct_trainer_t *t)
{
  return t->env.topo;
}

int ct_trainer_is_even(const ct_trainer_t *t)
{
  return !t->env.step_opts.strategy->rank0_deals;
}

int64_t ct_trainer_outputs(const ct_trainer_t *t)
{
  return t->outputs;
}

int ct_trainer_output_count(const ct_trainer_t *t)
{
  return ct_graph_outputs(t->env.graph);
}

int64_t ct_trainer_output_values(const ct_trainer_t *t, int k)
{
  return ct_shape_sample(&t->env.graph->layer[ct_graph_output(t->env.graph, k)].out);
}
