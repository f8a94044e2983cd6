/* The format of torch.save() before PyTorch 1.6: a magic number, a version, machine properties, the
 * object, and the keys of its storages, each a pickle; then for each key the number of elements and
 * the elements (torch/serialization.py, _legacy_save). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "weights/pth/pth.h"

static const unsigned char magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                      0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};
enum { VERSION = 1001 };

int ct__pth_is_old(const unsigned char *head, int64_t bytes)
{
  return bytes >= (int64_t)sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

/* Checks that the version is 1001. */
static int check_version(ct_weights_t *w, int64_t *at)
{
  int rc = CT_OK;
  ct_pickle_t p = {0};
  CT_TRY(ct_pickle_load(w->fd, w->path, "its version", *at, w->bytes, &p, at));
  if (p.node[p.root].kind != CT_PICKLE_INT || p.node[p.root].value != VERSION)
    CT_FAIL(CT_ERR_FORMAT, "%s: its version is not 1001, the only one of its format", w->path);
out:
  ct_pickle_clear(&p);
  return rc;
}

/* Expects {"protocol_version": 1001, "little_endian": True, ...}. */
static int check_machine(ct_weights_t *w, int64_t *at)
{
  int rc = CT_OK;
  ct_pickle_t p = {0};
  CT_TRY(ct_pickle_load(w->fd, w->path, "machine properties", *at, w->bytes, &p, at));
  const ct_pickle_node_t *root = &p.node[p.root];
  if (root->kind != CT_PICKLE_DICT)
    CT_FAIL(CT_ERR_FORMAT, "%s: the machine properties must be a dict", w->path);
  for (int c = root->first; c >= 0; c = ct__pth_next(&p, c)) {
    const char *key = ct__pth_key(&p, c);
    const ct_pickle_node_t *value = &p.node[ct__pth_value(&p, c)];
    if (key && strcmp(key, "little_endian") == 0 &&
        (value->kind != CT_PICKLE_BOOL || !value->value))
      CT_FAIL(CT_ERR_FORMAT, "%s: numbers in big-endian order, expected little-endian", w->path);
  }
out:
  ct_pickle_clear(&p);
  return rc;
}

/* ---- storages used by the object ---- */

typedef struct use {
  const char *key, *type;
} use_t;

static int by_key(const void *a, const void *b)
{
  return strcmp(((const use_t *)a)->key, ((const use_t *)b)->key);
}

/* Removes duplicate keys. */
static int unite(const char *path, use_t *use, int64_t *n)
{
  int rc = CT_OK;
  int64_t kept = 0;
  if (*n) qsort(use, (size_t)*n, sizeof *use, by_key);
  for (int64_t i = 0; i < *n; i++) {
    if (kept == 0 || strcmp(use[kept - 1].key, use[i].key) != 0)
      use[kept++] = use[i];
    else if (strcmp(use[kept - 1].type, use[i].type) != 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: a storage is both a %s and a %s", path, use[kept - 1].type,
              use[i].type);
  }
  *n = kept;
out:
  return rc;
}

static int list_uses(const ct_weights_t *w, use_t **out, int64_t *n)
{
  int rc = CT_OK;
  int64_t cap = 0, count;
  use_t u;
  for (int64_t i = 0; i < w->pickle.nodes; i++) {
    if (!ct__pth_storage(&w->pickle, (int)i, &u.key, &u.type, &count)) continue;
    CT_TRY(ct_mem_grow((void **)out, &cap, *n + 1, sizeof **out));
    (*out)[(*n)++] = u;
  }
  CT_TRY(unite(w->path, *out, n));
out:
  return rc;
}

/* Returns the bytes per element of a storage, which are not stored next to its data. */
static int element_bytes(const ct_weights_t *w, const use_t *uses, int64_t n, const char *key,
                         int64_t *out)
{
  int rc = CT_OK, bytes;
  ct_elem_t type;
  use_t wanted = {.key = key};
  const use_t *u = n ? bsearch(&wanted, uses, (size_t)n, sizeof *uses, by_key) : NULL;
  if (!ct_text_is_name(key) || !u)
    CT_FAIL(CT_ERR_FORMAT, "%s: a storage that no tensor has", w->path);
  if (!ct__pth_storage_type(u->type, &type, &bytes))
    CT_FAIL(CT_ERR_FORMAT, "%s: storage '%s' is a %s, expected one of PyTorch's types", w->path,
            key, u->type);
  *out = bytes;
out:
  return rc;
}

/* ---- locations of the storages ---- */

static int add_record(ct_weights_t *w, const char *key, int64_t at, int64_t bytes)
{
  int rc = CT_OK;
  ct_str_t name = {0};
  CT_TRY(ct_mem_grow((void **)&w->zip.record, &w->zip.cap, w->zip.n + 1, sizeof *w->zip.record));
  CT_TRY(ct_str_add(&name, "%s%s", w->prefix, key));
  w->zip.record[w->zip.n++] = (ct_zip_record_t){.name = name.data, .at = at, .bytes = bytes};
  name.data = NULL;
out:
  ct_str_clear(&name);
  return rc;
}

/* Reads the storage at *at and advances *at past it. */
static int find_record(ct_weights_t *w, const use_t *uses, int64_t n, const char *key, int64_t *at)
{
  int rc = CT_OK;
  unsigned char number[8];
  int64_t size = 1;
  CT_TRY(element_bytes(w, uses, n, key, &size));
  CT_TRY(ct_file_read_at(w->fd, w->path, *at, number, sizeof number));
  *at += (int64_t)sizeof number;
  uint64_t count = ct_zip_u64(number);
  if (count > (uint64_t)((w->bytes - *at) / size))
    CT_FAIL(CT_ERR_FORMAT, "%s: storage '%s' of %" PRIu64 " elements reaches past the file",
            w->path, key, count);
  CT_TRY(add_record(w, key, *at, (int64_t)count * size));
  *at += (int64_t)count * size;
out:
  return rc;
}

/* Reads the list of keys, then the storages, which follow in the same order. */
static int find_records(ct_weights_t *w, int64_t at)
{
  int rc = CT_OK;
  ct_pickle_t p = {0};
  use_t *uses = NULL;
  int64_t n = 0;
  CT_TRY(ct_pickle_load(w->fd, w->path, "the list of storages", at, w->bytes, &p, &at));
  CT_TRY(list_uses(w, &uses, &n));
  if (p.node[p.root].kind != CT_PICKLE_LIST)
    CT_FAIL(CT_ERR_FORMAT, "%s: the list of storages is malformed", w->path);
  for (int c = p.node[p.root].first; c >= 0; c = p.cell[c].next) {
    int key = p.cell[c].node;
    if (p.node[key].kind != CT_PICKLE_TEXT)
      CT_FAIL(CT_ERR_FORMAT, "%s: the list of storages has an entry that is not a text", w->path);
    CT_TRY(find_record(w, uses, n, ct_pickle_text(&p, key), &at));
  }
  if (at != w->bytes)
    CT_FAIL(CT_ERR_FORMAT, "%s: %" PRId64 " bytes after its last storage, expected none", w->path,
            w->bytes - at);
  CT_TRY(ct_zip_sort(&w->zip, w->path));
out:
  ct_mem_free(uses);
  ct_pickle_clear(&p);
  return rc;
}

int ct__pth_open_old(ct_weights_t *w)
{
  int rc = CT_OK;
  int64_t at = sizeof magic;
  w->prefix = ct_mem_strdup("data/");
  if (!w->prefix) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(check_version(w, &at));
  CT_TRY(check_machine(w, &at));
  CT_TRY(ct_pickle_load(w->fd, w->path, "its object", at, w->bytes, &w->pickle, &at));
  CT_TRY(find_records(w, at));
out:
  return rc;
}
