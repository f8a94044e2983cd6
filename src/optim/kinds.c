/* Refuses options that a kind does not have, such as a momentum that Adam would ignore.  An option
 * counts as given if it differs from its default. */
#include <string.h>

#include "base/ct_err.h"
#include "optim/kinds.h"

static int is_default(const ct_opt_t *row, const void *value)
{
  int64_t integer = 0;
  double number = 0;

  switch (row->type) {
  case CT_OPT_T_INT:
    ct_text_int(row->def, &integer);
    return *(const int64_t *)value == integer;
  case CT_OPT_T_DOUBLE:
    ct_text_double(row->def, &number);
    return *(const double *)value == number;
  case CT_OPT_T_BOOL:
    return *(const int *)value == (strcmp(row->def, "true") == 0);
  case CT_OPT_T_CHOICE:
    return strcmp(ct_opt_word(row, row->key, *(const int *)value), row->def) == 0;
  case CT_OPT_T_DOUBLES:
    return ((const ct_opt_doubles_t *)value)->n == 0;
  default:
    return 1;
  }
}

static const ct__optim_only_t *kinds_find(const ct__optim_only_t *only, const char *key)
{
  for (; only->key; only++)
    if (strcmp(only->key, key) == 0) return only;
  return NULL;
}

int ct__optim_has_key(const ct_opt_t *rows, const ct__optim_only_t *only, const char *kind,
                      const char *key)
{
  const ct__optim_only_t *u = kinds_find(only, key);
  if (!u) return 1;
  for (int i = 0; i < 32; i++)
    if ((u->kinds & CT__OPTIM_KIND(i)) && strcmp(ct_opt_word(rows, "kind", i), kind) == 0) return 1;
  return 0;
}

int ct__optim_check_only(const ct_opt_t *rows, const void *values, const ct__optim_only_t *only,
                         int kind, const char *section)
{
  for (const ct_opt_t *row = rows; row->type != CT_OPT_T_END; row++) {
    const ct__optim_only_t *u = kinds_find(only, row->key);
    if (!u || (u->kinds & CT__OPTIM_KIND(kind))) continue;
    if (is_default(row, (const char *)values + row->offset)) continue;
    return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                      "%s.%s is given, but has no meaning with %s.kind %s", section, row->key,
                      section, ct_opt_word(rows, "kind", kind));
  }
  return CT_OK;
}
