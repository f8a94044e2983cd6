/** \file h5_pack.h  A shard being written: its samples as they are, or as files.  Internal. */
#ifndef CT_H5_PACK_H
#define CT_H5_PACK_H
#include <hdf5.h>

#include "hdf5io/ct_pack.h"

#define CT__H5_PACK_KIND   "ctrain-hpc dataset"
#define CT__H5_PACK_NUMBER 1 /**< of the format: written, and the highest that is read */

typedef struct pack {
  const ct_pack_source_t *src;
  const ct_pack_shard_t *s;
  hid_t file, images, labels;
  int64_t chunk; /**< samples of a chunk */
  size_t row;    /**< bytes of a sample; 0: they differ */
  void *x;       /**< [chunk] */
  void *y;       /**< [chunk] labels, or [chunk][targets] */
  ct_pack_sample_t sample;
  int64_t bad; /**< samples that could not be read: then nothing more is written */
  /* of encoded samples */
  int64_t *offset; /**< [samples + 1], in the bytes of all */
  int32_t *size;   /**< [samples][3]: height, width, channels */
  char *name;      /**< [samples][name_bytes], padded with zeros */
  size_t name_bytes;
} pack_t;

/** h5_pack_array.c.  Records an error with HDF5's reason; with the lock held. */
int ct__pack_failed(const pack_t *p, const char *what);
/** An array of that shape, with the lock held. */
int ct__pack_create(const pack_t *p, const char *name, const ct_shape_t *x, int chunked,
                    hid_t *out);
/** Some rows of an array; without the lock. */
int ct__pack_put(const pack_t *p, const char *what, hid_t array, ct_dtype_t type, int64_t first,
                 int64_t rows, const void *from);

/** h5_pack_encoded.c: the array of all bytes, with the lock held. */
int ct__pack_encoded_create(pack_t *p);
/** Sample \a i of the shard was read. */
int ct__pack_encoded_take(pack_t *p, int64_t i);
/** All were: their offsets, sizes and names. */
int ct__pack_encoded_end(pack_t *p);
void ct__pack_encoded_clear(pack_t *p);

#endif
