/* `model.family` alone with `init.from`: the numbers of the model come from the file, which is a
 * directory of Hugging Face, nanoGPT's or llm.c's.  Rank 0 reads it; the resolved configuration,
 * which all ranks get and checkpoints hold, contains the numbers. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "setup/ct_builtin.h"
#include "setup/ct_model_file.h"
#include "weights/hf/ct_hf.h"

static int same(const ct_yaml_t *a, const ct_yaml_t *b)
{
  ct_str_t text[2] = {{0}};
  int equal = a && b && ct_yaml_flow(a, &text[0]) == CT_OK && ct_yaml_flow(b, &text[1]) == CT_OK &&
              text[0].len == text[1].len && memcmp(text[0].data, text[1].data, text[0].len) == 0;
  ct_str_clear(&text[0]);
  ct_str_clear(&text[1]);
  return equal;
}

/* Replaces the values of `now` that are at their defaults, `usual`, by those of the file.  The
 * shape of a sample is the data's. */
static int take_values(ct_yaml_t *now, const ct_yaml_t *usual, const ct_yaml_t *file)
{
  int rc = CT_OK;
  for (const ct_yaml_t *v = file->child; v; v = v->next) {
    ct_yaml_t *is = ct_yaml_find(now, v->key), *copy;
    if (strcmp(v->key, "input") == 0 || (is && !same(is, ct_yaml_find(usual, v->key)))) continue;
    copy = ct_yaml_copy(v);
    CT_TRY(copy ? CT_OK : CT_ERR_NOMEM);
    if (is) ct_yaml_unlink(now, is);
    ct_yaml_free(is);
    ct_yaml_append(now, copy);
  }
out:
  return rc;
}

/* Sets the keys of the section `model` from a map. */
static int fill(ct_config_t *c, const ct_yaml_t *file, const char *where)
{
  int rc = CT_OK;
  ct_model_opts_t defaults = {0};
  ct_yaml_t *now = NULL, *usual = NULL;
  CT_TRY(ct_opt_defaults(ct_model_rows, &defaults));
  now = ct_opt_dump(ct_model_rows, &c->model, NULL);
  usual = ct_opt_dump(ct_model_rows, &defaults, NULL);
  CT_TRY(now && usual ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(take_values(now, usual, file));
  ct_opt_clear(ct_model_rows, &c->model);
  CT_TRY(ct_opt_defaults(ct_model_rows, &c->model));
  CT_TRY(ct_opt_read(ct_model_rows, &c->model, now, where, "model", NULL));
  CT_TRY(ct_model_read_numbers(&c->model, where));
out:
  ct_yaml_free(now);
  ct_yaml_free(usual);
  ct_opt_clear(ct_model_rows, &defaults);
  return rc;
}

static int fill_from_file(ct_config_t *c)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_weights_file_t f = {0};
  ct_str_t text = {0};
  ct_yaml_t *file = NULL;
  CT_TRY(ct_model_path(c->init.from, NULL, path, sizeof path));
  CT_TRY(ct_weights_peek(ct_builtin_weights, path, c->init.key, &f));
  CT_TRY(ct_weights_model(&f, &text));
  if (!text.len) goto out;
  CT_TRY(ct_yaml_parse(text.data, text.len, path, &file));
  const ct_yaml_t *family = ct_yaml_find(file, "family");
  if (family && strcmp(family->text, c->model.family) != 0)
    CT_FAIL(CT_ERR_USAGE, "init.from: '%s' is a model of family %s, but model.family is %s", path,
            family->text, c->model.family);
  CT_TRY(fill(c, file, path));
out:
  ct_yaml_free(file);
  ct_str_clear(&text);
  ct_weights_close(&f);
  return rc;
}

/* A run that is resumed needs no file: its first start has written the numbers. */
static int fill_from_run(ct_config_t *c)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_config_t old = {0};
  ct_yaml_t *model = NULL;
  CT_TRY(ct_path_join(path, sizeof path, c->run.dir, "config.yaml"));
  if (!ct_file_exists(path)) goto out;
  CT_TRY(ct_config_read(&old, path, NULL, 0));
  if (strcmp(old.model.family, c->model.family) != 0) goto out;
  model = ct_opt_dump(ct_model_rows, &old.model, NULL);
  CT_TRY(model ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(fill(c, model, path));
out:
  ct_yaml_free(model);
  ct_config_clear(&old);
  return rc;
}

int ct_setup_numbers(ct_config_t *c)
{
  if (!c->init.from[0] || !ct_hf_knows(c->model.family)) return CT_OK;
  if (!ct_file_exists(c->init.from)) return fill_from_run(c);
  int rc = fill_from_file(c);
  return rc == CT_OK || rc == CT_ERR_NOMEM ? rc : ct_err_prefix(CT_ERR_USAGE, "init.from: ");
}
