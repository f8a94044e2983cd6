/* Writing safetensors files, with the reference's bytes: tensors by type, the widest first, and by
 * name; JSON without blanks, padded so that every tensor is aligned.
 *
 * Sizes are known before, so that each tensor is written to its place as it comes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "weights/safetensors/safetensors.h"

struct ct_weights_out {
  char *path, *temporary;
  int fd;
  int64_t *at; /* in the file, of each tensor of the list */
  int *size;   /* bytes of an element */
};

void ct__safetensors_discard(ct_weights_out_t *o)
{
  if (!o) return;
  if (o->fd >= 0) {
    close(o->fd);
    ct_file_remove(o->temporary);
  }
  ct_mem_free(o->path);
  ct_mem_free(o->temporary);
  ct_mem_free(o->at);
  ct_mem_free(o->size);
  ct_mem_free(o);
}

/* ---- the header ---- */

/* Escapes as serde_json does, whose bytes these are. */
static int add_text(ct_str_t *out, const char *text)
{
  static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "\""));
  while (*text) {
    size_t plain = 0;
    while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
      plain++;
    CT_TRY(ct_str_add(out, "%.*s", (int)plain, text));
    text += plain;
    if (!*text) break;
    const char *found = strchr(special, *text);
    if (found)
      CT_TRY(ct_str_add(out, "\\%c", letter[found - special]));
    else
      CT_TRY(ct_str_add(out, "\\u%04x", (unsigned)*text));
    text++;
  }
  CT_TRY(ct_str_add(out, "\""));
out:
  return rc;
}

static int add_meta(ct_str_t *out, const ct_weights_text_t *text, int n)
{
  int rc = CT_OK;
  char key[200];
  CT_TRY(ct_str_add(out, "{\"__metadata__\":{\"format\":\"pt\""));
  for (int i = 0; i < n; i++) {
    CT_TRY(ct_text_format(key, sizeof key, CT__SAFETENSORS_TEXT "%s", text[i].name));
    CT_TRY(ct_str_add(out, ","));
    CT_TRY(add_text(out, key));
    CT_TRY(ct_str_add(out, ":"));
    CT_TRY(add_text(out, text[i].text));
  }
  CT_TRY(ct_str_add(out, "}"));
out:
  return rc;
}

static int add_tensor(ct_str_t *out, const ct_tensor_t *t, int64_t at, int64_t bytes)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, ","));
  CT_TRY(add_text(out, t->name));
  CT_TRY(ct_str_add(out, ":{\"dtype\":\"%s\",\"shape\":[", ct_elem_word(t->type)));
  for (int i = 0; i < t->ndim; i++)
    CT_TRY(ct_str_add(out, "%s%" PRId64, i ? "," : "", t->dim[i]));
  CT_TRY(ct_str_add(out, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, at + bytes));
out:
  return rc;
}

static int by_name(const void *a, const void *b)
{
  return strcmp((*(const ct_tensor_t *const *)a)->name, (*(const ct_tensor_t *const *)b)->name);
}

static int by_type_and_name(const void *a, const void *b)
{
  const ct_tensor_t *p = *(const ct_tensor_t *const *)a, *q = *(const ct_tensor_t *const *)b;
  if (p->type != q->type) return p->type > q->type ? -1 : 1;
  return by_name(a, b);
}

static int check_tensor(const char *path, const ct_tensor_t *t, const ct_tensor_t *before)
{
  int rc = CT_OK;
  if (!ct_text_is_utf8(t->name) || strcmp(t->name, "__metadata__") == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: a safetensors file cannot have a tensor of the name '%s'", path,
            t->name);
  if (ct_elem_bits(t->type) % 8 != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is of type %s, which is not written", path, t->name,
            ct_elem_name(t->type));
  if (before && strcmp(before->name, t->name) == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: there are two tensors of the name '%s'", path, t->name);
out:
  return rc;
}

/* Header, and where each tensor lies in the data. */
static int layout(ct_weights_out_t *o, const ct_tensor_t *list, const ct_tensor_t **sorted, int n,
                  ct_str_t *header)
{
  int rc = CT_OK;
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    const ct_tensor_t *t = sorted[i];
    int k = (int)(t - list);
    o->size[k] = ct_elem_bits(t->type) / 8;
    o->at[k] = at;
    CT_TRY(add_tensor(header, t, at, t->count * o->size[k]));
    at += t->count * o->size[k];
  }
  CT_TRY(ct_str_add(header, "}"));
  CT_TRY(ct_str_add(header, "%*s",
                    (int)(ct_round_up((int64_t)header->len, 8) - (int64_t)header->len), ""));
  if (header->len > CT__SAFETENSORS_HEADER)
    CT_FAIL(CT_ERR_FORMAT, "%s: a header of %zu bytes, expected up to %d", o->path, header->len,
            CT__SAFETENSORS_HEADER);
  for (int i = 0; i < n; i++)
    o->at[i] += 8 + (int64_t)header->len;
out:
  return rc;
}

static int write_header(const ct_weights_out_t *o, const ct_str_t *header)
{
  int rc = CT_OK;
  unsigned char length[8];
  for (int i = 0; i < 8; i++)
    length[i] = (unsigned char)((uint64_t)header->len >> 8 * i);
  CT_TRY(ct_file_write_at(o->fd, o->temporary, 0, length, sizeof length));
  CT_TRY(ct_file_write_at(o->fd, o->temporary, 8, header->data, header->len));
out:
  return rc;
}

/* ---- the file ---- */

static int new_out(const char *path, int n, ct_weights_out_t **out)
{
  int rc = CT_OK;
  ct_str_t temporary = {0};
  ct_weights_out_t *o = *out = ct_mem_alloc(sizeof *o, "a safetensors file");
  if (!o) return CT_ERR_NOMEM;
  o->fd = -1;
  CT_TRY(ct_str_add(&temporary, "%s.tmp", path));
  o->temporary = temporary.data;
  o->path = ct_mem_strdup(path);
  o->at = ct_mem_array(n, sizeof *o->at, "places of tensors");
  o->size = ct_mem_array(n, sizeof *o->size, "sizes of elements");
  CT_TRY(o->path && o->at && o->size ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

static int sort(const char *path, const ct_tensor_t *list, int n, const ct_tensor_t **sorted)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++)
    sorted[i] = &list[i];
  if (n > 0) qsort(sorted, (size_t)n, sizeof *sorted, by_name);
  for (int i = 0; i < n; i++)
    CT_TRY(check_tensor(path, sorted[i], i ? sorted[i - 1] : NULL));
  if (n > 0) qsort(sorted, (size_t)n, sizeof *sorted, by_type_and_name);
out:
  return rc;
}

int ct__safetensors_create(const char *path, const ct_tensor_t *list, int n,
                           const ct_weights_text_t *text, int texts, ct_weights_out_t **out)
{
  int rc = CT_OK;
  ct_str_t header = {0};
  ct_weights_out_t *o = NULL;
  const ct_tensor_t **sorted = ct_mem_array(n, sizeof *sorted, "names of tensors");
  *out = NULL;
  CT_TRY(sorted ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(sort(path, list, n, sorted));
  CT_TRY(new_out(path, n, &o));
  CT_TRY(add_meta(&header, text, texts));
  CT_TRY(layout(o, list, sorted, n, &header));
  o->fd = ct_file_new(o->temporary, 0666);
  if (o->fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot create: %s", o->temporary, strerror(errno));
  CT_TRY(write_header(o, &header));
  *out = o;
  o = NULL;
out:
  ct__safetensors_discard(o);
  ct_str_clear(&header);
  ct_mem_free(sorted);
  return rc;
}

int ct__safetensors_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from)
{
  return ct_file_write_at(o->fd, o->temporary, o->at[i] + first * o->size[i], from,
                          (size_t)(n * o->size[i]));
}

int ct__safetensors_commit(ct_weights_out_t *o)
{
  int rc = CT_OK;
  int failed = close(o->fd) != 0;
  o->fd = -1;
  if (failed) CT_FAIL(CT_ERR_IO, "%s: cannot write: %s", o->temporary, strerror(errno));
  CT_TRY(ct_file_commit(o->temporary, o->path));
out:
  if (rc != CT_OK) ct_file_remove(o->temporary);
  ct__safetensors_discard(o);
  return rc;
}
