/* Histograms of all weights and gradients for TensorBoard, written by rank 0 between two steps. */
#include "telemetry/ct_histograms.h"

#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

static int histogram(ct_events_t *events, ct_trainer_t *t, int64_t step, const ct_param_t *p,
                     const char *folder, int param, float *values,
                     int (*get)(ct_trainer_t *t, int param, float *out))
{
  char tag[CT_NAME_MAX + 32];
  int rc = get(t, param, values);
  if (rc != CT_OK) return rc;
  snprintf(tag, sizeof tag, "%s/%s", folder, p->name);
  ct_events_histogram(events, tag, step, values, p->count);
  return CT_OK;
}

int ct_histograms(ct_events_t *events, ct_trainer_t *t, const ct_graph_t *g, int64_t step)
{
  int rc = CT_OK;
  int64_t most = 1;
  int whole = !ct_trainer_snapshot_is_collective(t);
  for (int i = 0; i < g->params; i++)
    most = g->param[i].count > most ? g->param[i].count : most;
  float *values = ct_mem_array(most, sizeof *values, "weights for a histogram");
  CT_TRY(values ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *p = &g->param[i];
    if (ct_trainer_has_whole(t, i)) /* slices are with other ranks */
      CT_TRY(histogram(events, t, step, p, "weights", i, values, ct_trainer_get));
    if (!p->spec.buffer && !p->frozen && whole)
      CT_TRY(histogram(events, t, step, p, "gradients", i, values, ct_trainer_get_gradient));
  }
out:
  ct_mem_free(values);
  return rc;
}
