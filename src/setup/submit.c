/* Builds the command line for --submit: sbatch options, a job template, and this command's own
 * arguments. */
#include "setup/ct_submit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"

static int submit_add(ct_submit_t *c, const char *text, size_t len)
{
  int rc = CT_OK;
  if (c->n == CT_SUBMIT_WORDS || c->used + len + 1 > sizeof c->pool)
    CT_FAIL(CT_ERR_USAGE, "%s: the command line is too long", c->a->cmd->name);
  char *word = c->pool + c->used;
  memcpy(word, text, len);
  word[len] = '\0';
  c->used += len + 1;
  c->word[c->n++] = word;
  c->word[c->n] = NULL;
out:
  return rc;
}

int ct_submit_add(ct_submit_t *c, const char *text)
{
  return submit_add(c, text, strlen(text));
}

int ct_submit_wanted(const ct_args_t *a, int64_t *out)
{
  int rc = CT_OK;
  if (!ct_args_get(a, "submit") && (ct_args_get(a, "sbatch") || ct_args_get(a, "dry-run")))
    CT_FAIL(CT_ERR_USAGE, "%s: --sbatch and --dry-run go with --submit JOBS", a->cmd->name);
  CT_TRY(ct_args_int(a, "submit", 0, 1, 1000, out));
out:
  return rc;
}

/* ---- the templates ---- */

/* Searches next to the program in a source tree, then where `make install` puts the templates. */
int ct_submit_begin(const ct_args_t *a, const char *name, ct_submit_t *c)
{
  static const char *const beside[] = {"../jobs", "../share/ctrain-hpc/jobs"};
  int rc = CT_OK;
  char dir[CT_PATH_MAX], file[CT_PATH_MAX];
  const char *given = getenv("CTRAIN_JOBS");
  c->a = a;
  c->n = 0;
  c->used = 0;
  ssize_t n = readlink("/proc/self/exe", c->self, sizeof c->self - 1);
  if (n < 0) CT_FAIL(CT_ERR_IO, "/proc/self/exe: %m");
  c->self[n] = '\0';
  CT_TRY(ct_path_dir(dir, sizeof dir, c->self));
  for (int i = given ? -1 : 0; i < (given ? 0 : 2); i++) {
    if (given)
      CT_TRY(ct_text_format(c->jobs, sizeof c->jobs, "%s", given));
    else
      CT_TRY(ct_path_join(c->jobs, sizeof c->jobs, dir, beside[i]));
    CT_TRY(ct_path_join(file, sizeof file, c->jobs, name));
    if (ct_file_exists(file)) return CT_OK;
  }
  CT_FAIL(CT_ERR_USAGE,
          "%s: --submit finds no template %s %s%s: CTRAIN_JOBS=DIR names the directory of the job "
          "templates",
          a->cmd->name, name, given ? "in " : "beside ", given ? given : c->self);
out:
  return rc;
}

int ct_submit_add_file(ct_submit_t *c, const char *name)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(ct_path_join(path, sizeof path, c->jobs, name));
  CT_TRY(ct_submit_add(c, path));
out:
  return rc;
}

/* ---- the command ---- */

static int is_of_submission(const char *name)
{
  return strcmp(name, "submit") == 0 || strcmp(name, "sbatch") == 0 || strcmp(name, "dry-run") == 0;
}

static int add_list(ct_submit_t *c, const char *option, const char *const *value, int n)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++) {
    CT_TRY(ct_submit_add(c, option));
    CT_TRY(ct_submit_add(c, value[i]));
  }
out:
  return rc;
}

int ct_submit_add_own(ct_submit_t *c)
{
  int rc = CT_OK;
  const ct_args_t *a = c->a;
  char option[64];
  for (int i = 0; i < a->rests; i++)
    CT_TRY(ct_submit_add(c, a->rest[i]));
  for (int i = 0; a->cmd->flags[i].name; i++) {
    const ct_flag_t *f = &a->cmd->flags[i];
    if (!a->value[i] || is_of_submission(f->name)) continue;
    snprintf(option, sizeof option, "--%s", f->name);
    CT_TRY(ct_submit_add(c, option));
    if (f->value) CT_TRY(ct_submit_add(c, a->value[i]));
  }
  CT_TRY(add_list(c, "--over", a->over, a->overs));
  CT_TRY(add_list(c, "--set", a->set, a->sets));
out:
  return rc;
}

int ct_submit_add_sbatch(ct_submit_t *c)
{
  int rc = CT_OK;
  const char *options = ct_args_get(c->a, "sbatch");
  while (options && *(options += strspn(options, " "))) {
    size_t len = strcspn(options, " ");
    if (*options != '-')
      CT_FAIL(CT_ERR_USAGE,
              "%s: --sbatch: '%.*s' is not an option of sbatch; write options as --NAME=VALUE",
              c->a->cmd->name, (int)len, options);
    CT_TRY(submit_add(c, options, len));
    options += len;
  }
out:
  return rc;
}

/* Prints the command line with shell quoting. */
static int submit_show(const ct_submit_t *c)
{
  int rc = CT_OK;
  ct_str_t out = {0};
  for (int i = 0; i < c->n; i++) {
    int plain = c->word[i][strcspn(c->word[i], " \t\n\"'`$&|;<>()*?[]{}~#!\\")] == '\0';
    CT_TRY(ct_str_add(&out, "%s", i ? " " : ""));
    if (plain && *c->word[i]) {
      CT_TRY(ct_str_add(&out, "%s", c->word[i]));
      continue;
    }
    CT_TRY(ct_str_add(&out, "'"));
    for (const char *p = c->word[i]; *p; p++)
      CT_TRY(ct_str_add(&out, *p == '\'' ? "'\\''" : "%c", *p));
    CT_TRY(ct_str_add(&out, "'"));
  }
  CT_TRY(ct_str_add(&out, "\n"));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

int ct_submit_run(ct_submit_t *c)
{
  int rc = CT_OK;
  if (ct_args_get(c->a, "dry-run")) return submit_show(c);
  setenv("CTRAIN", c->self, 0); /* job templates run this program */
  execvp(c->word[0], c->word);
  CT_FAIL(CT_ERR_IO, "%s: %s cannot be started: %m", c->a->cmd->name, c->word[0]);
out:
  return rc;
}
