/** \file ct_pack_in.h  The sources of `pack`: one function for each kind.  Layer 4.
 *
 * Each function opens its files and checks everything that needs no samples.  All ranks call it,
 * and each rank reads the files itself.  Errors: CT_ERR_IO, CT_ERR_FORMAT (the message names the
 * file, the position and what was expected), CT_ERR_NOMEM; then *out is empty.  An opened source is
 * closed by out->close(out->state). */
#ifndef CT_PACK_IN_H
#define CT_PACK_IN_H
#include <stddef.h>

#include "comm/ct_topo.h"
#include "hdf5io/ct_pack.h"

/** Opens images and labels in IDX files (MNIST's), plain or gzip. */
int ct_pack_open_idx(const char *images, const char *labels, ct_pack_source_t *out);
/** Returns 1 for names of NumPy files: FILE.npy, FILE.npy.gz, FILE.npz, FILE.npz:NAME. */
int ct_pack_is_npy(const char *path);
/** Opens arrays of npy or npz files, of any numeric type, byte order and element order: samples in
 * the layouts that HDF5 data sets may have (channels last become channels first), and labels
 * (integers, N or N x 1) or targets (floats, N x anything).  \a shape as for csv.  Reading a sample
 * returns CT_ERR_DATA if a number of it or of its targets is not finite as float32. */
int ct_pack_open_npy(const char *images, const char *labels, const ct_shape_t *shape,
                     ct_pack_source_t *out);
/** Opens CIFAR-10 or CIFAR-100, binary or Python version; coarse 1: the 20 coarse classes of
 * CIFAR-100. Class names are read from the file in the same directory (batches.meta, meta, or
 * .txt). */
int ct_pack_open_cifar(const char *pattern, int coarse, ct_pack_source_t *out);
/** Whether the first line of a csv file is a header.  AUTO: it is if none of its cells is a
 * number. */
typedef enum { CT_PACK_HEADER_AUTO, CT_PACK_HEADER_YES, CT_PACK_HEADER_NO } ct_pack_header_t;

typedef struct ct_pack_csv {
  ct_shape_t shape; /**< shape of a sample, dim[0] = 1; ndim 0: flat, all columns */
  int64_t label;    /**< column of the label; -1: the last */
  int64_t targets;  /**< number of last columns that are real-valued targets, instead of a label; 0:
                       none */
  ct_pack_header_t header;
} ct_pack_csv_t;

/** Opens a csv file: cells as in cells.h, labels as in labels.h.  All lines end in LF, or all in CR
 * LF, or all in CR.  Samples become uint8 if all their values are integers in 0 … 255, else
 * float32. */
int ct_pack_open_csv(const char *path, const ct_pack_csv_t *o, ct_pack_source_t *out);

/** The source and options of images. */
typedef struct ct_pack_images {
  const char *folder;      /**< searched for dir/class/…/name.jpg; NULL: `list` or `tar` is set */
  const char *list;        /**< csv file of paths and labels or targets; NULL: not used */
  const char *root;        /**< list: base directory of its paths */
  const char *tar;         /**< pattern of tar files in WebDataset's layout; NULL: not used */
  int64_t targets;         /**< list: number of targets after each path; 0: a label */
  ct_pack_header_t header; /**< list: as for csv */
  int encoded;             /**< 1: files are stored unchanged */
  int channels;            /**< not encoded: 1 or 3 */
  /* not encoded: size after resizing; 0: the size of the first image, which all images must have */
  int64_t height, width;
  int crop; /**< 1: the shorter side is resized to height, then a center crop is
                            taken */
} ct_pack_images_t;

/** Collective.  Opens JPEG and PNG files.  Rank 0 finds them with their sizes and times, and sends
 * the list to the other ranks.  A missing or damaged file is a bad sample; every file is decoded to
 * find damage, even if it is stored unchanged.  Pixels are those of ct_image_decode() and
 * ct_image_resize().  Reading an image of another size returns CT_ERR_SHAPE. */
int ct_pack_open_images(const ct_topo_t *t, const ct_pack_images_t *o, ct_pack_source_t *out);

/* ---- helpers of these functions ---- */

/** Reads a whole file and decompresses gzip.  The result is NUL-terminated and freed with
 * ct_mem_free(). */
int ct_pack_read_file(const char *path, char **data, size_t *bytes);
/** Returns a hash of a file's name, size and time, or of its name alone if it does not exist;
 * \a seed: the hash to be extended. */
uint64_t ct_pack_identity(const char *path, uint64_t seed);

#endif
