/** \file ct_field_file.h  Writes arrays of fields, sample by sample: HDF5 with the names of the
 * dims, the coordinates and the chunks of an input array.  All functions are local. */
#ifndef CT_FIELD_FILE_H
#define CT_FIELD_FILE_H
#include "base/ct_types.h"

typedef struct ct_field_file ct_field_file_t;

/** The array from which names of dims, coordinates and chunks are taken. */
typedef struct ct_field_like {
  const char *path;  /**< NULL, or a file that is not HDF5: none */
  const char *array; /**< its dims: samples, then channels and space in either order, or space */
  int channels_last;
} ct_field_like_t;

/** Starts to write path.tmp.  CT_ERR_IO */
int ct_field_file_create(const char *path, const ct_field_like_t *like, ct_field_file_t **out);
/** Adds an array, with number *k.  Dims of \a shape: samples, \a channels of them (0 or 1) for
 * channels, then those of space.  Samples that are never put are NaN, 255 (uint8) or -1.  Chunks
 * are those of the input along axes of equal extent, and else the whole extent; a chunk holds one
 * sample, or several of an array without space. */
int ct_field_file_add(ct_field_file_t *f, const char *name, const ct_shape_t *shape, int channels,
                      int *k);
/** Writes one sample of array k. */
int ct_field_file_put(ct_field_file_t *f, int k, int64_t sample, const void *data);
/** Writes a text under a name. */
int ct_field_file_text(ct_field_file_t *f, const char *name, const char *text);
/** Completes the file and renames it.  Frees f, also on failure; then no file is left. */
int ct_field_file_commit(ct_field_file_t *f);
/** Removes the temporary file.  Frees f, which may be NULL. */
void ct_field_file_discard(ct_field_file_t *f);

#endif
