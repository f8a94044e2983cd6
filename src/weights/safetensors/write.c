/* Writes safetensors files, byte for byte as the reference implementation: tensors sorted by type,
 * the widest first, then by name; JSON without blanks, padded so that every tensor is aligned.
 *
 * Sizes are known in advance, so tensors can be written in any order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "base/ct_out.h"
#include "weights/safetensors/safetensors.h"

struct ct_weights_out {
  ct_out_t file;
  int64_t *at; /* file offset of each tensor of the list */
  int *size;   /* bytes per element of each tensor */
};

void ct__safetensors_discard(ct_weights_out_t *o)
{
  if (!o) return;
  ct_out_drop(&o->file);
  ct_mem_free(o->at);
  ct_mem_free(o->size);
  ct_mem_free(o);
}

/* ---- the header ---- */

static json_t *meta(const ct_weights_text_t *text, int n)
{
  char key[200];
  json_t *o = json_pack("{s:s}", "format", "pt");
  for (int i = 0; o && i < n; i++) {
    ct_text_fit(key, sizeof key, CT__SAFETENSORS_TEXT "%s", text[i].name);
    json_object_set_new(o, key, ct_json_words(text[i].text));
  }
  return o;
}

static json_t *write_tensor(const ct_tensor_t *t, int64_t at, int64_t bytes)
{
  json_t *shape = json_array();
  for (int i = 0; i < t->ndim; i++)
    json_array_append_new(shape, json_integer(t->dim[i]));
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", ct_elem_word(t->type), "shape", shape,
                   "data_offsets", (json_int_t)at, (json_int_t)(at + bytes));
}

static int write_by_name(const void *a, const void *b)
{
  return strcmp((*(const ct_tensor_t *const *)a)->name, (*(const ct_tensor_t *const *)b)->name);
}

static int by_type_and_name(const void *a, const void *b)
{
  const ct_tensor_t *p = *(const ct_tensor_t *const *)a, *q = *(const ct_tensor_t *const *)b;
  if (p->type != q->type) return p->type > q->type ? -1 : 1;
  return write_by_name(a, b);
}

static int check_tensor(const char *path, const ct_tensor_t *t, const ct_tensor_t *before)
{
  int rc = CT_OK;
  if (!ct_text_is_utf8(t->name) || strcmp(t->name, "__metadata__") == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: a safetensors file cannot contain a tensor with the name '%s'",
            path, t->name);
  if (ct_elem_bits(t->type) % 8 != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s' has type %s, which cannot be written", path, t->name,
            ct_elem_name(t->type));
  if (before && strcmp(before->name, t->name) == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: two tensors have the name '%s'", path, t->name);
out:
  return rc;
}

/* Fills the header, and o->at with the offset of each tensor in the data section. */
static int layout(ct_weights_out_t *o, const ct_tensor_t *list, const ct_tensor_t **sorted, int n,
                  json_t *header)
{
  int64_t at = 0;
  for (int i = 0; i < n; i++) {
    const ct_tensor_t *t = sorted[i];
    int k = (int)(t - list);
    o->size[k] = ct_elem_bits(t->type) / 8;
    o->at[k] = at;
    int64_t bytes = t->count * o->size[k];
    if (json_object_set_new(header, t->name, write_tensor(t, at, bytes)) != 0)
      return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a header");
    at += bytes;
  }
  return CT_OK;
}

/* Writes the length of the JSON, the JSON, and blanks up to a multiple of 8 bytes. */
static int write_header(ct_weights_out_t *o, int n, const json_t *header)
{
  int rc = CT_OK;
  size_t length = json_dumpb(header, NULL, 0, JSON_COMPACT);
  int64_t bytes = ct_round_up((int64_t)length, 8);
  char *text = ct_mem_alloc(8 + (size_t)bytes, "a header");
  if (!text) return CT_ERR_NOMEM;
  if (json_dumpb(header, text + 8, length, JSON_COMPACT) != length || length == 0)
    CT_FAIL(CT_ERR_NOMEM, "no memory for a header");
  if (bytes > CT__SAFETENSORS_HEADER)
    CT_FAIL(CT_ERR_FORMAT, "%s: the header would have %" PRId64 " bytes; the maximum is %d",
            o->file.path, bytes, CT__SAFETENSORS_HEADER);
  memset(text + 8 + length, ' ', (size_t)bytes - length);
  for (int i = 0; i < n; i++)
    o->at[i] += 8 + bytes;
  for (int i = 0; i < 8; i++)
    text[i] = (char)((uint64_t)bytes >> 8 * i);
  CT_TRY(ct_out_put(&o->file, text, 8 + bytes));
out:
  ct_mem_free(text);
  return rc;
}

/* ---- the file ---- */

static int new_out(int n, ct_weights_out_t **out)
{
  ct_weights_out_t *o = *out = ct_mem_alloc(sizeof *o, "a safetensors file");
  if (!o) return CT_ERR_NOMEM;
  o->at = ct_mem_array(n, sizeof *o->at, "places of tensors");
  o->size = ct_mem_array(n, sizeof *o->size, "sizes of elements");
  return o->at && o->size ? CT_OK : CT_ERR_NOMEM;
}

static int sort(const char *path, const ct_tensor_t *list, int n, const ct_tensor_t **sorted)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++)
    sorted[i] = &list[i];
  if (n > 0) qsort(sorted, (size_t)n, sizeof *sorted, write_by_name);
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
  json_t *header = NULL;
  ct_weights_out_t *o = NULL;
  const ct_tensor_t **sorted = ct_mem_array(n, sizeof *sorted, "names of tensors");
  *out = NULL;
  CT_TRY(sorted ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(sort(path, list, n, sorted));
  CT_TRY(new_out(n, &o));
  header = json_pack("{s:o}", "__metadata__", meta(text, texts));
  CT_TRY(layout(o, list, sorted, n, header));
  CT_TRY(ct_out_begin(&o->file, path));
  CT_TRY(write_header(o, n, header));
  *out = o;
  o = NULL;
out:
  ct__safetensors_discard(o);
  json_decref(header);
  ct_mem_free(sorted);
  return rc;
}

int ct__safetensors_put(ct_weights_out_t *o, int i, int64_t first, int64_t n, const void *from)
{
  return ct_out_put_at(&o->file, o->at[i] + first * o->size[i], from, n * o->size[i]);
}

int ct__safetensors_commit(ct_weights_out_t *o)
{
  int rc = ct_out_commit(&o->file);
  ct__safetensors_discard(o);
  return rc;
}
