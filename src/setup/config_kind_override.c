/* A section whose kind is set from above its file: what the file says for another kind goes. */
#include "setup/config_parts.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"

/* How far a value lies under the others: what is above it wins. */
static int level_of(const ct_yaml_t *n)
{
  if (n->file) return 2; /* an included file */
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
    ct_log(CT_LOG_WARN, "%s:%d: %s.%s has no meaning with %s.kind %s, and is left out",
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
