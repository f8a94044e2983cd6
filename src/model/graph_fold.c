/* Folding for inference.  The folded graph is rebuilt layer by layer from the options of the
 * original one, so the usual checks of names, shapes and parameters apply. */
#include "model/ct_fold.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "model/graph_build.h"

enum {
  WEIGHT,
  BIAS,
  MEAN,
  VARIANCE,
  BN_PARAMS
}; /* slots of a batchnorm; the first two apply to all layers */

typedef struct folding {
  ct_fold_t *f;
  int *uses; /* per original layer: number of its readers; the output counts as one */
  int *to;   /* per original layer: its number in the folded graph */
} folding_t;

static void count_uses(const folding_t *s)
{
  const ct_graph_t *g = s->f->from;
  for (int i = 0; i < g->layers; i++)
    for (int k = 0; k < g->layer[i].inputs; k++)
      if (g->layer[i].in[k] >= 0) s->uses[g->layer[i].in[k]]++;
  for (int k = 0; k < ct_graph_outputs(g); k++)
    s->uses[ct_graph_output(g, k)]++;
}

/* Returns the layer into which batchnorm i is folded, or -1. */
static int taker(const folding_t *s, int i)
{
  const ct_graph_t *g = s->f->from;
  int j = g->layer[i].in[0];
  if (g->layer[i].ops->op != CT_OP_BNORM || j < 0 || s->uses[j] != 1) return -1;
  if (!ct_layer_tracks(g, &g->layer[i])) return -1;
  for (int k = 0; k < g->layer[j].params; k++)
    if (g->param[g->layer[j].param[k]].uses != 1) return -1;
  ct_op_kind_t kind = g->layer[j].ops->op;
  return kind == CT_OP_CONV || kind == CT_OP_LINEAR ? j : -1;
}

/* Returns the batchnorm that is folded into layer j, or -1. */
static int taken(const folding_t *s, int j)
{
  const ct_graph_t *g = s->f->from;
  for (int i = j + 1; i < g->layers; i++)
    if (g->layer[i].in[0] == j) return taker(s, i) == j ? i : -1;
  return -1;
}

static int moved(const folding_t *s, int layer)
{
  return layer < 0 ? layer : s->to[layer];
}

static int is_gone(const folding_t *s, int i)
{
  const ct_layer_t *l = &s->f->from->layer[i];
  if (l->ops->op == CT_OP_DROPOUT) return moved(s, l->in[0]) >= 0; /* the output must be a layer */
  return taker(s, i) >= 0;
}

/* Copies the options of a layer; adds a bias if a batchnorm is folded into it. */
static int copy_options(const ct_layer_t *l, int norm, void **out)
{
  int rc = CT_OK;
  ct_yaml_t *map = ct_opt_dump(l->ops->opts, l->opts, NULL);
  *out = NULL;
  CT_TRY(map ? CT_OK : CT_ERR_NOMEM);
  if (norm >= 0) CT_TRY(ct_yaml_set(map, "bias", "true"));
  CT_TRY(ct__layer_options(l->ops, map, NULL, out));
out:
  ct_yaml_free(map);
  return rc;
}

static int copy_layer(folding_t *s, int i)
{
  int rc = CT_OK;
  ct_fold_t *f = s->f;
  const ct_layer_t *l = &f->from->layer[i];
  int norm = taken(s, i), number = f->graph->layers;
  const int in[] = {moved(s, l->in[0]), moved(s, l->in[1]), moved(s, l->in[2])};
  const char *names[CT_LAYER_PARAMS];
  void *opts;
  ct__graph_names(f->from, l, names);
  CT_TRY(copy_options(l, norm, &opts));
  CT_TRY(ct__graph_append(f->graph, &s->to[i], l->name, l->ops, opts, in, names));
  f->layer[number] = i;
  f->norm[number] = norm;
out:
  return rc;
}

static int fold(folding_t *s)
{
  int rc = CT_OK;
  const ct_graph_t *g = s->f->from;
  count_uses(s);
  for (int i = 0; i < g->layers; i++) {
    if (!is_gone(s, i)) {
      CT_TRY(copy_layer(s, i));
      continue;
    }
    s->to[i] = moved(s, g->layer[i].in[0]);
    *(g->layer[i].ops->op == CT_OP_DROPOUT ? &s->f->dropouts : &s->f->norms) += 1;
  }
  for (int k = 0; k < g->outputs; k++)
    s->f->graph->output[k] = s->to[g->output[k]];
  s->f->graph->outputs = g->outputs;
out:
  return rc;
}

int ct_fold_make(const ct_graph_t *g, ct_fold_t *out)
{
  int rc = CT_OK;
  folding_t s = {.f = out};
  *out = (ct_fold_t){.from = g};
  out->graph = ct_mem_alloc(sizeof *out->graph, "the folded model");
  out->layer = ct_mem_array(g->layers, sizeof *out->layer, "the folded model");
  out->norm = ct_mem_array(g->layers, sizeof *out->norm, "the folded model");
  s.uses = ct_mem_array(g->layers, sizeof *s.uses, "the folded model");
  s.to = ct_mem_array(g->layers, sizeof *s.to, "the folded model");
  CT_TRY(out->graph && out->layer && out->norm && s.uses && s.to ? CT_OK : CT_ERR_NOMEM);
  out->graph->input = g->input;
  out->graph->extra = g->extra;
  CT_TRY(fold(&s));
out:
  ct_mem_free(s.uses);
  ct_mem_free(s.to);
  if (rc != CT_OK) ct_fold_clear(out);
  return rc;
}

void ct_fold_clear(ct_fold_t *f)
{
  ct_graph_free(f->graph);
  ct_mem_free(f->layer);
  ct_mem_free(f->norm);
  *f = (ct_fold_t){0};
}

void ct_fold_param(const ct_fold_t *f, int param, const float *const plain[], float *out)
{
  const ct_param_t *p = &f->graph->param[param];
  const ct_layer_t *own = &f->from->layer[f->layer[p->layer]];
  int norm = f->norm[p->layer];
  const float *values = p->slot < own->params ? plain[own->param[p->slot]] : NULL;
  if (norm < 0) {
    memcpy(out, values, (size_t)p->count * sizeof *out);
    return;
  }
  ct_op_desc_t d;
  ct_graph_op(f->from, norm, 1, &d);
  const float *n[BN_PARAMS];
  for (int i = 0; i < BN_PARAMS; i++)
    n[i] = plain[f->from->layer[norm].param[i]];
  int64_t channels = p->spec.shape.dim[0], each = p->count / channels;
  for (int64_t c = 0; c < channels; c++) {
    double scale = n[WEIGHT][c] / sqrt(n[VARIANCE][c] + d.u.bnorm.eps);
    if (p->slot == BIAS)
      out[c] = (float)(((values ? values[c] : 0) - (double)n[MEAN][c]) * scale + n[BIAS][c]);
    else
      for (int64_t i = c * each; i < (c + 1) * each; i++)
        out[i] = (float)(values[i] * scale);
  }
}
