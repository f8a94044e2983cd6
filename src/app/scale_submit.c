/* A study from a login node: jobs that follow one another, each of which goes on with it.  How a
 * job begins and which options a site needs is the templates' business (jobs/). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "app/scale.h"
#include "base/ct_err.h"
#include "base/ct_file.h"

enum { WORDS = 256 };

/* The command; its text lies in a pool. */
typedef struct command {
  char *word[WORDS + 1];
  int n;
  char pool[1 << 16];
  size_t used;
} command_t;

static int add(command_t *c, const char *text, size_t len)
{
  int rc = CT_OK;
  if (c->n == WORDS || c->used + len + 1 > sizeof c->pool)
    CT_FAIL(CT_ERR_USAGE, "scale: the command line is too long");
  char *word = c->pool + c->used;
  memcpy(word, text, len);
  word[len] = '\0';
  c->used += len + 1;
  c->word[c->n++] = word;
  c->word[c->n] = NULL;
out:
  return rc;
}

static int add_text(command_t *c, const char *text)
{
  return add(c, text, strlen(text));
}

/* ---- the templates ---- */

/* Beside the program in a source tree, or where `make install` puts both. */
static int find_jobs(char *out, size_t cap, char *self, size_t self_cap)
{
  static const char *const beside[] = {"../jobs", "../share/ctrain-hpc/jobs"};
  int rc = CT_OK;
  char dir[CT_PATH_MAX], file[CT_PATH_MAX];
  const char *given = getenv("CTRAIN_JOBS");
  ssize_t n = readlink("/proc/self/exe", self, self_cap - 1);
  if (n < 0) CT_FAIL(CT_ERR_IO, "/proc/self/exe: %m");
  self[n] = '\0';
  CT_TRY(ct_path_dir(dir, sizeof dir, self));
  for (int i = given ? -1 : 0; i < (given ? 0 : 2); i++) {
    if (given)
      CT_TRY(ct_text_format(out, cap, "%s", given));
    else
      CT_TRY(ct_path_join(out, cap, dir, beside[i]));
    CT_TRY(ct_path_join(file, sizeof file, out, "scaling.slurm"));
    if (ct_file_exists(file)) return CT_OK;
  }
  CT_FAIL(CT_ERR_USAGE,
          "scale: --submit finds no template scaling.slurm %s%s: CTRAIN_JOBS=DIR names the "
          "directory of the job templates",
          given ? "in " : "beside ", given ? given : self);
out:
  return rc;
}

/* ---- the command ---- */

static int is_of_submission(const char *name)
{
  return strcmp(name, "submit") == 0 || strcmp(name, "sbatch") == 0 || strcmp(name, "dry-run") == 0;
}

/* What the job's `scale` is told: all but what submits it. */
static int add_own(const ct_args_t *a, command_t *c)
{
  int rc = CT_OK;
  char option[64];
  for (int i = 0; i < a->rests; i++)
    CT_TRY(add_text(c, a->rest[i]));
  for (int i = 0; a->cmd->flags[i].name; i++) {
    const ct_flag_t *f = &a->cmd->flags[i];
    if (!a->value[i] || is_of_submission(f->name) || strcmp(f->name, "set") == 0) continue;
    snprintf(option, sizeof option, "--%s", f->name);
    CT_TRY(add_text(c, option));
    if (f->value) CT_TRY(add_text(c, a->value[i]));
  }
  for (int i = 0; i < a->sets; i++) {
    CT_TRY(add_text(c, "--set"));
    CT_TRY(add_text(c, a->set[i]));
  }
out:
  return rc;
}

/* As many nodes as the largest size wants. */
static int add_nodes(const ct_scale_opts_t *o, command_t *c)
{
  char option[32];
  int most = 0;
  for (int i = 0; i < o->nranks; i++)
    most = o->ranks[i] > most ? o->ranks[i] : most;
  if (!o->nodes) return CT_OK;
  snprintf(option, sizeof option, "--nodes=%d", most);
  return add_text(c, option);
}

static int add_sbatch(const char *options, command_t *c)
{
  int rc = CT_OK;
  while (options && *(options += strspn(options, " "))) {
    size_t len = strcspn(options, " ");
    if (*options != '-')
      CT_FAIL(CT_ERR_USAGE,
              "scale: --sbatch: '%.*s' is no option of sbatch; write them as --NAME=VALUE",
              (int)len, options);
    CT_TRY(add(c, options, len));
    options += len;
  }
out:
  return rc;
}

/* As a shell would take it. */
static int show(const command_t *c)
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

static int check(const ct_args_t *a, int64_t *jobs, ct_scale_opts_t *o)
{
  int rc = CT_OK;
  if (!ct_args_get(a, "submit") && (ct_args_get(a, "sbatch") || ct_args_get(a, "dry-run")))
    CT_FAIL(CT_ERR_USAGE, "scale: --sbatch and --dry-run go with --submit JOBS");
  CT_TRY(ct_args_int(a, "submit", 0, 1, 1000, jobs));
  CT_TRY(ct_scale_opts(a, 0, o));
out:
  return rc;
}

int ct_scale_submit(const ct_args_t *a, int *done)
{
  int rc = CT_OK;
  static command_t c;
  static ct_scale_opts_t o;
  char jobs[CT_PATH_MAX], self[CT_PATH_MAX], path[CT_PATH_MAX], count[24];
  int64_t n;
  CT_TRY(check(a, &n, &o));
  if (n == 0) return CT_OK;
  CT_TRY(find_jobs(jobs, sizeof jobs, self, sizeof self));
  CT_TRY(ct_path_join(path, sizeof path, jobs, "chain.sh"));
  CT_TRY(add_text(&c, path));
  snprintf(count, sizeof count, "%lld", (long long)n);
  CT_TRY(add_text(&c, count));
  CT_TRY(add_nodes(&o, &c));
  CT_TRY(add_sbatch(ct_args_get(a, "sbatch"), &c));
  CT_TRY(ct_path_join(path, sizeof path, jobs, "scaling.slurm"));
  CT_TRY(add_text(&c, path));
  CT_TRY(add_own(a, &c));
  if (ct_args_get(a, "dry-run")) {
    *done = 1;
    return show(&c);
  }
  setenv("CTRAIN", self, 0); /* the jobs run this program */
  execv(c.word[0], c.word);
  CT_FAIL(CT_ERR_IO, "scale: %s cannot be started: %m", c.word[0]);
out:
  return rc;
}
