/** \file h5_pack.h  A shard being written, from arrays or from encoded files. Internal. */
#ifndef CT_H5_PACK_H
#define CT_H5_PACK_H
#include <hdf5.h>

#include "hdf5io/ct_pack.h"

#define CT__H5_PACK_KIND   "ctrain-hpc dataset"
#define CT__H5_PACK_NUMBER 1 /**< format version: written, and the highest that is read */

typedef struct pack {
  const ct_pack_source_t *src;
  const ct_pack_shard_t *s;
  hid_t file, images, labels;
  int64_t chunk; /**< samples per chunk */
  size_t row;    /**< bytes per sample; 0: they differ */
  void *x;       /**< [chunk] */
  void *y;       /**< [chunk] labels, or [chunk][targets] */
  ct_pack_sample_t sample;
  int64_t bad; /**< samples that could not be read; if > 0 nothing more is written */
  /* encoded samples only */
  int64_t *offset; /**< [samples + 1], into the concatenated bytes */
  int32_t *size;   /**< [samples][3]: height, width, channels */
  char *name;      /**< [samples][name_bytes], padded with zeros */
  size_t name_bytes;
} pack_t;

/** h5_pack_array.c. Needs the lock. Records an error with HDF5's reason. */
int ct__pack_failed(const pack_t *p, const char *what);
/** Needs the lock. Creates an array for samples of shape \a x. */
int ct__pack_create(const pack_t *p, const char *name, const ct_shape_t *x, int chunked,
                    hid_t *out);
/** Called without the lock. Writes some rows of an array. */
int ct__pack_put(const pack_t *p, const char *what, hid_t array, ct_dtype_t type, int64_t first,
                 int64_t rows, const void *from);

/** h5_pack_encoded.c. Needs the lock. Creates the array of all bytes. */
int ct__pack_encoded_create(pack_t *p);
/** Writes sample \a i of the shard, which was read into p->sample. */
int ct__pack_encoded_take(pack_t *p, int64_t i);
/** Writes offsets, sizes and names after the last sample. */
int ct__pack_encoded_end(pack_t *p);
void ct__pack_encoded_clear(pack_t *p);

#endif
