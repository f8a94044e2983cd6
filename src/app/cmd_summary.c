/* `summary`: the layers of a model and the memory of a rank, without training, by one process and
 * without MPI. */
#include <sched.h>

#include "app/builtin.h"
#include "app/commands.h"
#include "app/describe.h"
#include "app/needs.h"
#include "app/setup.h"
#include "base/ct_err.h"

static int threads_here(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* On the device that a run would have. */
static int plan_needs(const ct_config_t *c, const ct_graph_t *g, const ct_recipe_t *how, int n,
                      const ct_dataset_t *data, int ranks, ct_needs_t *out)
{
  int rc = CT_OK;
  const ct_backend_t *be;
  const ct_comm_ops_t *comm;
  ct_dev_t *dev = NULL;
  ct_dev_opts_t o = {.threads = ct_setup_threads(c, threads_here()),
                     .conv_direct = c->cpu.conv_algo};
  CT_TRY(ct_builtin_backend(c->device, &be, &comm));
  CT_TRY(be->open(&o, &dev));
  CT_TRY(ct_needs_of_plans(c, g, how, n, data, ranks, be, dev, out));
out:
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
  ct_needs_t m = {0};
  ct_recipe_t how;
  CT_TRY(ct_recipe_make(&c->parallel, &c->train, ranks, &how));
  int n = ct_needs_samples(c, &how, data->info.samples, ranks);
  CT_TRY(ct_graph_summary(g, t));
  CT_TRY(ct_describe(c, g, ranks, t));
  CT_TRY(plan_needs(c, g, &how, n, data, ranks, &m));
  CT_TRY(ct_str_add(t, "\nMemory of a rank that trains on %d samples at a time:\n", n));
  CT_TRY(add_bytes(t, "activations and their gradients", m.activations));
  CT_TRY(add_bytes(t, "scratch", m.scratch));
  CT_TRY(add_bytes(t, "weights and buffers", m.weights));
  CT_TRY(add_bytes(t, "gradients", m.gradients));
  CT_TRY(add_bytes(t, "optimizer states", m.states));
  if (m.batches) CT_TRY(add_bytes(t, "batches: one in use, one on its way", m.batches));
  CT_TRY(add_bytes(t, "total", ct_needs_total(&m)));
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
  CT_TRY(ct_setup_read_config(&c, a->rest[0], a, (int)ranks, 1));
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
