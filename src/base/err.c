#include "base/ct_err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local ct_err_info_t last = {.rank = -1};

/* "src/cpu/conv.c" and "../../src/cpu/conv.c" are both "cpu/conv.c". */
static const char *two_parts(const char *file)
{
  const char *p = file + strlen(file);
  for (int slashes = 0; p > file; p--)
    if (p[-1] == '/' && ++slashes == 2) break;
  return p;
}

static void one_line(char *text)
{
  for (; *text; text++)
    if (*text == '\n' || *text == '\r') *text = ' ';
}

int ct_err_set(int code, const char *file, int line, const char *fmt, ...)
{
  char text[sizeof last.text]; /* the arguments may point into the old record */
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  one_line(text);
  last = (ct_err_info_t){.code = code, .rank = -1, .line = line};
  snprintf(last.file, sizeof last.file, "%s", two_parts(file));
  memcpy(last.text, text, sizeof text);
  return code;
}

int ct_err_prefix(int code, const char *fmt, ...)
{
  char text[sizeof last.text];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (n >= 0 && (size_t)n < sizeof text) {
    size_t room = sizeof text - (size_t)n, len = strnlen(last.text, room - 1);
    memcpy(text + n, last.text, len);
    text[(size_t)n + len] = '\0';
  }
  one_line(text);
  memcpy(last.text, text, sizeof text);
  last.code = code;
  return code;
}

const ct_err_info_t *ct_err_last(void)
{
  return &last;
}

void ct_err_put(const ct_err_info_t *info)
{
  if (info == &last) return;
  last = *info;
  last.file[sizeof last.file - 1] = '\0';
  last.text[sizeof last.text - 1] = '\0';
}

const char *ct_err_name(int code)
{
  switch (code) {
  case CT_OK:
    return "CT_OK";
#define X(name, text) \
  case name:          \
    return #name;
    CT_ERR_LIST(X)
#undef X
  default:
    return "CT_ERR_UNKNOWN";
  }
}

const char *ct_err_meaning(int code)
{
  switch (code) {
  case CT_OK:
    return "no error";
#define X(name, text) \
  case name:          \
    return text;
    CT_ERR_LIST(X)
#undef X
  default:
    return "unknown error";
  }
}

int ct_err_exit_status(int code)
{
  return code == CT_OK ? 0 : code == CT_ERR_USAGE ? 2 : 1;
}
