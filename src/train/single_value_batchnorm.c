/* Batchnorms that see a single value per channel. Its variance is 0, so the layer would output its
 * bias for any input, and the layers before it could not learn. PyTorch refuses to train on such a
 * batch ("Expected more than 1 value per channel when training"), and so does this trainer, before
 * the first step. Only the smaller last batch of an epoch may have this size; it leaves the running
 * statistics unchanged. This file also counts the batches that each batchnorm has seen, PyTorch's
 * num_batches_tracked. */
#include "train/trainer.h"

#include <inttypes.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

int ct__one_value_make(ct_trainer_t *t)
{
  t->tracked = ct_mem_array(t->env.graph->layers, sizeof *t->tracked, "counts of batches");
  return t->tracked ? CT_OK : CT_ERR_NOMEM;
}

/* Returns 1 for a batchnorm that uses batch statistics. */
static int takes_statistics(const ct_layer_t *l)
{
  return l->ops->op == CT_OP_BNORM && !l->keeps_stats;
}

static int64_t pixels_of(const ct_layer_t *l)
{
  return ct_shape_sample(&l->out) / l->out.dim[1];
}

/* Returns the first batchnorm whose input has one value per channel and sample; NULL: none. */
static const ct_layer_t *first_without_pixels(const ct_graph_t *g)
{
  for (int i = 0; i < g->layers; i++)
    if (takes_statistics(&g->layer[i]) && pixels_of(&g->layer[i]) == 1) return &g->layer[i];
  return NULL;
}

static int64_t part_of(const ct_trainer_t *t, int64_t total, int rank, int p)
{
  int64_t first;
  return ct_sampler_cut(total, rank * t->micro_batches + p, t->env.topo->size * t->micro_batches,
                        &first);
}

/* Returns the number of samples in micro-batch p over which one batchnorm's statistics are
 * computed: those of a rank, or of its SyncBN group. Counting the group's two lowest ranks is
 * enough, since lower ranks have the larger parts of a batch. */
static int64_t joined(const ct_trainer_t *t, int64_t total, int p, const int lowest[2])
{
  int64_t n = part_of(t, total, lowest[0], p);
  return lowest[1] < 0 ? n : n + part_of(t, total, lowest[1], p);
}

static int is_single(const ct_trainer_t *t, int64_t total)
{
  const int alone[2] = {t->env.topo->rank, -1};
  for (int p = 0; p < t->micro_batches; p++)
    if (joined(t, total, p, t->group ? t->group_lowest : alone) == 1) return 1;
  return 0;
}

/* Appends the remedies to a message. */
static int add_cures(const ct_trainer_t *t, ct_str_t *to)
{
  int rc = CT_OK;
  const ct_step_opts_t *how = &t->env.step_opts;
  int ranks = t->env.topo->size, can_sync = !how->fixed_order && !how->strategy->rank0_deals;
  if (t->group)
    CT_TRY(ct_str_add(to, "raise data.batch"));
  else
    CT_TRY(ct_str_add(to, "set data.batch to %" PRId64 " or more",
                      2 * (int64_t)ranks * t->micro_batches));
  if (ranks > 1 && can_sync && how->sync_bn != ranks)
    CT_TRY(ct_str_add(to, ", or train.sync_bn: world (statistics over all ranks)"));
  if (how->fixed_order) CT_TRY(ct_str_add(to, ", or lower parallel.shards"));
  if (t->micro_batches > 1 && !how->fixed_order)
    CT_TRY(ct_str_add(to, ", or lower train.accumulate"));
  if (ranks > 1 && !how->fixed_order) CT_TRY(ct_str_add(to, ", or start fewer ranks"));
out:
  return rc;
}

/* Appends, for example, "of a batch of 6 a rank's micro-batch (3 ranks x 2 micro-batches) is". */
static int add_part(const ct_trainer_t *t, int64_t batch, ct_str_t *to)
{
  int ranks = t->env.topo->size;
  const char *part = t->group               ? "the local batches of a group of ranks"
                     : t->micro_batches > 1 ? "a rank's micro-batch"
                                            : "a rank's local batch";
  if (ranks * t->micro_batches == 1) return ct_str_add(to, "a batch is");
  return ct_str_add(to, "of a batch of %" PRId64 " %s (%d rank%s x %d micro-batch%s) is", batch,
                    part, ranks, ranks == 1 ? "" : "s", t->micro_batches,
                    t->micro_batches == 1 ? "" : "es");
}

static int single_value_batchnorm_refuse(const ct_trainer_t *t, const ct_layer_t *l, int64_t batch)
{
  int rc = CT_OK;
  const char *where = t->env.where;
  ct_str_t cures = {0}, part = {0};
  CT_TRY(add_cures(t, &cures));
  CT_TRY(add_part(t, batch, &part));
  CT_FAIL(CT_ERR_USAGE,
          "%s%slayer '%s' (batchnorm) gets one value per channel: %s one sample, which has no "
          "variance, so nothing is learned; %s",
          where ? where : "", where ? ": " : "", l->name, part.data, cures.data);
out:
  ct_str_clear(&cures);
  ct_str_clear(&part);
  return rc;
}

int ct_trainer_check_batches(ct_trainer_t *t, int64_t samples, int64_t batch)
{
  int rc = CT_OK;
  const ct_layer_t *l = first_without_pixels(t->env.graph);
  int64_t rest = samples % batch, single;
  if (!l) return CT_OK;
  if (batch > samples) batch = samples;
  CT_TRY_ALL(t->env.topo, is_single(t, batch) ? single_value_batchnorm_refuse(t, l, batch) : CT_OK);
  single = is_single(t, rest);
  ct_agree_sum(t->env.topo, &single, 1);
  if (single)
    ct_log(CT_LOG_WARN,
           "the last batch of an epoch has %" PRId64 " sample%s: layer '%s' (batchnorm) gets one "
           "value per channel and gives its bias for it; its running statistics stay as they are; "
           "data.drop_last: true leaves that batch out",
           rest, rest == 1 ? "" : "s", l->name);
out:
  return rc;
}

/* Returns the number of micro-batches that update the running statistics on rank 0, whose
 * statistics are kept. */
static int64_t counted(const ct_trainer_t *t, const ct_batch_t *b, int64_t pixels)
{
  int64_t n = 0;
  const int root[2] = {0, t->group ? t->root_second : -1};
  int micro_batches = t->env.step_opts.fixed_order
                          ? 1
                          : t->micro_batches; /* with fixed_order only the first shard's
                                                             statistics are kept */
  for (int p = 0; p < micro_batches; p++)
    n += joined(t, b->global, p, root) * pixels > 1;
  return n;
}

void ct__one_value_count(ct_trainer_t *t, const ct_batch_t *b)
{
  const ct_graph_t *g = t->env.graph;
  for (int i = 0; i < g->layers && b; i++)
    if (takes_statistics(&g->layer[i])) /* the first layer of several owns the count of all */
      t->tracked[g->param[g->layer[i].param[2]].layer] += counted(t, b, pixels_of(&g->layer[i]));
}

void ct__one_value_share(ct_trainer_t *t)
{
  const ct_topo_t *topo = t->env.topo;
  for (int i = 0; i < t->env.graph->layers && topo->rank; i++)
    t->tracked[i] = 0;
  ct_agree_sum(topo, t->tracked, t->env.graph->layers);
}
