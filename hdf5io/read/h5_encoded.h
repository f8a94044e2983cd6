/** \file h5_encoded.h  Samples that are whole JPEG or PNG files. Internal.
 *
 * Joined: the bytes of all files concatenated in a uint8 array with the attribute `encoding`;
 * `NAME.offsets` has their start offsets, and `NAME.sizes`, if present, the image sizes. Apart: an
 * array of variable-length uint8, as is common with h5py. */
#ifndef CT_H5_ENCODED_H
#define CT_H5_ENCODED_H
#include "hdf5io/read/h5_shard.h"

/** Needs the lock. If the open array holds image files, sets s->encoding and everything else that
 * ct__h5_shard_describe() finds about an array of samples. CT_ERR_FORMAT, CT_ERR_IO,
 * CT_ERR_USAGE */
int ct__h5_encoded_describe(ct__h5_shard_t *s, hid_t file, hid_t array,
                            const ct_reader_spec_t *spec);
/** Needs the lock, like the next two. Reads the start offset of each sample of a shard, and the end
 * of the last one; *out is allocated. CT_ERR_FORMAT: the offsets do not match the bytes. */
int ct__h5_encoded_offsets(const ct__h5_shard_t *s, hid_t file, const char *input, int64_t **out);
/** Read the bytes of one sample with HDF5, for the layouts CT__H5_APART and CT__H5_JOINED. */
int ct__h5_encoded_apart(const ct__h5_shard_t *s, hid_t array, int64_t i, ct_reader_file_t *to);
int ct__h5_encoded_joined(const ct__h5_shard_t *s, hid_t array, int64_t at, int64_t bytes,
                          void *to);
/** Grows the buffer for a sample's bytes. CT_ERR_NOMEM */
int ct__h5_encoded_reserve(ct_reader_file_t *to, int64_t bytes);
/** Entries of ct_reader_ops_t. */
int ct__h5_encoded_file(ct_reader_t *r, int64_t index, ct_reader_file_t *to);
void ct__h5_encoded_shape(const ct_reader_t *r, int64_t index, ct_shape_t *out);
/** Decodes samples of individual sizes, concatenated in x. */
int ct__h5_encoded_read(ct_reader_t *r, int n, const int64_t index[], uint8_t *x);
/** Sets the reader's properties that all shards have in common; all are encoded. */
void ct__h5_encoded_sum_up(ct_reader_t *r);

#endif
