/** \file h5_list.h  The ordered list of a data set's shards. Internal. */
#ifndef CT_H5_LIST_H
#define CT_H5_LIST_H
#include "hdf5io/read/h5_shard.h"

/** The shards; all zero: an empty list. */
typedef struct ct__h5_list {
  ct__h5_shard_t *v; /**< [n], owned */
  int n;
  int files;
  int64_t samples; /**< sum over the shards */
} ct__h5_list_t;

/** Expands the file patterns of a specification without opening anything. CT_ERR_IO: no file
 * matches. */
int ct__h5_list_find(ct__h5_list_t *l, const ct_reader_spec_t *spec);
/** Call after all files are described. Makes each trajectory a shard. CT_ERR_FORMAT: there are
 * none. */
int ct__h5_list_trajectories(ct__h5_list_t *l);
/** Makes all shards copies of the first one, to be described when they are read. */
void ct__h5_list_as_first(ct__h5_list_t *l);
/** Returns the first shard of a file; -1: there is none. */
int ct__h5_list_of_file(const ct__h5_list_t *l, int file);
/** Call after all shards are described: numbers the samples, and checks that all shards are
 * compatible. CT_ERR_FORMAT names an incompatible shard. */
int ct__h5_list_finish(ct__h5_list_t *l);
/** Returns the bytes of the text of all shards; 0: unknown. */
int64_t ct__h5_list_text_bytes(const ct__h5_list_t *l);
/** Serializes the descriptions of the shards for another process of this program; *bytes is
 * allocated. */
int ct__h5_list_pack(const ct__h5_list_t *l, void **bytes, size_t *n);
/** Restores the list from the bytes of ct__h5_list_pack(). */
int ct__h5_list_unpack(ct__h5_list_t *l, const void *bytes, size_t n);
void ct__h5_list_clear(ct__h5_list_t *l);

#endif
