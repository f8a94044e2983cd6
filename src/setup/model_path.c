/* How all commands find the checkpoint of a run: the best one if the run's configuration sets
 * checkpoint.best, else the newest; --checkpoint best or latest overrides this. */
#include <string.h>

#include "setup/ct_builtin.h"
#include "setup/ct_model_file.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "conf/ct_yaml.h"
#include "weights/hf/ct_hf.h"

static ct_ckpt_which_t which(const char *word)
{
  if (!word) return CT_CKPT_USUAL;
  return strcmp(word, "best") == 0 ? CT_CKPT_BEST : CT_CKPT_LATEST;
}

int ct_model_is_word(const char *text)
{
  return strcmp(text, "best") == 0 || strcmp(text, "latest") == 0;
}

/* Returns 1 if the run's own configuration sets checkpoint.best, or if the run has no
 * configuration. */
static int best_is_on(const char *run)
{
  int on = 1;
  char file[CT_PATH_MAX], *text = NULL;
  size_t bytes;
  ct_yaml_t *root = NULL;
  if (ct_path_join(file, sizeof file, run, "config.yaml") != CT_OK || !ct_file_exists(file))
    return on;
  if (ct_file_read(file, &text, &bytes) == CT_OK &&
      ct_yaml_parse(text, bytes, file, &root) == CT_OK) {
    const ct_yaml_t *best = ct_yaml_find(ct_yaml_find(root, "checkpoint"), "best");
    on = best && best->kind == CT_YAML_SCALAR && strcmp(best->text, "off") != 0;
  }
  ct_yaml_free(root);
  ct_mem_free(text);
  return on;
}

int ct_model_path(const char *what, const char *word, char *path, size_t cap)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  if (word && !ct_model_is_word(word))
    CT_FAIL(CT_ERR_USAGE, "--checkpoint %s: expected best or latest, of the run %s", word, what);
  if (word && !ct_file_is_dir(what))
    CT_FAIL(CT_ERR_USAGE, "--checkpoint %s: needs a run directory, but %s is not one", word, what);
  if (!ct_file_is_dir(what)) return ct_ckpt_follow(what, path, cap);
  CT_TRY(ct_weights_foreign(what));
  if (ct_hf_find(what, dir, sizeof dir)) return ct_text_format(path, cap, "%s", what);
  CT_TRY(ct_path_join(dir, sizeof dir, what, "checkpoints"));
  CT_TRY(ct_ckpt_of_run(ct_builtin_stores[0], dir, which(word), best_is_on(what), path, cap));
  if (!*path)
    CT_FAIL(CT_ERR_USAGE, "%s: is a directory without a checkpoint: %s has none", what, dir);
out:
  return rc;
}

int ct_model_path_of_run(const ct_config_t *c, const char *checkpoint, char *path, size_t cap)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  if (checkpoint && !ct_model_is_word(checkpoint))
    return ct_model_path(checkpoint, NULL, path, cap);
  CT_TRY(ct_path_join(dir, sizeof dir, c->run.dir, "checkpoints"));
  CT_TRY(ct_ckpt_of_run(ct_builtin_stores[0], dir, which(checkpoint), c->checkpoint.best != 0, path,
                        cap));
  if (!*path)
    CT_FAIL(CT_ERR_USAGE, "%s: no checkpoint found; name one with --checkpoint FILE", dir);
out:
  return rc;
}
