/* A tokenizer in one block of bytes: a header of text lines, and the files.
 *
 *     ctrain-hpc tokenizer 1
 *     KIND PATTERN BYTES...
 *
 * BYTES are the sizes of the files, which follow the second line without anything between them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "token/token.h"

static int blob_head(const ct_tokenizer_t *t, ct_str_t *head)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(head, CT__BLOB_MAGIC "%s %s", t->kind->name, ct__pattern_names[t->pattern]));
  for (int i = 0; i < CT__FILES && t->kind->file[i]; i++)
    CT_TRY(ct_str_add(head, " %" PRId64, t->source[i].bytes));
  CT_TRY(ct_str_add(head, "\n"));
out:
  return rc;
}

int ct_tokenizer_blob(const ct_tokenizer_t *t, char **blob, int64_t *bytes)
{
  int rc = CT_OK;
  ct_str_t head = {0};
  *blob = NULL;
  CT_TRY(blob_head(t, &head));
  *bytes = (int64_t)head.len;
  for (int i = 0; i < CT__FILES; i++)
    *bytes += t->source[i].bytes;
  *blob = ct_mem_alloc((size_t)*bytes, "a serialized tokenizer");
  if (!*blob) {
    rc = CT_ERR_NOMEM;
    goto out;
  }
  char *to = *blob;
  memcpy(to, head.data, head.len);
  to += head.len;
  for (int i = 0; i < CT__FILES; to += t->source[i++].bytes)
    if (t->source[i].bytes) memcpy(to, t->source[i].data, (size_t)t->source[i].bytes);
out:
  ct_str_clear(&head);
  return rc;
}

/* Copies the files, whose sizes are in \a sizes, from \a from on. */
static int blob_files(ct_tokenizer_t *t, const char *sizes, const char *from, const char *end,
                      const char *name)
{
  int rc = CT_OK, skip = 0;
  for (int i = 0; i < CT__FILES && t->kind->file[i]; i++, sizes += skip) {
    ct__source_t *s = &t->source[i];
    if (sscanf(sizes, "%" SCNd64 "%n", &s->bytes, &skip) != 1 || s->bytes < 0 ||
        s->bytes > end - from) {
      s->bytes = 0;
      CT_FAIL(CT_ERR_FORMAT, "%s: %s does not end inside the serialized tokenizer", name,
              t->kind->file[i]);
    }
    CT_TRY(ct_text_format(s->name, sizeof s->name, "%s: %s", name, t->kind->file[i]));
    s->data = ct_mem_alloc((size_t)s->bytes + 1, "a file of a tokenizer");
    if (!s->data) return CT_ERR_NOMEM;
    memcpy(s->data, from, (size_t)s->bytes);
    from += s->bytes;
  }
  if (from != end)
    CT_FAIL(CT_ERR_FORMAT, "%s: %lld bytes follow the serialized tokenizer", name,
            (long long)(end - from));
out:
  return rc;
}

/* Parses the header and copies the files. */
static int blob_parse(ct_tokenizer_t *t, const char *p, int64_t bytes, const char *name)
{
  int rc = CT_OK, skip = 0, known = 0;
  char line[100], kind[20] = "", pattern[20] = "";
  ct_str_t head = {0};
  if (!ct__is_blob(p, bytes))
    CT_FAIL(CT_ERR_FORMAT, "%s: not a serialized tokenizer of version 1", name);
  const char *begin = p + strlen(CT__BLOB_MAGIC);
  int64_t most = p + bytes - begin;
  const char *end = memchr(begin, '\n', (size_t)(most < 99 ? most : 99));
  if (!end) CT_FAIL(CT_ERR_FORMAT, "%s: its second line does not end", name);
  memcpy(line, begin, (size_t)(end - begin));
  line[end - begin] = 0;
  sscanf(line, "%19s %19s%n", kind, pattern, &skip);
  for (int i = 0; ct__kinds[i]; i++)
    if (strcmp(ct__kinds[i]->name, kind) == 0) t->kind = ct__kinds[i];
  for (int i = 0; i < CT__PATTERNS; i++)
    if (strcmp(ct__pattern_names[i], pattern) == 0) t->pattern = (ct__pattern_t)i, known = 1;
  if (!t->kind || !known || !skip)
    CT_FAIL(CT_ERR_FORMAT, "%s: its second line names no known kind of tokenizer", name);
  CT_TRY(blob_files(t, line + skip, end + 1, p + bytes, name));
  CT_TRY(blob_head(t, &head)); /* each tokenizer has one form only */
  if ((int64_t)head.len != end + 1 - p || memcmp(head.data, p, head.len) != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: its second line is not as it is written", name);
out:
  ct_str_clear(&head);
  return rc;
}

int ct__is_blob(const char *data, int64_t bytes)
{
  int64_t n = (int64_t)strlen(CT__BLOB_MAGIC);
  return bytes >= n && memcmp(data, CT__BLOB_MAGIC, (size_t)n) == 0;
}

int ct_tokenizer_open_blob(const void *blob, int64_t bytes, const char *name, ct_tokenizer_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_tokenizer_t *t = ct_mem_alloc(sizeof *t, "a tokenizer");
  if (!t) return CT_ERR_NOMEM;
  CT_TRY(blob_parse(t, blob, bytes, name));
  ct__pattern_t said = t->pattern;
  rc = ct__tokenizer_build(t, out);
  if (rc == CT_OK && (*out)->pattern != said) {
    ct_tokenizer_close(*out);
    *out = NULL;
    rc = ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: not the pattern of its file: %s", name,
                    ct__pattern_names[said]);
  }
  return rc;
out:
  ct_tokenizer_close(t);
  return rc;
}
