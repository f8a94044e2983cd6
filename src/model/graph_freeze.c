/* Parameter name patterns, and freezing.  A pattern that matches nothing is an error: parameters
 * that should be frozen would be trained.  As in PyTorch, a frozen batchnorm continues to update
 * its running statistics unless freeze_bn is set; the number of frozen batchnorms that continue is
 * returned, so that the user can be warned. */
#include "model/ct_graph.h"

#include <fnmatch.h>
#include <string.h>

#include "base/ct_err.h"

int ct_graph_matches(const char *pattern, const char *name)
{
  size_t n = strlen(pattern);
  if (fnmatch(pattern, name, 0) == 0) return 1;
  return n > 0 && !strpbrk(pattern, "*?[") && strncmp(pattern, name, n) == 0 && name[n] == '.';
}

static int freeze(ct_graph_t *g, const char *pattern)
{
  int found = 0;
  for (int i = 0; i < g->params; i++) {
    ct_param_t *p = &g->param[i];
    if (p->spec.buffer || !ct_graph_matches(pattern, p->name)) continue;
    p->frozen = 1;
    found = 1;
  }
  if (found) return CT_OK;
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "train.freeze: no trained parameter has a name like '%s'", pattern);
}

static int is_any_trained(const ct_graph_t *g)
{
  for (int i = 0; i < g->params; i++)
    if (!g->param[i].spec.buffer && !g->param[i].frozen) return 1;
  return 0;
}

static int is_all_frozen(const ct_graph_t *g, const ct_layer_t *l)
{
  for (int i = 0; i < l->params; i++) {
    const ct_param_t *p = &g->param[l->param[i]];
    if (!p->spec.buffer && !p->frozen) return 0;
  }
  return 1;
}

int ct_graph_freeze(ct_graph_t *g, const ct_opt_texts_t *patterns, int freeze_bn, int *updating)
{
  int rc = CT_OK;
  *updating = 0;
  for (int i = 0; i < patterns->n; i++)
    CT_TRY(freeze(g, patterns->v[i]));
  if (patterns->n && !is_any_trained(g))
    CT_FAIL(CT_ERR_USAGE, "train.freeze leaves no parameter to train");
  for (int i = 0; i < g->layers; i++) {
    ct_layer_t *l = &g->layer[i];
    if (!ct_layer_tracks(g, l)) continue;
    int frozen = is_all_frozen(g, l);
    if (freeze_bn && (frozen || !patterns->n)) l->keeps_stats = 1;
    if (!freeze_bn && frozen) ++*updating;
  }
out:
  return rc;
}
