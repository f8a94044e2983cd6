/* The last error of each thread.  Each thread has its own record, so that worker threads and the
 * main thread can fail at the same time; the thread that joins a worker adopts its record. */
#include "base/ct_err.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_text.h"

static _Thread_local ct_err_info_t last = {.rank = -1};

/* Shortens both "src/cpu/conv.c" and "../../src/cpu/conv.c" to "cpu/conv.c". */
static const char *two_parts(const char *file)
{
  const char *p = file + strlen(file);
  for (int slashes = 0; p > file; p--)
    if (p[-1] == '/' && ++slashes == 2) break;
  return p;
}

/* Replaces control characters: names from files may contain terminal escapes. */
static void one_line(char *text)
{
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f) *text = ' ';
}

int ct_err_vset(int code, const char *file, int line, const char *fmt, va_list args)
{
  char text[sizeof last.text]; /* the arguments may point into the old record */
  ct_text_vfit(text, sizeof text, fmt, args);
  one_line(text);
  last = (ct_err_info_t){.code = code, .rank = -1, .line = line};
  snprintf(last.file, sizeof last.file, "%s", two_parts(file));
  memcpy(last.text, text, sizeof text);
  return code;
}

int ct_err_set(int code, const char *file, int line, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  ct_err_vset(code, file, line, fmt, args);
  va_end(args);
  return code;
}

static void join(const char *before, const char *behind)
{
  char text[sizeof last.text];
  ct_text_fit(text, sizeof text, "%s%s", before, behind);
  one_line(text);
  memcpy(last.text, text, sizeof text);
}

int ct_err_prefix(int code, const char *fmt, ...)
{
  char text[sizeof last.text];
  va_list args;
  va_start(args, fmt);
  ct_text_vfit(text, sizeof text, fmt, args);
  va_end(args);
  join(text, last.text);
  last.code = code;
  return code;
}

int ct_err_location(int code, const char *where, int line)
{
  if (!where) return code;
  return line > 0 ? ct_err_prefix(code, "%s:%d: ", where, line) : ct_err_prefix(code, "--set: ");
}

void ct_err_suffix(const char *fmt, ...)
{
  char text[sizeof last.text];
  va_list args;
  va_start(args, fmt);
  ct_text_vfit(text, sizeof text, fmt, args);
  va_end(args);
  join(last.text, text);
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
