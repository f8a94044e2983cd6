/* The prompts of `generate`: texts or lists of ids, from the command line or a file with one a
 * line. */
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "commands/generate.h"
#include "commands/generate_writer.h"

/* Ids of all prompts while they are read. */
typedef struct reading {
  const ct_tokenizer_t *tokenizer;
  ct_tokens_t ids;
  int64_t *first, n, cap;
} reading_t;

static int end_prompt(reading_t *r)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&r->first, &r->cap, r->n + 2, sizeof *r->first));
  r->first[++r->n] = r->ids.n;
out:
  return rc;
}

/* A text without a token begins with the end of another text. */
static int add_text(reading_t *r, const char *text, size_t bytes, const char *where, int64_t line)
{
  int rc = CT_OK;
  int64_t before = r->ids.n;
  rc = ct_tokenizer_encode(r->tokenizer, text, (int64_t)bytes, 0, NULL, &r->ids);
  if (rc != CT_OK) return ct_err_prefix(rc, "%s, prompt %lld: ", where, (long long)line);
  if (r->ids.n == before) {
    int32_t eot = ct_tokenizer_eot(r->tokenizer);
    if (eot < 0)
      CT_FAIL(CT_ERR_USAGE,
              "%s: prompt %lld is empty, and the tokenizer has no end of text to begin "
              "with",
              where, (long long)line);
    CT_TRY(ct_mem_grow((void **)&r->ids.id, &r->ids.cap, r->ids.n + 1, sizeof *r->ids.id));
    r->ids.id[r->ids.n++] = eot;
  }
  CT_TRY(end_prompt(r));
out:
  return rc;
}

/* Ids are separated by commas or spaces. */
static int add_ids(reading_t *r, const char *text, size_t bytes, const char *where, int64_t line)
{
  int rc = CT_OK;
  size_t at = 0;
  while (at < bytes) {
    char *end;
    long long id = strtoll(text + at, &end, 10);
    size_t used = (size_t)(end - text) - at;
    if (used == 0 || id < 0 || id > INT32_MAX)
      CT_FAIL(CT_ERR_USAGE, "%s, prompt %lld: '%.20s': expected ids of tokens such as 1,2,3", where,
              (long long)line, text + at);
    at += used;
    while (at < bytes && strchr(", \t\r", text[at]))
      at++;
    CT_TRY(ct_mem_grow((void **)&r->ids.id, &r->ids.cap, r->ids.n + 1, sizeof *r->ids.id));
    r->ids.id[r->ids.n++] = (int32_t)id;
  }
  if (bytes == 0) CT_FAIL(CT_ERR_USAGE, "%s: prompt %lld has no token", where, (long long)line);
  CT_TRY(end_prompt(r));
out:
  return rc;
}

typedef int add_t(reading_t *r, const char *text, size_t bytes, const char *where, int64_t line);

/* Each line of a file is a prompt. */
static int read_lines(reading_t *r, const char *path, add_t *add)
{
  int rc = CT_OK;
  char *data = NULL;
  size_t bytes;
  int64_t line = 0;
  CT_TRY(ct_file_read(path, &data, &bytes));
  for (size_t at = 0, n; at < bytes; at += n + 1) {
    const char *end = memchr(data + at, '\n', bytes - at);
    n = end ? (size_t)(end - data) - at : bytes - at;
    data[at + n] = '\0';
    CT_TRY(add(r, data + at, n > 0 && data[at + n - 1] == '\r' ? n - 1 : n, path, ++line));
  }
  if (!line) CT_FAIL(CT_ERR_USAGE, "%s: holds no prompt; each line is one", path);
out:
  ct_mem_free(data);
  return rc;
}

/* The block: n, eot, first[n + 1], the ids. */
static int prompts_pack(const reading_t *r, int32_t eot, ct__prompts_t *out)
{
  size_t head = (size_t)(r->n + 3) * sizeof(int64_t);
  out->bytes = head + (size_t)r->ids.n * sizeof(int32_t);
  out->block = ct_mem_alloc(out->bytes, "the prompts");
  if (!out->block) return CT_ERR_NOMEM;
  int64_t *to = out->block;
  to[0] = r->n;
  to[1] = eot;
  memcpy(to + 2, r->first, (size_t)(r->n + 1) * sizeof *to);
  if (r->ids.n) memcpy((char *)out->block + head, r->ids.id, (size_t)r->ids.n * sizeof(int32_t));
  return CT_OK;
}

int ct__prompts_read(const ct_args_t *a, const ct__writer_t *w, ct__prompts_t *out)
{
  int rc = CT_OK;
  int64_t eot;
  reading_t r = {.tokenizer = w->tokenizer};
  const char *text = ct_args_get(a, "prompt"), *file = ct_args_get(a, "input");
  const char *ids = ct_args_get(a, "prompt-tokens"), *ids_file = ct_args_get(a, "input-tokens");
  if ((text || file) && !w->tokenizer)
    CT_FAIL(CT_ERR_USAGE,
            "%s has no tokenizer: give it by --tokenizer (such as bytes, or a "
            "directory with vocab.json and merges.txt), or the prompt by "
            "--prompt-tokens",
            a->rest[0]);
  CT_TRY(ct_mem_grow((void **)&r.first, &r.cap, 1, sizeof *r.first));
  r.first[0] = 0;
  if (text) CT_TRY(add_text(&r, text, strlen(text), "--prompt", 1));
  if (ids) CT_TRY(add_ids(&r, ids, strlen(ids), "--prompt-tokens", 1));
  if (file) CT_TRY(read_lines(&r, file, add_text));
  if (ids_file) CT_TRY(read_lines(&r, ids_file, add_ids));
  CT_TRY(ct_args_int(a, "eot", w->tokenizer ? ct_tokenizer_eot(w->tokenizer) : -1, -1, INT32_MAX,
                     &eot));
  CT_TRY(prompts_pack(&r, (int32_t)eot, out));
out:
  ct_tokens_clear(&r.ids);
  ct_mem_free(r.first);
  return rc;
}

int ct__prompts_share(const ct_topo_t *topo, int rc, ct__prompts_t *p)
{
  CT_TRY(ct_agree_bytes(topo, rc, &p->block, &p->bytes));
  const int64_t *from = p->block;
  p->n = from[0];
  p->eot = (int32_t)from[1];
  p->first = from + 2;
  p->id = (const int32_t *)(from + 3 + p->n);
out:
  return rc;
}

void ct__prompts_clear(ct__prompts_t *p)
{
  ct_mem_free(p->block);
  *p = (ct__prompts_t){0};
}

int64_t ct__prompts_longest(const ct__prompts_t *p)
{
  int64_t most = 0;
  for (int64_t i = 0; i < p->n; i++)
    if (p->first[i + 1] - p->first[i] > most) most = p->first[i + 1] - p->first[i];
  return most;
}

int ct__prompts_sequences(const ct__prompts_t *p, const ct_generate_opts_t *o, int64_t first,
                          int64_t count, ct_generated_t **out)
{
  int rc = CT_OK;
  ct_generated_t *s = *out = ct_mem_array(count + 1, sizeof *s, "sequences");
  if (!s) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = p->first[first + i], n = p->first[first + i + 1] - at;
    s[i].number = (uint32_t)(first + i);
    s[i].prompt = s[i].length = n;
    s[i].id = ct_mem_array(n + (o->tokens < o->context ? o->tokens : o->context), sizeof *s[i].id,
                           "a sequence");
    CT_TRY(s[i].id ? CT_OK : CT_ERR_NOMEM);
    memcpy(s[i].id, p->id + at, (size_t)n * sizeof *s[i].id);
  }
out:
  return rc;
}

void ct__sequences_free(ct_generated_t *s, int64_t count)
{
  for (int64_t i = 0; s && i < count; i++)
    ct_mem_free(s[i].id);
  ct_mem_free(s);
}
