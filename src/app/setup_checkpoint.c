/* The checkpoint that a command looks at, and the configuration it is looked at with. */
#include <string.h>

#include "app/builtin.h"
#include "app/setup.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

/* Rank 0 opens the file, or the newest good one of the run directory. */
static int open_checkpoint(const ct_setup_t *s, const char *file, ct_ckpt_found_t *out)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  CT_TRY(ct_path_join(dir, sizeof dir, s->cfg.run.dir, "checkpoints"));
  CT_TRY(ct_ckpt_find(ct_builtin_stores, file, dir, out));
  if (!out->store)
    CT_FAIL(CT_ERR_USAGE, "%s: there is no checkpoint; name one with --checkpoint FILE", dir);
  ct_log(CT_LOG_INFO, "takes the model of %s", out->path);
out:
  return rc;
}

/* Where the configuration leaves model.classes to the data, it is that of the training data: the
 * samples evaluated here need not be of every class. */
static int take_classes(ct_setup_t *s, const ct_ckpt_found_t *checkpoint)
{
  int rc = CT_OK;
  char *text = NULL;
  ct_yaml_t *root = NULL;
  if (s->cfg.model.classes) return CT_OK;
  CT_TRY(checkpoint->ops->get_text(checkpoint->store, "/meta/config", &text));
  CT_TRY(ct_yaml_parse(text, strlen(text), "configuration in the checkpoint", &root));
  const ct_yaml_t *n = ct_yaml_find(ct_yaml_find(root, "model"), "classes");
  if (n && n->kind == CT_YAML_SCALAR) (void)ct_text_int(n->text, &s->cfg.model.classes);
out:
  ct_yaml_free(root);
  ct_mem_free(text);
  return rc;
}

int ct_setup_checkpoint(ct_setup_t *s, const char *file, ct_ckpt_found_t *out)
{
  int rc = CT_OK;
  CT_TRY(open_checkpoint(s, file, out));
  CT_TRY(take_classes(s, out));
out:
  return rc;
}

/* How a run's ranks shared the work is no matter here: there may be others. */
int ct_setup_config_alone(ct_setup_t *s, const ct_args_t *a)
{
  int rc = CT_OK;
  ct_args_t with = *a;
  with.set = ct_mem_array(a->sets + 1, sizeof *with.set, "arguments");
  CT_TRY_ALL(s->topo, with.set ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < a->sets; i++)
    with.set[i] = a->set[i];
  with.set[with.sets++] = "parallel={}";
  CT_TRY(ct_setup_config(s, a->rest[0], &with));
out:
  ct_mem_free(with.set);
  return rc;
}
