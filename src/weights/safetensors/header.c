/* The header of a safetensors file: JSON with the offsets of all tensors.
 *
 * The rules are those of the reference (validate() and deserialize() in its tensor.rs): tensors
 * cover the data without gaps or overlaps, and their sizes match their shapes. The JSON is measured
 * before it is parsed, since its tree needs up to fifty times its size. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "weights/safetensors/safetensors.h"

typedef ct__safetensors_entry_t entry_t;

/* ---- JSON ---- */

enum { MAX_DEPTH = 127 }; /* limit of the reference implementation */

/* Counts values and nesting depth outside of strings. */
static int check_size(const char *path, const char *text, size_t bytes)
{
  int rc = CT_OK, depth = 0, in_text = 0;
  int64_t values = 0;
  for (size_t i = 0; i < bytes; i++) {
    char c = text[i];
    if (in_text) {
      if (c == '\\') i++;
      in_text = c != '"';
      continue;
    }
    in_text = c == '"';
    values += c == ',' || c == '[' || c == '{';
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (depth > MAX_DEPTH || values > CT__SAFETENSORS_VALUES)
      CT_FAIL(CT_ERR_FORMAT, "%s: its JSON has %s, expected up to %d", path,
              depth > MAX_DEPTH ? "lists in lists too deep" : "too many values",
              depth > MAX_DEPTH ? MAX_DEPTH : CT__SAFETENSORS_VALUES);
  }
out:
  return rc;
}

int ct__safetensors_json(const char *path, const char *text, size_t bytes, json_t **out)
{
  int rc = CT_OK;
  json_error_t error;
  *out = NULL;
  CT_TRY(check_size(path, text, bytes));
  *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
  if (*out && json_is_object(*out)) return CT_OK;
  if (*out) CT_FAIL(CT_ERR_FORMAT, "%s: its JSON is a list, expected an object", path);
  char *quote = strstr(error.text, " near "); /* the rest is quoted from the file and may contain
                                                 anything */
  if (quote) *quote = '\0';
  CT_FAIL(CT_ERR_FORMAT, "%s: its JSON is wrong at byte %d: %s", path, error.position, error.text);
out:
  if (rc != CT_OK) {
    json_decref(*out);
    *out = NULL;
  }
  return rc;
}

/* ---- one tensor ---- */

static int take_type(const char *path, const json_t *o, entry_t *e)
{
  int rc = CT_OK, t = 0;
  const char *word = json_string_value(o);
  while (word && t < CT_ELEMS && strcmp(ct_elem_word((ct_elem_t)t), word) != 0)
    t++;
  if (!word || t == CT_ELEMS)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is of type '%.40s', which is not known", path, e->name,
            word ? word : "");
  e->type = (ct_elem_t)t;
out:
  return rc;
}

/* Checks a list of non-negative integers. */
static int check_numbers(const char *path, const json_t *o, const char *name, const char *what)
{
  int rc = CT_OK;
  size_t i;
  json_t *v;
  if (!json_is_array(o))
    CT_FAIL(CT_ERR_FORMAT, "%s: %s of '%s' is not a list of numbers", path, what, name);
  json_array_foreach(o, i, v) if (!json_is_integer(v) || json_integer_value(v) < 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: %s of '%s' must be integers of at least 0", path, what, name);
out:
  return rc;
}

static int take_shape(const char *path, const json_t *o, entry_t *e)
{
  int rc = CT_OK;
  size_t i;
  json_t *v;
  uint64_t count = 1, bits;
  CT_TRY(check_numbers(path, o, e->name, "the shape"));
  e->ndim = (int)json_array_size(o);
  e->dim = ct_mem_array(e->ndim, sizeof *e->dim, "the shape of a tensor");
  CT_TRY(e->dim ? CT_OK : CT_ERR_NOMEM);
  json_array_foreach(o, i, v)
  {
    e->dim[i] = json_integer_value(v);
    if (__builtin_mul_overflow(count, (uint64_t)e->dim[i], &count))
      CT_FAIL(CT_ERR_FORMAT, "%s: the shape of '%s' is too large", path, e->name);
  }
  if (__builtin_mul_overflow(count, (uint64_t)ct_elem_bits(e->type), &bits))
    CT_FAIL(CT_ERR_FORMAT, "%s: the shape of '%s' is too large", path, e->name);
  if (bits % 8 != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' does not fill whole bytes: %" PRIu64 " elements of %s", path,
            e->name, count, ct_elem_name(e->type));
  e->count = (int64_t)count;
  e->bytes = (int64_t)(bits / 8);
out:
  return rc;
}

static int take_place(const char *path, const json_t *o, entry_t *e)
{
  int rc = CT_OK;
  CT_TRY(check_numbers(path, o, e->name, "data_offsets"));
  if (json_array_size(o) != 2)
    CT_FAIL(CT_ERR_FORMAT, "%s: data_offsets of '%s' has %zu numbers, expected 2", path, e->name,
            json_array_size(o));
  e->begin = json_integer_value(json_array_get(o, 0));
  int64_t end = json_integer_value(json_array_get(o, 1));
  if (end < e->begin || end - e->begin != e->bytes)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: '%s' occupies bytes %" PRId64 " to %" PRId64
            ", but its shape and type need %" PRId64 " bytes",
            path, e->name, e->begin, end, e->bytes);
out:
  return rc;
}

/* Parses {"dtype": …, "shape": …, "data_offsets": …}, or a list of these three. */
static int take_entry(const char *path, const json_t *o, entry_t *e)
{
  static const char *const fields[] = {"dtype", "shape", "data_offsets"};
  int rc = CT_OK;
  const json_t *field[3];
  int is_list = json_is_array(o) && json_array_size(o) == 3;
  for (int i = 0; i < 3; i++) {
    field[i] = is_list ? json_array_get(o, (size_t)i) : json_object_get(o, fields[i]);
    if (!field[i]) CT_FAIL(CT_ERR_FORMAT, "%s: '%s' has no %s", path, e->name, fields[i]);
  }
  CT_TRY(take_type(path, field[0], e));
  CT_TRY(take_shape(path, field[1], e));
  CT_TRY(take_place(path, field[2], e));
out:
  return rc;
}

/* ---- all tensors ---- */

static int by_offset(const void *a, const void *b)
{
  const entry_t *p = a, *q = b;
  if (p->begin != q->begin) return p->begin < q->begin ? -1 : 1;
  if (p->bytes != q->bytes) return p->bytes < q->bytes ? -1 : 1;
  return p->order - q->order;
}

/* Checks that the tensors cover the data; also sorts them. */
static int check_cover(const char *path, entry_t *e, int64_t n, int64_t data)
{
  int rc = CT_OK;
  int64_t at = 0;
  if (n > 0) qsort(e, (size_t)n, sizeof *e, by_offset);
  for (int64_t i = 0; i < n; at += e[i++].bytes)
    if (e[i].begin != at)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: '%s' begins at byte %" PRId64 " of the data, expected %" PRId64
              ": tensors follow each other without gaps",
              path, e[i].name, e[i].begin, at);
  if (at != data)
    CT_FAIL(CT_ERR_FORMAT, "%s: its tensors need %" PRId64 " bytes of data, but it has %" PRId64,
            path, at, data);
out:
  return rc;
}

static int take_meta(const char *path, json_t *meta, ct__safetensors_list_t *out)
{
  int rc = CT_OK;
  const char *key;
  json_t *v;
  if (json_is_null(meta)) return CT_OK;
  if (!json_is_object(meta)) CT_FAIL(CT_ERR_FORMAT, "%s: __metadata__ is not an object", path);
  json_object_foreach(meta, key, v) if (!json_is_string(v))
      CT_FAIL(CT_ERR_FORMAT, "%s: '%.100s' in __metadata__ is not text", path, key);
  if (!out->meta) out->meta = json_incref(meta);
out:
  return rc;
}

static int header_add(ct__safetensors_list_t *l, const char *name, entry_t **out)
{
  int rc = ct_mem_grow((void **)&l->entry, &l->cap, l->n + 1, sizeof *l->entry);
  if (rc != CT_OK) return rc;
  entry_t *e = *out = &l->entry[l->n];
  *e = (entry_t){.name = ct_mem_strdup(name), .order = (int)l->n};
  if (!e->name) return CT_ERR_NOMEM;
  l->n++;
  return CT_OK;
}

int ct__safetensors_parse(const char *path, const char *text, size_t bytes, int64_t data, int part,
                          ct__safetensors_list_t *out)
{
  int rc = CT_OK;
  json_t *root = NULL, *v;
  const char *name;
  int64_t before = out->n;
  CT_TRY(ct__safetensors_json(path, text, bytes, &root));
  json_object_foreach(root, name, v)
  {
    entry_t *e;
    if (strcmp(name, "__metadata__") == 0) {
      CT_TRY(take_meta(path, v, out));
      continue;
    }
    CT_TRY(header_add(out, name, &e));
    e->part = part;
    CT_TRY(take_entry(path, v, e));
    ct_heartbeat_progress();
  }
  entry_t *own = out->n > before ? out->entry + before : NULL;
  CT_TRY(check_cover(path, own, out->n - before, data));
out:
  json_decref(root);
  return rc;
}

/* ---- aliases of shared tensors ---- */

static int header_by_name(const void *a, const void *b)
{
  return strcmp((*(entry_t *const *)a)->name, (*(entry_t *const *)b)->name);
}

static const entry_t *header_find(entry_t *const *sorted, int64_t n, const char *name)
{
  entry_t want = {.name = (char *)(uintptr_t)name}, *key = &want;
  entry_t *const *hit = bsearch(&key, sorted, (size_t)n, sizeof *sorted, header_by_name);
  return hit ? *hit : NULL;
}

static int add_alias(ct__safetensors_list_t *l, const char *name, entry_t of)
{
  int rc = CT_OK;
  entry_t *e;
  CT_TRY(header_add(l, name, &e));
  l->aliases++;
  of.name = e->name;
  of.order = e->order;
  const int64_t *dim = of.dim;
  of.dim = NULL;
  *e = of;
  e->dim = ct_mem_array(of.ndim, sizeof *e->dim, "the shape of a tensor");
  CT_TRY(e->dim ? CT_OK : CT_ERR_NOMEM);
  if (of.ndim > 0) memcpy(e->dim, dim, (size_t)of.ndim * sizeof *dim);
out:
  return rc;
}

int ct__safetensors_alias(ct__safetensors_list_t *l)
{
  int rc = CT_OK;
  int64_t n = l->n, most = n + (int64_t)json_object_size(l->meta);
  const char *key;
  json_t *v;
  if (n == 0 || !l->meta) return CT_OK;
  entry_t **sorted = ct_mem_array(n, sizeof *sorted, "names of tensors");
  CT_TRY(sorted ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_mem_grow((void **)&l->entry, &l->cap, most, sizeof *l->entry)); /* reserve space, so
                                                                               that entries do not
                                                                               move */
  for (int64_t i = 0; i < n; i++)
    sorted[i] = &l->entry[i];
  qsort(sorted, (size_t)n, sizeof *sorted, header_by_name);
  json_object_foreach(l->meta, key, v)
  {
    const entry_t *of = header_find(sorted, n, json_string_value(v));
    if (of && strcmp(key, "format") != 0 && !header_find(sorted, n, key))
      CT_TRY(add_alias(l, key, *of));
  }
out:
  ct_mem_free(sorted);
  return rc;
}

void ct__safetensors_clear(ct__safetensors_list_t *l)
{
  for (int64_t i = 0; i < l->n; i++) {
    ct_mem_free(l->entry[i].name);
    ct_mem_free(l->entry[i].dim);
  }
  ct_mem_free(l->entry);
  json_decref(l->meta);
  *l = (ct__safetensors_list_t){0};
}
