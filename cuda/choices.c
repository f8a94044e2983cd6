/* Choices of autotuning: a table of texts, its file and its form as a message. */
#include "cuda/choices.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

static const char first_line[] = "ctrain-hpc: choices of autotuning, 1";

typedef struct choice {
  char *key, *value;
  int timed; /* 0: not for the file, or written by rank 0 */
} choice_t;

struct gpu__choices {
  char *environment, *path; /* path NULL: no file */
  choice_t *choice;
  int64_t count, cap;
  int unsaved; /* 1: the file lacks choices of this process */
  int warned;  /* 1: already warned that the file cannot be written */
};

void gpu__choices_close(gpu__choices_t *c)
{
  if (!c) return;
  for (int64_t i = 0; i < c->count; i++) {
    ct_mem_free(c->choice[i].key);
    ct_mem_free(c->choice[i].value);
  }
  ct_mem_free(c->choice);
  ct_mem_free(c->environment);
  ct_mem_free(c->path);
  ct_mem_free(c);
}

int gpu__choices_fastest(const float *ms, int n)
{
  int best = 0;
  for (int i = 1; i < n; i++)
    if (ms[i] < ms[best]) best = i;
  if (n == 0 || isinf(ms[best])) return -1;
  return ms[best] < 0.97F * ms[0] ? best : 0;
}

/* ---- the table ---- */

static choice_t *choices_entry(const gpu__choices_t *c, const char *key)
{
  for (int64_t i = 0; c && i < c->count; i++)
    if (strcmp(c->choice[i].key, key) == 0) return &c->choice[i];
  return NULL;
}

const char *gpu__choices_find(const gpu__choices_t *c, const char *key)
{
  const choice_t *e = choices_entry(c, key);
  return e ? e->value : NULL;
}

static int choices_set(gpu__choices_t *c, const char *key, const char *value, int timed)
{
  int rc = CT_OK;
  choice_t *e = choices_entry(c, key), made = {.value = ct_mem_strdup(value), .timed = timed};
  CT_TRY(made.value ? CT_OK : CT_ERR_NOMEM);
  if (!e) {
    CT_TRY(ct_mem_grow((void **)&c->choice, &c->cap, c->count + 1, sizeof *c->choice));
    made.key = ct_mem_strdup(key);
    CT_TRY(made.key ? CT_OK : CT_ERR_NOMEM);
    c->choice[c->count++] = made;
  } else {
    ct_mem_free(e->value);
    e->value = made.value;
    e->timed = timed;
  }
  made.value = NULL;
out:
  ct_mem_free(made.value);
  return rc;
}

int gpu__choices_add(gpu__choices_t *c, const char *key, const char *value, int timed)
{
  if (!c) return CT_OK;
  c->unsaved |= timed;
  return choices_set(c, key, value, timed);
}

/* ---- as text ---- */

static int choices_print(const gpu__choices_t *c, int all, ct_str_t *out)
{
  int rc = CT_OK;
  ct_str_t rest = {0};
  CT_TRY(ct_str_add(&rest, "%s", ""));
  for (int64_t i = 0; c && i < c->count; i++) {
    const choice_t *e = &c->choice[i];
    if (!all && !e->timed) continue;
    CT_TRY(
        ct_str_add(&rest, "%zu %zu\n%s%s\n", strlen(e->key), strlen(e->value), e->key, e->value));
  }
  CT_TRY(ct_str_add(out, "%s\n%s\n%016" PRIx64 " %zu\n%s", first_line, c ? c->environment : "",
                    ct_hash(rest.data, rest.len, 0), rest.len, rest.data));
out:
  ct_str_clear(&rest);
  return rc;
}

int gpu__choices_text(const gpu__choices_t *c, ct_str_t *out)
{
  return choices_print(c, 1, out);
}

/* Text that is not parsed yet. */
typedef struct rest {
  const char *at;
  size_t left;
} rest_t;

/* Returns 1 and skips the line if the text begins with \a line. */
static int skip_line(rest_t *r, const char *line)
{
  size_t n = strlen(line);
  if (r->left <= n || memcmp(r->at, line, n) != 0 || r->at[n] != '\n') return 0;
  r->at += n + 1;
  r->left -= n + 1;
  return 1;
}

/* Reads a line of two numbers of base \a base and 10. */
static int skip_numbers(rest_t *r, int base, uint64_t *first, size_t *second)
{
  char line[48];
  int used = 0;
  size_t n = 0;
  while (n < r->left && r->at[n] != '\n')
    n++;
  if (n == r->left || n + 1 >= sizeof line) return 0;
  memcpy(line, r->at, n);
  line[n] = '\0';
  int found = base == 16 ? sscanf(line, "%" SCNx64 " %zu%n", first, second, &used)
                         : sscanf(line, "%" SCNu64 " %zu%n", first, second, &used);
  if (found != 2 || used != (int)n) return 0;
  r->at += n + 1;
  r->left -= n + 1;
  return 1;
}

/* Returns the next \a n bytes as a text of its own; NULL: too few are left, or no memory. */
static char *take_text(rest_t *r, size_t n)
{
  if (n >= r->left || memchr(r->at, '\0', n)) return NULL;
  char *text = ct_mem_alloc(n + 1, "choices of autotuning");
  if (!text) return NULL;
  memcpy(text, r->at, n);
  r->at += n;
  r->left -= n;
  return text;
}

/* Returns 1 if the table has a choice that this process has timed or read from the file. */
static int own(const gpu__choices_t *c, const char *key)
{
  const choice_t *e = choices_entry(c, key);
  return e && e->timed;
}

/* Adds the next choice. keep 1: from the file, where it stays; the table's own choices stay too. */
static int take_choice(gpu__choices_t *c, rest_t *r, int keep)
{
  int rc = CT_ERR_FORMAT;
  uint64_t key_bytes;
  size_t bytes;
  char *key = NULL, *value = NULL;
  if (!skip_numbers(r, 10, &key_bytes, &bytes)) return rc;
  key = take_text(r, (size_t)key_bytes);
  if (key) value = take_text(r, bytes);
  if (value && skip_line(r, ""))
    rc = keep && own(c, key) ? CT_OK : choices_set(c, key, value, keep);
  ct_mem_free(key);
  ct_mem_free(value);
  return rc;
}

static int choices_parse(gpu__choices_t *c, const char *text, size_t bytes, int keep)
{
  rest_t r = {text, bytes};
  uint64_t hash;
  size_t left;
  int rc = CT_OK;
  if (!skip_line(&r, first_line)) return CT_ERR_FORMAT;
  if (!skip_line(&r, c->environment)) return CT_ERR_DIFFER;
  if (!skip_numbers(&r, 16, &hash, &left) || left != r.left || ct_hash(r.at, r.left, 0) != hash)
    return CT_ERR_FORMAT;
  while (rc == CT_OK && r.left > 0)
    rc = take_choice(c, &r, keep);
  return rc;
}

int gpu__choices_take(gpu__choices_t *c, const char *text, size_t bytes)
{
  int rc = c ? choices_parse(c, text, bytes, 0) : CT_OK;
  if (rc == CT_ERR_DIFFER)
    return ct_err_set(rc, __FILE__, __LINE__,
                      "choices of autotuning are of another GPU or of other libraries");
  if (rc == CT_ERR_FORMAT)
    return ct_err_set(rc, __FILE__, __LINE__, "choices of autotuning are damaged");
  return rc;
}

/* ---- the file ---- */

/* Adds the choices of the file that the table does not have. */
static int choices_read(gpu__choices_t *c)
{
  int rc = CT_OK;
  char *text = NULL;
  size_t bytes = 0;
  if (!c->path || !ct_file_exists(c->path)) return CT_OK;
  CT_TRY(ct_file_regular(c->path));
  CT_TRY(ct_file_read(c->path, &text, &bytes));
  rc = choices_parse(c, text, bytes, 1);
out:
  ct_mem_free(text);
  return rc;
}

static int choices_path(const char *environment, const char *dir, char **out)
{
  int rc = CT_OK;
  char name[48], path[CT_PATH_MAX];
  snprintf(name, sizeof name, "choices-%016" PRIx64, ct_hash_text(environment, 0));
  CT_TRY(ct_path_join(path, sizeof path, dir, name));
  *out = ct_mem_strdup(path);
  CT_TRY(*out ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

int gpu__choices_open(const char *environment, const char *dir, gpu__choices_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  gpu__choices_t *c = ct_mem_alloc(sizeof *c, "choices of autotuning");
  if (!c) return CT_ERR_NOMEM;
  c->environment = ct_mem_strdup(environment);
  CT_TRY(c->environment ? CT_OK : CT_ERR_NOMEM);
  if (*dir) CT_TRY(choices_path(environment, dir, &c->path));
  int read = choices_read(c);
  if (read != CT_OK)
    ct_log(CT_LOG_WARN, "choices of autotuning are made again: %s %s", c->path,
           read == CT_ERR_FORMAT   ? "is damaged"
           : read == CT_ERR_DIFFER ? "is of another GPU or of other libraries"
                                   : "cannot be read");
  *out = c;
  c = NULL;
out:
  gpu__choices_close(c);
  return rc;
}

/* Each process uses its own temporary file, since several may write the same file: ranks on other
 * models of GPUs each write theirs, but those of one model the same. A choice that is lost between
 * reading and renaming is made again by a later run. */
static int choices_write(gpu__choices_t *c)
{
  int rc = CT_OK;
  char mine[CT_PATH_MAX], host[64] = "";
  ct_str_t text = {0};
  gethostname(host, sizeof host - 1);
  CT_TRY(ct_path_dir(mine, sizeof mine, c->path));
  CT_TRY(ct_file_mkdirs(mine));
  (void)choices_read(c);
  CT_TRY(ct_text_format(mine, sizeof mine, "%s.%s-%ld", c->path, host, (long)getpid()));
  CT_TRY(choices_print(c, 0, &text));
  CT_TRY(ct_file_write(mine, text.data, text.len));
  CT_TRY(ct_file_commit(mine, c->path));
out:
  ct_str_clear(&text);
  return rc;
}

void gpu__choices_save(gpu__choices_t *c)
{
  if (!c || !c->path || !c->unsaved) return;
  c->unsaved = 0;
  if (choices_write(c) == CT_OK || c->warned) return;
  ct_log(CT_LOG_WARN, "choices of autotuning are not stored: %s", ct_err_last()->text);
  c->warned = 1;
}
