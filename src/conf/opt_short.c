/* Expands abbreviated options in the tree itself, so that dump and hash of a configuration do not
 * depend on its notation. */
#include "conf/ct_opt_short.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "conf/opt.h"

/* Returns the option that an unnamed value sets; NULL: none. */
static const ct_opt_t *meant(const ct_opt_t *rows)
{
  static const char *const usual[] = {"size", "p", "scale"};
  const ct_opt_t *required = NULL;
  int options = 0, n = 0;
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++, options++)
    if (!row->def) required = row, n++;
  if (n > 0) return n == 1 ? required : NULL;
  if (options == 1) return rows;
  for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
    for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++)
      if (strcmp(row->key, usual[i]) == 0) return row;
  return NULL;
}

static int expand(const ct_opt_t *rows, ct_yaml_t *n)
{
  const ct_opt_t *row = meant(rows);
  if (!row || n->kind == CT_YAML_MAP || (ct__opt_is_plain(n) && ct__opt_is_null(n->text)))
    return CT_OK;
  ct_yaml_t *value = ct_yaml_new(n->kind, row->key, n->kind == CT_YAML_SCALAR ? n->text : NULL);
  if (value && n->file) value->file = ct_mem_strdup(n->file);
  if (!value || (n->file && !value->file)) {
    ct_yaml_free(value);
    return CT_ERR_NOMEM;
  }
  value->quoted = n->quoted;
  value->line = n->line;
  value->child = n->child;
  value->last = n->last;
  ct_mem_free(n->text);
  n->text = NULL;
  n->quoted = 0;
  n->kind = CT_YAML_MAP;
  n->child = n->last = NULL;
  ct_yaml_append(n, value);
  return CT_OK;
}

int ct_opt_expand(ct_yaml_t *list, const ct_opt_t *(*rows_of)(const char *kind))
{
  int rc = CT_OK;
  for (ct_yaml_t *item = list ? list->child : NULL; item; item = item->next)
    for (ct_yaml_t *n = item->kind == CT_YAML_MAP ? item->child : NULL; n; n = n->next) {
      const ct_opt_t *rows = rows_of(n->key);
      if (rows) CT_TRY(expand(rows, n));
    }
out:
  return rc;
}
