/* Observation points are chosen in the folded graph, because that is what runs in int8, and are
 * inserted after the corresponding layers of the original graph. */
#include "model/ct_observe.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "model/graph_build.h"

extern const ct_layer_ops_t ct__layer_fake_quant;

/* ---- observation points ---- */

static int is_gemm(const ct_layer_t *l)
{
  return l->ops->op == CT_OP_CONV || l->ops->op == CT_OP_LINEAR;
}

static void graph_observe_describe(const ct_graph_t *g, int layer, ct_op_desc_t *d)
{
  ct_graph_op(g, layer, 1, d);
}

/* Returns 1 if the layer only clamps its input. */
static int is_clip(const ct_graph_t *g, int layer)
{
  ct_op_desc_t d;
  graph_observe_describe(g, layer, &d);
  return d.kind == CT_OP_RELU || (d.kind == CT_OP_ACT && d.u.act.kind == CT_ACT_RELU6);
}

static int is_choice(const ct_graph_t *g, int layer)
{
  ct_op_desc_t d;
  graph_observe_describe(g, layer, &d);
  int average = d.kind == CT_OP_POOL && ct_op_averages(&d);
  return (d.kind == CT_OP_POOL && !average) || d.kind == CT_OP_REORDER || d.kind == CT_OP_SELECT;
}

/* Returns 1 if the layer computes in int8. Sequences are float32, except for the inputs of linear
 * layers. */
static int computes_in_eight_bits(const ct_graph_t *g, int layer)
{
  const ct_layer_t *l = &g->layer[layer];
  if (is_gemm(l)) return 1;
  if (l->out.ndim == 3) return 0;
  return is_clip(g, layer) || l->ops->op == CT_OP_POOL || l->ops->op == CT_OP_ADD ||
         l->ops->op == CT_OP_CONCAT;
}

static int reads(const ct_layer_t *l, int layer)
{
  for (int k = 0; k < l->inputs; k++)
    if (l->in[k] == layer) return 1;
  return 0;
}

/* Examines the readers of \a layer.  *gemm: 1 if a convolution or linear layer is among the
 * readers; *eight: 1 if an int8 layer is; *only: the reader, if \a layer has just one, else -1. */
static void readers(const ct_graph_t *g, int layer, int *gemm, int *eight, int *only)
{
  int n = 0;
  *gemm = *eight = 0;
  *only = -1;
  for (int i = layer + 1; i < g->layers; i++) {
    if (!reads(&g->layer[i], layer)) continue;
    n++;
    *only = n == 1 ? i : -1;
    *gemm |= is_gemm(&g->layer[i]);
    *eight |= computes_in_eight_bits(g, i) || is_choice(g, i);
  }
}

/* Returns 1 if the output of a layer of the folded graph is an observation point; \a before: 1 if
 * the layer's input is int8. */
static int is_point(const ct_graph_t *g, int layer, int before)
{
  int gemm, eight, only;
  readers(g, layer, &gemm, &eight, &only);
  if (ct_graph_is_output(g, layer)) return 0;
  if (only >= 0 && is_clip(g, only) && !is_clip(g, layer)) return 0;
  if (is_choice(g, layer)) return !before && gemm;
  return gemm || (eight && computes_in_eight_bits(g, layer));
}

/* ---- the observed graph ---- */

typedef struct observing {
  ct_observed_t *o;
  int *to;    /* per original layer: the observed layer that its readers use */
  int *point; /* per original layer: the folded layer whose observation point follows it, or -1 */
  int input;  /* observed layer that the readers of the network's input use */
} observing_t;

static int copy_options(const ct_layer_t *l, void **out)
{
  int rc = CT_OK;
  ct_yaml_t *map = ct_opt_dump(l->ops->opts, l->opts, NULL);
  *out = NULL;
  CT_TRY(map ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct__layer_options(l->ops, map, NULL, out));
out:
  ct_yaml_free(map);
  return rc;
}

/* Inserts a fake-quantization layer after layer *at of the observed graph; *at becomes the new
 * layer, *param its range. */
static int add_point(observing_t *s, const char *name, int *at, int *param)
{
  int rc = CT_OK;
  char full[CT_NAME_MAX];
  ct_graph_t *g = s->o->graph;
  const int in[] = {*at, CT__NO_INPUT, CT__NO_INPUT};
  void *opts;
  CT_TRY(ct_text_format(full, sizeof full, "%s.quant", name));
  CT_TRY(ct__layer_options(&ct__layer_fake_quant, NULL, NULL, &opts));
  CT_TRY(ct__graph_append(g, at, full, &ct__layer_fake_quant, opts, in, NULL));
  *param = g->layer[*at].param[0];
out:
  return rc;
}

static int moved(const observing_t *s, int layer)
{
  return layer == -1 ? s->input : layer < 0 ? layer : s->to[layer];
}

static int copy_layer(observing_t *s, int i)
{
  int rc = CT_OK;
  const ct_layer_t *l = &s->o->from->layer[i];
  const int in[] = {moved(s, l->in[0]), moved(s, l->in[1]), moved(s, l->in[2])};
  const char *names[CT_LAYER_PARAMS];
  void *opts;
  ct__graph_names(s->o->from, l, names);
  CT_TRY(copy_options(l, &opts));
  CT_TRY(ct__graph_append(s->o->graph, &s->to[i], l->name, l->ops, opts, in, names));
  s->o->graph->layer[s->to[i]].keeps_stats = l->keeps_stats;
  int f = s->point[i];
  if (f >= 0) CT_TRY(add_point(s, s->o->fold.graph->layer[f].name, &s->to[i], &s->o->range[f]));
out:
  return rc;
}

/* Values of ct_observed_t.range until the range parameter is known. */
enum { NONE = -1, SHARED = -2, OWN = -3 };

static int range_before(const ct_observed_t *o, int f)
{
  int in = o->fold.graph->layer[f].in[0];
  return in < 0 ? o->input : o->range[in];
}

static void choose_points(observing_t *s)
{
  ct_observed_t *o = s->o;
  const ct_graph_t *g = o->fold.graph;
  int gemm, eight, only;
  for (int i = 0; i < o->from->layers; i++)
    s->point[i] = -1;
  readers(g, -1, &gemm, &eight, &only);
  o->input = gemm || eight ? OWN : NONE;
  for (int f = 0; f < g->layers; f++) {
    int before = range_before(o, f) != NONE;
    o->range[f] = NONE;
    if (is_choice(g, f) && before) o->range[f] = SHARED;
    if (!is_point(g, f, before)) continue;
    o->range[f] = OWN;
    s->point[o->fold.norm[f] >= 0 ? o->fold.norm[f] : o->fold.layer[f]] = f;
  }
}

/* Sets shared ranges: a layer before a ReLU shares the range of the ReLU; a layer that only selects
 * values shares the range of its input. */
static void share_points(ct_observed_t *o)
{
  const ct_graph_t *g = o->fold.graph;
  int gemm, eight, only;
  for (int f = 0; f < g->layers; f++) {
    readers(g, f, &gemm, &eight, &only);
    if (only >= 0 && is_clip(g, only) && !is_clip(g, f) && o->range[f] == NONE)
      o->range[f] = o->range[only] == SHARED ? NONE : o->range[only];
  }
  for (int f = 0; f < g->layers; f++)
    if (o->range[f] == SHARED) o->range[f] = range_before(o, f);
}

static int observe(observing_t *s)
{
  int rc = CT_OK;
  ct_observed_t *o = s->o;
  choose_points(s);
  s->input = -1;
  if (o->input == OWN) CT_TRY(add_point(s, "input", &s->input, &o->input));
  for (int i = 0; i < o->from->layers; i++)
    CT_TRY(copy_layer(s, i));
  for (int k = 0; k < o->from->outputs; k++)
    o->graph->output[k] = s->to[o->from->output[k]];
  o->graph->outputs = o->from->outputs;
  share_points(o);
out:
  return rc;
}

/* Copies from the original graph which parameters are frozen. */
static void copy_frozen(const ct_observed_t *o)
{
  for (int i = 0; i < o->from->params; i++) {
    int to = ct_graph_find_param(o->graph, o->from->param[i].name);
    if (to >= 0) o->graph->param[to].frozen = o->from->param[i].frozen;
  }
}

int ct_observed_make(const ct_graph_t *g, ct_observed_t *out)
{
  int rc = CT_OK;
  observing_t s = {.o = out};
  *out = (ct_observed_t){.from = g};
  if (g->extra.n)
    CT_FAIL(CT_ERR_UNSUP, "networks with extra inputs (input.%s) cannot be quantized",
            g->extra.name[0]);
  CT_TRY(ct_fold_make(g, &out->fold));
  out->graph = ct_mem_alloc(sizeof *out->graph, "the observed model");
  out->range = ct_mem_array(g->layers, sizeof *out->range, "the observed model");
  s.to = ct_mem_array(g->layers, sizeof *s.to, "the observed model");
  s.point = ct_mem_array(g->layers, sizeof *s.point, "the observed model");
  CT_TRY(out->graph && out->range && s.to && s.point ? CT_OK : CT_ERR_NOMEM);
  out->graph->input = g->input;
  CT_TRY(observe(&s));
  copy_frozen(out);
out:
  ct_mem_free(s.to);
  ct_mem_free(s.point);
  if (rc != CT_OK) ct_observed_clear(out);
  return rc;
}

void ct_observed_clear(ct_observed_t *o)
{
  ct_fold_clear(&o->fold);
  ct_graph_free(o->graph);
  ct_mem_free(o->range);
  *o = (ct_observed_t){0};
}

int ct_observed_is_range(const ct_graph_t *g, int param)
{
  return g->layer[g->param[param].layer].ops->op == CT_OP_FAKE_QUANT;
}

/* ---- scales and zero points ---- */

static ct_quant_params_t qp_of(int param, const float *const value[])
{
  if (param < 0 || !(value[param][0] < value[param][1])) return (ct_quant_params_t){0};
  return ct_quant_params_of(value[param][0], value[param][1]);
}

int ct_observed_quant(const ct_observed_t *o, const float *const value[], ct_quant_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_quant_make(o->fold.graph, out));
  out->input = qp_of(o->input, value);
  for (int f = 0; f < out->layers; f++)
    out->out[f] = qp_of(o->range[f], value);
out:
  return rc;
}

int ct_quant_is_weight(const ct_graph_t *g, int param, int64_t *channels)
{
  const ct_param_t *p = &g->param[param];
  ct_op_kind_t kind = g->layer[p->layer].ops->op;
  *channels = p->spec.shape.dim[0];
  if (kind == CT_OP_LSTM) return p->slot < 2;
  if (kind == CT_OP_ATTENTION) return p->slot % 2 == 0;
  return (kind == CT_OP_CONV || kind == CT_OP_LINEAR) && p->slot == 0;
}
