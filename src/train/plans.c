/* Plans, one per number of samples, and their activation memory.
 *
 * The first plan defines the parameter layout; the others adopt it. Plans are made before the first
 * step, so that no step has to make one. All share one arena of the largest plan's size. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include <math.h>

/* The first plan and its buckets tell how large the arrays of the trainer will be. */
static int open_budget(ct_trainer_t *t, ct_plan_t *first)
{
  int rc = CT_OK, buckets = 0;
  ct_bucket_t *bucket = ct_mem_array(CT_BUCKETS_MAX, sizeof *bucket, "buckets");
  CT_TRY(bucket ? CT_OK : CT_ERR_NOMEM);
  if (t->env.training) buckets = ct__memory_buckets(&t->env, first, &t->map, bucket);
  CT_TRY(ct__memory_fixed(&t->env, &t->map, &(ct__variant_t){first, bucket}, buckets, &t->need));
  ct__budget_open(&t->env, first, &t->map, &t->need, &t->budget);
out:
  ct_mem_free(bucket);
  return rc;
}

static int add_variant(ct_trainer_t *t, int n, int training)
{
  int rc = CT_OK;
  ct__plans_t *p = &t->plans;
  ct__variant_t v = {0};
  ct_plan_opts_t o = ct__memory_plan_opts(&t->env, n, training);
  CT_TRY(ct_plan_make(t->env.graph, t->env.be, t->env.dev, &o, t->first.plan, &v.plan));
  if (!t->first.plan) CT_TRY(ct_arena_map_make(v.plan, &t->map));
  CT_TRY(ct_arena_map_check(&t->map, v.plan));
  if (!t->first.plan) CT_TRY(open_budget(t, v.plan));
  CT_TRY(ct__budget_limit(&t->budget, v.plan));
  CT_TRY(ct__budget_check(&t->budget, v.plan));
  if (training) {
    v.bucket = ct_mem_array(CT_BUCKETS_MAX, sizeof *v.bucket, "buckets");
    CT_TRY(v.bucket ? CT_OK : CT_ERR_NOMEM);
    t->buckets = ct__memory_buckets(&t->env, v.plan, &t->map, v.bucket);
  }
  CT_TRY(ct_mem_grow((void **)&p->variant, &p->cap, p->variants + 1, sizeof v));
  p->variant[p->variants++] = v;
  t->first = p->variant[0];
  v = (ct__variant_t){0};
out:
  ct_plan_free(v.plan);
  ct_mem_free(v.bucket);
  return rc;
}

static const ct__variant_t *find_variant(const ct_trainer_t *t, int n, int training)
{
  const ct__plans_t *p = &t->plans;
  for (int64_t i = 0; i < p->variants; i++)
    if (p->variant[i].plan->o.n == n && p->variant[i].plan->o.training == training &&
        (training || p->variant[i].plan->o.outputs_unread == t->env.outputs_unread))
      return &p->variant[i];
  return NULL;
}

int ct__plans_fit(const ct_trainer_t *t, int n)
{
  if (n <= t->max_n) return CT_OK;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__,
                    "a batch of %d samples, where at most %d were announced", n, t->max_n);
}

/* Error message with the number of samples that would fit; activations grow linearly with it. */
static int no_memory(const ct_trainer_t *t, int n, size_t want)
{
  size_t left = t->env.be->mem->avail(t->env.dev);
  if (left == SIZE_MAX || left >= want)
    return CT_ERR_NOMEM; /* free memory is unknown or in pieces; keep the error as it is */
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__,
                    "the activations of %d samples need %.0f MB, but %.0f MB are free on %s; about "
                    "%.0f samples at a time would fit: set train.memory, which computes "
                    "activations again, lower data.batch, which is over all ranks, or split the "
                    "local batch with train.accumulate",
                    n, (double)want / 1e6, (double)left / 1e6, t->env.be->describe(t->env.dev),
                    floor((double)left / (double)want * n));
}

static int no_scratch(const ct_trainer_t *t, size_t want)
{
  size_t left = t->env.be->mem->avail(t->env.dev);
  if (left == SIZE_MAX) return CT_ERR_NOMEM;
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__,
                    "the workspace of the ops needs %.0f MB, but %.0f MB are free on %s: lower "
                    "cuda.workspace_mb, for algorithms that need less, or data.batch",
                    (double)want / 1e6, (double)left / 1e6, t->env.be->describe(t->env.dev));
}

static int grow(ct_trainer_t *t, ct_memory_kind_t kind, size_t want, size_t *have, char **p)
{
  if (want <= *have) return CT_OK;
  int rc = t->env.be->queue->sync(t->q); /* a step that was begun may use it */
  if (rc != CT_OK) return rc;
  ct__arenas_give(t, p);
  *have = 0;
  rc = ct__arenas_take(t, kind, want, p);
  if (rc == CT_OK) *have = want;
  return rc;
}

static int plans_find(ct_trainer_t *t, int n, int training, const ct__variant_t **out)
{
  int rc = CT_OK;
  ct__plans_t *p = &t->plans;
  CT_TRY(ct__plans_fit(t, n));
  if (!find_variant(t, n, training)) CT_TRY(add_variant(t, n, training));
  *out = find_variant(t, n, training);
  size_t want = (*out)->plan->arena_bytes;
  if (want > p->arena_bytes) p->last = NULL; /* its logits are lost with the old arena */
  rc = grow(t, CT_MEMORY_ACTIVATIONS, want, &p->arena_bytes, &p->arena);
  if (rc == CT_ERR_NOMEM) rc = no_memory(t, n, want);
  CT_TRY(rc);
  want = (*out)->plan->scratch_bytes;
  rc = grow(t, CT_MEMORY_SCRATCH, want, &p->scratch_bytes, &p->scratch);
  if (rc == CT_ERR_NOMEM) rc = no_scratch(t, want);
out:
  return rc;
}

int ct__plans_use(ct_trainer_t *t, int n, int training, const ct__variant_t **out)
{
  int rc = plans_find(t, n, training, out);
  if (rc == CT_OK) t->plans.last = (*out)->plan;
  return rc;
}

/* ---- all ranks ---- */

typedef struct wanted {
  int64_t samples, batch;
  int training;
} wanted_t;

/* Makes the plans that the rank in \a env needs for a data set. */
static int plans_prepare_as(ct_trainer_t *t, const ct_trainer_env_t *env, const wanted_t *w)
{
  int rc = CT_OK;
  const ct__variant_t *v;
  const int64_t totals[] = {w->batch < w->samples ? w->batch : w->samples, w->samples % w->batch};
  int micro_batches = w->training ? t->micro_batches : 1;
  int64_t first;
  for (int i = 0; i < 2 * micro_batches; i++) {
    int n = ct__memory_micro_batch(env, totals[i / micro_batches], w->training, i % micro_batches,
                                   &first);
    if (n) CT_TRY(plans_find(t, n, w->training, &v));
  }
out:
  return rc;
}

static int plans_prepare(ct_trainer_t *t, const wanted_t *w)
{
  int rc = CT_OK;
  const ct_strategy_t *strategy = t->env.step_opts.strategy;
  const int64_t totals[] = {w->batch < w->samples ? w->batch : w->samples, w->samples % w->batch};
  CT_TRY(plans_prepare_as(t, &t->env, w));
  for (int i = 0; i < 2 && w->training && strategy->prepare; i++)
    CT_TRY(strategy->prepare(t, (int)totals[i]));
out:
  return rc;
}

/* The batches of rank 0 are the largest, those of the last rank the smallest, by one sample. */
static int plans_prepare_last(ct_trainer_t *t, const wanted_t *w)
{
  ct_trainer_env_t env = t->env;
  ct_topo_t last = *env.topo;
  last.rank = last.size - 1;
  env.topo = &last;
  return plans_prepare_as(t, &env, w);
}

static int plans_first(ct_trainer_t *t, const wanted_t *w)
{
  int rc = CT_OK;
  const ct__variant_t *v;
  (void)w;
  CT_TRY(plans_find(t, ct__memory_first(&t->env), t->env.training, &v));
  if (t->env.training && t->env.max_eval) CT_TRY(plans_find(t, t->env.max_eval, 0, &v));
out:
  return rc;
}

/* Collective. If the device chooses algorithms by timing, rank 0 makes its plans first, and those
 * of the ranks with smaller batches too; the others use its choices. */
static int plans_in_turn(ct_trainer_t *t, int (*make)(ct_trainer_t *t, const wanted_t *w),
                         const wanted_t *w)
{
  int rc = CT_OK;
  const ct_op_ops_t *op = t->env.be->op;
  const ct_topo_t *topo = t->env.topo;
  void *choices = NULL;
  size_t bytes = 0;
  if (!op->tunes(t->env.dev)) return ct_agree(topo, make(t, w));
  if (topo->rank == 0) {
    rc = make(t, w);
    if (rc == CT_OK && w && topo->size > 1) rc = plans_prepare_last(t, w);
    if (rc == CT_OK) rc = op->choices(t->env.dev, &choices, &bytes);
  }
  CT_TRY(ct_agree_bytes(topo, rc, &choices, &bytes));
  if (topo->rank > 0) rc = op->adopt(t->env.dev, choices, bytes);
  if (topo->rank > 0 && rc == CT_OK) rc = make(t, w);
  CT_TRY(ct_agree(topo, rc));
out:
  ct_mem_free(choices);
  return rc;
}

int ct_trainer_prepare(ct_trainer_t *t, int64_t samples, int64_t batch, int training)
{
  return plans_in_turn(t, plans_prepare, &(wanted_t){samples, batch, training});
}

int ct__plans_make(ct_trainer_t *t)
{
  return plans_in_turn(t, plans_first, NULL);
}

void ct__plans_free(ct_trainer_t *t)
{
  for (int64_t i = 0; i < t->plans.variants; i++) {
    ct_plan_free(t->plans.variant[i].plan);
    ct_mem_free(t->plans.variant[i].bucket);
  }
  ct_mem_free(t->plans.variant);
  ct_arena_map_clear(&t->map);
}

ct_bind_t ct__plans_bind(const ct_trainer_t *t, int64_t first)
{
  ct_bind_t bind = {.arena = t->plans.arena,
                    .scratch = t->plans.scratch,
                    .weight = ct__qat_weight(t) + t->own_low,
                    .reduced = t->reduced,
                    .gradient = t->gradient,
                    .buffer = t->buffer,
                    .map = &t->map,
                    .stats = t->stats,
                    .seed = t->env.seed,
                    .step = t->progress.steps,
                    .first = first};
  ct__late_rows_bind(t, &bind);
  return bind;
}

int ct_trainer_output(ct_trainer_t *t, int k, float *out)
{
  int rc = CT_OK;
  const ct_plan_t *p = t->plans.last;
  int output = p && k >= 0 && k < CT_OUTPUTS ? p->output[k] : -1;
  if (output < 0) CT_FAIL(CT_ERR_ARG, "no forward pass has computed logits yet");
  size_t offset = p->value[ct_plan_root(p, output)].offset;
  CT_TRY(t->env.be->mem->copy(t->q, out, t->plans.arena + offset, p->value[output].bytes));
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

void ct_trainer_read_outputs(ct_trainer_t *t, int read)
{
  t->env.outputs_unread = !read;
}

int ct_trainer_logits(ct_trainer_t *t, float *out)
{
  return ct_trainer_output(t, 0, out);
}

int ct_trainer_weights(ct_trainer_t *t, ct_trainer_weights_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct__reduced_refresh(t));
  *out = (ct_trainer_weights_t){t->first.plan, &t->map, t->weight, t->buffer, t->reduced, t->q};
out:
  return rc;
}
