/* The list of what a checkpoint holds, which its writing half and its reading half share.
 *
 * Large arrays go through HDF5 in slabs: its one lock is given back between them, so that the feed
 * can read its samples while a checkpoint is written. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "hdf5io/store/h5_store.h"

enum { SLAB_BYTES = 8 << 20 };

int ct__h5_store_failed(const char *path, const char *name, const char *what)
{
  char why[200];
  ct__h5_why(why, sizeof why);
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot %s '%s': %s", path, what, name, why);
}

int ct__h5_store_add(ct_store_t *s, const char *name, int is_text, uint64_t hash,
                     ct__h5_item_t **out)
{
  int rc = ct_mem_grow((void **)&s->items, &s->cap, s->nitems + 1, sizeof *s->items);
  if (rc != CT_OK) return rc;
  ct__h5_item_t *item = &s->items[s->nitems];
  *item = (ct__h5_item_t){.name = ct_mem_strdup(name), .is_text = is_text, .hash = hash};
  if (!item->name) return CT_ERR_NOMEM;
  s->nitems++;
  *out = item;
  return CT_OK;
}

void ct__h5_store_free(ct_store_t *s)
{
  if (!s) return;
  for (int i = 0; i < s->nitems; i++)
    ct_mem_free(s->items[i].name);
  ct_mem_free(s->items);
  ct_mem_free(s->path);
  ct_mem_free(s->temporary);
  ct_mem_free(s);
}

int ct__h5_store_new(const char *path, ct_store_t **out)
{
  ct_store_t *s = ct_mem_alloc(sizeof *s, "a checkpoint");
  *out = s;
  if (!s) return CT_ERR_NOMEM;
  s->file = -1;
  s->path = ct_mem_strdup(path);
  return s->path ? CT_OK : CT_ERR_NOMEM;
}

int64_t ct__h5_store_rows(const ct_shape_t *shape, size_t *row_bytes)
{
  int64_t rows = shape->ndim > 0 ? shape->dim[0] : 1;
  *row_bytes = 0;
  if (rows > 0) *row_bytes = (size_t)(ct_shape_count(shape) / rows) * ct_dtype_size(shape->dtype);
  return rows;
}

int64_t ct__h5_store_step(const ct_shape_t *shape)
{
  size_t row;
  int64_t rows = ct__h5_store_rows(shape, &row);
  if (row == 0) return rows > 0 ? rows : 1;
  return row < SLAB_BYTES ? (int64_t)(SLAB_BYTES / row) : 1;
}
