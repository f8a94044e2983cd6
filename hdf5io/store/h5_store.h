/** \file h5_store.h  The checkpoint container's two halves, writing and reading.  Internal. */
#ifndef CT_H5_STORE_H
#define CT_H5_STORE_H
#include "ckpt/ct_store.h"
#include "hdf5io/h5_glue.h"

#define CT__H5_STORE_KIND     "ctrain-hpc checkpoint"
#define CT__H5_STORE_NUMBER   1 /**< of the format: written, and the highest that is read */
#define CT__H5_STORE_MANIFEST "/manifest" /**< the text that lists all items */

typedef struct ct__h5_item {
  char *name; /**< owned */
  int is_text;
  uint64_t hash;
  ct_shape_t shape; /**< of an array */
  size_t bytes;     /**< of a text, with its NUL */
} ct__h5_item_t;

struct ct_store {
  char *path;      /**< owned */
  char *temporary; /**< owned; NULL: opened for reading */
  hid_t file;
  ct__h5_item_t *items; /**< in the order they were put */
  int nitems;
  int64_t cap;
  int broken; /**< a put failed: never to be committed */
};

/** Without file; *out is to be freed also after a failure. */
int ct__h5_store_new(const char *path, ct_store_t **out);
/** All but the file; NULL is fine. */
void ct__h5_store_free(ct_store_t *s);
int ct__h5_store_add(ct_store_t *s, const char *name, int is_text, uint64_t hash,
                     ct__h5_item_t **out);
/** Rows of an array that go through HDF5 in one piece, at least 1. */
int64_t ct__h5_store_step(const ct_shape_t *shape);
/** Rows of an array and the bytes of one. */
int64_t ct__h5_store_rows(const ct_shape_t *shape, size_t *row_bytes);
/** With the lock.  CT_ERR_IO: "path: cannot \a what '\a name': " and HDF5's reason. */
int ct__h5_store_failed(const char *path, const char *name, const char *what);

int ct__h5_store_create(const char *path, ct_store_t **out);
int ct__h5_store_put(ct_store_t *s, const char *name, const ct_shape_t *shape, const void *data);
int ct__h5_store_put_text(ct_store_t *s, const char *name, const char *text);
int ct__h5_store_commit(ct_store_t *s);
void ct__h5_store_discard(ct_store_t *s);

#endif
