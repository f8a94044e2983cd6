/* The arithmetic of a language model per token. */
#include "run/token_rate.h"

#include <math.h>
#include <string.h>

int64_t ct__tokens_per_sample(const ct_dataset_t *d)
{
  return d->info.tokens ? ct_shape_sample(&d->info.x) : 0;
}

static int is_kind(const ct_graph_t *g, int layer, const char *kind)
{
  return strcmp(g->layer[layer].ops->kind, kind) == 0;
}

double ct__token_flops(const ct_graph_t *g, int64_t tokens)
{
  double parameters = 0, features = 0;
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *p = &g->param[i];
    int counts = !p->spec.buffer && !p->frozen && !is_kind(g, p->layer, "position");
    if (counts) parameters += (double)p->count;
  }
  for (int i = 0; i < g->layers; i++) {
    const ct_shape_t *y = &g->layer[i].out;
    if (is_kind(g, i, "sdpa") || is_kind(g, i, "attention"))
      features += (double)ct_shape_sample(y) / (double)tokens;
  }
  return 6 * parameters + 12 * features * (double)tokens;
}

double ct__token_mfu(double tokens_per_s, double flops, int ranks, double peak_tflops)
{
  return peak_tflops > 0 ? tokens_per_s * flops / (peak_tflops * 1e12 * ranks) : NAN;
}
