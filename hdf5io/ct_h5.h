/** \file ct_h5.h  Everything that touches HDF5: the reader, the checkpoint container.
 * Data sets are written by ct_pack.h.
 *
 * HDF5 libraries are often built without thread safety: every call is made under one lock of ours,
 * which is released between pieces of long transfers.  HDF5 takes no file locks, unless
 * HDF5_USE_FILE_LOCKING asks for them (TRUE, 1 or BEST_EFFORT).  The on-disk layouts are described
 * in FORMAT.md. */
#ifndef CT_H5_H
#define CT_H5_H
#include "ckpt/ct_store.h"
#include "data/readers/ct_reader.h"
#include "weights/ct_weights.h"

extern const ct_reader_ops_t ct_reader_hdf5;
extern const ct_store_ops_t ct_store_hdf5;
/** The same container, as a weight file. */
extern const ct_weights_ops_t ct_weights_hdf5;
/** Arrays of any HDF5 file but a checkpoint, to be looked at: by their whole names. */
extern const ct_weights_ops_t ct_weights_any_hdf5;
/** Local.  *out: 1 if the file ends as checkpoints do, whole or not.  CT_ERR_IO */
int ct_h5_is_checkpoint(const char *path, int *out);

/** Local.  Changes the environment (HDF5_USE_FILE_LOCKING), so it is best called before there are
 * other threads; the first use of HDF5 does it otherwise. */
void ct_h5_setup(void);
/** HDF5_USE_FILE_LOCKING as the environment had it at the start; "": not set.  Borrowed. */
const char *ct_h5_locking(void);
/** "1.10.8" */
const char *ct_h5_version(void);
/** "deflate, shuffle, …": filters that are decoded by this program itself. */
const char *ct_h5_filters(void);

#endif
