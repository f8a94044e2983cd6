/** \file h5_shard.h  One file of a data set. Internal.
 *
 * A shard is read in blocks. A block is one chunk of a chunked array, or some rows of an array that
 * is not chunked. */
#ifndef CT_H5_SHARD_H
#define CT_H5_SHARD_H
#include "data/readers/ct_reader.h"
#include "hdf5io/read/h5_array.h"
#include "hdf5io/filter/h5_chunk.h"
#include "hdf5io/filter/h5_convert.h"

enum {
  CT__H5_MOST_DIMS = 5,                      /**< of a shard's array, including N */
  CT__H5_MOST_STORED = CT__H5_MOST_DIMS + 1, /**< of a stored array */
};

/** Access method for samples. */
typedef enum {
  CT__H5_BY_HDF5,   /**< by HDF5, under its lock */
  CT__H5_IN_A_ROW,  /**< contiguous in the file: bytes are read directly */
  CT__H5_IN_CHUNKS, /**< chunks are read as stored and decoded by ct__h5_chunk_decode() */
} ct__h5_access_t;

/** How samples are stored. */
typedef enum {
  CT__H5_NUMBERS, /**< numeric: rows of the array */
  CT__H5_JOINED,  /**< image files, concatenated (h5_encoded.h) */
  CT__H5_APART,   /**< image files, each a variable-length element */
} ct__h5_encoding_t;

typedef struct ct__h5_shard {
  char *path;    /**< owned; path that is read, possibly of a copy */
  char *name;    /**< owned; last component of the original path */
  int file;      /**< number of its file: several trajectories may be in one file */
  int64_t count; /**< samples */
  int64_t first; /**< number of its first sample in the data set */

  ct_shape_t x; /**< one sample, as in ct_reader_info_t */
  int channels_last;
  enum {
    CT__H5_SEEN_BY_DIMS,
    CT__H5_SEEN_BY_OPTION,      /* data.layout */
    CT__H5_SEEN_BY_ATTRIBUTE,   /* of the array */
    CT__H5_SEEN_BY_SHAPE        /* data.shape */
  } seen;                       /**< how the meaning of the dims was determined */
  int doubtful;                 /**< 1: judging by the dims alone, channels may also be last */
  int64_t classes;              /**< 0: unknown */
  int documents;                /**< tokens: 1: there is an array `document_starts` */
  int64_t eot, pad, text_bytes; /**< as in ct_reader_info_t */
  int64_t targets;              /**< target values per sample; 0: samples have labels */
  int by_pixel;   /**< 1: dense targets: one label or value per pixel, not read with the labels */
  int enumerated; /**< 1: labels are an HDF5 enumeration, as h5py stores booleans */

  ct__h5_stamp_t stamp; /**< stamp of the file when its header was read; of a copy when it was
                           opened */
  uint64_t stored;      /**< hash of the stored array's type, dims and chunks */
  int ndim;             /**< of the stored array, including N; see `at` */
  int64_t dims[CT__H5_MOST_DIMS];
  /* Stored dims before N.  at.lead 1: the shard is one trajectory of an array N x T x ..., and its
   * samples are the T frames; -1: the file is one sample, and dims[0] is 1 but not stored. */
  ct__h5_rows_at_t at;
  int64_t beside;       /**< trajectories in a chunk */
  int64_t trajectories; /**< at.lead 1: of the file */
  int undescribed;      /**< 1: the header of its samples was not read yet; 2: nor that of its
                           labels.  They must be as those of the first file */
  size_t row_bytes;     /**< bytes of one sample in memory */
  int64_t block_rows;   /**< samples per block; 0: not chunked, to be chosen */
  int64_t order_rows;   /**< samples per block for the sampler, independent of the memory available
                          for blocks */
  int64_t first_block;  /**< number of its first block in the data set */

  ct__h5_encoding_t encoding;
  int has_sizes;  /**< 1: the sizes of its image files are known */
  int32_t *sizes; /**< owned; [count] height, width if has_sizes; else NULL */

  ct__h5_access_t access;
  char slow[80]; /**< why slow reads through HDF5 are needed: "is virtual" */
  int straight;  /**< 1: each sample is contiguous in the file and can be read alone, directly to
                    its destination */
  ct__h5_convert_t convert;
  int by_convert;                  /**< 1: HDF5 reads elements as stored, and `convert` converts
                                      them */
  ct__h5_cf_t of_target;           /**< CF attributes of the array of labels or targets */
  int64_t chunk[CT__H5_MOST_DIMS]; /**< 0: not chunked */
  int64_t row_chunks; /**< chunks over which the samples of one chunk row are spread; 1: chunks hold
                         whole samples */
  size_t chunk_bytes; /**< size of a decoded chunk */
  int edges_plain;    /**< 1: partial edge chunks are stored without filters */
  ct__h5_filters_t filters;
  char fill[8];      /**< fill value of chunks never written, as in memory */
  char *class_names; /**< owned; one per line, only in the process that read the header; NULL:
                        none */
} ct__h5_shard_t;

/** Needs the lock. Reads the headers of s->path, open as \a file, and checks the array of labels or
 * targets. CT_ERR_FORMAT names file, array and what was expected. */
int ct__h5_shard_describe(ct__h5_shard_t *s, hid_t file, const ct_reader_spec_t *spec);
/** Pure. Converts dims or offsets of a shard's array to those of the stored array; \a lead is the
 * one that is put first. Returns the number of dims. */
int ct__h5_shard_stored(const ct__h5_shard_t *s, int64_t lead, const hsize_t *dims, hsize_t *out);
enum { CT__H5_NAME_MOST = 1000 /**< maximum bytes of a class name */ };
/** Needs the lock. Reads the file's attribute `class_names`, one name per line, owned by the
 * caller; NULL: missing, or not \a classes names. CT_ERR_NOMEM. */
int ct__h5_class_names(hid_t file, int64_t classes, char **out);
/** Needs the lock. Opens the array of samples. CT_ERR_FORMAT, CT_ERR_IO if the array has changed
 * since the shard was described, or if it is not as that of shard \a first and was not described;
 * the message names file, array and what was expected. a->changed: a warning is due. */
int ct__h5_shard_open(ct__h5_shard_t *s, const ct__h5_shard_t *first, hid_t file,
                      const ct_reader_spec_t *spec, ct__h5_array_t *a);
/** Needs the lock. Reads all labels of the shard, from array spec->target, into \a to as int64, or
 * all targets as float. *changed is set to 1 if a warning is due. */
int ct__h5_shard_labels(ct__h5_shard_t *s, const ct__h5_shard_t *first, hid_t file,
                        const ct_reader_spec_t *spec, void *to, int *changed);
/** Returns the bytes of a block in memory; a shard's last, partial block uses a full-sized
 * buffer. */
size_t ct__h5_shard_block_bytes(const ct__h5_shard_t *s);
/** Needs the lock. Reads samples through HDF5 from the open array. CT_ERR_IO */
int ct__h5_shard_read(const ct__h5_shard_t *s, ct__h5_array_t *a, int64_t first, int64_t rows,
                      void *to);

#endif
