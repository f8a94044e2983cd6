/* The memory budget of a rank in bytes (train.memory), and what is used of it besides the trainer.
 */
#include "setup/ct_setup.h"

#include "base/ct_mem.h"

/* Part of the free memory that `auto` leaves to others: the page cache of the data files, and what
 * else runs on the node or card. */
static const double auto_margin = 0.1;

static int64_t least_of(int64_t a, int64_t b)
{
  return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Returns this rank's share of what is free, with what the process uses already. */
static size_t free_share(const ct_setup_t *s)
{
  char why[128];
  ct_machine_t m;
  size_t ranks = (size_t)s->topo->local_size, left = s->be->mem->avail(s->dev);
  if (!s->be->host_memory) {
    int cards = s->be->probe(why);
    ranks =
        s->cfg.parallel.share_gpu && cards > 0 ? (ranks + (size_t)cards - 1) / (size_t)cards : 1;
    return left == SIZE_MAX ? 0 : s->used + (size_t)((1 - auto_margin) * (double)left) / ranks;
  }
  ct_machine_read(&m, 0);
  int64_t node = m.memory_free < 0 ? -1 : m.memory_free + (int64_t)(ranks * s->used);
  int64_t have = least_of(node, m.memory_limit == CT_NO_LIMIT ? -1 : m.memory_limit);
  if (have >= 0) have /= (int64_t)ranks;
  have = least_of(have, m.address_space == CT_NO_LIMIT ? -1 : m.address_space);
  return have < 0 ? 0 : (size_t)((1 - auto_margin) * (double)have);
}

void ct_setup_measure(ct_setup_t *s)
{
  ct_mem_trim();
  s->used = s->be->mem->used(s->dev);
  s->memory = 0;
  if (!s->step_opts.memory) return;
  s->memory = s->step_opts.memory == CT_MEMORY_AUTO ? free_share(s) : s->step_opts.memory;
}

static size_t eval_bytes(const ct_setup_t *s, const ct_dataset_t *d, int64_t n)
{
  size_t outputs = 0;
  for (int k = 0; k < ct_graph_outputs(s->graph); k++)
    outputs += (size_t)ct_shape_sample(&s->graph->layer[ct_graph_output(s->graph, k)].out);
  if (d->info.tokens) outputs = 0; /* their outputs are not read */
  return ct_feed_bytes(d, n, (int)s->cfg.data.workers, 0) + (size_t)n * outputs * sizeof(float);
}

/* Returns the most plans of any rank, whose full batches and last batch of an epoch may be cut into
 * parts of two sizes. */
static int plans_of(int64_t samples, int64_t batch, int ranks, int micro_batches)
{
  int64_t full = batch < samples ? batch : samples, rest = samples > batch ? samples % batch : 0;
  int64_t parts = (int64_t)ranks * micro_batches;
  return (full % parts ? 2 : 1) + (rest ? 1 : 0) + (micro_batches > 1 && rest % parts ? 1 : 0);
}

void ct_setup_spend(const ct_setup_t *s, ct_trainer_env_t *env)
{
  const ct_data_opts_t *o = &s->cfg.data;
  size_t of_set = 0, cache = s->data.info.layout.cache_bytes + s->val.info.layout.cache_bytes;
  int64_t n =
      s->step_opts.strategy->rank0_deals ? (int64_t)env->max_batch * s->topo->size : env->max_batch;
  if (env->max_eval) of_set = eval_bytes(s, &s->val, env->max_eval);
  if (env->max_eval) env->plans[0] = plans_of(s->val.info.samples, o->eval_batch, s->topo->size, 1);
  for (int i = 0; s->set && i < s->cfg.eval.sets.n; i++) {
    cache += s->set[i].info.layout.cache_bytes;
    env->plans[0] += plans_of(s->set[i].info.samples, o->eval_batch, s->topo->size, 1);
  }
  int micro_batches = s->step_opts.micro_batches ? s->step_opts.micro_batches : 1;
  env->plans[1] = plans_of(s->data.info.samples, o->batch, s->topo->size, micro_batches);
  env->memory = s->memory;
  env->used = s->used;
  env->saves = s->topo->rank == 0;
  if (s->be->host_memory)
    env->beside = ct_feed_bytes(&s->data, n, (int)o->workers, 0) + of_set + cache;
}
