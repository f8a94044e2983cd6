/* Helpers on top of jansson, for all writers of JSON: results of commands, metrics.jsonl, the
 * report of doctor. */
#include "base/ct_json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

json_t *ct_json_words(const char *text)
{
  char *copy = ct_text_utf8_copy(text);
  json_t *o = json_string(copy);
  ct_mem_free(copy);
  return o;
}

json_t *ct_json_number(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static int add_chunk(const char *text, size_t bytes, void *out)
{
  return ct_str_add(out, "%.*s", (int)bytes, text);
}

int ct_json_add(const json_t *o, ct_str_t *out)
{
  int rc = CT_OK;
  if (!o || json_dump_callback(o, add_chunk, out, JSON_INDENT(2)) != 0)
    CT_FAIL(CT_ERR_NOMEM, "no memory to write JSON");
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

int ct_json_append(const char *path, json_t *o)
{
  int rc = CT_OK;
  int fd = o ? ct_file_open(path, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
  FILE *f = fd < 0 ? NULL : fdopen(fd, "a");
  if (!o) CT_FAIL(CT_ERR_NOMEM, "no memory for a line of %s", path);
  if (!f) {
    rc = ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: %s", path, ct_file_why(errno));
    if (fd >= 0) close(fd);
    goto out;
  }
  int failed = json_dumpf(o, f, JSON_COMPACT) != 0 || fputc('\n', f) == EOF || fflush(f) != 0 ||
               fsync(fileno(f)) != 0;
  failed |= fclose(f) != 0;
  if (failed) CT_FAIL(CT_ERR_IO, "%s: cannot be written: %m", path);
out:
  json_decref(o);
  return rc;
}

int ct_json_heal(const char *path)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes = 0, whole;
  int fd = -1;
  if (!ct_file_exists(path)) return CT_OK;
  CT_TRY(ct_file_read(path, &text, &bytes));
  for (whole = bytes; whole > 0 && text[whole - 1] != '\n'; whole--) {
  }
  if (whole == bytes) goto out;
  fd = ct_file_open(path, O_WRONLY, 0);
  if (fd < 0 || ftruncate(fd, (off_t)whole) != 0)
    CT_FAIL(CT_ERR_IO, "%s: an incomplete last line cannot be removed: %s", path,
            ct_file_why(errno));
out:
  if (fd >= 0) close(fd);
  ct_mem_free(text);
  return rc;
}
