/* Assigns parameters to groups.  Parameters with the same hyper-parameters form one group,
 * whichever entries matched them, so that an update runs over long ranges of the arena. */
#include "optim/ct_optim.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "optim/kinds.h"

/* An entry of optim.groups. */
typedef struct entry {
  ct_opt_texts_t match;
  double lr, weight_decay, momentum;
  int muon;
} entry_t;

static const ct_opt_t rows[] = {CT_OPT_TEXTS(entry_t, match, NULL, "patterns of parameter names"),
                                CT_OPT_DOUBLE(entry_t, lr, "0", 0, 1e18, "learning rate"),
                                CT_OPT_DOUBLE(entry_t, weight_decay, "0", 0, 1e18, "weight decay"),
                                CT_OPT_DOUBLE(entry_t, momentum, "0", 0, 1, "momentum"),
                                CT_OPT_BOOL(entry_t, muon, "true", "matrix or not"),
                                CT_OPT_END};

/* ---- one parameter ---- */

static int is_bias_or_norm(const ct_graph_t *g, const ct_param_t *p)
{
  return strstr(p->spec.suffix, "bias") || strstr(g->layer[p->layer].ops->kind, "norm");
}

/* Returns 1 if an output of the model is of this layer, with nothing but layers without parameters
 * after it. */
static int makes_output(const ct_graph_t *g, int layer)
{
  for (int k = 0; k < ct_graph_outputs(g); k++) {
    int i = ct_graph_output(g, k);
    while (i >= 0 && g->layer[i].params == 0)
      i = g->layer[i].inputs > 0 ? g->layer[i].in[0] : -1;
    if (i == layer) return 1;
  }
  return 0;
}

static double matrix_factor(const ct_optim_opts_t *o, const ct_graph_t *g, const ct_param_t *p,
                            const int *wanted)
{
  const ct_shape_t *s = &p->spec.shape;
  int hidden = g->layer[p->layer].ops->op != CT_OP_ROWS && !makes_output(g, p->layer);
  if (s->ndim != 2 || !(wanted ? *wanted : hidden)) return 0;
  return ct__optim_matrix_factor(o, s->dim[0], s->dim[1]);
}

static ct_param_group_t defaults(const ct_optim_opts_t *o, const ct_graph_t *g, const ct_param_t *p)
{
  return (ct_param_group_t){
      .lr = o->lr,
      .weight_decay = o->no_decay_bias_norm && p && is_bias_or_norm(g, p) ? 0 : o->weight_decay,
      .momentum = ct__optim_has_betas(o) ? o->beta1 : o->momentum};
}

static int is_matched(const entry_t *e, const char *name)
{
  for (int i = 0; i < e->match.n; i++)
    if (ct_graph_matches(e->match.v[i], name)) return 1;
  return 0;
}

/* Returns the index of the group with these hyper-parameters; adds the group if necessary. */
static int group_of(ct_param_groups_t *out, const ct_param_group_t *want)
{
  for (int i = 0; i < out->groups; i++) {
    const ct_param_group_t *g = &out->group[i];
    if (g->lr == want->lr && g->weight_decay == want->weight_decay &&
        g->momentum == want->momentum && g->matrix == want->matrix)
      return i;
  }
  out->group[out->groups] = *want;
  return out->groups++;
}

/* ---- the list ---- */

static int fail_at(const char *where, const ct_yaml_t *n, const char *text, const char *word)
{
  int rc = ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "optim.groups: %s%s%s%s", text,
                      word ? " '" : "", word ? word : "", word ? "'" : "");
  return ct_err_location(rc, ct_yaml_file(n, where), n->line);
}

static int is_trained(const ct_param_t *p)
{
  return !p->spec.buffer;
}

/* Checks that every pattern matches a trained parameter. */
static int check_patterns(const entry_t *e, const ct_graph_t *g, const char *where,
                          const ct_yaml_t *n)
{
  if (!e->match.n) return fail_at(where, n, "match names no pattern", NULL);
  for (int k = 0; k < e->match.n; k++) {
    int found = 0;
    for (int i = 0; i < g->params && !found; i++)
      found = is_trained(&g->param[i]) && ct_graph_matches(e->match.v[k], g->param[i].name);
    if (!found) return fail_at(where, n, "no trained parameter has a name like", e->match.v[k]);
  }
  return CT_OK;
}

static void groups_set(const entry_t *e, const ct_yaml_t *n, ct_param_group_t *group)
{
  if (ct_yaml_find(n, "lr")) group->lr = e->lr;
  if (ct_yaml_find(n, "weight_decay")) group->weight_decay = e->weight_decay;
  if (ct_yaml_find(n, "momentum")) group->momentum = e->momentum;
}

static int read_entries(const ct_optim_opts_t *o, const ct_graph_t *g, const char *where,
                        entry_t *entry)
{
  int rc = CT_OK;
  int k = 0;
  for (const ct_yaml_t *n = o->groups->child; n; n = n->next, k++) {
    if (n->kind != CT_YAML_MAP)
      return fail_at(where, n, "expected a map such as {match: fc, lr: 0.01}", NULL);
    CT_TRY(ct_opt_defaults(rows, &entry[k]));
    CT_TRY(ct_opt_read(rows, &entry[k], n, where, "optim.groups", NULL));
    if (ct_yaml_find(n, "momentum") && ct__optim_has_betas(o))
      return fail_at(where, n, "momentum: this optimizer has betas instead, the same for all",
                     NULL);
    if (ct_yaml_find(n, "muon") && ct__optim_matrix_factor(o, 1, 1) == 0)
      return fail_at(where, n, "muon: is of optim.kind muon", NULL);
    CT_TRY(check_patterns(&entry[k], g, where, n));
  }
out:
  return rc;
}

/* Returns the hyper-parameters of a parameter: the first matching entry overrides the defaults. */
static ct_param_group_t numbers_of(const ct_optim_opts_t *o, const ct_graph_t *g, int param,
                                   const entry_t *entry)
{
  const ct_param_t *p = &g->param[param];
  ct_param_group_t group = defaults(o, g, p);
  const int *wanted = NULL;
  int k = 0;
  for (const ct_yaml_t *n = o->groups ? o->groups->child : NULL; n; n = n->next, k++) {
    if (!is_matched(&entry[k], p->name)) continue;
    groups_set(&entry[k], n, &group);
    if (ct_yaml_find(n, "muon")) wanted = &entry[k].muon;
    break;
  }
  group.matrix = matrix_factor(o, g, p, wanted);
  if (group.matrix > 0) group.momentum = o->momentum;
  return group;
}

int ct_param_group_rate(const ct_optim_opts_t *o, int i, const char **match, double *lr)
{
  for (const ct_yaml_t *n = o->groups ? o->groups->child : NULL; n; n = n->next) {
    const ct_yaml_t *rate = ct_yaml_find(n, "lr"), *name = ct_yaml_find(n, "match");
    if (!rate || !name || i-- > 0) continue;
    *match = name->kind == CT_YAML_LIST ? name->child->text : name->text;
    return ct_text_double(rate->text, lr) == CT_OK;
  }
  return 0;
}

static int groups_make(const ct_optim_opts_t *o, const ct_graph_t *g, const entry_t *entry,
                       ct_param_groups_t *out)
{
  ct_param_group_t all = defaults(o, g, NULL);
  out->group = ct_mem_array(g->params + 1, sizeof *out->group, "parameter groups");
  out->of = ct_mem_array(g->params + 1, sizeof *out->of, "parameter groups");
  if (!out->group || !out->of) return CT_ERR_NOMEM;
  group_of(out, &all);
  for (int i = 0; i < g->params; i++) {
    if (!is_trained(&g->param[i]) || g->param[i].frozen) continue;
    ct_param_group_t want = numbers_of(o, g, i, entry);
    out->of[i] = group_of(out, &want);
  }
  return CT_OK;
}

int ct_param_groups_make(const ct_optim_opts_t *o, const ct_graph_t *g, const char *where,
                         ct_param_groups_t *out)
{
  int rc = CT_OK;
  entry_t *entry = NULL;
  int entries = o->groups ? ct_yaml_count(o->groups) : 0;
  *out = (ct_param_groups_t){0};
  if (o->groups && o->groups->kind != CT_YAML_LIST)
    return fail_at(where, o->groups, "expected a list of maps", NULL);
  entry = ct_mem_array(entries + 1, sizeof *entry, "parameter groups");
  if (!entry) return CT_ERR_NOMEM;
  if (entries) CT_TRY(read_entries(o, g, where, entry));
  CT_TRY(groups_make(o, g, entry, out));
out:
  for (int k = 0; k < entries; k++)
    ct_opt_clear(rows, &entry[k]);
  ct_mem_free(entry);
  if (rc != CT_OK) ct_param_groups_clear(out);
  return rc;
}

void ct_param_groups_clear(ct_param_groups_t *p)
{
  ct_mem_free(p->group);
  ct_mem_free(p->of);
  *p = (ct_param_groups_t){0};
}
