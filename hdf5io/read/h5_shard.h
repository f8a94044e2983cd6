/** \file h5_shard.h  One file of a data set.  Internal.
 *
 * A shard is read in blocks: one chunk of a chunked array, some rows of any other. */
#ifndef CT_H5_SHARD_H
#define CT_H5_SHARD_H
#include "data/readers/ct_reader.h"
#include "hdf5io/read/h5_array.h"
#include "hdf5io/filter/h5_chunk.h"
#include "hdf5io/filter/h5_convert.h"

enum { CT__H5_MOST_DIMS = 5 }; /**< of a stored array */

/** How samples are fetched. */
typedef enum {
  CT__H5_BY_HDF5,   /**< by HDF5 itself, under its lock */
  CT__H5_IN_A_ROW,  /**< one behind the other in the file: their bytes are read */
  CT__H5_IN_CHUNKS, /**< chunks are read as stored and decoded by ct__h5_chunk_decode() */
} ct__h5_way_t;

/** What its samples are. */
typedef enum {
  CT__H5_NUMBERS, /**< rows of the array */
  CT__H5_JOINED,  /**< image files, one behind the other (h5_encoded.h) */
  CT__H5_APART,   /**< image files, each an element of variable length */
} ct__h5_encoding_t;

typedef struct ct__h5_shard {
  char *path;    /**< owned; where it is read, which may be a copy */
  char *name;    /**< owned; the last part of the path that was asked for */
  int64_t count; /**< samples */
  int64_t first; /**< number of its first sample in the data set */

  ct_shape_t x; /**< one sample as ct_reader_info_t tells it */
  int channels_last;
  enum {
    CT__H5_SEEN_BY_DIMS,
    CT__H5_SEEN_BY_OPTION,    /* data.layout */
    CT__H5_SEEN_BY_ATTRIBUTE, /* of the array */
    CT__H5_SEEN_BY_SHAPE      /* data.shape */
  } seen;                     /**< what its dims are seen by */
  int doubtful;               /**< 1: by its dims alone channels may as well come last */
  int64_t classes;            /**< 0: not said */
  int64_t targets;            /**< real numbers that belong to a sample; 0: it has a label */
  int by_place;   /**< 1: what belongs to it is of its places, and is not read as labels */
  int enumerated; /**< 1: labels are of an enumeration, as h5py has booleans */

  ct__h5_stamp_t stamp; /**< of the file when its header was read; of a copy: when it was opened */
  uint64_t stored;      /**< hash of type, dims and chunks of the stored array */
  int ndim;             /**< of the stored array, with N */
  int64_t dims[CT__H5_MOST_DIMS];
  size_t row_bytes;    /**< one sample in memory */
  int64_t block_rows;  /**< samples of a block; 0: to be chosen (not chunked) */
  int64_t order_rows;  /**< the same for the sampler: no function of the memory for blocks */
  int64_t first_block; /**< number of its first block in the data set */

  ct__h5_encoding_t encoding;
  int has_sizes;  /**< of image files: they are known */
  int32_t *sizes; /**< owned: then [count] height, width; else NULL */

  ct__h5_way_t way;
  char slow[80]; /**< why HDF5 itself must read it, if that costs: "is virtual" */
  int straight;  /**< 1: a sample's bytes lie together and can be read alone, to where it goes */
  ct__h5_convert_t convert;
  int by_convert;                  /**< 1: HDF5 only fetches its elements as they are stored */
  ct__h5_cf_t of_target;           /**< what the attributes of the array of labels or targets say */
  int64_t chunk[CT__H5_MOST_DIMS]; /**< 0: not chunked */
  int64_t row_chunks; /**< chunks that samples of the same chunk lie in; 1: whole samples */
  size_t chunk_bytes; /**< a decoded chunk as stored */
  int edges_plain;    /**< 1: chunks over the edge are stored without filters */
  ct__h5_filters_t filters;
  char fill[8];      /**< an element of a chunk that was never written, as in memory */
  char *class_names; /**< owned; a line each, in the process that read the header; NULL: none */
} ct__h5_shard_t;

/** With the lock.  Reads the headers of s->path, opened as \a file, and checks the array of labels
 * or targets. CT_ERR_FORMAT names file, array, what was expected. */
int ct__h5_shard_describe(ct__h5_shard_t *s, hid_t file, const ct_reader_spec_t *spec);
enum { CT__H5_NAME_MOST = 1000 /**< bytes of a class's name */ };
/** With the lock.  The names of so many classes from the attribute `class_names` of a file, a line
 * each, owned by the caller; NULL: it has none, or not so many.  CT_ERR_NOMEM. */
int ct__h5_class_names(hid_t file, int64_t classes, char **out);
/** With the lock.  Opens the array of samples.  CT_ERR_FORMAT, CT_ERR_IO unless it is as it was
 * when the shard was described; a->changed: a warning is due. */
int ct__h5_shard_open(ct__h5_shard_t *s, hid_t file, const char *input, ct__h5_array_t *a);
/** With the lock.  All labels of the shard to \a to as int64, or all targets as float; the array is
 * \a target.  *changed is set to 1 if a warning is due. */
int ct__h5_shard_labels(ct__h5_shard_t *s, hid_t file, const char *target, void *to, int *changed);
/** Bytes of a block in memory; the last of a shard is read into as much. */
size_t ct__h5_shard_block_bytes(const ct__h5_shard_t *s);
/** With the lock.  Samples by HDF5 itself, from the opened array.  CT_ERR_IO */
int ct__h5_shard_read(const ct__h5_shard_t *s, ct__h5_array_t *a, int64_t first, int64_t rows,
                      void *to);

#endif
