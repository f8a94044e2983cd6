/** \file ct_store.h  Checkpoint container: named arrays and named texts in one file.  Layer 3.
 *
 * create … put … commit writes beside, checksums, fsyncs and renames: after a crash the file is
 * there whole or not at all.  All functions are local (one rank writes). */
#ifndef CT_STORE_H
#define CT_STORE_H
#include "base/ct_format.h"
#include "base/ct_types.h"

typedef struct ct_store ct_store_t;

typedef struct ct_store_ops {
  ct_format_t format;
  /* path.tmp is begun (an old one is replaced).  CT_ERR_IO */
  int (*create)(const char *path, ct_store_t **out);
  /* An array under "/group/name"; groups are made on the way.  data plain, row-major; any dtype. */
  int (*put)(ct_store_t *s, const char *name, const ct_shape_t *shape, const void *data);
  /* A text under a name ("/meta/config"). */
  int (*put_text)(ct_store_t *s, const char *name, const char *text);
  /* Checksums of everything, flush, fsync, rename, fsync of the directory; frees s also on
   * failure */
  int (*commit)(ct_store_t *s);
  /* Removes the temporary; frees s; NULL is fine */
  void (*discard)(ct_store_t *s);

  /* Opens and verifies: every array and text against its checksum, and that nothing is missing.
   * CT_ERR_IO (cannot be opened), CT_ERR_FORMAT (damaged: names the item, or not a checkpoint),
   * CT_ERR_NEWER (of a newer version's format) */
  int (*open)(const char *path, ct_store_t **out);
  int (*count)(const ct_store_t *s);
  /* i-th array's name and shape, in the order they were put; borrowed */
  const char *(*item)(const ct_store_t *s, int i, ct_shape_t *shape);
  /* Shape of a name; CT_ERR_FORMAT if missing (names file and item) */
  int (*find)(const ct_store_t *s, const char *name, ct_shape_t *shape);
  /* Whole array into data, which has room for the shape that `find` told */
  int (*get)(ct_store_t *s, const char *name, const ct_shape_t *shape, void *data);
  /* New string (ct_mem_free) */
  int (*get_text)(ct_store_t *s, const char *name, char **out);
  /* NULL is fine */
  void (*close)(ct_store_t *s);
} ct_store_ops_t;

#endif
