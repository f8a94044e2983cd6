/* The pass over the program's nodes: finds the rule of each, and collects those that have none. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "import/import.h"

static const ct__im_rule_t *const tables[] = {
    ct__im_elementwise, ct__im_arithmetics, ct__im_views,    ct__im_joins,      ct__im_reduces,
    ct__im_convs,       ct__im_norms,       ct__im_products, ct__im_attentions, ct__im_rnns,
    ct__im_indexes,     ct__im_randoms,     ct__im_ffts,
};

static const ct__im_rule_t *translate_find(const ct_pt2_node_t *n)
{
  for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
    for (const ct__im_rule_t *r = tables[i]; r->op; r++)
      if (ct_pt2_is(n, r->op)) return r;
  return NULL;
}

/* ---- arguments ---- */

/* Collects the layers of a node's tensors that are made already.  *broken: one of them is not
 * translated; *draws: one of them is a draw. */
static int translate_inputs(ct__im_t *t, const ct_pt2_node_t *n, int *list, int cap, int *broken,
                            int *draws)
{
  int count = 0;
  *broken = *draws = 0;
  for (int i = 0; i < n->args; i++) {
    const ct_pt2_arg_t *a = &n->arg[i];
    if (a->kind != CT_PT2_TENSOR && a->kind != CT_PT2_TENSORS) continue;
    for (int k = 0; k < a->n; k++) {
      int layer = a->tensor[k] < 0 ? -1 : t->value[ct__im_root(t, a->tensor[k])].layer;
      if (layer < 0 || ct__im_is_empty(t, a->tensor[k])) continue; /* only joins take these */
      if (count < cap) list[count++] = layer;
      *broken |= t->layer[layer].kind == NULL;
      *draws |= ct__im_is(t, layer, CT__IM_DRAW);
    }
  }
  return count;
}

/* Marks a node as not translated.  text: the reason; "": it is only that of its inputs. */
static int translate_break(ct__im_t *t, const ct_pt2_node_t *n, const char *text)
{
  enum { MOST = 64 };
  int rc = CT_OK, in[MOST], broken, draws, layer;
  ct_shape_t none = ct_shape(1, 1);
  int ins = translate_inputs(t, n, in, MOST, &broken, &draws);
  CT_TRY(ct__im_add(t, &layer, NULL, &none, ins, in, NULL));
  t->layer[layer].text = ct__im_format(t, "%s", text);
  if (!t->layer[layer].text) return CT_ERR_NOMEM;
  for (int i = 0; i < n->outs; i++)
    if (n->out[i] >= 0) t->value[n->out[i]].layer = layer;
out:
  return rc;
}

/* Returns the reason of an error without the words that ct_pt2_refuse() puts in front of it. */
static const char *translate_reason(const ct__im_t *t, const ct_pt2_node_t *n)
{
  const char *text = ct_err_last()->text, *op;
  if (strncmp(text, t->g->path, strlen(t->g->path)) != 0) return text;
  op = strstr(text, n->op);
  const char *end = op ? strstr(op, ": ") : NULL;
  return end ? end + 2 : text;
}

/* Returns 1 for an op into which run_decompositions() turns the ops of modules. */
static int translate_is_core(const ct_pt2_node_t *n)
{
  static const char *const ops[] = {"aten.convolution",
                                    "aten.native_batch_norm",
                                    "aten._native_batch_norm_legit",
                                    "aten._native_batch_norm_legit_functional",
                                    "aten.native_group_norm",
                                    "aten.native_dropout"};
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    if (ct_pt2_is(n, ops[i])) return 1;
  return 0;
}

static int translate_node(ct__im_t *t, const ct_pt2_node_t *n)
{
  int rc, broken, draws, done = 0, none;
  translate_inputs(t, n, &none, 0, &broken, &draws);
  /* an index may number the samples, which no layer does */
  if (broken && !ct_pt2_is(n, "aten.index")) return translate_break(t, n, "");
  const ct__im_rule_t *rule = translate_find(n);
  if (!rule && strstr(n->op, "_loss"))
    return translate_break(t, n, "leave the loss out of forward(): the configuration says it");
  if (!rule && translate_is_core(n))
    return translate_break(t, n,
                           "the program was decomposed: save it without run_decompositions()");
  if (!rule) return translate_break(t, n, "there is no layer for it");
  int before = t->layers;
  rc = draws ? ct__im_match_drop_path(t, n, &done) : CT_OK;
  if (rc == CT_OK && !done) rc = rule->fn(t, n, rule->data);
  if (rc == CT_ERR_UNSUP) return translate_break(t, n, translate_reason(t, n));
  t->facts.composed += t->layers - before > 1;
  return rc;
}

/* ---- roles of parameters ---- */

/* Returns 1 if the indices of an embedding depend on the inputs of the model. */
static int translate_reads_input(const ct__im_t *t, const ct_pt2_node_t *n)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(n, "indices");
  return a && a->kind == CT_PT2_TENSOR && t->g->value[a->tensor[0]].on & CT_PT2_ON_INPUT;
}

static unsigned translate_role(const ct__im_t *t, const ct_pt2_node_t *n, const char *arg)
{
  static const struct {
    const char *op;
    unsigned role;
  } roles[] = {{"aten.linear", CT__IM_LINEAR},         {"aten.embedding", CT__IM_EMBEDDING},
               {"aten.conv1d", CT__IM_CONV},           {"aten.conv2d", CT__IM_CONV},
               {"aten.conv3d", CT__IM_CONV},           {"aten.conv_transpose1d", CT__IM_CONV},
               {"aten.conv_transpose2d", CT__IM_CONV}, {"aten.conv_transpose3d", CT__IM_CONV}};
  static const char *const rnn[] = {"params", "w_ih", "w_hh", "b_ih", "b_hh"};
  for (size_t i = 0; i < sizeof rnn / sizeof rnn[0]; i++)
    if (strcmp(arg, rnn[i]) == 0) return CT__IM_RNN;
  if (strcmp(arg, "weight") != 0 && strcmp(arg, "bias") != 0) return CT__IM_OPERAND;
  /* the rows of a table at constant places are computed from the table as a tensor */
  if (ct_pt2_is(n, "aten.embedding") && !translate_reads_input(t, n)) return CT__IM_OPERAND;
  for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
    if (ct_pt2_is(n, roles[i].op)) return roles[i].role;
  return CT__IM_OPERAND;
}

static void translate_roles(ct__im_t *t)
{
  for (int i = 0; i < t->g->nodes; i++) {
    const ct_pt2_node_t *n = &t->g->node[i];
    for (int k = 0; n->live && k < n->args; k++) {
      const ct_pt2_arg_t *a = &n->arg[k];
      if (a->kind != CT_PT2_TENSOR && a->kind != CT_PT2_TENSORS) continue;
      for (int j = 0; j < a->n; j++)
        if (a->tensor[j] >= 0)
          t->value[ct__im_root(t, a->tensor[j])].roles |= translate_role(t, n, a->name);
    }
  }
}

int ct__im_translate(ct__im_t *t)
{
  int rc = CT_OK;
  translate_roles(t);
  for (int i = 0; i < t->g->nodes; i++) {
    const ct_pt2_node_t *n = &t->g->node[i];
    if (!n->live) continue;
    t->at = i;
    t->facts.ops++;
    CT_TRY(translate_node(t, n));
  }
  t->at = -1;
out:
  return rc;
}

/* ---- what is needed ---- */

void ct__im_mark(ct__im_t *t)
{
  for (int i = t->layers - 1; i >= 0; i--) {
    const ct__im_layer_t *l = &t->layer[i];
    for (int k = 0; l->live && k < l->ins; k++)
      t->layer[l->in[k]].live = 1;
  }
}

/* Returns 1 if an earlier layer was not translated for the same reason and of the same op. */
static int translate_again(const ct__im_t *t, int layer)
{
  const ct__im_layer_t *l = &t->layer[layer];
  for (int i = 0; i < layer; i++) {
    const ct__im_layer_t *e = &t->layer[i];
    if (!e->kind && e->live && *e->text && strcmp(e->text, l->text) == 0 &&
        strcmp(t->g->node[e->node].op, t->g->node[l->node].op) == 0)
      return 1;
  }
  return 0;
}

int ct__im_check(const ct__im_t *t)
{
  enum { MOST = 20 };
  int rc = CT_OK, found = 0;
  ct_str_t list = {0};
  for (int i = 0; i < t->layers; i++) {
    const ct__im_layer_t *l = &t->layer[i];
    if (l->kind || !l->live || !*l->text || translate_again(t, i)) continue;
    const ct_pt2_node_t *n = &t->g->node[l->node];
    if (found++ >= MOST) continue;
    CT_TRY(ct_str_add(&list, "%s%s in %s%s%s: %s", found > 1 ? "; " : "", n->op,
                      *n->module ? "module '" : "the model's forward()", n->module,
                      *n->module ? "'" : "", l->text));
  }
  if (found > MOST) CT_TRY(ct_str_add(&list, "; and %d more", found - MOST));
  if (found)
    CT_FAIL(CT_ERR_UNSUP, "%s: %d op%s cannot be translated: %s", t->g->path, found,
            found == 1 ? "" : "s", list.data);
out:
  ct_str_clear(&list);
  return rc;
}
