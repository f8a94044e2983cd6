/* Histograms of all weights and gradients for TensorBoard, written by rank 0 between two steps. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "telemetry/ct_events.h"
#include "run/loop.h"

static int histogram(const ct__loop_t *l, const char *folder, int param, float *values,
                     int (*get)(ct_trainer_t *t, int param, float *out))
{
  const ct_param_t *p = &l->o->graph->param[param];
  char tag[CT_NAME_MAX + 32];
  int rc = get(l->t, param, values);
  if (rc != CT_OK) return rc;
  snprintf(tag, sizeof tag, "%s/%s", folder, p->name);
  ct_events_histogram(l->o->events, tag, l->at.step, values, p->count);
  return CT_OK;
}

/* Writes the histograms of all weights, and of all gradients unless states are sharded
 * (parallel.zero): then each rank has only a slice of a gradient. */
static int all_of_them(const ct__loop_t *l, float *values)
{
  int rc = CT_OK;
  const ct_graph_t *g = l->o->graph;
  int whole = !ct_trainer_snapshot_is_collective(l->t);
  for (int i = 0; i < g->params; i++) {
    int trained = !g->param[i].spec.buffer && !g->param[i].frozen;
    CT_TRY(histogram(l, "weights", i, values, ct_trainer_get));
    if (trained && whole) CT_TRY(histogram(l, "gradients", i, values, ct_trainer_get_gradient));
  }
out:
  return rc;
}

int ct__histograms(const ct__loop_t *l)
{
  int64_t every = l->o->histograms_every, most = 1;
  const ct_graph_t *g = l->o->graph;
  if (!l->o->events || !every || (l->at.epoch + 1) % every) return CT_OK;
  for (int i = 0; i < g->params; i++)
    most = g->param[i].count > most ? g->param[i].count : most;
  float *values = ct_mem_array(most, sizeof *values, "weights for a histogram");
  int rc = values ? all_of_them(l, values) : CT_ERR_NOMEM;
  ct_mem_free(values);
  return rc;
}
