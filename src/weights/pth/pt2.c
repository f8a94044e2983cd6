/* The tensors of a .pt2 archive, which torch.export.save() writes: a zip archive with one record
 * for each storage, and lists of the tensors as JSON. The layout is that of
 * torch/export/pt2_archive and torch/_export/serde/schema.py, schema 8; it has no public
 * specification. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "weights/ct_names.h"
#include "weights/pth/pth.h"

enum { MOST_LIST = 256 << 20 /* bytes */, MOST_MARK = 64 };

/* torch's numbers of element types. */
static const struct {
  int number;
  ct_elem_t type;
} types[] = {{1, CT_ELEM_U8},           {2, CT_ELEM_I8},       {3, CT_ELEM_I16},
             {4, CT_ELEM_I32},          {5, CT_ELEM_I64},      {6, CT_ELEM_F16},
             {7, CT_ELEM_F32},          {8, CT_ELEM_F64},      {10, CT_ELEM_C64},
             {12, CT_ELEM_BOOL},        {13, CT_ELEM_BF16},    {28, CT_ELEM_U16},
             {29, CT_ELEM_F8_E4M3},     {30, CT_ELEM_F8_E5M2}, {31, CT_ELEM_F8_E4M3FNUZ},
             {32, CT_ELEM_F8_E5M2FNUZ}, {33, CT_ELEM_F8_E8M0}, {34, CT_ELEM_U32},
             {35, CT_ELEM_U64}};

ct_elem_t ct_pt2_list_type(int64_t number)
{
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (types[i].number == number) return types[i].type;
  return CT_ELEMS;
}

/* ---- records ---- */

/* Returns the record whose name is the text behind the archive's top-level folder. */
static const ct_zip_record_t *pt2_find(const ct_weights_t *w, const char *name)
{
  for (int64_t i = 0; i < w->zip.n; i++) {
    const char *slash = strchr(w->zip.record[i].name, '/');
    if (slash && strcmp(slash + 1, name) == 0) return &w->zip.record[i];
  }
  return NULL;
}

int ct__pt2_is(const ct_weights_t *w)
{
  return pt2_find(w, "archive_format") || pt2_find(w, "models/model.json") ||
         pt2_find(w, "serialized_exported_program.json");
}

/* Checks a short record. */
static int pt2_expect(const ct_weights_t *w, const char *name, const char *text)
{
  int rc = CT_OK;
  char *is = NULL;
  const ct_zip_record_t *r = pt2_find(w, name);
  if (!r)
    CT_FAIL(
        CT_ERR_FORMAT,
        "%s: archive of torch.export without record '%s': an early version of PyTorch wrote it; "
        "load it there, and save it with PyTorch 2.9 or later",
        w->path, name);
  CT_TRY(ct__pth_record(w, r, MOST_MARK, &is));
  if (strcmp(is, text) != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is '%s', expected '%s'", w->path, name,
            ct_text_is_name(is) ? is : "?", text);
out:
  ct_mem_free(is);
  return rc;
}

/* ---- the list of weights ---- */

int ct__pt2_open(ct_weights_t *w, ct_pt2_list_t which)
{
  const char *list = which == CT_PT2_LIST_WEIGHTS ? "data/weights/model_weights_config.json"
                                                  : "data/constants/model_constants_config.json";
  int rc = CT_OK;
  char *text = NULL;
  json_error_t bad;
  const ct_zip_record_t *r;
  CT_TRY(pt2_expect(w, "archive_format", "pt2"));
  CT_TRY(pt2_expect(w, "archive_version", "0"));
  CT_TRY(pt2_expect(w, "byteorder", "little"));
  r = pt2_find(w, list);
  if (!r)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: archive of torch.export without record '%s': save it with PyTorch 2.9 or later",
            w->path, list);
  CT_TRY(ct__pth_record(w, r, MOST_LIST, &text));
  w->json = json_loadb(text, (size_t)r->bytes, JSON_REJECT_DUPLICATES, &bad);
  if (!json_is_object(json_object_get(w->json, "config")))
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is not a list of weights: %s", w->path, list,
            w->json ? "it has no object 'config'" : bad.text);
  w->prefix = ct_mem_strdup(r->name);
  if (!w->prefix) CT_TRY(CT_ERR_NOMEM);
  strrchr(w->prefix, '/')[1] = '\0';
out:
  ct_mem_free(text);
  return rc;
}

static int pt2_refuse(const ct_weights_t *w, const char *name, const char *why)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: tensor '%s': %s", w->path, name, why);
}

/* Reads a list of numbers {"as_int": n}, each at least 0. */
static int take_numbers(const ct_weights_t *w, const char *name, const json_t *list, int64_t *out)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *n = json_object_get(json_array_get(list, i), "as_int");
    if (!json_is_integer(n) || json_integer_value(n) < 0)
      return pt2_refuse(w, name, "its sizes, strides and offset must be numbers of at least 0");
    out[i] = json_integer_value(n);
  }
  return CT_OK;
}

static int take_shape(const ct_weights_t *w, const json_t *meta, ct__pth_tensor_t *t)
{
  int rc = CT_OK;
  const json_t *sizes = json_object_get(meta, "sizes"), *strides = json_object_get(meta, "strides");
  size_t n = json_array_size(sizes);
  json_t *offset = json_pack("[O]", json_object_get(meta, "storage_offset"));
  if (!json_is_array(sizes) || n > CT__PTH_DIMS || json_array_size(strides) != n || !offset)
    CT_TRY(pt2_refuse(w, t->name, "expected sizes, as many strides (at most 64), and an offset"));
  t->ndim = (int)n;
  t->dim = ct_mem_array(2 * (int64_t)n + 1, sizeof *t->dim, "a tensor's dims");
  if (!t->dim) CT_TRY(CT_ERR_NOMEM);
  t->stride = t->dim + n;
  CT_TRY(take_numbers(w, t->name, sizes, t->dim));
  CT_TRY(take_numbers(w, t->name, strides, t->stride));
  CT_TRY(take_numbers(w, t->name, offset, &t->offset));
out:
  json_decref(offset);
  return rc;
}

/* Finds the record of a tensor; *room: elements that it has. */
static int take_record(const ct_weights_t *w, const json_t *item, ct__pth_tensor_t *t,
                       int64_t *room)
{
  int rc = CT_OK;
  char path[1200];
  const char *file = json_string_value(json_object_get(item, "path_name"));
  if (!file || !ct_text_is_name(file) ||
      ct_text_format(path, sizeof path, "%s%s", w->prefix, file) != CT_OK)
    CT_TRY(pt2_refuse(w, t->name, "expected the name of its record as 'path_name'"));
  const ct_zip_record_t *r = ct_zip_find(&w->zip, path);
  if (!r) CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s': record '%s' is missing", w->path, t->name, path);
  if (r->packed)
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s': record '%s' is compressed, which torch never does",
            w->path, t->name, path);
  t->storage = r - w->zip.record;
  *room = r->bytes / (ct_elem_bits(t->type) / 8);
out:
  return rc;
}

/* Appends one weight; one that only PyTorch can read goes into the list of those left out. */
static int take_one(ct_weights_t *w, const char *name, const json_t *item)
{
  int rc = CT_OK;
  int64_t room;
  ct__pth_tensor_t t = {.name = name, .type = CT_ELEMS};
  const json_t *meta = json_object_get(item, "tensor_meta");
  const char *why = json_is_true(json_object_get(item, "use_pickle")) ? "stored as a pickle" : NULL;
  if (!ct_text_is_name(name))
    CT_FAIL(CT_ERR_FORMAT, "%s: the name of a tensor is not printable text", w->path);
  t.type = ct_pt2_list_type(json_integer_value(json_object_get(meta, "dtype")));
  if (!why && t.type == CT_ELEMS) why = "of a type that only PyTorch has";
  if (why) {
    if (w->unread++ < CT_NAMES_LISTED)
      CT_TRY(ct_str_add(&w->unread_list, "%s'%s' (%s)", w->unread > 1 ? ", " : "", name, why));
    return CT_OK;
  }
  CT_TRY(take_record(w, item, &t, &room));
  CT_TRY(take_shape(w, meta, &t));
  CT_TRY(ct__pth_view(w, &t, room));
out:
  ct_mem_free(t.dim);
  return rc;
}

int ct__pt2_take_all(ct_weights_t *w)
{
  int rc = CT_OK;
  const char *name;
  json_t *item, *config = json_object_get(w->json, "config");
  json_object_foreach(config, name, item) CT_TRY(take_one(w, name, item));
out:
  return rc;
}

int ct__pt2_take(ct_weights_t *w, const char *key)
{
  int rc = CT_OK;
  if (key && *key && strcmp(key, "/") != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: has no dict '%s': a file of torch.export has one list of weights",
            w->path, key);
  CT_TRY(ct__pt2_take_all(w));
  if (!w->n && !w->unread)
    CT_FAIL(CT_ERR_FORMAT, "%s: program of torch.export that has no weights", w->path);
  CT_TRY(ct__pth_remark_unread(w));
out:
  return rc;
}
