#include "app/needs.h"

#include "base/ct_err.h"

static int count(const ct_config_t *c, const ct_recipe_t *how, const ct_plan_t *plan,
                 const ct_plan_t *eval, int ranks, ct_needs_t *out)
{
  int rc = CT_OK, states;
  ct_arena_map_t map = {0};
  CT_TRY(ct_arena_map_make(plan, &map));
  ct_optim_rule(&c->optim, &states);
  *out = (ct_needs_t){
      .activations = plan->arena_bytes,
      .scratch = plan->scratch_bytes,
      .weights = map.weight_bytes + map.buffer_bytes,
      .gradients = map.gradient_bytes + (size_t)ct_recipe_levels(how) * map.trained_bytes,
      .states = (size_t)states * map.trained_bytes / (size_t)(how->zero ? ranks : 1),
      .evaluation = eval->arena_bytes,
      .batches = ct_trainer_input_bytes(plan->be, plan->graph, plan->o.bytes,
                                        (int64_t)plan->o.n * how->pieces)};
out:
  ct_arena_map_clear(&map);
  return rc;
}

int ct_needs_of_plans(const ct_config_t *c, const ct_graph_t *g, const ct_recipe_t *how, int n,
                      const ct_dataset_t *data, int ranks, const ct_backend_t *be, ct_dev_t *dev,
                      ct_needs_t *out)
{
  int rc = CT_OK;
  ct_plan_t *plan = NULL, *eval = NULL;
  ct_plan_opts_t p = {.n = n, .training = 1, .compute = how->compute, .sync_bn = how->sync_bn != 0};
  CT_TRY(ct_loss_spec(&c->loss, data->info.targets > 0, &p.loss));
  p.bytes = !how->way->rank0_deals && ct_trainer_takes_bytes(be, dev, data);
  p.channels_last = data->info.channels_last;
  CT_TRY(ct_plan_make(g, be, dev, &p, NULL, &plan));
  p.training = 0;
  CT_TRY(ct_plan_make(g, be, dev, &p, plan, &eval));
  CT_TRY(count(c, how, plan, eval, ranks, out));
out:
  ct_plan_free(eval);
  ct_plan_free(plan);
  return rc;
}

int ct_needs_samples(const ct_config_t *c, const ct_recipe_t *how, int64_t samples, int ranks)
{
  int64_t first, batch = c->data.batch < samples ? c->data.batch : samples;
  return (int)ct_sampler_cut(batch, 0, ranks * how->pieces, &first);
}

size_t ct_needs_total(const ct_needs_t *n)
{
  return n->activations + n->scratch + n->weights + n->gradients + n->states + n->batches;
}
