/* Command-line parsing with getopt_long().  Options, help, and suggestions for misspelled options
 * all come from the command's table of flags. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "setup/ct_command.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "setup/ct_config.h"

/* codes of long options for getopt, larger than any character: FIRST + i is flag i of the command.
 */
enum { HELP = 1000, FIRST };

static int count_flags(const ct_command_t *cmd)
{
  int n = 0;
  while (cmd->flags[n].name)
    n++;
  return n;
}

/* Returns 1 if the command has a configuration and \a text starts with the name of a configuration
 * key; \a key gets its full name. */
static int means_key(const ct_command_t *cmd, const char *text, char *key, size_t cap)
{
  char word[64];
  const ct_flag_t *f = cmd->flags;
  while (f->name && strcmp(f->name, "set") != 0)
    f++;
  snprintf(word, sizeof word, "%.*s", (int)strcspn(text, "="), text);
  return f->name && ct_config_key(word, key, cap);
}

/* Fails on a KEY=VALUE argument without --set, unless a file of that name exists. */
static int check_no_key(const ct_args_t *a)
{
  char key[200];
  for (int i = 0; i < a->rests; i++) {
    const char *equal = strchr(a->rest[i], '=');
    if (equal && means_key(a->cmd, a->rest[i], key, sizeof key) && !ct_file_exists(a->rest[i]))
      return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                        "%s: '%s' is not a file; for the key %s write --set KEY=VALUE",
                        a->cmd->name, a->rest[i], key);
  }
  return CT_OK;
}

static int unknown_option(const ct_command_t *cmd, const char *given)
{
  const char *names[CT_FLAGS_MAX + 1] = {"help"};
  int n = 1;
  char word[64], key[200];
  for (const ct_flag_t *f = cmd->flags; f->name; f++)
    names[n++] = f->name;
  given += strspn(given, "-");
  snprintf(word, sizeof word, "%.*s", (int)strcspn(given, "="), given);
  if (means_key(cmd, given, key, sizeof key))
    return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                      "%s: unknown option --%s; for the key %s write --set KEY=VALUE", cmd->name,
                      word, key);
  const char *nearest = ct_text_nearest(word, names, n);
  if (nearest)
    return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                      "%s: unknown option --%s; did you mean --%s?", cmd->name, word, nearest);
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "%s: unknown option --%s; see ctrain-hpc %s --help", cmd->name, word,
                    cmd->name);
}

/* Records the error for an option that getopt_long() rejects: a value for a flag without one, a
 * short option, or an unknown name. */
static int bad_option(const ct_command_t *cmd, char **argv)
{
  if (optopt >= HELP)
    return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "%s: --%s takes no value", cmd->name,
                      optopt == HELP ? "help" : cmd->flags[optopt - FIRST].name);
  if (optopt > 0)
    return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                      "%s: unknown option -%c; see ctrain-hpc %s --help", cmd->name, optopt,
                      cmd->name);
  return unknown_option(cmd, argv[optind - 1]);
}

static int take_options(ct_args_t *a, int argc, char **argv)
{
  int rc = CT_OK;
  struct option known[CT_FLAGS_MAX + 2] = {{"help", no_argument, NULL, HELP}};
  int n = count_flags(a->cmd), output = -1;
  for (int i = 0; i < n; i++) {
    const ct_flag_t *f = &a->cmd->flags[i];
    known[i + 1] =
        (struct option){f->name, f->value ? required_argument : no_argument, NULL, FIRST + i};
    if (strcmp(f->name, "output") == 0) output = i;
  }
  optind = 0; /* resets getopt, which keeps its position between calls */
  opterr = 0;
  const char *letters = output < 0 ? ":h" : ":ho:";
  for (int c; (c = getopt_long(argc, argv, letters, known, NULL)) != -1;) {
    if (c == 'o') c = FIRST + output;
    if (c == '?') return bad_option(a->cmd, argv);
    if (c == ':') CT_FAIL(CT_ERR_USAGE, "%s: %s needs a value", a->cmd->name, argv[optind - 1]);
    if (c == HELP || c == 'h')
      a->help = 1;
    else if (strcmp(a->cmd->flags[c - FIRST].name, "set") == 0)
      a->set[a->sets++] = optarg;
    else if (strcmp(a->cmd->flags[c - FIRST].name, "over") == 0)
      a->over[a->overs++] = optarg;
    else
      a->value[c - FIRST] = optarg ? optarg : "";
  }
  a->rest = argv + optind;
  a->rests = argc - optind;
out:
  return rc;
}

int ct_args_parse(ct_args_t *a, const ct_command_t *cmd, int argc, char **argv)
{
  int rc = CT_OK;
  *a = (ct_args_t){.cmd = cmd};
  a->set = ct_mem_array(argc, sizeof *a->set, "arguments");
  a->over = ct_mem_array(argc, sizeof *a->over, "arguments");
  if (!a->set || !a->over) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(take_options(a, argc, argv));
  if (a->help) goto out;
  CT_TRY(check_no_key(a));
  for (int i = 0; i < a->rests; i++)
    if (!*a->rest[i])
      CT_FAIL(CT_ERR_USAGE,
              "%s: an argument is an empty text (is a variable not set?): ctrain-hpc %s %s",
              cmd->name, cmd->name, cmd->args);
  if (a->rests < cmd->min)
    CT_FAIL(CT_ERR_USAGE, "%s: an argument is missing: ctrain-hpc %s %s", cmd->name, cmd->name,
            cmd->args);
  if (a->rests > cmd->max && strcmp(cmd->name, "demo") == 0)
    CT_FAIL(CT_ERR_USAGE, "demo: unexpected argument '%s'; did you mean 'train %s'?", a->rest[0],
            a->rest[0]);
  if (a->rests > cmd->max)
    CT_FAIL(CT_ERR_USAGE, "%s: unexpected argument '%s': ctrain-hpc %s %s", cmd->name,
            a->rest[cmd->max], cmd->name, cmd->args);
out:
  if (rc != CT_OK) ct_args_clear(a);
  return rc;
}

void ct_args_clear(ct_args_t *a)
{
  ct_mem_free(a->set);
  ct_mem_free(a->over);
  *a = (ct_args_t){0};
}

const char *ct_args_get(const ct_args_t *a, const char *name)
{
  for (int i = 0; a->cmd->flags[i].name; i++)
    if (strcmp(a->cmd->flags[i].name, name) == 0) return a->value[i];
  return NULL;
}

int ct_args_int(const ct_args_t *a, const char *name, int64_t otherwise, int64_t lo, int64_t hi,
                int64_t *out)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, name);
  *out = otherwise;
  if (text && (ct_text_int(text, out) != CT_OK || *out < lo || *out > hi))
    CT_FAIL(CT_ERR_USAGE, "%s: --%s must be an integer between %lld and %lld, not '%s'",
            a->cmd->name, name, (long long)lo, (long long)hi, text);
out:
  return rc;
}

int ct_args_help(const ct_command_t *cmd, ct_str_t *out)
{
  int rc = CT_OK;
  char left[80];
  CT_TRY(ct_str_add(out, "Usage: ctrain-hpc %s %s%s[options]\n%s.\n\nOptions:\n", cmd->name,
                    cmd->args, *cmd->args ? " " : "", cmd->help));
  for (const ct_flag_t *f = cmd->flags; f->name; f++) {
    snprintf(left, sizeof left, "--%s%s%s", f->name, f->value ? " " : "", f->value ? f->value : "");
    /* help of a long option goes on the next line */
    if (strlen(left) > 26)
      CT_TRY(ct_str_add(out, "  %s\n%-29s%s\n", left, "", f->help));
    else
      CT_TRY(ct_str_add(out, "  %-26s %s\n", left, f->help));
  }
  CT_TRY(ct_str_add(out, "  %-26s this text\n", "--help"));
  if (cmd->more) {
    CT_TRY(ct_str_add(out, "\n"));
    CT_TRY(cmd->more(out));
  }
out:
  return rc;
}
