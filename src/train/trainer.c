/* The life of a trainer: its parts are made in the order in which they need each other, and one
 * agreement of the ranks follows each step that may fail on one of them. */
#include "train/trainer.h"
#include "base/ct_beat.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"

static int make_rooms(ct_trainer_t *t)
{
  int rc = CT_OK;
  CT_TRY(ct__arenas_take(t, CT_MEMORY_WEIGHTS, t->map.weight_bytes, &t->weight));
  CT_TRY(ct__arenas_take(t, CT_MEMORY_BUFFERS, t->map.buffer_bytes, &t->buffer));
  CT_TRY(ct__low_make(t));
  CT_TRY(ct__step_make(t));
  CT_TRY(ct__input_make(t));
  if (!t->env.training) return CT_OK;
  CT_TRY(ct__sync_bn_make(t));
  CT_TRY(ct__update_make(t));
  CT_TRY(t->env.recipe.way->make(t));
out:
  return rc;
}

static int init_params(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_graph_t *g = t->env.graph;
  float *plain = NULL;
  int64_t most = 0;
  for (int i = 0; i < g->params; i++)
    if (g->param[i].count > most) most = g->param[i].count;
  plain = ct_mem_array(most, sizeof *plain, "initial weights");
  if (!plain) return CT_ERR_NOMEM;
  for (int i = 0; i < g->params; i++) {
    ct_graph_init_param(g, i, t->env.seed, plain);
    CT_TRY(ct_trainer_set(t, i, plain));
  }
out:
  ct_mem_free(plain);
  return rc;
}

static ct_trainer_t *new_trainer(const ct_trainer_env_t *env)
{
  ct_trainer_t *t = ct_mem_alloc(sizeof *t, "trainer");
  if (!t) return NULL;
  t->env = *env;
  ct_recipe_t *how = &t->env.recipe;
  if (!how->way) how->way = &ct_way_ddp;
  if (how->clip_p == 0) how->clip_p = 2;
  t->max_n = env->max_batch;
  if (env->training && how->way->rank0_deals) t->max_n *= env->topo->size;
  if (t->max_n < env->max_eval) t->max_n = env->max_eval;
  t->pieces = env->training && how->pieces ? how->pieces : 1;
  t->outputs = ct_shape_sample(&env->graph->layer[env->graph->layers - 1].out);
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
  CT_TRY_ALL(env->topo, ct__plans_make(t));
  CT_TRY(ct_agree_same(env->topo, "layout of the parameters", t->map.layout));
  CT_TRY_ALL(env->topo, make_rooms(t));
  ct__repeat_make(t);
  if (env->training) CT_TRY(ct__arenas_make_gradient(t));
  CT_TRY_ALL(env->topo, env->topo->rank == 0 ? init_params(t) : CT_OK);
  CT_TRY(ct_trainer_broadcast(t, 0));
  CT_TRY(ct_trainer_verify(t));
  *out = t;
  t = NULL;
out:
  ct_trainer_destroy(t);
  return rc;
}

void ct_trainer_destroy(ct_trainer_t *t)
{
  if (!t) return;
  t->env.be->queue->destroy(t->q);
  ct__input_free(t);
  ct__state_free(t);
  ct__plans_free(t);
  ct__update_free(t);
  ct__low_free(t);
  t->env.recipe.way->free(t);
  ct__step_free(t);
  ct__arenas_free(t);
  ct_mem_free(t);
}

void ct__trainer_enter(const ct_trainer_t *t, const char *doing, int64_t detail)
{
  if (t->env.topo->size > 1)
    ct_beat_enter(doing, detail);
  else
    ct_beat_at(doing, detail);
}

int ct__trainer_broadcast(ct_trainer_t *t, void *buf, size_t bytes)
{
  if (!bytes) return CT_OK;
  ct__trainer_enter(t, "the broadcast of the state", -1);
  return t->env.comm_ops->bcast(t->env.comm, t->q, buf, bytes, 0);
}

int ct_trainer_broadcast(ct_trainer_t *t, int buffers_only)
{
  int rc = CT_OK;
  CT_TRY(ct__trainer_broadcast(t, t->buffer, t->map.buffer_bytes));
  if (buffers_only) return CT_OK;
  CT_TRY(ct__trainer_broadcast(t, t->weight, t->map.weight_bytes));
  ct__low_outdate(t);
  CT_TRY(ct__update_broadcast(t));
out:
  return rc;
}

/* ---- what can be asked ---- */

static int hash_weights(ct_trainer_t *t, uint64_t *out)
{
  enum { PIECE = 1 << 16 };
  int rc = CT_OK;
  uint64_t hash = 0;
  char piece[PIECE];
  for (size_t at = 0; at < t->map.weight_bytes; at += PIECE) {
    size_t n = t->map.weight_bytes - at < PIECE ? t->map.weight_bytes - at : PIECE;
    CT_TRY(t->env.be->mem->copy(t->q, piece, t->weight + at, n));
    CT_TRY(t->env.be->queue->sync(t->q));
    hash = ct_hash(piece, n, hash);
  }
  *out = hash;
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

const ct_topo_t *ct_trainer_topo(const ct_trainer_t *t)
{
  return t->env.topo;
}

int ct_trainer_is_even(const ct_trainer_t *t)
{
  return !t->env.recipe.way->rank0_deals;
}
