/* Which dict of a .pth file is meant: by a key, or by what it has. */
#include <string.h>

#include "base/ct_err.h"
#include "weights/pth.h"

enum {
  MOST_NAMED = 8,    /* names in a message */
  MOST_DEPTH = 64,   /* of a key's dicts */
  SHOWN_DEPTH = 3,   /* of those in a message */
  MOST_LOOKS = 10000 /* for them */
};

static int is_dict(const ct_pickle_t *p, int node)
{
  return p->node[node].kind == CT_PICKLE_DICT;
}

static int has_tensors(const ct_pickle_t *p, int node)
{
  return is_dict(p, node) && p->node[node].value;
}

/* Notes which dicts have tensors.  Once for all: a file may have a dict in a million places. */
static void find_tensors(ct_pickle_t *p)
{
  for (int64_t i = 0; i < p->nodes; i++) {
    if (!is_dict(p, (int)i)) continue;
    for (int c = p->node[i].first; c >= 0; c = ct__pth_next(p, c))
      p->node[i].value |= ct__pth_is_tensor(p, ct__pth_value(p, c));
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

/* "state.ema" is that key of a dict, or "ema" of its "state"; a key may have dots itself.  -1:
 * there is none. */
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

/* What a node is, for messages. */
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

int ct__pth_add_name(ct_str_t *list, int n, const char *name)
{
  if (n > MOST_NAMED) return CT_OK;
  if (n == MOST_NAMED) return ct_str_add(list, ", ...");
  return ct_str_add(list, "%s'%s'", n ? ", " : "", name);
}

/* Dicts with tensors, for a message: the keys that there could be. */
typedef struct found {
  ct_str_t list;
  int n, looks; /* found, looked at */
} found_t;

static int list_dicts(const ct_pickle_t *p, int node, const char *above, int depth, found_t *f)
{
  int rc = CT_OK;
  char path[256];
  if (!is_dict(p, node)) return CT_OK;
  for (int c = p->node[node].first; c >= 0 && f->looks++ < MOST_LOOKS; c = ct__pth_next(p, c)) {
    int value = ct__pth_value(p, c);
    if (!is_dict(p, value) || !ct__pth_key(p, c)) continue;
    if (ct_text_format(path, sizeof path, "%s%s", above, ct__pth_key(p, c)) != CT_OK) continue;
    if (has_tensors(p, value)) CT_TRY(ct__pth_add_name(&f->list, f->n++, path));
    if (depth > 1 && ct_text_format(path, sizeof path, "%s%s.", above, ct__pth_key(p, c)) == CT_OK)
      CT_TRY(list_dicts(p, value, path, depth - 1, f));
  }
out:
  return rc;
}

/* What a dict without tensors has, if it is no plain value: objects of other programs. */
static int list_objects(const ct_pickle_t *p, ct_str_t *list)
{
  int rc = CT_OK, n = 0;
  for (int c = p->node[p->root].first; c >= 0 && n < MOST_NAMED; c = ct__pth_next(p, c)) {
    int value = ct__pth_value(p, c);
    if (p->node[value].kind != CT_PICKLE_CALL || !ct__pth_key(p, c)) continue;
    CT_TRY(ct_str_add(list, "%s'%s' is %s", n++ ? ", " : "; ", ct__pth_key(p, c),
                      described(p, value)));
  }
out:
  return rc;
}

static int choose_by_key(const ct_weights_t *w, const char *key, int *out)
{
  int rc = CT_OK;
  const ct_pickle_t *p = &w->pickle;
  found_t f = {.n = 0};
  *out = find_key(p, p->root, key, 0);
  if (*out >= 0 && has_tensors(p, *out)) goto out;
  if (*out >= 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is %s, expected a dict of tensors", w->path, key,
            is_dict(p, *out) ? "a dict without tensors" : described(p, *out));
  CT_TRY(list_dicts(p, p->root, "", SHOWN_DEPTH, &f));
  CT_FAIL(CT_ERR_FORMAT, "%s: has no key '%s'; dicts with tensors are %s", w->path, key,
          f.n ? f.list.data : "none");
out:
  ct_str_clear(&f.list);
  return rc;
}

/* Without tensors in the root: the names that training scripts use. */
static int choose_by_name(ct_weights_t *w, int *out)
{
  static const char *const usual[] = {"state_dict", "model", "model_state_dict", "model_ema"};
  int rc = CT_OK, found = 0;
  const ct_pickle_t *p = &w->pickle;
  found_t f = {.n = 0};
  ct_str_t objects = {0};
  const char *name = NULL;
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
    int node = find_key(p, p->root, usual[i], 0);
    if (node < 0 || !has_tensors(p, node)) continue;
    *out = node;
    name = usual[i];
    found++;
  }
  if (found == 1) CT_TRY(ct_str_add(&w->remark, "takes the tensors of '%s'", name));
  if (found == 1) goto out;
  CT_TRY(list_dicts(p, p->root, "", SHOWN_DEPTH, &f));
  CT_TRY(list_objects(p, &objects));
  if (f.n == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: has no tensors, neither itself nor in a dict of it%s", w->path,
            objects.len ? objects.data : "");
  CT_FAIL(CT_ERR_FORMAT, "%s: has tensors in %s: say which by --key (init.key)", w->path,
          f.list.data);
out:
  ct_str_clear(&f.list);
  ct_str_clear(&objects);
  return rc;
}

int ct__pth_choose(ct_weights_t *w, const char *key, int *out)
{
  int rc = CT_OK;
  const ct_pickle_t *p = &w->pickle;
  find_tensors(&w->pickle);
  *out = p->root;
  if (key && *key)
    CT_TRY(choose_by_key(w, key, out));
  else if (!is_dict(p, p->root))
    CT_FAIL(CT_ERR_FORMAT, "%s: is %s, expected a dict of tensors (a state_dict())", w->path,
            described(p, p->root));
  else if (!has_tensors(p, p->root))
    CT_TRY(choose_by_name(w, out));
out:
  return rc;
}
