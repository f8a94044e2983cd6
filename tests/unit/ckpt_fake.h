/** \file ckpt_fake.h  A container of plain text for the checkpoint service, which a test can damage
 * at will. */
#ifndef CKPT_FAKE_H
#define CKPT_FAKE_H
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "ckpt/ct_ckpt.h"
#include "tests/harness/ct_test.h"

/* ---- a container: lines "name text", and "end" as the last one of a whole file ---- */

struct ct_store {
  char path[600];
  ct_str_t text;
};

static inline int fake_create(const char *path, ct_store_t **out)
{
  *out = ct_mem_alloc(sizeof **out, "fake store");
  if (!*out) return CT_ERR_NOMEM;
  snprintf((*out)->path, sizeof(*out)->path, "%s", path);
  char temporary[610];
  snprintf(temporary, sizeof temporary, "%s.tmp", path);
  FILE *f = fopen(temporary, "w");
  if (f) fclose(f);
  return CT_OK;
}

/* What happens to a store while it is written and when it is whole; NULL: nothing. */
static void (*before_put)(void), (*before_commit)(const char *path),
    (*after_commit)(const char *path);

static inline int fake_put(ct_store_t *s, const char *name, const ct_shape_t *shape,
                           const void *data)
{
  if (before_put) before_put();
  return ct_str_add(&s->text, "%s %lld %g\n", name, (long long)ct_shape_count(shape),
                    *(const float *)data);
}

static inline int fake_put_text(ct_store_t *s, const char *name, const char *text)
{
  return ct_str_add(&s->text, "%s %s\n", name, text);
}

static inline void fake_close(ct_store_t *s)
{
  if (!s) return;
  ct_str_clear(&s->text);
  ct_mem_free(s);
}

static inline void fake_discard(ct_store_t *s)
{
  if (!s) return;
  char temporary[610];
  snprintf(temporary, sizeof temporary, "%s.tmp", s->path);
  unlink(temporary);
  fake_close(s);
}

static inline int fake_commit(ct_store_t *s)
{
  int rc = ct_str_add(&s->text, "end\n");
  if (before_commit) before_commit(s->path);
  if (rc == CT_OK) rc = ct_file_write(s->path, s->text.data, s->text.len);
  if (after_commit) after_commit(s->path);
  fake_close(s);
  return rc;
}

static inline int fake_open(const char *path, ct_store_t **out)
{
  int rc = CT_OK;
  char *data = NULL;
  size_t bytes;
  *out = NULL;
  CT_TRY(ct_file_read(path, &data, &bytes));
  if (bytes < 4 || strcmp(data + bytes - 4, "end\n") != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: is damaged", path);
  CT_TRY(fake_create(path, out));
  CT_TRY(ct_str_add(&(*out)->text, "%s", data));
out:
  if (rc != CT_OK) fake_close(*out);
  if (rc != CT_OK) *out = NULL;
  ct_mem_free(data);
  return rc;
}

static inline int fake_probe(FILE *f)
{
  char head[7];
  return fread(head, 1, 7, f) == 7 && memcmp(head, "/model/", 7) == 0;
}

static const ct_store_ops_t fake = {.format = {"text", {".txt"}, fake_probe},
                                    .create = fake_create,
                                    .put = fake_put,
                                    .put_text = fake_put_text,
                                    .commit = fake_commit,
                                    .discard = fake_discard,
                                    .open = fake_open,
                                    .close = fake_close};

/* ---- helpers ---- */

static inline int save(ct_ckpt_t *c, int64_t step)
{
  static float value = 1.5f;
#define ONE                                              \
  {                                                      \
    .dtype = CT_F32, .ndim = 1, .dim = { 1, 1, 1, 1, 1 } \
  }
  static const ct_ckpt_item_t item[] = {{.name = "/model/a", .shape = ONE, .data = &value},
                                        {.name = "/model/b", .shape = ONE, .data = &value}};
#undef ONE
  static const ct_ckpt_text_t text[] = {{"/meta/config", "seed 1"}};
  return ct_ckpt_save(c, step, item, 2, text, 1);
}

static inline int save_all(const char *dir, int64_t keep, const int64_t *step, int n)
{
  int rc = CT_OK;
  ct_ckpt_t *c = NULL;
  CT_TRY(ct_ckpt_open(dir, &fake, keep, &c));
  for (int i = 0; i < n; i++) {
    CT_TRY(save(c, step[i]));
    CT_TRY(ct_ckpt_wait(c, NULL));
  }
out:
  ct_ckpt_close(c);
  return rc;
}
#define SAVE_ALL(dir, keep, ...)                    \
  save_all((dir), (keep), (int64_t[]){__VA_ARGS__}, \
           (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* All names but `latest`, sorted, with spaces between. */
static inline const char *names(const char *dir)
{
  static char text[1000];
  struct dirent **entry;
  int n = scandir(dir, &entry, NULL, alphasort);
  text[0] = '\0';
  for (int i = 0; i < n; i++) {
    const char *name = entry[i]->d_name;
    if (name[0] != '.' && strcmp(name, "latest") != 0) {
      if (text[0]) strcat(text, " ");
      strcat(text, name);
    }
    free(entry[i]);
  }
  if (n >= 0) free(entry);
  return text;
}

static inline void put(const char *dir, const char *name, const char *text)
{
  char path[700];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  CT_ASSERT_OK(ct_file_write(path, text, strlen(text)));
}

static inline const char *content(const char *dir, const char *name)
{
  static char text[300];
  char path[700];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  text[n] = '\0';
  if (f) fclose(f);
  return text;
}

/* Name of the checkpoint that would be restored, or the error's. */
static inline const char *newest(const char *dir)
{
  static char path[600];
  ct_store_t *s;
  int rc = ct_ckpt_newest(dir, &fake, &s, path, sizeof path);
  if (rc != CT_OK) return ct_err_name(rc);
  if (!s) return "none";
  fake_close(s);
  return strrchr(path, '/') + 1;
}

#endif
