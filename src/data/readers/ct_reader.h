/** \file ct_reader.h  Reads samples in any order.  Layer 2.
 *
 * A reader has no cursor: the sampler decides the order.  All functions are local. */
#ifndef CT_READER_H
#define CT_READER_H
#include "base/ct_format.h"
#include "conf/ct_opt.h"
#include "base/ct_types.h"
#include "data/order/ct_blocks.h"
#include "data/local/ct_cache.h"

typedef struct ct_reader ct_reader_t;

/** A file that claims more classes than this is treated as damaged. */
#define CT_CLASSES_MAX 10000000

enum { CT_GROUPS = 32 /**< arrays whose channels are joined */ };

/** How samples are stored.  To read any sample of a block, the whole block is read: a chunk of a
 * chunked array, or some rows of an array that is not chunked.  files 0: synthetic data. */
typedef struct ct_reader_layout {
  int files;
  int64_t blocks;     /**< in all files together */
  int64_t block_rows; /**< samples per block in the first file */
  size_t block_bytes;
  int compressed;     /**< 1: the first file is compressed by filters that this program decodes
                     itself */
  int by_hdf5;        /**< files that only the HDF5 library can read, one thread at a time */
  int cached;         /**< 1: all samples fit in the cache */
  size_t cache_bytes; /**< of the cache of decoded samples, once it is full; 0: none */
  int dims;           /**< number of dims of the stored array of the first file if it is chunked and
                     chunks are read as a whole; else 0 */
  int64_t dim[CT_MAX_DIMS]; /**< the sample dim comes first */
} ct_reader_layout_t;

/** The channels of stored samples that are made of several arrays or of several frames: the frames
 * one after another, each with all groups.  groups 0: the sample is one array. */
typedef struct ct_reader_channels {
  int64_t frames; /**< 0 or 1: not several */
  int groups;
  int64_t count[CT_GROUPS]; /**< channels of a group */
  char last[CT_GROUPS];     /**< 1: the group is stored H W C */
} ct_reader_channels_t;

typedef struct ct_reader_info {
  int64_t samples;   /**< in all shards together */
  ct_shape_t x;      /**< one sample as stored, dim[0] == 1, in the reader's dtype, N C H W order */
  int varies;        /**< 1: samples differ in size (see shape()), and x holds the largest extent of
                        each dim */
  int channels_last; /**< 1: samples are stored H W C and have to be transposed */
  int64_t classes;   /**< from the file's attribute `classes`, of tokens `vocab`; 0: unknown */
  int64_t eot;       /**< tokens: id that ends a document; -1: unknown */
  int documents;     /**< tokens: 1: all files have an array `document_starts` */
  int64_t tokens;    /**< tokens of all files; 0: samples are not windows of tokens */
  int64_t pad;       /**< tokens: id of padding; -1: unknown */
  int64_t text_bytes;      /**< tokens: bytes of the text of all files; 0: unknown */
  const char *class_names; /**< one name a line, if this rank read them from a header; else NULL */
  int64_t left_out;        /**< files skipped because they have another format (spec->skip_bad), if
                              this rank read them */
  int64_t targets; /**< 0: a sample has a class label; else the number of real-valued targets
                        (product of all dims) */
  ct_shape_t
      dense_target; /**< ndim > 0: a sample has a dense target, one label or value for each pixel
                        or voxel, of this shape and dtype as stored, in N C H W order */
  int dense_target_last;             /**< 1: dense targets are stored H W C */
  ct_reader_channels_t channels;     /**< of x */
  ct_reader_channels_t target_parts; /**< of dense_target */
  int same_target;   /**< 1: the dense target is made of later frames of the samples' arrays */
  int by_pixel;      /**< 1: spec->target is a dense target, which this reader does not read */
  int weighted;      /**< 1: samples have weights */
  ct_inputs_t extra; /**< extra inputs, which read() does not read: the stored shape of one sample
                        of each */
  int extra_last[CT_INPUTS_EXTRA]; /**< 1: it is stored H W C */
  ct_inputs_t more; /**< further targets, which read() does not read: the stored shape of one sample
                       of each */
  int by_place;     /**< 1: the dense target holds integers, one for each place of a sequence or of
                       another shape than the samples, and is not transformed */
  char seen[200];   /**< how the dims of stored samples were interpreted, for messages; "": no
                       remark */
  int doubtful;     /**< 1: the channels may also come last */
  char packed[200]; /**< how attributes change stored numbers (scale, offset), for messages; "": not
                       at all */
  int missing;      /**< 1: NaN marks a missing number */
  int wide;         /**< 1: x is stored as uint16, 0 to 65535 */
  int unlabelled;   /**< 1: spec->target was "", so all labels are 0 and carry no information */
  int encoded;      /**< 1: samples are image files (ct_image.h), returned by encoded() */
  int unsized;      /**< 1: image sizes are unknown; x is the shape of the first one, varies is 0 */
  ct_reader_layout_t layout;
  uint64_t fingerprint; /**< hash of shapes, counts and shard names; must be identical on all
                           ranks */
} ct_reader_info_t;

/** The bytes of an encoded sample.  The buffer grows as needed; all zero: an empty buffer.  Free v
 * with ct_mem_free(). */
typedef struct ct_reader_file {
  void *v;
  size_t bytes; /**< of the sample */
  int64_t cap;
} ct_reader_file_t;

/** Windows of frames; context 0: a sample is not a window. */
typedef struct ct_window {
  int64_t context, target, stride;
} ct_window_t;

/** How documents are treated in windows of tokens. */
typedef enum {
  CT_DOCUMENTS_STREAM, /**< as one text */
  CT_DOCUMENTS_MASK,   /**< a label that begins a document is ignored, and an extra input `first`
                            has for each token the place in the window where its document begins */
  CT_DOCUMENTS_PAD     /**< a document is a sample: its first tokens, then padding */
} ct_documents_t;

/** Windows of tokens, which are elements of an array of one dim, or rows of one of two dims;
 * context 0: a sample is not one. */
typedef struct ct_token_facts {
  int64_t context; /**< tokens of a sample's input; its labels are the tokens that follow each */
  int64_t stride;  /**< tokens from one window to the next */
  ct_documents_t documents;
  int same;        /**< 1: the labels are the tokens themselves; samples that are padded have an
                        extra input `keys`, 0 for padding and else 1 */
  int once;        /**< 1: each token of a file but the first is the label of one sample only, and
                        the last window of a file begins earlier, so that it ends with the file;
                        0: the last tokens that do not fill a window are not used */
  int64_t ignored; /**< the label of tokens that are not predicted */
  int64_t pad;     /**< id of padding; -1: the attribute `pad` of the array */
  int64_t vocab;   /**< ids are below it; 0: below the attribute `vocab` of the array */
} ct_token_facts_t;

/** How the dims of stored arrays are seen. */
typedef enum {
  CT_VIEW_SAMPLES,     /**< the first dim counts samples */
  CT_VIEW_FILE,        /**< a file is one sample, whose arrays have no dim of samples */
  CT_VIEW_TRAJECTORIES /**< N x T x ...: each frame of T is a sample, each of N a run of blocks() */
} ct_view_t;

/** The options of a reader, filled from section `data` of the configuration. */
typedef struct ct_reader_spec {
  const char *dir;             /**< base directory of relative patterns */
  const ct_opt_texts_t *files; /**< paths or globs, in this order */
  const char *input;           /**< name of the sample array, such as "images" */
  const char *target;          /**< name of the label or target array, such as "labels"; "": none is
                                  read */
  const ct_opt_texts_t *inputs;     /**< all names of inputs, of which `input` is the first; NULL:
                                       only this one */
  const ct_opt_texts_t *targets_of; /**< all names of targets, of which `target` is the first; NULL:
                                       only this one */
  int targets_apart; /**< 1: targets after the first are further targets (info.more); 0: they are
                        concatenated with it */
  int places; /**< 1: integer targets may have another shape than the samples: a label for each
                 place (info.by_place) */
  int apart;  /**< 1: inputs are not concatenated with the first one */
  const char *weight; /**< name of the array of sample weights; "" or NULL: none */
  int as_stored;      /**< 1: CF attributes of packed and missing numbers are ignored */
  int fills_missing;  /**< 1: missing numbers are replaced by `missing`; 0: by NaN */
  float missing;
  int values;                 /**< 1: integers of a dense target are values, not classes */
  int classes_of_pixels;      /**< 1: the input is itself an array of class labels, which stay
                            integers */
  const struct ct_tile *tile; /**< how samples are cut into tiles (ct_tiles.h); NULL: not at all */
  int layout;                 /**< 0 auto, 1 nchw, 2 nhwc */
  ct_view_t view;
  ct_window_t window;      /**< view is then of the frames of trajectories */
  ct_token_facts_t tokens; /**< the array `input` then has one dim */
  const int64_t *shape;    /**< C H W into which flat samples are reshaped, or NULL */
  int shape_dims;
  int channels;        /**< images: 1 or 3; 0: 3 if any image has colours */
  int skip_bad;        /**< images: 1: skip files that are not images, with a warning */
  int64_t cache_bytes; /**< memory for decoded chunks */
  double retry_s;      /**< how long a failed read is retried; 0: no retries */
  int threads;         /**< threads that read at the same time (others wait); 0: one for each
                          processor */
  int64_t samples;     /**< synthetic: number of samples */
  int64_t classes;     /**< synthetic: how many */
  int64_t targets;     /**< synthetic: real-valued targets per sample; 0: class labels */
  int pixels;          /**< synthetic: 1: a class label, or targets, for each pixel */
  uint64_t seed;       /**< synthetic */
  ct_reader_t *beside; /**< an opened reader of the same files, with which the new one shares their
                          descriptors; NULL: none */
  int readers;         /**< number of readers that will share them; 0: this one */
  const void
      *known; /**< output of share() on another rank, borrowed while the reader is opened; NULL:
                 read the files */
  size_t known_bytes;
} ct_reader_spec_t;

typedef struct ct_reader_ops {
  /* The format of its files.  A reader without files is selected by its name instead of files. */
  ct_format_t format;
  /* Reads headers only (shape and count of every shard).  With spec->known it takes them from there
   * and opens no file, since each open() on a parallel file system is a request to one metadata
   * server.  CT_ERR_IO, CT_ERR_FORMAT: the message names the file, the array and what was
   * expected. */
  int (*open)(const ct_reader_spec_t *spec, ct_reader_t **out);
  /* Serializes what another rank needs to open the same data without reading headers.  *bytes is
   * allocated; NULL if other ranks need nothing (synthetic data).  CT_ERR_NOMEM */
  int (*share)(const ct_reader_t *r, void **bytes, size_t *n);
  /* Returns the path from which the i-th file is read; NULL after the last. */
  const char *(*file)(const ct_reader_t *r, int i);
  /* Reads the i-th file from path, a copy of it, from now on; location() still names the original.
   * No other thread may read meanwhile.  CT_ERR_NOMEM */
  int (*move)(ct_reader_t *r, int i, const char *path);
  /* Reads the stored bytes of its files through this cache from now on, which it borrows until it
   * is closed.  No other thread may read meanwhile.  NULL: the reader cannot use a cache. */
  void (*keep_in)(ct_reader_t *r, ct_cache_t *cache);
  const ct_reader_info_t *(*info)(const ct_reader_t *r);
  /* Returns the shape of one sample where samples differ in size, with the channels and dtype of
   * info()->x. Reads no file.  NULL if all samples have the same shape. */
  void (*shape)(const ct_reader_t *r, int64_t index, ct_shape_t *out);
  /* Describes the i-th run of samples and its blocks, which are read as a whole or are best read
   * together.
   * Returns 1, or 0 after the last run, which ends with the last sample.  NULL if samples are
   * stored one by one. */
  int (*blocks)(const ct_reader_t *r, int i, ct_block_run_t *out);
  /* A hint that these n samples will be read soon.  Thread-safe as read(), but never fails.  NULL:
   * hints do not help this reader. */
  void (*ahead)(ct_reader_t *r, int n, const int64_t index[]);
  /* Reads n samples in the order of index[].  x: n samples as stored, each of its own size.  y: n
   * int64 labels, or n times `targets` floats, or n dense targets as stored.  Either may be NULL.
   * Thread-safe; allocates nothing.  CT_ERR_IO, CT_ERR_FORMAT; CT_ERR_ARG: an index is out of
   * range. */
  int (*read)(ct_reader_t *r, int n, const int64_t index[], void *x, void *y);
  /* Reads n neighbouring samples of one run of blocks(), from number \a first on, without their
   * labels.  Thread-safe; allocates nothing.  NULL: the reader has no such runs.  As read(). */
  int (*range)(ct_reader_t *r, int64_t first, int64_t n, void *x);
  /* Reads extra input k of n samples, as stored.  Thread-safe.  NULL: the reader has none.  As
   * read(). */
  int (*extra)(ct_reader_t *r, int k, int n, const int64_t index[], void *x);
  /* Reads the encoded bytes of one sample.  Thread-safe.  NULL if samples are never encoded.
   * CT_ERR_IO, CT_ERR_FORMAT, CT_ERR_ARG, CT_ERR_NOMEM */
  int (*encoded)(ct_reader_t *r, int64_t index, ct_reader_file_t *to);
  /* Describes the origin of a sample, for messages: "train-001.h5, sample 17". */
  void (*location)(const ct_reader_t *r, int64_t index, char *buf, size_t cap);
  /* Frees r, which may be NULL */
  void (*close)(ct_reader_t *r);
} ct_reader_ops_t;

/** Local.  Selects the reader of spec->files: *row is its index in \a readers, a list that ends
 * with NULL.  The reader is chosen by its name if that is the only entry of spec->files, otherwise
 * by the format of the first file (ct_format_find()).  A data set has one reader, which rejects
 * files of other formats. */
int ct_reader_find(const ct_reader_ops_t *const readers[], const ct_reader_spec_t *spec,
                   int64_t *row);

/** Local.  Lists the files that \a pattern matches below \a dir, as ct_file_glob() does; if it is a
 * directory, its files with a suffix of \a format, in byte order.  CT_ERR_USAGE, CT_ERR_IO: there
 * are none. */
int ct_reader_list(const ct_format_t *format, const char *dir, const char *pattern, char ***list,
                   int *n);

/** Pure.  Returns 1 if the last of the n dims of a sample is probably the channel dim.  It is if
 * the first dim is not 1, 3 or 4, and the last one is 1, 3 or 4 (with three dims), or is the
 * smallest and either at most a quarter of each other dim or all other dims are equal. */
int ct_reader_guess_last(const int64_t *dim, int n);
/** Pure. Returns 1 if ct_reader_guess_last() returns 0 although the last dim is the smallest. */
int ct_reader_guess_doubtful(const int64_t *dim, int n);

/** Synthetic images: noise with a pattern that depends on the class or the targets.  Learnable, of
 * any size, without files. */
extern const ct_reader_ops_t ct_reader_synthetic;
/** PNG and JPEG files, one sample each (ct_image.h).  They have no labels, so spec->target must be
 * "". read() allocates here, as the decoding libraries do. */
extern const ct_reader_ops_t ct_reader_images;

#endif
