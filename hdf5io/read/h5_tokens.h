/** \file h5_tokens.h  Arrays of tokens. Internal. */
#ifndef CT_H5_TOKENS_H
#define CT_H5_TOKENS_H
#include "hdf5io/read/h5_shard.h"

/** Needs the lock. Checks that \a array, which is described, is of integers and has one or two
 * dims, and reads its attributes `vocab`, `eot`, `pad` and `bytes`, which may be missing.
 * CT_ERR_FORMAT names file, array and what was expected. */
int ct__h5_tokens_describe(ct__h5_shard_t *s, hid_t file, hid_t array,
                           const ct_reader_spec_t *spec);

#endif
