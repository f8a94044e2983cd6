/** \file h5_list.h  The shards of a data set, in order.  Internal. */
#ifndef CT_H5_LIST_H
#define CT_H5_LIST_H
#include "hdf5io/read/h5_shard.h"

/** {0} is empty. */
typedef struct ct__h5_list {
  ct__h5_shard_t *v; /**< [n], owned */
  int n;
  int64_t samples; /**< of all */
} ct__h5_list_t;

/** The files that the patterns of a specification mean; nothing is opened.  CT_ERR_IO: no file
 * matches. */
int ct__h5_list_find(ct__h5_list_t *l, const ct_reader_spec_t *spec);
/** After each shard is described: numbers the samples, and makes sure that all shards are alike.
 * CT_ERR_FORMAT names the one that is not. */
int ct__h5_list_finish(ct__h5_list_t *l);
/** What is known of the shards, as bytes for another process of this program: *bytes is
 * allocated. */
int ct__h5_list_pack(const ct__h5_list_t *l, void **bytes, size_t *n);
/** The same list of such bytes. */
int ct__h5_list_unpack(ct__h5_list_t *l, const void *bytes, size_t n);
void ct__h5_list_clear(ct__h5_list_t *l);

#endif
