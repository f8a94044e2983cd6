/* Finds out what the user's text names, and reads its files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "token/token.h"

static int read_source(ct_tokenizer_t *t, int i, const char *path)
{
  int rc = CT_OK;
  ct__source_t *s = &t->source[i];
  size_t bytes;
  ct_mem_free(s->data);
  s->data = NULL;
  s->bytes = 0;
  CT_TRY(ct_file_regular(path));
  CT_TRY(ct_file_read(path, &s->data, &bytes));
  s->bytes = (int64_t)bytes;
  CT_TRY(ct_text_format(s->name, sizeof s->name, "%s", path));
out:
  return rc;
}

/* ---- one file ---- */

/* Returns 1 if the bytes begin as SentencePiece's Protocol Buffers do: with a piece, such as <unk>,
 * in which a text comes first. */
static int is_sentencepiece(const ct__source_t *s)
{
  const unsigned char *p = (const unsigned char *)s->data;
  return s->bytes > 4 && p[0] == 0x0A && p[2] == 0x0A && p[3] + 2 <= p[1];
}

/* Returns 1 if the first line is base64, a space and a number. */
static int is_tiktoken(const ct__source_t *s)
{
  size_t word =
      strspn(s->data, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=");
  size_t rank = s->data[word] == ' ' ? strspn(s->data + word + 1, "0123456789") : 0;
  return word > 0 && word % 4 == 0 && rank > 0 && strchr("\r\n", s->data[word + 1 + rank]) != NULL;
}

/* Returns 1 if the text has the key "model" with an object; a vocabulary has numbers only. */
static int is_tokenizer_json(const ct__source_t *s)
{
  for (const char *p = s->data; (p = strstr(p, "\"model\"")) != NULL;) {
    p += strlen("\"model\"");
    const char *colon = p + strspn(p, " \t\r\n");
    if (*colon == ':' && colon[1 + strspn(colon + 1, " \t\r\n")] == '{') return 1;
  }
  return 0;
}

static int other_format(const ct__source_t *s)
{
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__,
                    "%s: a SentencePiece model, which is not supported; use tokenizer.json if the "
                    "model has a byte-level one, or tokenize with another program and pack the ids",
                    s->name);
}

/* vocab.json with merges.txt beside it. */
static int beside(ct_tokenizer_t *t, const char *path)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX], merges[CT_PATH_MAX];
  CT_TRY(ct_path_dir(dir, sizeof dir, path));
  CT_TRY(ct_path_join(merges, sizeof merges, dir, ct__kind_files.file[1]));
  t->kind = &ct__kind_files;
  CT_TRY(read_source(t, 1, merges));
out:
  return rc;
}

static int recognize(ct_tokenizer_t *t, const char *path)
{
  int rc = CT_OK;
  const ct__source_t *s = &t->source[0];
  size_t blank = strspn(s->data, " \t\r\n");
  if (s->bytes == 0) CT_FAIL(CT_ERR_FORMAT, "%s: the file is empty", path);
  if (is_sentencepiece(s)) return other_format(s);
  if (s->data[blank] == '{' && is_tokenizer_json(s))
    t->kind = &ct__kind_json;
  else if (s->data[blank] == '{')
    CT_TRY(beside(t, path));
  else if (is_tiktoken(s))
    t->kind = &ct__kind_tiktoken;
  else if (memchr(s->data, 0, (size_t)s->bytes))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: not a tokenizer; expected tokenizer.json, vocab.json, a tiktoken file "
            "or a list of tokens",
            path);
  else
    t->kind = &ct__kind_list;
out:
  return rc;
}

/* ---- directories ---- */

static int open_directory(ct_tokenizer_t *t, const char *dir, char *path, size_t cap)
{
  static const char *const names[] = {"tokenizer.blob", "tokenizer.json", "vocab.json",
                                      "tokenizer.model", NULL};
  int rc = CT_OK;
  for (int i = 0; names[i]; i++) {
    CT_TRY(ct_path_join(path, cap, dir, names[i]));
    if (ct_file_exists(path)) return read_source(t, 0, path);
  }
  CT_FAIL(CT_ERR_IO,
          "%s: no tokenizer in this directory; expected tokenizer.json, or vocab.json and "
          "merges.txt",
          dir);
out:
  return rc;
}

/* ---- */

/* Splits KIND:FILE; returns FILE. */
static const char *named_kind(ct_tokenizer_t *t, const char *spec)
{
  const char *colon = strchr(spec, ':');
  size_t n = colon ? (size_t)(colon - spec) : 0;
  for (int i = 0; colon && i < CT__PATTERNS; i++)
    if (strlen(ct__pattern_names[i]) == n && strncmp(ct__pattern_names[i], spec, n) == 0) {
      t->kind = &ct__kind_tiktoken;
      t->pattern = (ct__pattern_t)i;
    }
  if (n == 4 && strncmp(spec, "list", n) == 0) t->kind = &ct__kind_list;
  return t->kind ? colon + 1 : spec;
}

/* Reads the sources that the user's text names; *blob is 1 if they are one serialized tokenizer. */
static int open_sources(ct_tokenizer_t *t, const char *spec, int *blob)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_str_t list = {0};
  ct__source_t *s = &t->source[0];
  const char *file = named_kind(t, spec);
  CT_TRY(ct_text_format(path, sizeof path, "%s", file));
  if (!t->kind && strcmp(spec, "bytes") == 0) {
    t->kind = &ct__kind_bytes;
  } else if (t->kind || ct_file_exists(path)) {
    if (ct_file_is_dir(path))
      CT_TRY(open_directory(t, spec, path, sizeof path));
    else
      CT_TRY(read_source(t, 0, path));
    *blob = !t->kind && ct__is_blob(s->data, s->bytes);
    if (!t->kind && !*blob) CT_TRY(recognize(t, path));
  } else if (strcmp(spec, "residues") == 0 || strcmp(spec, "codons") == 0 ||
             strncmp(spec, "kmers:", 6) == 0) {
    CT_TRY(ct__list_text(spec, &list));
    t->kind = &ct__kind_list;
    s->bytes = (int64_t)list.len;
    s->data = ct_mem_strdup(list.data);
    if (!s->data)
      rc = CT_ERR_NOMEM;
    else
      CT_TRY(ct_text_format(s->name, sizeof s->name, "%s", spec));
  } else {
    CT_FAIL(CT_ERR_IO,
            "'%s' is neither a file nor a known tokenizer; expected bytes, residues, codons, "
            "kmers:K, a directory or a file%s",
            spec, ct_file_missing(spec, path, sizeof path));
  }
out:
  ct_str_clear(&list);
  return rc;
}

int ct_tokenizer_open(const char *spec, ct_tokenizer_t **out)
{
  int rc = CT_OK, blob = 0;
  *out = NULL;
  ct_tokenizer_t *t = ct_mem_alloc(sizeof *t, "a tokenizer");
  if (!t) return CT_ERR_NOMEM;
  t->pattern = CT__PATTERNS;
  CT_TRY(open_sources(t, spec, &blob));
  if (!blob) return ct__tokenizer_build(t, out);
  CT_TRY(ct_tokenizer_open_blob(t->source[0].data, t->source[0].bytes, t->source[0].name, out));
out:
  ct_tokenizer_close(t);
  return rc;
}

int ct_tokenizer_open_list(const char *const *token, const int64_t *bytes, int64_t n,
                           ct_tokenizer_t **out)
{
  int rc = CT_OK;
  ct_tokenizer_t *t = ct_mem_alloc(sizeof *t, "a tokenizer");
  *out = NULL;
  if (!t) return CT_ERR_NOMEM;
  ct__source_t *s = &t->source[0];
  t->kind = &ct__kind_tokens;
  CT_TRY(ct_text_format(s->name, sizeof s->name, "list of tokens"));
  int64_t cap = 0;
  for (int64_t i = 0; i < n; i++) {
    char length[24];
    int64_t m = token[i] ? bytes[i] : 0;
    if (token[i] && (m < 1 || m > CT__TOKEN_MOST))
      CT_FAIL(CT_ERR_FORMAT,
              "the token with id %" PRId64 " has %" PRId64 " bytes; expected 1 to %d", i, m,
              CT__TOKEN_MOST);
    int digits = snprintf(length, sizeof length, "%" PRId64 " ", m);
    CT_TRY(ct_mem_grow((void **)&s->data, &cap, s->bytes + digits + m + 2, 1));
    memcpy(s->data + s->bytes, length, (size_t)digits);
    if (m > 0) memcpy(s->data + s->bytes + digits, token[i], (size_t)m);
    s->bytes += digits + m + 1;
    s->data[s->bytes - 1] = '\n';
  }
  return ct__tokenizer_build(t, out);
out:
  ct_tokenizer_close(t);
  return rc;
}
