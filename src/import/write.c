/* Names of layers, and the list as YAML: one line per layer. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "import/import.h"
#include "model/ct_graph.h"

enum { WRITE_NAME = CT_NAME_MAX - 16 }; /* longest name of a layer in model.layers */

/* ---- names ---- */

/* The names so far: a hash table with open addressing. */
typedef struct write_names {
  const char **slot;
  int64_t slots;
} write_names_t;

static const char **write_slot(const write_names_t *w, const char *name)
{
  uint64_t h = 1469598103934665603u;
  for (const char *c = name; *c; c++)
    h = (h ^ (unsigned char)*c) * 1099511628211u;
  int64_t i = (int64_t)(h % (uint64_t)w->slots);
  while (w->slot[i] && strcmp(w->slot[i], name) != 0)
    i = (i + 1) % w->slots;
  return &w->slot[i];
}

static int write_take(write_names_t *w, const char *name)
{
  const char **slot = write_slot(w, name);
  if (*slot) return 0;
  *slot = name;
  return 1;
}

/* Returns a text that is valid as a name. */
static const char *write_valid(ct__im_t *t, const char *text)
{
  size_t len = strlen(text);
  if (len > WRITE_NAME - 8) text += len - (WRITE_NAME - 8); /* the end tells more */
  char *name = ct__im_alloc(t, (int64_t)strlen(text) + 3, 1);
  if (!name) return NULL;
  strcpy(name, text);
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("_.-", *c)) *c = '_';
  if (!*name) strcpy(name, "_");
  if (strcmp(name, "input") == 0) strcpy(name, "input_");
  if (strncmp(name, "input.", 6) == 0) name[5] = '_';
  return name;
}

/* Returns NAME if the parameters are called NAME.suffix; NULL: they have other names. */
static const char *write_prefix(ct__im_t *t, const ct__im_layer_t *l)
{
  const char *first = NULL;
  size_t len = 0;
  for (int i = 0; i < l->weights; i++) {
    const char *state = t->g->value[l->weight[i]].state;
    size_t all = strlen(state), end = strlen(l->suffix[i]);
    if (all < end + 2 || strcmp(state + all - end, l->suffix[i]) != 0) return NULL;
    if (state[all - end - 1] != '.') return NULL;
    if (i && (all - end - 1 != len || strncmp(state, first, len) != 0)) return NULL;
    first = state;
    len = all - end - 1;
  }
  return ct__im_format(t, "%.*s", (int)len, first);
}

static const char *write_own(ct__im_t *t, const ct__im_layer_t *l)
{
  if (l->value >= 0) return t->g->value[l->value].state;
  return l->weights ? write_prefix(t, l) : NULL;
}

/* Returns 1 if the type is a module of PyTorch that makes one or few ops. */
static int write_is_leaf(const char *type)
{
  static const char *const many[] = {".transformer.", ".container.", "MultiheadAttention"};
  if (strncmp(type, "torch.nn.modules.", 17) != 0) return 0;
  for (size_t i = 0; i < sizeof many / sizeof many[0]; i++)
    if (strstr(type, many[i])) return 0;
  return 1;
}

static const char *write_usual(ct__im_t *t, const ct__im_layer_t *l)
{
  const ct_pt2_node_t *n = l->node >= 0 ? &t->g->node[l->node] : NULL;
  const char *module = n ? n->module : "";
  if (!*module) return write_valid(t, l->kind);
  if (write_is_leaf(n->type)) return write_valid(t, module);
  const char *full = ct__im_format(t, "%s.%s", module, l->kind);
  return full ? write_valid(t, full) : NULL;
}

static int write_unique(ct__im_t *t, write_names_t *w, ct__im_layer_t *l)
{
  const char *base = write_usual(t, l), *name = base;
  for (int i = 2; name && !write_take(w, name); i++)
    name = ct__im_format(t, "%s_%d", base, i);
  l->name = name;
  return name ? CT_OK : CT_ERR_NOMEM;
}

int ct__im_name(ct__im_t *t)
{
  int rc = CT_OK;
  write_names_t w = {.slots = 4 * (int64_t)t->layers + 64};
  w.slot = ct__im_alloc(t, w.slots, sizeof *w.slot);
  if (!w.slot) return CT_ERR_NOMEM;
  for (int i = 0; i < t->layers; i++) {
    ct__im_layer_t *l = &t->layer[i];
    if (!l->live || !l->kind) continue;
    if (!*l->kind) l->name = l->text;
    const char *own = *l->kind ? write_own(t, l) : NULL;
    if (!own || strlen(own) > WRITE_NAME) continue;
    const char *valid = write_valid(t, own);
    if (!valid) return CT_ERR_NOMEM;
    if (strcmp(valid, own) == 0 && write_take(&w, own)) l->name = own;
  }
  for (int i = 0; i < t->layers; i++)
    if (t->layer[i].live && t->layer[i].kind && !t->layer[i].name)
      CT_TRY(write_unique(t, &w, &t->layer[i]));
out:
  return rc;
}

/* ---- text ---- */

/* Returns 1 if a layer's parameters have the names that its own name gives. */
static int write_names_follow(const ct__im_t *t, const ct__im_layer_t *l)
{
  if (l->value >= 0) return strcmp(l->name, t->g->value[l->value].state) == 0;
  for (int i = 0; i < l->weights; i++) {
    const char *state = t->g->value[l->weight[i]].state;
    size_t len = strlen(l->name);
    if (strncmp(state, l->name, len) != 0 || state[len] != '.' ||
        strcmp(state + len + 1, l->suffix[i]) != 0)
      return 0;
  }
  return 1;
}

static int write_weights(ct__im_t *t, const ct__im_layer_t *l)
{
  int rc = CT_OK;
  if (write_names_follow(t, l)) return CT_OK;
  CT_TRY(ct_str_add(&t->text, ", weights: ["));
  if (l->value >= 0) CT_TRY(ct_str_add(&t->text, "\"%s\"", t->g->value[l->value].state));
  for (int i = 0; i < l->weights; i++)
    CT_TRY(ct_str_add(&t->text, "%s\"%s\"", i ? ", " : "", t->g->value[l->weight[i]].state));
  CT_TRY(ct_str_add(&t->text, "]"));
out:
  return rc;
}

/* Writes the inputs; without them, the input is the layer before. */
static int write_from(ct__im_t *t, const ct__im_layer_t *l, const ct__im_layer_t *before)
{
  int rc = CT_OK;
  if (l->ins == 0) return CT_OK;
  if (l->ins == 1 && before && &t->layer[l->in[0]] == before) return CT_OK;
  CT_TRY(ct_str_add(&t->text, ", from: %s", l->ins > 1 ? "[" : ""));
  for (int i = 0; i < l->ins; i++)
    CT_TRY(ct_str_add(&t->text, "%s\"%s\"", i ? ", " : "", t->layer[l->in[i]].name));
  if (l->ins > 1) CT_TRY(ct_str_add(&t->text, "]"));
out:
  return rc;
}

int ct__im_write(ct__im_t *t)
{
  int rc = CT_OK;
  const ct__im_layer_t *before = NULL;
  for (int i = 0; i < t->layers; i++) {
    const ct__im_layer_t *l = &t->layer[i];
    if (!l->live || !*l->kind) continue;
    CT_TRY(ct_str_add(&t->text, "- {%s: {%s}, name: \"%s\"", l->kind, l->opts, l->name));
    CT_TRY(write_from(t, l, before));
    CT_TRY(write_weights(t, l));
    CT_TRY(ct_str_add(&t->text, "}\n"));
    t->facts.layers++;
    before = l;
  }
out:
  return rc;
}
