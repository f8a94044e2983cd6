/* Option tables: a row has the key, type, default, range and help of a struct member.  Reading,
 * checking, help and dump of a section follow from its rows. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "conf/opt.h"

static const ct_opt_t *find_row(const ct_opt_t *rows, const char *key)
{
  for (; rows->type != CT_OPT_T_END; rows++)
    if (strcmp(rows->key, key) == 0) return rows;
  return NULL;
}

const char *ct_opt_word(const ct_opt_t *rows, const char *key, int value)
{
  static _Thread_local char word[64];
  int len = 0;
  const ct_opt_t *row = find_row(rows, key);
  const char *p = row && row->choices ? ct__opt_choice(row->choices, value, &len) : NULL;
  snprintf(word, sizeof word, "%.*s", p ? len : 1, p ? p : "?");
  return word;
}

static int add_names(const ct_opt_t *rows, const char *const *also, const char **names, int max)
{
  int n = 0;
  for (; rows->type != CT_OPT_T_END && n < max; rows++)
    names[n++] = rows->key;
  for (; also && *also && n < max; also++)
    names[n++] = *also;
  return n;
}

static int unknown_key(const ct__opt_location_t *at, const ct_yaml_t *n, const ct_opt_t *rows,
                       const char *const *also)
{
  enum { MAX_NAMES = 64 };
  const char *names[MAX_NAMES];
  int count = add_names(rows, also, names, MAX_NAMES);
  const char *nearest = ct_opt_nearest(n->key, names, count);
  if (!nearest && strchr(ct_opt_name(n->key), '.')) nearest = ct_opt_name(n->key);
  if (nearest) return ct__opt_fail(at, n, "unknown key; did you mean '%s'?", nearest);
  char list[400] = "";
  size_t len = 0;
  for (int i = 0; i < count && len < sizeof list; i++)
    len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", names[i]);
  return ct__opt_fail(at, n, "unknown key; the keys here are: %s", list);
}

/* ---- tables ---- */

static int take_default(const ct_opt_t *row, void *to)
{
  int rc = CT_OK;
  const char *def = row->def;
  ct_yaml_t *n = NULL;
  if (!def && row->type != CT_OPT_T_TEXT) return CT_OK; /* a text is never NULL */
  if (def && def[0])
    CT_TRY(ct_yaml_parse(def, strlen(def), "default", &n));
  else
    n = ct_yaml_new(CT_YAML_SCALAR, NULL, "");
  if (!n) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct__opt_types[row->type].take(
      &(ct__opt_location_t){.section = "default", .key = row->key, .row = row}, n, to));
out:
  ct_yaml_free(n);
  return rc;
}

int ct_opt_defaults(const ct_opt_t *rows, void *values)
{
  int rc = CT_OK;
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++)
    CT_TRY(take_default(row, ct__opt_slot(row, values)));
out:
  return rc;
}

static int is_listed(const char *const *names, const char *key)
{
  for (; names && *names; names++)
    if (strcmp(*names, key) == 0) return 1;
  return 0;
}

/* Returns 1 for a null that means the default: for numbers and words.  For texts and lists, null
 * means empty. */
static int is_unset(const ct_opt_t *row, const ct_yaml_t *n)
{
  int has_null = ct__opt_types[row->type].clear != NULL;
  return !has_null && row->def && ct__opt_is_plain(n) && n->text[0] && ct__opt_is_null(n->text);
}

static int read_key(const ct_opt_t *rows, void *values, ct_yaml_t *n, ct__opt_location_t *at,
                    const char *const *also)
{
  int rc = CT_OK;
  at->key = n->key;
  const ct_opt_t *row = find_row(rows, n->key);
  if (!row) return is_listed(also, n->key) ? CT_OK : unknown_key(at, n, rows, also);
  at->row = row;
  CT_TRY(is_unset(row, n) ? take_default(row, ct__opt_slot(row, values))
                          : ct__opt_types[row->type].take(at, n, ct__opt_slot(row, values)));
  n->used = 1;
  if (row->type != CT_OPT_T_NODE) /* the later reader of the node marks its contents */
    for (ct_yaml_t *item = n->child; item; item = item->next)
      item->used = 1;
out:
  return rc;
}

/* Records the error for a value that is not a map and that ct_opt_expand() could not expand. */
static int not_a_map(const ct__opt_location_t *at, const ct_yaml_t *map, const ct_opt_t *rows)
{
  char expected[200] = "no options";
  size_t len = 0;
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END && len < 100; row++)
    len += (size_t)snprintf(expected + len, sizeof expected - len, "%s%s: ...",
                            len ? ", " : "keys and values, such as {", row->key);
  if (len) snprintf(expected + len, sizeof expected - len, "}");
  return ct__opt_wrong_type(at, map, expected);
}

int ct_opt_read(const ct_opt_t *rows, void *values, const ct_yaml_t *map, const char *where,
                const char *section, const char *const *also)
{
  int rc = CT_OK;
  ct__opt_location_t at = {.where = where, .section = section};
  int nothing = !map || (ct__opt_is_plain(map) && ct__opt_is_null(map->text));
  if (!nothing && map->kind != CT_YAML_MAP) return not_a_map(&at, map, rows);
  for (ct_yaml_t *n = nothing ? NULL : map->child; n; n = n->next)
    CT_TRY(read_key(rows, values, n, &at, also));
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++) {
    at.key = row->key;
    if (!row->def && (nothing || !ct_yaml_find(map, row->key)))
      return ct__opt_fail(&at, map, "missing; this key is required");
  }
  if (map) ((ct_yaml_t *)(uintptr_t)map)->used = 1;
out:
  return rc;
}

void ct_opt_clear(const ct_opt_t *rows, void *values)
{
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++) {
    void *at = ct__opt_slot(row, values);
    if (ct__opt_types[row->type].clear) ct__opt_types[row->type].clear(at);
    memset(at, 0, ct__opt_types[row->type].bytes);
  }
}
