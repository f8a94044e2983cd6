/* `summary`: the model and the memory of a rank, of a run with any number of ranks. They need not
 * be there: one process looks at it all as rank 0 of so many would. */
#include <sched.h>
#include <stdio.h>

#include "app/commands.h"
#include "app/describe.h"
#include "app/setup.h"
#include "base/ct_err.h"

static int threads_here(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int add_bytes(ct_str_t *t, const char *what, size_t bytes)
{
  char text[32];
  return ct_str_add(t, "  %-46s %s\n", what, ct_text_bytes((double)bytes, text, sizeof text));
}

/* What few runs have. */
static int add_if_any(ct_str_t *t, const char *what, size_t bytes)
{
  return bytes ? add_bytes(t, what, bytes) : CT_OK;
}

static int add_memory(const ct_memory_t *m, ct_str_t *t)
{
  int rc = CT_OK;
  char evaluation[64];
  const size_t *bytes = m->bytes;
  size_t others = bytes[CT_MEMORY_CHANNEL_MAPS] + bytes[CT_MEMORY_CLASS_WEIGHTS] +
                  bytes[CT_MEMORY_STATISTICS] + bytes[CT_MEMORY_NORMS];
  CT_TRY(ct_str_add(t, "\nMemory of a rank that trains on %d samples at a time:\n", m->samples[1]));
  CT_TRY(add_bytes(t, "activations and their gradients", bytes[CT_MEMORY_ACTIVATIONS]));
  CT_TRY(add_bytes(t, "scratch", bytes[CT_MEMORY_SCRATCH]));
  CT_TRY(add_bytes(t, "weights and buffers", bytes[CT_MEMORY_WEIGHTS] + bytes[CT_MEMORY_BUFFERS]));
  CT_TRY(add_if_any(t, "weights in the low type", bytes[CT_MEMORY_LOW_WEIGHTS]));
  CT_TRY(add_bytes(t, "gradients", bytes[CT_MEMORY_GRADIENTS] + bytes[CT_MEMORY_PARTIAL_SUMS]));
  CT_TRY(add_bytes(t, "optimizer states", bytes[CT_MEMORY_STATES]));
  CT_TRY(add_if_any(t, "whole states, for a checkpoint", bytes[CT_MEMORY_WHOLE_STATES]));
  CT_TRY(add_if_any(t, "batches: one in use, one on its way", bytes[CT_MEMORY_BATCHES]));
  CT_TRY(add_if_any(t, "what rank 0 deals out and collects", bytes[CT_MEMORY_DEALT]));
  CT_TRY(add_if_any(t, "statistics, norms and the like", others));
  CT_TRY(add_bytes(t, "total", ct_memory_total(m)));
  snprintf(evaluation, sizeof evaluation, "(activations of %d samples in evaluation)",
           m->samples[0]);
  CT_TRY(add_if_any(t, evaluation, m->evaluation));
out:
  return rc;
}

/* All but the device, which the model need not fit on to be looked at. */
static int open_run(ct_setup_t *s, const ct_args_t *a)
{
  int rc = CT_OK;
  ct_config_t *c = &s->cfg;
  CT_TRY(ct_setup_read_config(c, a->rest[0], a, s->topo->size, 1));
  CT_TRY(ct_recipe_make(&c->parallel, &c->train, s->topo->size, &s->recipe));
  CT_TRY(ct_setup_open_data(c, &c->data.train, &s->data));
  if (c->data.val.n) CT_TRY(ct_setup_open_data(c, &c->data.val, &s->val));
  CT_TRY(ct_setup_classes(c, &s->data));
  CT_TRY(ct_graph_make(&c->model, &s->data.x, c->model.classes, c->where, &s->graph));
  CT_TRY(ct_loss_check(&c->loss, s->graph, c->model.classes, s->data.info.targets));
  CT_TRY(ct_setup_freeze(c, s->graph));
out:
  return rc;
}

int ct_cmd_summary(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t ranks;
  ct_topo_t as_if = {.threads = threads_here(), .nodes = 1};
  ct_setup_t s = {.topo = &as_if};
  ct_memory_t memory;
  ct_str_t text = {0};
  (void)topo;
  (void)status;
  CT_TRY(ct_args_int(a, "ranks", 1, 1, 1000000, &ranks));
  as_if.size = as_if.local_size = (int)ranks;
  CT_TRY(open_run(&s, a));
  CT_TRY(ct_graph_summary(s.graph, &text));
  CT_TRY(ct_describe(&s.cfg, s.graph, (int)ranks, &text));
  CT_TRY(ct_setup_open_device(&s));
  CT_TRY(ct_setup_memory(&s, &memory));
  CT_TRY(add_memory(&memory, &text));
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  ct_setup_close(&s);
  return rc;
}
