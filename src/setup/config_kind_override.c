/* When the command line or an including file changes the kind of a section, removes the keys of the
 * included file that only the old kind has. */
#include "setup/config_parts.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"

/* Returns the precedence of a value: the command line (0) overrides the file (1), which overrides
 * included files (2). */
static int level_of(const ct_yaml_t *n)
{
  if (n->file) return 2;
  return n->line ? 1 : 0;
}

static int drop_foreign(ct_yaml_t *section, int (*has)(const char *kind, const char *key),
                        const char *where)
{
  const ct_yaml_t *kind = ct_yaml_find(section, "kind");
  if (!kind || kind->kind != CT_YAML_SCALAR) return CT_OK;
  for (ct_yaml_t *n = section->child, *next; n; n = next) {
    next = n->next;
    if (level_of(n) <= level_of(kind) || has(kind->text, n->key)) continue;
    ct_log(CT_LOG_WARN, "%s:%d: %s.%s has no meaning with %s.kind %s: ignored",
           ct_yaml_file(n, where), n->line, section->key, n->key, section->key, kind->text);
    ct_yaml_unlink(section, n);
    ct_yaml_free(n);
  }
  return CT_OK;
}

int ct__config_drop_foreign(ct_yaml_t *root, const char *where)
{
  int rc = CT_OK;
  ct_yaml_t *optim = ct_yaml_find(root, "optim"), *schedule = ct_yaml_find(root, "schedule");
  if (optim) CT_TRY(drop_foreign(optim, ct_optim_has_key, where));
  if (schedule) CT_TRY(drop_foreign(schedule, ct_schedule_has_key, where));
out:
  return rc;
}
