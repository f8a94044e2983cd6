/** \file ct_h5.h  Everything that touches HDF5: the reader, the checkpoint container, the dataset
 * writer.
 *
 * HDF5 libraries are often built without thread safety: every call is made under one lock of ours,
 * which is released between pieces of long transfers.  HDF5 takes no file locks, unless
 * HDF5_USE_FILE_LOCKING asks for them (TRUE, 1 or BEST_EFFORT).  The on-disk layouts are described
 * in FORMAT.md. */
#ifndef CT_H5_H
#define CT_H5_H
#include "ckpt/ct_store.h"
#include "data/ct_reader.h"
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

/* ---- writing datasets: `pack` ---- */

/** A source of samples for pack: rows in order. */
typedef struct ct_pack_source {
  ct_shape_t x;    /**< one sample; dim[0] == 1; CT_U8 or CT_F32 */
  int64_t samples; /**< how many there are */
  void *state;
  /** Next n samples, with as many labels (int32_t) or n times `targets` floats; returns CT_OK or an
   * error that names file and line. */
  int (*next)(void *state, int n, void *x, void *y);
  int64_t targets;       /**< real numbers that belong to a sample; 0: it has a label */
  const char *inputs[2]; /**< files they come from, which no shard may replace; NULL: none */
} ct_pack_source_t;

/** Local.  Shards named by a printf pattern with one %d ("train-%03d.h5"; with one shard a plain
 * name will do), samples dealt in contiguous parts; arrays `images` and `labels` (`targets`: N x
 * targets, float32), chunked, deflate level \a deflate (0: none), attribute `classes` (0: none).
 * Each shard is written beside and renamed; on failure none of the new ones stays. CT_ERR_USAGE
 * before anything is written: a pattern without its %d, or one that names a file of src->inputs. */
int ct_pack_write(const ct_pack_source_t *src, const char *pattern, int shards, int deflate,
                  int64_t classes);

#endif
