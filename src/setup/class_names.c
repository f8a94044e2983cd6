/* The classes of the data: how many there are, and their names, which become those of the model.
 * They are part of the configuration, so checkpoints and exported models contain them. */
#include <inttypes.h>
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

int ct_setup_classes(ct_config_t *c, ct_dataset_t *d)
{
  int rc = CT_OK, by_class = d->dense_target.ndim && d->by_class;
  const char *file = d->ops->file(d->reader, 0);
  CT_TRY(ct_loss_check_targets(&c->losses.of[0], d->dense_target.ndim ? 0 : d->info.targets));
  if (!c->model.classes && !d->classes && c->losses.n > 1 && by_class)
    c->model.classes = 1; /* the outputs say how many there are */
  if (!c->model.classes && !d->classes && by_class && c->data.context)
    CT_FAIL(CT_ERR_USAGE,
            "model.classes is not set, and %s has no attribute 'vocab' at its array "
            "of tokens",
            file ? file : "the data");
  if (!c->model.classes && !d->classes && by_class)
    CT_FAIL(CT_ERR_USAGE, "model.classes is not set, and the data has no attribute 'classes': the "
                          "classes of per-pixel labels are not counted");
  if (!c->model.classes && !d->classes && !d->info.unlabelled)
    CT_TRY(ct_dataset_count_classes(d, 0));
  if (!c->model.classes) c->model.classes = d->classes;
  if (d->info.targets && c->model.classes != d->info.targets && c->model.classes != d->classes)
    CT_FAIL(CT_ERR_USAGE,
            "model.classes, the model's outputs, is %" PRId64 ", but a sample has %" PRId64
            " targets",
            c->model.classes, d->info.targets);
  if (c->model.classes < d->classes)
    CT_FAIL(CT_ERR_USAGE,
            "model.classes is %" PRId64 ", but the data has %" PRId64 " classes (%s%s)",
            c->model.classes, d->classes, file ? "attribute 'classes' of " : "data.classes",
            file ? file : "");
  d->classes = c->model.classes; /* the readers check labels against it */
out:
  return rc;
}
