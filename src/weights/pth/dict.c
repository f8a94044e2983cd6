/* Selects the dict of a .pth file with the model's weights: by a given key, by its name, or by its
 * number of tensors.
 *
 * Training scripts store other tensors next to a state dict (best accuracy, epoch, averaged
 * weights, optimizer state), so a single tensor does not make a dict the model. */
#include <string.h>
#include <strings.h>

#include "base/ct_err.h"
#include "weights/ct_names.h"
#include "weights/pth/pth.h"

enum {
  MOST_DEPTH = 64,   /* nesting of dicts in a key */
  SHOWN_DEPTH = 3,   /* nesting of dicts listed in a message */
  MOST_LOOKS = 10000 /* dicts visited for the list */
};

static int is_dict(const ct_pickle_t *p, int node)
{
  return p->node[node].kind == CT_PICKLE_DICT;
}

static int64_t tensors_of(const ct_pickle_t *p, int node)
{
  return is_dict(p, node) ? p->node[node].value : 0;
}

/* Counts the tensors of each dict, once: the same dict may be referenced a million times. */
static void find_tensors(ct_pickle_t *p)
{
  for (int64_t i = 0; i < p->nodes; i++) {
    if (!is_dict(p, (int)i)) continue;
    p->node[i].value = 0;
    for (int c = p->node[i].first; c >= 0; c = ct__pth_next(p, c))
      p->node[i].value += ct__pth_is_tensor(p, ct__pth_value(p, c));
  }
}

const char *ct__pth_key(const ct_pickle_t *p, int cell)
{
  int node = p->cell[cell].node;
  if (p->node[node].kind != CT_PICKLE_TEXT) return NULL;
  const char *text = ct_pickle_text(p, node);
  if (strlen(text) != (size_t)p->node[node].count || !ct_text_is_utf8(text)) return NULL;
  for (const char *c = text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) return NULL;
  return text;
}

/* Finds the node of a key: "state.ema" is a key itself, or the key "ema" of the dict "state". -1:
 * not found. */
static int find_key(const ct_pickle_t *p, int node, const char *key, int depth)
{
  int found = -1;
  if (!is_dict(p, node) || depth > MOST_DEPTH) return -1;
  for (int c = p->node[node].first; c >= 0 && found < 0; c = ct__pth_next(p, c)) {
    const char *name = ct__pth_key(p, c);
    size_t n = name ? strlen(name) : 0;
    if (!name || strncmp(key, name, n) != 0) continue;
    if (key[n] == '\0')
      found = ct__pth_value(p, c);
    else if (n > 0 && key[n] == '.')
      found = find_key(p, ct__pth_value(p, c), key + n + 1, depth + 1);
  }
  return found;
}

/* Describes a node for messages. */
static const char *described(const ct_pickle_t *p, int node)
{
  static const char *const kinds[] = {"a plain value", "a bool",   "an integer", "a text",
                                      "a tuple",       "a list",   "a dict",     "a class",
                                      "an object",     "a storage"};
  const ct_pickle_node_t *n = &p->node[node];
  if (ct__pth_is_tensor(p, node)) return "a tensor";
  if (n->kind == CT_PICKLE_GLOBAL) return ct_pickle_text(p, node);
  if (n->kind == CT_PICKLE_CALL && p->node[n->first].kind == CT_PICKLE_GLOBAL)
    return ct_pickle_text(p, n->first);
  return kinds[n->kind];
}

/* ---- listing dicts ---- */

/* Rank of one name within a key such as "optimizer.state". */
static int rank_of_name(const char *name, size_t n)
{
  static const char *const usual[] = {"state_dict", "model_state_dict", "model",  "model_state",
                                      "net",        "network",          "module", "params"},
                           *const helpers[] = {"optim", "sched", "scaler", "rng"},
                           *const copies[] = {"ema", "swa", "average", "avg", "shadow"};
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    if (strlen(usual[i]) == n && strncasecmp(name, usual[i], n) == 0) return CT_WEIGHTS_USUAL;
  for (const char *at = name; at < name + n; at++) {
    size_t left = n - (size_t)(at - name);
    for (size_t i = 0; i < sizeof helpers / sizeof *helpers; i++)
      if (strlen(helpers[i]) <= left && strncasecmp(at, helpers[i], strlen(helpers[i])) == 0)
        return CT_WEIGHTS_HELPER;
  }
  for (const char *at = name; at < name + n; at++) {
    size_t left = n - (size_t)(at - name);
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
      if (strlen(copies[i]) <= left && strncasecmp(at, copies[i], strlen(copies[i])) == 0)
        return CT_WEIGHTS_COPY;
  }
  return CT_WEIGHTS_OTHER;
}

/* Returns the rank of a key: the lowest rank of its names: the model inside an average is an
 * average. */
static ct_weights_rank_t rank_of_key(const char *key)
{
  int rank = -1, r;
  for (const char *at = key; *at;) {
    size_t n = strcspn(at, ".");
    r = rank_of_name(at, n);
    if (rank < 0 || r > rank) rank = r;
    at += n + (at[n] == '.');
  }
  return (ct_weights_rank_t)rank;
}

/* Adds a dict to the list, once even if it has several keys. */
static void add_part(const ct_pickle_t *p, int node, const char *key, ct_weights_rank_t rank,
                     ct_weights_parts_t *list)
{
  if (!tensors_of(p, node)) return;
  for (int i = 0; i < list->n; i++)
    if (list->v[i].id == node) return;
  if (list->all++ >= CT_WEIGHTS_PARTS) return;
  ct_weights_part_t *part = &list->v[list->n++];
  *part = (ct_weights_part_t){.rank = rank, .tensors = tensors_of(p, node), .id = node};
  ct_text_fit(part->key, sizeof part->key, "%s", key); /* the key is known to fit */
}

static int list_below(const ct_pickle_t *p, int node, const char *above, int depth, int *looks,
                      ct_weights_parts_t *list)
{
  int rc = CT_OK;
  char key[CT_WEIGHTS_KEY], below[CT_WEIGHTS_KEY];
  if (!is_dict(p, node)) return CT_OK;
  for (int c = p->node[node].first; c >= 0 && (*looks)++ < MOST_LOOKS; c = ct__pth_next(p, c)) {
    int value = ct__pth_value(p, c);
    if (!is_dict(p, value) || !ct__pth_key(p, c)) continue;
    if (ct_text_format(key, sizeof key, "%s%s", above, ct__pth_key(p, c)) != CT_OK) continue;
    add_part(p, value, key, rank_of_key(key), list);
    if (depth > 1 && ct_text_format(below, sizeof below, "%s.", key) == CT_OK)
      CT_TRY(list_below(p, value, below, depth - 1, looks, list));
  }
out:
  return rc;
}

int ct__pth_parts(ct_weights_t *w, ct_weights_parts_t *out)
{
  int rc = CT_OK, looks = 0;
  const ct_pickle_t *p = &w->pickle;
  find_tensors(&w->pickle);
  *out = (ct_weights_parts_t){0};
  add_part(p, p->root, "/", CT_WEIGHTS_OTHER, out);
  CT_TRY(list_below(p, p->root, "", SHOWN_DEPTH, &looks, out));
out:
  return rc;
}

/* ---- selecting a dict ---- */

static int choose_by_key(const ct_weights_t *w, const char *key, const ct_weights_parts_t *list,
                         int *out)
{
  int rc = CT_OK;
  const ct_pickle_t *p = &w->pickle;
  ct_str_t names = {0};
  *out = strcmp(key, "/") == 0 ? p->root : find_key(p, p->root, key, 0);
  if (*out >= 0 && tensors_of(p, *out)) goto out;
  if (*out >= 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is %s, expected a dict of tensors", w->path, key,
            is_dict(p, *out) ? "a dict without tensors" : described(p, *out));
  CT_TRY(ct_weights_parts_text(list, &names));
  CT_FAIL(CT_ERR_FORMAT, "%s: key '%s' not found; dicts with tensors are %s", w->path, key,
          list->n ? names.data : "none");
out:
  ct_str_clear(&names);
  return rc;
}

/* Lists the objects of other programs in a dict without tensors. */
static int list_objects(const ct_pickle_t *p, ct_str_t *list)
{
  int rc = CT_OK, n = 0;
  for (int c = p->node[p->root].first; c >= 0 && n < CT_NAMES_LISTED; c = ct__pth_next(p, c)) {
    int value = ct__pth_value(p, c);
    if (p->node[value].kind != CT_PICKLE_CALL || !ct__pth_key(p, c)) continue;
    CT_TRY(ct_str_add(list, "%s'%s' is %s", n++ ? ", " : "; ", ct__pth_key(p, c),
                      described(p, value)));
  }
out:
  return rc;
}

static int refuse_empty(const ct_weights_t *w)
{
  int rc = CT_OK;
  ct_str_t objects = {0};
  CT_TRY(list_objects(&w->pickle, &objects));
  CT_FAIL(CT_ERR_FORMAT, "%s: no tensors found, neither at the top level nor in a dict inside it%s",
          w->path, objects.len ? objects.data : "");
out:
  ct_str_clear(&objects);
  return rc;
}

/* Without a key: selects the most likely dict. */
static int dict_choose(ct_weights_t *w, const ct_weights_parts_t *list, int *out)
{
  int rc = CT_OK;
  ct_str_t names = {0};
  if (list->n == 0) CT_TRY(refuse_empty(w));
  int best = ct_weights_likeliest(list);
  if (best < 0) {
    CT_TRY(ct_weights_parts_text(list, &names));
    CT_FAIL(CT_ERR_FORMAT, "%s: has tensors in %s: say which by --key (init.key)", w->path,
            names.data);
  }
  *out = w->pickle.root;
  if (strcmp(list->v[best].key, "/") == 0) goto out;
  *out = find_key(&w->pickle, *out, list->v[best].key, 0);
  CT_TRY(ct_str_add(&w->remark, "takes the tensors of '%s'", list->v[best].key));
out:
  ct_str_clear(&names);
  return rc;
}

int ct__pth_choose(ct_weights_t *w, const char *key, int *out)
{
  int rc = CT_OK;
  const ct_pickle_t *p = &w->pickle;
  ct_weights_parts_t list;
  *out = p->root;
  if (!(key && *key) && !is_dict(p, p->root))
    CT_FAIL(CT_ERR_FORMAT, "%s: is %s, expected a dict of tensors (a state_dict())", w->path,
            described(p, p->root));
  CT_TRY(ct__pth_parts(w, &list));
  CT_TRY(key && *key ? choose_by_key(w, key, &list, out) : dict_choose(w, &list, out));
out:
  return rc;
}
