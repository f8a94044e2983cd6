#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "app/builtin.h"
#include "app/commands.h"
#include "app/setup.h"
#include "base/ct_err.h"

/* Bytes of one rank. */
typedef struct needs {
  size_t activations, scratch, weights, states;
} needs_t;

static int threads_here(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* What a rank with n samples of the batch would allocate: a plan is made, and nothing is run. */
static int plan_needs(const ct_config_t *c, const ct_graph_t *g, int n, needs_t *out)
{
  int rc = CT_OK, states;
  const ct_backend_t *be;
  ct_dev_t *dev = NULL;
  ct_plan_t *plan = NULL;
  ct_arena_map_t map = {0};
  ct_dev_opts_t o = {.threads = c->cpu.threads ? (int)c->cpu.threads : threads_here(),
                     .conv_direct = c->cpu.conv_algo};
  CT_TRY(ct_builtin_backend(c->device, &be));
  CT_TRY(be->open(&o, &dev));
  CT_TRY(ct_plan_make(g, be, dev, &(ct_plan_opts_t){.n = n, .training = 1}, NULL, &plan));
  CT_TRY(ct_arena_map_make(plan, &map));
  ct_optim_rule(&c->optim, &states);
  *out = (needs_t){.activations = plan->arena_bytes,
                   .scratch = plan->scratch_bytes,
                   .weights = map.weight_bytes + map.buffer_bytes,
                   .states = (size_t)(1 + states) * map.weight_bytes};
out:
  ct_arena_map_clear(&map);
  ct_plan_free(plan);
  if (dev) be->close(dev);
  return rc;
}

static int add_bytes(ct_str_t *t, const char *what, size_t bytes)
{
  char text[32];
  return ct_str_add(t, "  %-34s %s\n", what, ct_text_bytes((double)bytes, text, sizeof text));
}

static int describe(const ct_config_t *c, const ct_graph_t *g, int64_t samples, int ranks,
                    ct_str_t *t)
{
  int rc = CT_OK;
  needs_t m = {0};
  int64_t first, batch = c->data.batch < samples ? c->data.batch : samples;
  int64_t n = ct_sampler_share(batch, 0, ranks, &first);
  CT_TRY(ct_graph_summary(g, t));
  CT_TRY(plan_needs(c, g, (int)n, &m));
  CT_TRY(ct_str_add(t, "\nMemory of a rank that trains on %" PRId64 " samples at a time:\n", n));
  CT_TRY(add_bytes(t, "activations and their gradients", m.activations));
  CT_TRY(add_bytes(t, "scratch", m.scratch));
  CT_TRY(add_bytes(t, "weights and buffers", m.weights));
  CT_TRY(add_bytes(t, "gradients and optimizer states", m.states));
  CT_TRY(add_bytes(t, "total", m.activations + m.scratch + m.weights + m.states));
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
  CT_TRY(describe(&c, g, data.info.samples, (int)ranks, &text));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  ct_graph_free(g);
  ct_dataset_close(&data);
  ct_config_clear(&c);
  return rc;
}
