#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "app/builtin.h"
#include "app/commands.h"
#include "app/describe.h"
#include "app/setup.h"
#include "base/ct_err.h"

/* Bytes of one rank. */
typedef struct needs {
  size_t activations, scratch, weights, gradients, states, evaluation, batches;
} needs_t;

static int threads_here(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int count_needs(const ct_config_t *c, const ct_recipe_t *how, const ct_plan_t *plan,
                       const ct_plan_t *eval, int ranks, needs_t *out)
{
  int rc = CT_OK, states;
  ct_arena_map_t map = {0};
  CT_TRY(ct_arena_map_make(plan, &map));
  ct_optim_rule(&c->optim, &states);
  *out =
      (needs_t){.activations = plan->arena_bytes,
                .scratch = plan->scratch_bytes,
                .weights = map.weight_bytes + map.buffer_bytes,
                .gradients = map.gradient_bytes + (size_t)ct_recipe_levels(how) * map.trained_bytes,
                .states = (size_t)states * map.trained_bytes / (size_t)(how->zero ? ranks : 1),
                .evaluation = eval->arena_bytes,
                .batches = ct_trainer_input_bytes(plan->be, plan->graph, plan->o.bytes,
                                                  (int64_t)plan->o.n * how->parts)};
out:
  ct_arena_map_clear(&map);
  return rc;
}

/* What a rank with n samples at a time would allocate: plans are made, and nothing is run. */
static int plan_needs(const ct_config_t *c, const ct_graph_t *g, const ct_recipe_t *how, int n,
                      const ct_dataset_t *data, int ranks, needs_t *out)
{
  int rc = CT_OK;
  const ct_backend_t *be;
  const ct_comm_ops_t *comm;
  ct_dev_t *dev = NULL;
  ct_plan_t *plan = NULL, *eval = NULL;
  ct_dev_opts_t o = {.threads = ct_setup_threads(c, threads_here()),
                     .conv_direct = c->cpu.conv_algo};
  ct_plan_opts_t p = {.n = n, .training = 1, .compute = how->compute, .sync_bn = how->sync_bn != 0};
  CT_TRY(ct_loss_spec(&c->loss, data->info.targets > 0, &p.loss));
  CT_TRY(ct_builtin_backend(c->device, &be, &comm));
  CT_TRY(be->open(&o, &dev));
  p.bytes = !how->dp && ct_trainer_takes_bytes(be, dev, data);
  p.channels_last = data->info.channels_last;
  CT_TRY(ct_plan_make(g, be, dev, &p, NULL, &plan));
  p.training = 0;
  CT_TRY(ct_plan_make(g, be, dev, &p, plan, &eval));
  CT_TRY(count_needs(c, how, plan, eval, ranks, out));
out:
  ct_plan_free(eval);
  ct_plan_free(plan);
  if (dev) be->close(dev);
  return rc;
}

static int add_bytes(ct_str_t *t, const char *what, size_t bytes)
{
  char text[32];
  return ct_str_add(t, "  %-46s %s\n", what, ct_text_bytes((double)bytes, text, sizeof text));
}

static int describe(const ct_config_t *c, const ct_graph_t *g, const ct_dataset_t *data, int ranks,
                    ct_str_t *t)
{
  int rc = CT_OK;
  needs_t m = {0};
  ct_recipe_t how;
  int64_t first, batch = c->data.batch < data->info.samples ? c->data.batch : data->info.samples;
  CT_TRY(ct_recipe_make(&c->parallel, &c->train, ranks, &how));
  int64_t n = ct_sampler_share(batch, 0, ranks * how.parts, &first);
  CT_TRY(ct_graph_summary(g, t));
  CT_TRY(ct_describe(c, g, ranks, t));
  CT_TRY(plan_needs(c, g, &how, (int)n, data, ranks, &m));
  CT_TRY(ct_str_add(t, "\nMemory of a rank that trains on %" PRId64 " samples at a time:\n", n));
  CT_TRY(add_bytes(t, "activations and their gradients", m.activations));
  CT_TRY(add_bytes(t, "scratch", m.scratch));
  CT_TRY(add_bytes(t, "weights and buffers", m.weights));
  CT_TRY(add_bytes(t, "gradients", m.gradients));
  CT_TRY(add_bytes(t, "optimizer states", m.states));
  if (m.batches) CT_TRY(add_bytes(t, "batches: one in use, one on its way", m.batches));
  CT_TRY(add_bytes(t, "total",
                   m.activations + m.scratch + m.weights + m.gradients + m.states + m.batches));
  CT_TRY(add_bytes(t, "(activations of as many samples in evaluation)", m.evaluation));
out:
  return rc;
}

int ct_cmd_summary(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t ranks;
  ct_config_t c = {0};
  ct_dataset_t data = {0};
  ct_graph_t *g = NULL;
  ct_str_t text = {0};
  (void)topo;
  (void)status;
  CT_TRY(ct_args_int(a, "ranks", 1, 1, 1000000, &ranks));
  CT_TRY(ct_setup_read_config(&c, a->rest[0], a, (int)ranks));
  CT_TRY(ct_setup_open_data(&c, &c.data.train, &data));
  CT_TRY(ct_setup_classes(&c, &data));
  CT_TRY(ct_graph_make(&c.model, &data.x, c.model.classes, c.where, &g));
  CT_TRY(ct_loss_check(&c.loss, g, c.model.classes, data.info.targets));
  CT_TRY(ct_setup_freeze(&c, g));
  CT_TRY(describe(&c, g, &data, (int)ranks, &text));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  ct_graph_free(g);
  ct_dataset_close(&data);
  ct_config_clear(&c);
  return rc;
}
