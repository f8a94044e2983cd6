/* Changes a tree: merges another tree into it, sets a key from the command line. */
#include "conf/yaml_parts.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Moves the content of \a from into the node \a to and frees \a from; key, file and line of \a to
 * stay. */
static void replace_content(ct_yaml_t *to, ct_yaml_t *from)
{
  ct_yaml_t old = *to;
  to->kind = from->kind;
  to->text = from->text;
  to->quoted = from->quoted;
  to->line = from->line;
  to->file = from->file;
  to->child = from->child;
  to->last = from->last;
  to->used = 0;
  from->text = old.text;
  from->file = old.file;
  from->child = old.child;
  ct_yaml_free(from);
}

void ct_yaml_merge(ct_yaml_t *under, ct_yaml_t *over)
{
  if (under->kind != CT_YAML_MAP || over->kind != CT_YAML_MAP) {
    replace_content(under, over);
    return;
  }
  for (ct_yaml_t *c = over->child, *next; c; c = next) {
    ct_yaml_t *old = ct_yaml_find(under, c->key);
    next = c->next;
    c->next = NULL;
    if (old)
      ct_yaml_merge(old, c);
    else
      ct_yaml_append(under, c);
  }
  over->child = over->last = NULL;
  ct_yaml_free(over);
}

/* ---- setting one key ---- */

static void forget_lines(ct_yaml_t *n)
{
  n->line = 0;
  for (ct_yaml_t *c = n->child; c; c = c->next)
    forget_lines(c);
}

/* Returns the child with this key; creates an empty scalar if it is missing. */
static int step_into(ct_yaml_t *map, const char *dotted, int end, const char *key, ct_yaml_t **out)
{
  int rc = CT_OK;
  if (ct__yaml_is_nothing(map)) {
    ct_mem_free(map->text);
    map->text = NULL;
    map->kind = CT_YAML_MAP;
  }
  if (map->kind != CT_YAML_MAP)
    CT_FAIL(CT_ERR_USAGE, "--set %s: '%.*s' is not a map", dotted, end, dotted);
  *out = ct_yaml_find(map, key);
  if (*out) goto out;
  *out = ct_yaml_new(CT_YAML_SCALAR, key, "");
  if (!*out) CT_TRY(CT_ERR_NOMEM);
  ct_yaml_append(map, *out);
out:
  return rc;
}

static int check_dotted(const char *dotted, int *depth)
{
  int rc = CT_OK;
  *depth = 0;
  for (const char *p = dotted;; p++) {
    size_t len = strcspn(p, ".");
    if (len == 0 || len > CT__YAML_KEY || ++*depth > CT__YAML_DEPTH)
      CT_FAIL(CT_ERR_USAGE, "--set %s: expected a dotted key such as optim.lr", dotted);
    p += len;
    if (!*p) break;
  }
out:
  return rc;
}

/* Parses the value of --set. */
static int parse_set(const char *yaml, const char *dotted, int depth, ct_yaml_t **out)
{
  int rc = CT_OK;
  ct_str_t name = {0};
  *out = NULL;
  CT_TRY(ct_str_add(&name, "--set %s", dotted));
  if (ct_text_is_utf8(yaml)) CT_TRY(ct__yaml_parse_text(yaml, strlen(yaml), name.data, depth, out));
  if (!*out) *out = ct_yaml_new(CT_YAML_SCALAR, NULL, ct_text_is_utf8(yaml) ? "" : yaml);
  if (!*out) rc = CT_ERR_NOMEM;
out:
  ct_str_clear(&name);
  return rc;
}

int ct_yaml_set(ct_yaml_t *root, const char *dotted, const char *yaml)
{
  int rc = CT_OK, depth;
  ct_yaml_t *value = NULL, *n = root;
  CT_TRY(check_dotted(dotted, &depth));
  CT_TRY(parse_set(yaml, dotted, depth, &value));
  for (const char *p = dotted; depth > 0; depth--) {
    char key[CT__YAML_KEY + 1];
    size_t len = strcspn(p, ".");
    memcpy(key, p, len);
    key[len] = '\0';
    CT_TRY(step_into(n, dotted, p > dotted ? (int)(p - dotted) - 1 : 0, key, &n));
    p += len + 1;
  }
  forget_lines(value);
  replace_content(n, value);
  value = NULL;
out:
  ct_yaml_free(value);
  return rc;
}
