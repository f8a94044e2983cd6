/* Joins and splits paths, and expands environment variables in them. */
#include "base/ct_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"

int ct_path_join(char *buf, size_t cap, const char *dir, const char *name)
{
  size_t len = strlen(dir);
  if (name[0] == '/' || len == 0) return ct_text_format(buf, cap, "%s", name);
  return ct_text_format(buf, cap, "%s%s%s", dir, dir[len - 1] == '/' ? "" : "/", name);
}

int ct_path_dir(char *buf, size_t cap, const char *path)
{
  const char *end = path + strlen(path);
  while (end > path + 1 && end[-1] == '/')
    end--;
  while (end > path && end[-1] != '/')
    end--;
  while (end > path + 1 && end[-1] == '/')
    end--;
  if (end == path) return ct_text_format(buf, cap, ".");
  return ct_text_format(buf, cap, "%.*s", (int)(end - path), path);
}

/* ---- variables ---- */

static int is_name(char c)
{
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Copies the name of the variable at \a text; *rest: the text after the variable. */
static int take_variable(const char *text, const char **rest, char *name, size_t cap)
{
  int rc = CT_OK, braces = text[1] == '{';
  const char *from = text + 1 + braces, *end = from;
  while (is_name(*end))
    end++;
  if (end == from || (braces && *end != '}') || (size_t)(end - from) >= cap)
    CT_FAIL(CT_ERR_USAGE, "'%s': expected $NAME or ${NAME}", text);
  snprintf(name, cap, "%.*s", (int)(end - from), from);
  *rest = end + braces;
out:
  return rc;
}

static int append_variable(ct_str_t *s, const char *name)
{
  int rc = CT_OK;
  const char *value = getenv(name);
  if (!value || !*value)
    CT_FAIL(CT_ERR_USAGE, "the variable %s is not set in the environment", name);
  CT_TRY(ct_str_add(s, "%s", value));
out:
  return rc;
}

int ct_path_expand(const char *text, char *out, size_t cap)
{
  int rc = CT_OK;
  char name[128];
  ct_str_t s = {0};
  const char *at = text;
  if (at[0] == '~' && (at[1] == '/' || !at[1])) {
    CT_TRY(append_variable(&s, "HOME"));
    at++;
  }
  while (*at) {
    size_t plain = strcspn(at, "$");
    CT_TRY(ct_str_add(&s, "%.*s", (int)plain, at));
    at += plain;
    if (at[0] == '$' && at[1] == '$') {
      CT_TRY(ct_str_add(&s, "$"));
      at += 2;
    } else if (*at) {
      CT_TRY(take_variable(at, &at, name, sizeof name));
      CT_TRY(append_variable(&s, name));
    }
  }
  CT_TRY(ct_text_format(out, cap, "%s", s.data ? s.data : ""));
out:
  ct_str_clear(&s);
  return rc;
}

int ct_path_escape(const char *path, ct_str_t *text)
{
  int rc = CT_OK;
  if (*path == '~') CT_TRY(ct_str_add(text, "./"));
  for (; *path && rc == CT_OK; path++)
    rc = ct_str_add(text, *path == '$' ? "$$" : "%c", *path);
out:
  return rc;
}
