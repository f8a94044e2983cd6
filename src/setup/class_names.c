/* Class names: the data's names become the model's.  They are part of the configuration, so
 * checkpoints and exported models contain them. */
#include <string.h>

#include "setup/ct_setup.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

/* Warns of the first class whose name in the data (\a names, one per line) differs from the
 * model's. */
static void compare_names(const ct_opt_texts_t *own, const char *names, const char *what)
{
  for (int i = 0; i < own->n && *names; i++) {
    size_t n = strcspn(names, "\n");
    if (strlen(own->v[i]) != n || memcmp(own->v[i], names, n) != 0) {
      ct_log(CT_LOG_WARN, "%s: class %d is named '%.*s', but in the model (model.class_names) '%s'",
             what, i, (int)n, names, own->v[i]);
      return;
    }
    names += n + (names[n] == '\n');
  }
}

static int64_t count_lines(const char *text)
{
  int64_t n = 0;
  for (; *text; text++)
    n += *text == '\n';
  return n;
}

int ct_setup_take_names(ct_config_t *c, const ct_dataset_t *d, const char *what)
{
  int rc = CT_OK;
  ct_opt_texts_t *own = &c->model.class_names;
  const char *names = d->info.class_names;
  if (!names || d->info.targets || d->info.unlabelled) return CT_OK;
  if (own->n) {
    compare_names(own, names, what);
    return CT_OK;
  }
  if (count_lines(names) != c->model.classes) return CT_OK;
  own->v = ct_mem_array(c->model.classes + 1, sizeof *own->v, "names of classes");
  CT_TRY(own->v ? CT_OK : CT_ERR_NOMEM);
  for (; *names && own->n < c->model.classes; own->n++) {
    size_t n = strcspn(names, "\n");
    own->v[own->n] = ct_mem_alloc(n + 1, "the name of a class");
    CT_TRY(own->v[own->n] ? CT_OK : CT_ERR_NOMEM);
    memcpy(own->v[own->n], names, n);
    names += n + (names[n] == '\n');
  }
out:
  return rc;
}
