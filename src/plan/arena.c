/* Layout of the parameters in the arenas: trained parameters (with slices in two zones), then
 * frozen parameters whose gradients backward writes, then the other frozen parameters.  So
 * gradients, optimizer states and all-reduced data are one range from the start of the arena, and
 * backward fills this range from one end. */
#include "plan/ct_plan.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include <string.h>

#define ALIGN 64

typedef enum { LOW, TRAINED, WRITTEN, FROZEN, BUFFER } zone_t;

static size_t rounded(size_t bytes)
{
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Returns 1 if an op reads parameter i in float32. */
static int reads_float(const ct_plan_t *p, int i)
{
  for (int o = 0; o < p->ops; o++) {
    const ct_op_info_t *info = &p->op[o].info;
    if (p->op[o].layer < 0) continue;
    const ct_layer_t *l = &p->graph->layer[p->op[o].layer];
    for (int k = 0; k < l->params; k++)
      if (l->param[k] == i && info->param_bytes[k] && !(info->reads_reduced >> k & 1)) return 1;
  }
  return 0;
}

/* Returns the zone of a parameter.  LOW: trained, and in slices.  WRITTEN: frozen, but in a partly
 * trained layer, whose backward pass computes all gradients. */
static zone_t zone_of(const ct_plan_t *p, int i)
{
  const ct_param_t *par = &p->graph->param[i];
  if (par->spec.buffer) return BUFFER;
  if (!par->frozen) return p->o.slices && !reads_float(p, i) ? LOW : TRAINED;
  return p->op[p->layer_op[par->layer]].trained ? WRITTEN : FROZEN;
}

static void map_param(const ct_plan_t *p, ct_arena_map_t *m, int i, zone_t zone)
{
  const ct_param_t *par = &p->graph->param[i];
  const ct_op_info_t *info = &p->op[p->layer_op[par->layer]].info;
  size_t *end = zone == BUFFER ? &m->buffer_bytes : &m->weight_bytes;
  m->bytes[i] = zone == BUFFER ? (size_t)par->count * sizeof(float) : info->param_bytes[par->slot];
  m->offset[i] = *end;
  *end += rounded(m->bytes[i]);
  if (zone <= TRAINED) m->order[m->trained++] = i;
  if (zone != BUFFER) m->layout = ct_hash_int((int64_t)info->param_layout, m->layout);
  m->layout = ct_hash_int((int64_t)m->bytes[i], m->layout);
}

/* Returns the layer that first completes the gradient of a parameter: for a table with late rows
 * (ct_late_rows_t) the last layer that uses it. */
static int layer_of(const ct_plan_t *p, int param)
{
  const ct_graph_t *g = p->graph;
  if (ct_plan_late(p, param) < 0) return g->param[param].layer;
  for (int l = g->layers - 1; l > g->param[param].layer; l--)
    for (int k = 0; k < g->layer[l].params; k++)
      if (g->layer[l].param[k] == param) return l;
  return g->param[param].layer;
}

/* Assigns offsets to the parameters of a zone from the last op to the first, since backward
 * completes the gradients of the last op first. */
static void map_zone(const ct_plan_t *p, ct_arena_map_t *m, zone_t zone)
{
  const ct_graph_t *g = p->graph;
  for (int o = p->ops - 1; o >= 0; o--)
    for (int i = 0; i < g->params; i++)
      if (p->op[o].layer >= 0 && layer_of(p, i) == p->op[o].layer && zone_of(p, i) == zone)
        map_param(p, m, i, zone);
}

int ct_arena_map_make(const ct_plan_t *p, ct_arena_map_t *m)
{
  const ct_graph_t *g = p->graph;
  memset(m, 0, sizeof *m);
  m->params = g->params;
  m->offset = ct_mem_array(g->params + 1, sizeof *m->offset, "arena map");
  m->bytes = ct_mem_array(g->params + 1, sizeof *m->bytes, "arena map");
  m->order = ct_mem_array(g->params + 1, sizeof *m->order, "arena map");
  if (!m->offset || !m->bytes || !m->order) {
    ct_arena_map_clear(m);
    return CT_ERR_NOMEM;
  }
  map_zone(p, m, LOW);
  m->low_bytes = m->weight_bytes;
  map_zone(p, m, TRAINED);
  m->trained_bytes = m->weight_bytes;
  map_zone(p, m, WRITTEN);
  m->gradient_bytes = m->weight_bytes;
  map_zone(p, m, FROZEN);
  map_zone(p, m, BUFFER);
  return CT_OK;
}

int ct_arena_map_check(const ct_arena_map_t *m, const ct_plan_t *p)
{
  int rc = CT_OK;
  for (int k = 0; k < m->trained && m->offset[m->order[k]] < m->low_bytes; k++)
    if (reads_float(p, m->order[k]))
      CT_FAIL(
          CT_ERR_UNSUP,
          "parallel.zero: for %d samples %s is read in float32, but each rank has a slice of it: "
          "set parallel.zero to 0",
          p->o.n, p->graph->param[m->order[k]].name);
out:
  return rc;
}

void ct_arena_map_clear(ct_arena_map_t *m)
{
  ct_mem_free(m->offset);
  ct_mem_free(m->bytes);
  ct_mem_free(m->order);
  memset(m, 0, sizeof *m);
}
