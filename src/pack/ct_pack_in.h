/** \file ct_pack_in.h  What `pack` reads: a function for each kind of source.  Layer 4.
 *
 * Each opens its files and checks what can be checked without the samples; all ranks call it, and
 * each reads for itself.  Errors: CT_ERR_IO, CT_ERR_FORMAT (names file, place, what was expected),
 * CT_ERR_NOMEM; then *out is empty.  A source that was opened is closed by out->close(out->state).
 */
#ifndef CT_PACK_IN_H
#define CT_PACK_IN_H
#include <stddef.h>

#include "comm/ct_topo.h"
#include "hdf5io/ct_pack.h"

/** Images and labels of IDX files (MNIST's), plain or gzip. */
int ct_pack_open_idx(const char *images, const char *labels, ct_pack_source_t *out);
/** 1 for names of NumPy's files: FILE.npy, FILE.npy.gz, FILE.npz, FILE.npz:NAME. */
int ct_pack_is_npy(const char *path);
/** Arrays of npy or npz files, any type of numbers, byte order and order of elements: samples as
 * data sets of HDF5 have them (channels last are put first), labels (integers, N or N x 1) or
 * targets (floats, N x anything).  \a shape as for csv.  CT_ERR_DATA of a sample: a number of it or
 * of its targets is not finite as float32. */
int ct_pack_open_npy(const char *images, const char *labels, const ct_shape_t *shape,
                     ct_pack_source_t *out);
/** CIFAR-10 or CIFAR-100, binary or Python version; coarse: 1: the 20 classes of CIFAR-100.  The
 * names of the classes are read from the file beside them (batches.meta, meta, or .txt). */
int ct_pack_open_cifar(const char *pattern, int coarse, ct_pack_source_t *out);
/** If the first line of a csv file is a header.  AUTO: if no cell of it is a number. */
typedef enum { CT_PACK_HEADER_AUTO, CT_PACK_HEADER_YES, CT_PACK_HEADER_NO } ct_pack_header_t;

typedef struct ct_pack_csv {
  ct_shape_t shape; /**< of a sample, dim[0] = 1; ndim 0: flat, as wide as the file */
  int64_t label;    /**< its column; -1: the last */
  int64_t targets;  /**< so many last columns are real-valued targets (then there is no label); 0:
                         none */
  ct_pack_header_t header;
} ct_pack_csv_t;

/** Cells as cells.h has them, labels by the rule of labels.h.  Lines end in LF, CR LF or CR, all in
 * the same.  Values that are all integers in 0 … 255 become uint8, any others float32. */
int ct_pack_open_csv(const char *path, const ct_pack_csv_t *o, ct_pack_source_t *out);

/** How images become samples. */
typedef struct ct_pack_images {
  const char *folder;      /**< dir/class/…/name.jpg; or */
  const char *list;        /**< a csv file of paths and labels or targets; or */
  const char *root;        /**< list: where paths begin */
  const char *tar;         /**< pattern of tar files as WebDataset has them */
  int64_t targets;         /**< list: numbers behind each path; 0: a label */
  ct_pack_header_t header; /**< list: as of csv */
  int encoded;             /**< 1: the files stay as they are */
  int channels;            /**< not encoded: 1 or 3 */
  int64_t height, width; /**< not encoded: resized to that; 0: the size of the first one, which all
                              have then */
  int crop;              /**< 1: the shorter side is resized to height, the middle is kept */
} ct_pack_images_t;

/** Collective.  JPEG and PNG files.  Rank 0 finds them and asks for their sizes and times, the
 * others are told.  A file that is missing or damaged is a bad sample; each is decoded, with
 * the bits of Pillow 13, also if it is stored as it is.  Resizing is ct_image_resize().  One of
 * another size is CT_ERR_SHAPE. */
int ct_pack_open_images(const ct_topo_t *t, const ct_pack_images_t *o, ct_pack_source_t *out);

/* ---- for those who write such a function ---- */

/** Whole file, decompressed if it is gzip; NUL-terminated; ct_mem_free. */
int ct_pack_read_file(const char *path, char **data, size_t *bytes);
/** Hash of a file's name, size and time, chained by \a seed, of its name alone if it is
 * not there. */
uint64_t ct_pack_identity(const char *path, uint64_t seed);

#endif
