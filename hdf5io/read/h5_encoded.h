/** \file h5_encoded.h  Samples that are image files, as they were found: JPEG or PNG.  Internal.
 *
 * Joined: the bytes of all one behind the other in an array of uint8 with the attribute `encoding`,
 * and where each begins in `NAME.offsets`; their sizes are in `NAME.sizes`, if that is there.
 * Apart: an array of variable-length uint8, as h5py's users have it. */
#ifndef CT_H5_ENCODED_H
#define CT_H5_ENCODED_H
#include "hdf5io/read/h5_shard.h"

/** With the lock.  If the opened array holds image files: s->encoding, and all that
 * ct__h5_shard_describe() finds of an array of samples.  CT_ERR_FORMAT, CT_ERR_IO, CT_ERR_USAGE */
int ct__h5_encoded_describe(ct__h5_shard_t *s, hid_t file, hid_t array,
                            const ct_reader_spec_t *spec);
/** With the lock, as the next two.  Where each sample of a shard begins, and the end of the last:
 * *out is allocated.  CT_ERR_FORMAT: they do not fit the bytes. */
int ct__h5_encoded_offsets(const ct__h5_shard_t *s, hid_t file, const char *input, int64_t **out);
/** The bytes of sample \a i, by HDF5: apart, or joined. */
int ct__h5_encoded_apart(const ct__h5_shard_t *s, hid_t array, int64_t i, ct_reader_file_t *to);
int ct__h5_encoded_joined(const ct__h5_shard_t *s, hid_t array, int64_t at, int64_t bytes,
                          void *to);
/** Room for a sample's bytes.  CT_ERR_NOMEM */
int ct__h5_encoded_room(ct_reader_file_t *to, int64_t bytes);
/** As ct_reader_ops_t says. */
int ct__h5_encoded_file(ct_reader_t *r, int64_t index, ct_reader_file_t *to);
void ct__h5_encoded_shape(const ct_reader_t *r, int64_t index, ct_shape_t *out);
/** Decodes samples, each of its own size, one behind the other. */
int ct__h5_encoded_read(ct_reader_t *r, int n, const int64_t index[], uint8_t *x);
/** What is common to all shards, which are encoded. */
void ct__h5_encoded_sum_up(ct_reader_t *r);

#endif
