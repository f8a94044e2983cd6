/** \file ct_store.h  Checkpoint container: named arrays and named texts in one file. Layer 3.
 *
 * create, put and commit write to a temporary file with checksums, fsync it and rename it: after a
 * crash the file is complete or absent. All functions are local (one rank writes). */
#ifndef CT_STORE_H
#define CT_STORE_H
#include "base/ct_format.h"
#include "base/ct_types.h"

typedef struct ct_store ct_store_t;

typedef struct ct_store_ops {
  ct_format_t format;
  /* Starts to write path.tmp (replaces an old one). CT_ERR_IO */
  int (*create)(const char *path, ct_store_t **out);
  /* Writes an array under "/group/name"; creates groups as needed. data plain, row-major; any
   * dtype. */
  int (*put)(ct_store_t *s, const char *name, const ct_shape_t *shape, const void *data);
  /* Writes a text under a name ("/meta/config"). */
  int (*put_text)(ct_store_t *s, const char *name, const char *text);
  /* Writes the checksums, then flush, fsync, rename and fsync of the directory; frees s also on
   * failure */
  int (*commit)(ct_store_t *s);
  /* Removes the temporary file; frees s, which may be NULL */
  void (*discard)(ct_store_t *s);

  /* Opens the file, verifies the checksum of every array and text, and that nothing is missing.
   * CT_ERR_IO: cannot be opened; CT_ERR_FORMAT: damaged (the message names the item), or the file
   * is not a checkpoint; CT_ERR_NEWER: the format of a newer version */
  int (*open)(const char *path, ct_store_t **out);
  int (*count)(const ct_store_t *s);
  /* Name and shape of array i, in the order of the puts; borrowed */
  const char *(*item)(const ct_store_t *s, int i, ct_shape_t *shape);
  /* Shape of a named array; CT_ERR_FORMAT if missing (names file and item) */
  int (*find)(const ct_store_t *s, const char *name, ct_shape_t *shape);
  /* Reads a whole array into data, which holds the shape that `find` returned */
  int (*get)(ct_store_t *s, const char *name, const ct_shape_t *shape, void *data);
  /* Reads a text into a new string (ct_mem_free) */
  int (*get_text)(ct_store_t *s, const char *name, char **out);
  /* Frees s, which may be NULL */
  void (*close)(ct_store_t *s);
} ct_store_ops_t;

#endif
