/** \file h5_store.h  The checkpoint container: declarations shared by its writer and reader.
 * Internal. */
#ifndef CT_H5_STORE_H
#define CT_H5_STORE_H
#include "ckpt/ct_store.h"
#include "hdf5io/h5_glue.h"

#define CT__H5_STORE_KIND     "ctrain-hpc checkpoint"
#define CT__H5_STORE_NUMBER   1 /**< format version: written, and the highest that is read */
#define CT__H5_STORE_MANIFEST "/manifest" /**< name of the text that lists all items */

typedef struct ct__h5_item {
  char *name; /**< owned */
  int is_text;
  uint64_t hash;
  ct_shape_t shape; /**< arrays only */
  size_t bytes;     /**< texts only, including the NUL */
} ct__h5_item_t;

struct ct_store {
  char *path;      /**< owned */
  char *temporary; /**< owned; NULL: open for reading */
  hid_t file;
  ct__h5_item_t *items; /**< in the order of the puts */
  int nitems;
  int64_t cap;
  int broken; /**< 1: a put failed; commit is refused */
};

/** Allocates a store without opening a file; *out must be freed even after a failure. */
int ct__h5_store_new(const char *path, ct_store_t **out);
/** Frees everything but the file; \a s may be NULL. */
void ct__h5_store_free(ct_store_t *s);
int ct__h5_store_add(ct_store_t *s, const char *name, int is_text, uint64_t hash,
                     ct__h5_item_t **out);
/** Returns the rows of an array per HDF5 transfer, at least 1. */
int64_t ct__h5_store_step(const ct_shape_t *shape);
/** Returns the number of rows of an array, and the bytes per row. */
int64_t ct__h5_store_rows(const ct_shape_t *shape, size_t *row_bytes);
/** Needs the lock. Returns CT_ERR_IO with the text "path: cannot \a what '\a name': " and HDF5's
 * reason. */
int ct__h5_store_failed(const char *path, const char *name, const char *what);

int ct__h5_store_create(const char *path, ct_store_t **out);
int ct__h5_store_put(ct_store_t *s, const char *name, const ct_shape_t *shape, const void *data);
int ct__h5_store_put_text(ct_store_t *s, const char *name, const char *text);
int ct__h5_store_commit(ct_store_t *s);
void ct__h5_store_discard(ct_store_t *s);

#endif
