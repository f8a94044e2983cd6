#include "train/trainer.h"
#include "base/ct_beat.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include <math.h>
#include <string.h>

int ct__trainer_alloc(ct_trainer_t *t, size_t bytes, char **out)
{
  void *p = NULL;
  int rc = t->env.be->mem->alloc(t->env.dev, CT_MEM_DEVICE, bytes ? bytes : 64, &p);
  *out = p;
  return rc;
}

static int grow(ct_trainer_t *t, size_t want, size_t *have, char **p)
{
  if (want <= *have) return CT_OK;
  t->env.be->mem->free(t->env.dev, CT_MEM_DEVICE, *p);
  *p = NULL;
  *have = 0;
  int rc = ct__trainer_alloc(t, want, p);
  if (rc == CT_OK) *have = want;
  return rc;
}

static const ct_plan_t *first_plan(const ct_trainer_t *t)
{
  return t->variants ? t->variant[0].plan : NULL;
}

static void cut_buckets(ct_trainer_t *t, const ct_variant_t *v)
{
  size_t bytes = (size_t)(t->env.bucket_mb * 1024 * 1024);
  t->buckets = ct_buckets_make(v->plan, &t->map, bytes, CT_BUCKETS_MAX, v->bucket);
}

/* The very first plan decides where parameters lie. */
static int add_variant(ct_trainer_t *t, int n, int training)
{
  int rc = CT_OK;
  ct_variant_t v = {0};
  ct_plan_opts_t o = {.n = n,
                      .training = training,
                      .compute = t->env.recipe.compute,
                      .sync_bn = t->group != NULL,
                      .bytes = t->env.bytes_of[training] != NULL,
                      .channels_last = t->env.bytes_of[training] &&
                                       t->env.bytes_of[training]->info.channels_last,
                      .loss = t->env.loss};
  CT_TRY(ct_plan_make(t->env.graph, t->env.be, t->env.dev, &o, first_plan(t), &v.plan));
  if (!t->variants) CT_TRY(ct_arena_map_make(v.plan, &t->map));
  if (training) {
    v.bucket = ct_mem_array(CT_BUCKETS_MAX, sizeof *v.bucket, "buckets");
    CT_TRY(v.bucket ? CT_OK : CT_ERR_NOMEM);
    cut_buckets(t, &v);
  }
  CT_TRY(ct_mem_grow((void **)&t->variant, &t->cap_variants, t->variants + 1, sizeof v));
  t->variant[t->variants++] = v;
  v = (ct_variant_t){0};
out:
  ct_plan_free(v.plan);
  ct_mem_free(v.bucket);
  return rc;
}

static const ct_variant_t *find_variant(const ct_trainer_t *t, int n, int training)
{
  for (int i = 0; i < t->variants; i++)
    if (t->variant[i].plan->o.n == n && t->variant[i].plan->o.training == training)
      return &t->variant[i];
  return NULL;
}

int ct__trainer_room(const ct_trainer_t *t, int n)
{
  if (n <= t->max_n) return CT_OK;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__,
                    "a batch of %d samples, where at most %d were announced", n, t->max_n);
}

/* What would fit; activations grow with the samples. */
static int no_room(const ct_trainer_t *t, int n, size_t want)
{
  size_t left = t->env.be->mem->room(t->env.dev);
  if (left == SIZE_MAX) return CT_ERR_NOMEM; /* the record says what is known */
  return ct_err_set(
      CT_ERR_NOMEM, __FILE__, __LINE__,
      "the activations of %d samples need %.0f MB, but %.0f MB are free on %s; about "
      "%.0f samples at a time would fit: lower data.batch, which is over all ranks, or "
      "cut a rank's part into pieces with train.accumulate",
      n, (double)want / 1e6, (double)left / 1e6, t->env.be->describe(t->env.dev),
      floor((double)left / (double)want * n));
}

int ct__trainer_variant(ct_trainer_t *t, int n, int training, const ct_variant_t **out)
{
  int rc = CT_OK;
  CT_TRY(ct__trainer_room(t, n));
  *out = find_variant(t, n, training);
  if (!*out) {
    CT_TRY(add_variant(t, n, training));
    *out = find_variant(t, n, training);
  }
  if ((*out)->plan->arena_bytes > t->arena_bytes) t->last = NULL; /* its logits go with the arena */
  rc = grow(t, (*out)->plan->arena_bytes, &t->arena_bytes, &t->arena);
  if (rc == CT_ERR_NOMEM) rc = no_room(t, n, (*out)->plan->arena_bytes);
  CT_TRY(rc);
  CT_TRY(grow(t, (*out)->plan->scratch_bytes, &t->scratch_bytes, &t->scratch));
out:
  return rc;
}

int ct_trainer_prepare(ct_trainer_t *t, int64_t samples, int64_t batch, int training)
{
  int rc = CT_OK;
  const ct_topo_t *topo = t->env.topo;
  const ct_variant_t *v;
  const int64_t totals[] = {batch < samples ? batch : samples, samples % batch};
  int parts = training ? t->parts : 1;
  for (int i = 0; i < 2 * parts; i++) {
    int64_t first, n = ct_sampler_share(totals[i / parts], topo->rank * parts + i % parts,
                                        topo->size * parts, &first);
    if (n) CT_TRY(ct__trainer_variant(t, (int)n, training, &v));
    if (training) CT_TRY(ct__dp_prepare(t, (int)totals[i / parts]));
  }
out:
  return rc;
}

static int make_plans(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_variant_t *v;
  int train = t->env.training;
  int piece = (t->env.max_batch + t->parts - 1) / t->parts;
  CT_TRY(ct__trainer_variant(t, train ? piece : t->env.max_eval, train, &v));
  if (train && t->env.max_eval) CT_TRY(ct__trainer_variant(t, t->env.max_eval, 0, &v));
out:
  return rc;
}

static int alloc_loss(ct_trainer_t *t)
{
  int rc = CT_OK;
  void *loss = NULL, *weight = NULL;
  size_t bytes = (size_t)t->outputs * sizeof(float);
  CT_TRY(
      t->env.be->mem->alloc(t->env.dev, CT_MEM_STAGING, (size_t)t->parts * sizeof *t->loss, &loss));
  t->loss = loss;
  if (!t->env.class_weight) return CT_OK;
  CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_DEVICE, bytes, &weight));
  t->class_weight = weight;
  CT_TRY(t->env.be->mem->copy(t->q, weight, t->env.class_weight, bytes));
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

/* ---- several pieces a step; SyncBN ---- */

static int make_sum(ct_trainer_t *t, int bucket)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_shape_t flat = ct_shape(2, 1, (int64_t)(t->variant[0].bucket[bucket].bytes / sizeof(float)));
  ct_op_desc_init(&d, CT_OP_ADD, &flat, &flat);
  return t->env.be->op->prepare(t->env.dev, &d, NULL, &t->sum[bucket], &info);
}

static int alloc_partial(ct_trainer_t *t)
{
  int rc = CT_OK;
  t->levels = ct_recipe_levels(&t->env.recipe);
  for (int l = 0; l < t->levels; l++)
    CT_TRY(ct__trainer_alloc(t, t->map.trained_bytes, &t->partial[l]));
  for (int k = 0; k < t->buckets && t->levels; k++)
    CT_TRY(make_sum(t, k));
out:
  return rc;
}

static int64_t most_channels(const ct_graph_t *g)
{
  int64_t most = 0;
  for (int i = 0; i < g->params; i++)
    if (g->param[i].spec.buffer && g->param[i].count > most) most = g->param[i].count;
  return most;
}

/* Groups of neighbouring ranks. */
static int open_group(ct_trainer_t *t)
{
  const ct_topo_t *topo = t->env.topo;
  int size = t->env.recipe.sync_bn;
  if (!size || !t->env.training || !most_channels(t->env.graph)) return CT_OK;
  int color = size == CT_SYNC_NODE ? topo->node_index : topo->rank / size;
  return t->env.comm_ops->group(t->env.comm, color, &t->group);
}

static int alloc_stats(ct_trainer_t *t)
{
  int rc = CT_OK;
  char *stats = NULL;
  if (!t->group) return CT_OK;
  CT_TRY(
      ct__trainer_alloc(t, (size_t)(2 * most_channels(t->env.graph) + 1) * sizeof(double), &stats));
  t->stats = (double *)stats;
out:
  return rc;
}

static int alloc_arenas(ct_trainer_t *t)
{
  int rc = CT_OK;
  CT_TRY(ct__trainer_alloc(t, t->map.weight_bytes, &t->weight));
  CT_TRY(ct__trainer_alloc(t, t->map.buffer_bytes, &t->buffer));
  CT_TRY(ct__low_make(t));
  CT_TRY(alloc_loss(t));
  CT_TRY(ct__input_make(t));
  if (!t->env.training) return CT_OK;
  CT_TRY(alloc_stats(t));
  CT_TRY(alloc_partial(t));
  CT_TRY(ct__update_make(t));
  CT_TRY(ct__dp_make(t));
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
  t->max_n = env->max_batch > env->max_eval ? env->max_batch : env->max_eval;
  if (env->training && env->recipe.dp && t->max_n < env->max_batch * env->topo->size)
    t->max_n = env->max_batch * env->topo->size; /* rank 0 has the whole batch */
  t->parts = env->training && env->recipe.parts ? env->recipe.parts : 1;
  if (t->env.recipe.clip_p == 0) t->env.recipe.clip_p = 2;
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
  CT_TRY(open_group(t));
  CT_TRY_ALL(env->topo, make_plans(t));
  CT_TRY(ct_agree_same(env->topo, "layout of the parameters", t->map.layout));
  CT_TRY_ALL(env->topo, alloc_arenas(t));
  ct__repeat_make(t);
  if (env->training) {
    void *p = NULL;
    CT_TRY(env->comm_ops->alloc(env->comm, t->map.gradient_bytes ? t->map.gradient_bytes : 64, &p));
    t->gradient = p;
  }
  CT_TRY_ALL(env->topo, env->topo->rank == 0 ? init_params(t) : CT_OK);
  CT_TRY(ct_trainer_broadcast(t, 0));
  CT_TRY(ct_trainer_verify(t));
  *out = t;
  t = NULL;
out:
  ct_trainer_destroy(t);
  return rc;
}

static void free_snapshot(ct_trainer_t *t)
{
  int n = t->snap ? ct_trainer_items(t) : 0;
  for (int i = 0; i < n; i++)
    ct_mem_free(t->snap[i]);
  ct_mem_free(t->snap);
  ct_mem_free(t->snap_number);
}

void ct_trainer_destroy(ct_trainer_t *t)
{
  if (!t) return;
  const ct_backend_t *be = t->env.be;
  ct_dev_t *dev = t->env.dev;
  be->queue->destroy(t->q);
  ct__input_free(t);
  be->queue->unmark(t->ready);
  free_snapshot(t);
  for (int i = 0; i < t->variants; i++) {
    ct_plan_free(t->variant[i].plan);
    ct_mem_free(t->variant[i].bucket);
  }
  ct_mem_free(t->variant);
  ct__update_free(t);
  ct__low_free(t);
  ct__dp_free(t);
  for (int i = 0; i < CT_BUCKETS_MAX; i++)
    be->op->release(t->sum[i]);
  for (int i = 0; i < CT_LEVELS_MAX; i++)
    be->mem->free(dev, CT_MEM_DEVICE, t->partial[i]);
  void *all[] = {t->arena, t->scratch, t->weight, t->buffer, t->class_weight, t->stats};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    be->mem->free(dev, CT_MEM_DEVICE, all[i]);
  be->mem->free(dev, CT_MEM_STAGING, t->loss);
  ct_arena_map_clear(&t->map);
  ct_mem_free(t);
}

void ct__trainer_enter(const ct_trainer_t *t, const char *doing, int64_t detail)
{
  if (t->env.topo->size > 1)
    ct_beat_enter(doing, detail);
  else
    ct_beat_at(doing, detail);
}

static int bcast(ct_trainer_t *t, void *buf, size_t bytes)
{
  ct__trainer_enter(t, "the broadcast of the state", -1);
  return t->env.comm_ops->bcast(t->env.comm, t->q, buf, bytes, 0);
}

int ct_trainer_broadcast(ct_trainer_t *t, int buffers_only)
{
  int rc = CT_OK;
  size_t w = t->map.weight_bytes, b = t->map.buffer_bytes;
  if (b) CT_TRY(bcast(t, t->buffer, b));
  if (buffers_only) return CT_OK;
  if (w) CT_TRY(bcast(t, t->weight, w));
  t->low_stale = 1;
  for (int i = 0; i < t->states && t->state_bytes && !t->env.recipe.zero; i++)
    CT_TRY(bcast(t, t->state[i], t->state_bytes));
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
  CT_TRY(ct_text_format(what, sizeof what, "the parameters after step %lld", (long long)t->steps));
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
  return !t->env.recipe.dp;
}

void ct_trainer_bytes(const ct_trainer_t *t, size_t *activations, size_t *all)
{
  *activations = t->arena_bytes;
  *all = t->arena_bytes + t->scratch_bytes + t->map.weight_bytes + t->map.buffer_bytes +
         t->map.gradient_bytes + (size_t)t->states * t->state_bytes +
         (size_t)t->levels * t->map.trained_bytes + (t->low ? t->map.weight_bytes / 2 : 0) +
         ct__input_size(t);
}
