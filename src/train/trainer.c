#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <string.h>

static int device_alloc(ct_trainer_t *t, size_t bytes, char **out)
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
  int rc = device_alloc(t, want, p);
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
  ct_plan_opts_t o = {.n = n, .training = training};
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

int ct__trainer_variant(ct_trainer_t *t, int n, int training, const ct_variant_t **out)
{
  int rc = CT_OK;
  if (n > t->max_n)
    CT_FAIL(CT_ERR_ARG, "a batch of %d samples, where at most %d were announced", n, t->max_n);
  *out = find_variant(t, n, training);
  if (!*out) {
    CT_TRY(add_variant(t, n, training));
    *out = find_variant(t, n, training);
  }
  if ((*out)->plan->arena_bytes > t->arena_bytes) t->last = NULL; /* its logits go with the arena */
  CT_TRY(grow(t, (*out)->plan->arena_bytes, &t->arena_bytes, &t->arena));
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
  for (int i = 0; i < 2; i++) {
    int64_t first, n = ct_sampler_share(totals[i], topo->rank, topo->size, &first);
    if (n) CT_TRY(ct__trainer_variant(t, (int)n, training, &v));
  }
out:
  return rc;
}

static int make_update(ct_trainer_t *t)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_shape_t all = ct_shape(1, (int64_t)(t->map.weight_bytes / sizeof(float)));
  ct_op_desc_init(&d, CT_OP_UPDATE, &all, &all);
  d.u.update.rule = ct_optim_rule(t->env.optim, &t->states);
  return t->env.be->op->prepare(t->env.dev, &d, NULL, &t->update, &info);
}

static int make_plans(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_variant_t *v;
  int train = t->env.training;
  CT_TRY(ct__trainer_variant(t, train ? t->env.max_batch : t->env.max_eval, train, &v));
  if (train && t->env.max_eval) CT_TRY(ct__trainer_variant(t, t->env.max_eval, 0, &v));
out:
  return rc;
}

static int alloc_batch(ct_trainer_t *t)
{
  int rc = CT_OK;
  size_t n = (size_t)t->max_n;
  void *loss = NULL;
  CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_STAGING, sizeof *t->loss, &loss));
  t->loss = loss;
  if (t->env.be->in_place) return CT_OK;
  char *x, *labels;
  CT_TRY(device_alloc(t, n * ct_shape_bytes(&t->env.graph->input), &x));
  t->x = (float *)x;
  CT_TRY(device_alloc(t, n * sizeof *t->labels, &labels));
  t->labels = (int32_t *)labels;
out:
  return rc;
}

static int alloc_arenas(ct_trainer_t *t)
{
  int rc = CT_OK;
  CT_TRY(device_alloc(t, t->map.weight_bytes, &t->weight));
  CT_TRY(device_alloc(t, t->map.buffer_bytes, &t->buffer));
  CT_TRY(alloc_batch(t));
  if (!t->env.training) return CT_OK;
  CT_TRY(make_update(t));
  for (int i = 0; i < t->states; i++)
    CT_TRY(device_alloc(t, t->map.weight_bytes, &t->state[i]));
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
  return t;
}

int ct_trainer_create(const ct_trainer_env_t *env, ct_trainer_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_trainer_t *t = new_trainer(env);
  CT_TRY_ALL(env->topo, t ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(env->topo, env->be->queue->create(env->dev, &t->q));
  CT_TRY_ALL(env->topo, make_plans(t));
  CT_TRY(ct_agree_same(env->topo, "layout of the parameters", t->map.layout));
  CT_TRY_ALL(env->topo, alloc_arenas(t));
  if (env->training) {
    void *p = NULL;
    CT_TRY(env->comm_ops->alloc(env->comm, t->map.weight_bytes ? t->map.weight_bytes : 64, &p));
    t->gradient = p;
  }
  CT_TRY_ALL(env->topo, env->topo->rank == 0 ? init_params(t) : CT_OK);
  CT_TRY(ct_trainer_broadcast(t, 0));
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
  ct_mem_free(t->snap_int);
}

void ct_trainer_destroy(ct_trainer_t *t)
{
  if (!t) return;
  const ct_backend_t *be = t->env.be;
  ct_dev_t *dev = t->env.dev;
  be->queue->destroy(t->q);
  be->queue->unmark(t->ready);
  free_snapshot(t);
  for (int i = 0; i < t->variants; i++) {
    ct_plan_free(t->variant[i].plan);
    ct_mem_free(t->variant[i].bucket);
  }
  ct_mem_free(t->variant);
  be->op->release(t->update);
  void *all[] = {t->arena, t->scratch, t->weight, t->buffer, t->x, t->labels};
  for (int i = 0; i < CT_RULE_STATES; i++)
    be->mem->free(dev, CT_MEM_DEVICE, t->state[i]);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    be->mem->free(dev, CT_MEM_DEVICE, all[i]);
  be->mem->free(dev, CT_MEM_STAGING, t->loss);
  ct_arena_map_clear(&t->map);
  ct_mem_free(t);
}

int ct_trainer_broadcast(ct_trainer_t *t, int buffers_only)
{
  int rc = CT_OK;
  const ct_comm_ops_t *c = t->env.comm_ops;
  size_t w = t->map.weight_bytes, b = t->map.buffer_bytes;
  if (b) CT_TRY(c->bcast(t->env.comm, t->q, t->buffer, b, 0));
  if (buffers_only) return CT_OK;
  if (w) CT_TRY(c->bcast(t->env.comm, t->q, t->weight, w, 0));
  for (int i = 0; i < t->states && w; i++)
    CT_TRY(c->bcast(t->env.comm, t->q, t->state[i], w, 0));
out:
  return rc;
}
