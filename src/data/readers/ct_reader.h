/** \file ct_reader.h  Random-access samples.  Layer 2.
 *
 * A reader has no cursor: the sampler alone decides the order.  Everything is local. */
#ifndef CT_READER_H
#define CT_READER_H
#include "base/ct_format.h"
#include "conf/ct_opt.h"
#include "base/ct_types.h"
#include "data/order/ct_blocks.h"
#include "data/local/ct_cache.h"

typedef struct ct_reader ct_reader_t;

/** More classes than this, in what files say, are taken for damage. */
#define CT_CLASSES_MAX 10000000

/** How samples lie in their files.  A block is read as a whole for any of its samples: a chunk of a
 * chunked array, some rows of any other.  files 0: there are none. */
typedef struct ct_reader_layout {
  int files;
  int64_t blocks;     /**< of all files */
  int64_t block_rows; /**< samples of a block of the first file */
  size_t block_bytes;
  int compressed; /**< of the first file, with what this program decodes itself */
  int by_hdf5;    /**< files that HDF5 itself must read: one thread at a time */
  int cached;     /**< 1: all samples fit in the cache */
  int dims;       /**< of the stored array of the first file, if it is in chunks of numbers that are
                     read as a whole; else 0 */
  int64_t dim[CT_MAX_DIMS]; /**< with that of the samples first */
} ct_reader_layout_t;

typedef struct ct_reader_info {
  int64_t samples;   /**< all shards together */
  ct_shape_t x;      /**< one sample as stored, dim[0] == 1, in the reader's dtype, N C H W order */
  int varies;        /**< 1: samples differ in size, by shape(), and x is the largest in each dim */
  int channels_last; /**< 1: a sample's bytes are H W C and are to be transposed */
  int64_t classes;   /**< from the file's attribute `classes`; 0: unknown */
  const char *class_names; /**< their names, a line each, if a header told them here; else NULL */
  int64_t left_out;        /**< files that are none of its format (spec->skip_bad), told here */
  int64_t targets;   /**< 0: a sample has a class number; else so many real numbers (of all dims) */
  ct_shape_t answer; /**< ndim > 0: a sample has an array of answers, one for each of its places, of
                        this shape and dtype as stored, in N C H W order */
  int answer_last;   /**< 1: it is stored H W C */
  int by_place;      /**< 1: spec->target is such an array, which this reader does not read */
  int weighted;      /**< 1: samples have weights */
  ct_inputs_t more;  /**< further arrays that read() does not read: one sample of each as stored */
  int more_last[CT_INPUTS_MORE]; /**< 1: it is stored H W C */
  char seen[200];   /**< how the dims of stored samples were read, in words; "": nothing to say */
  int doubtful;     /**< 1: channels may as well come last */
  char packed[200]; /**< what attributes make of stored numbers, in words; "": nothing */
  int missing;      /**< 1: NaN is a missing number */
  int wide;         /**< 1: x is stored as uint16, 0 to 65535 */
  int unlabelled;   /**< 1: spec->target was "", so that all labels are 0 and mean nothing */
  int encoded;      /**< 1: samples are image files (ct_image.h), which encoded() gives */
  int unsized;      /**< 1: their sizes are not known; x is the first one's, varies is 0 */
  ct_reader_layout_t layout;
  uint64_t fingerprint; /**< of shapes, counts and shard names; ranks agree on it */
} ct_reader_info_t;

/** The bytes of an encoded sample, in memory that grows; {0} is empty.  v is freed with
 * ct_mem_free(). */
typedef struct ct_reader_file {
  void *v;
  size_t bytes; /**< of the sample */
  int64_t cap;
} ct_reader_file_t;

/** What a reader is told; section `data` of the configuration fills it. */
typedef struct ct_reader_spec {
  const char *dir;             /**< what relative patterns are relative to */
  const ct_opt_texts_t *files; /**< paths or globs, in this order */
  const char *input;           /**< name of the array of samples: "images" */
  const char *target;          /**< of that of labels or targets: "labels"; "": none is read */
  const ct_opt_texts_t *inputs,
      *targets_of;    /**< all names, the two above are the first; NULL: one */
  int apart;          /**< 1: no input is joined to the first one */
  const char *weight; /**< of the array of weights of samples; "" or NULL: none */
  int as_stored;      /**< 1: attributes of packed and missing numbers (CF) are passed over */
  int fills_missing;  /**< 1: `missing` stands for a missing number; 0: NaN does */
  float missing;
  int values;            /**< 1: integers for each place are values, not classes */
  int classes_of_places; /**< 1: the input is an array of classes, which stay integers */
  int layout;            /**< 0 auto, 1 nchw, 2 nhwc */
  const int64_t *shape;  /**< C H W to see flat samples as, or NULL */
  int shape_dims;
  int channels;        /**< images: 1 or 3; 0: 3 if any of them is coloured */
  int skip_bad;        /**< images: 1: a file that is none is left out, with a warning */
  int64_t cache_bytes; /**< decoded chunks kept in memory */
  double retry_s;      /**< how long a reading that failed is tried again; 0: not at all */
  int threads;         /**< that read at once (more will wait); 0: as many as processors */
  int64_t samples;     /**< synthetic: how many */
  int64_t classes;     /**< synthetic: how many */
  int64_t targets;     /**< synthetic: real-valued targets of a sample; 0: classes */
  uint64_t seed;       /**< synthetic */
  const void
      *known; /**< what another rank's reader shares, borrowed during the opening; NULL: nothing */
  size_t known_bytes;
} ct_reader_spec_t;

typedef struct ct_reader_ops {
  /* Of its files; one that has no files is asked for by its name in their place. */
  ct_format_t format;
  /* Reads headers only (every shard's shape and count), or with spec->known takes them over and
   * touches no file: on a parallel file system each opening is a request to one server.  CT_ERR_IO,
   * CT_ERR_FORMAT: names the file, the array, what was expected. */
  int (*open)(const ct_reader_spec_t *spec, ct_reader_t **out);
  /* What a reader of another rank needs to know to open the same data: *bytes is allocated, NULL if
   * that is nothing.  CT_ERR_NOMEM */
  int (*share)(const ct_reader_t *r, void **bytes, size_t *n);
  /* Where the i-th of its files is read; NULL beyond the last. */
  const char *(*file)(const ct_reader_t *r, int i);
  /* From now on the i-th file is read at path, where a copy of it lies; place() still names the
   * original.  Not while another thread reads.  CT_ERR_NOMEM */
  int (*move)(ct_reader_t *r, int i, const char *path);
  /* From now on what is read of its files as stored goes through this cache, borrowed until the
   * reader is closed.  Not while another thread reads.  NULL: it reads them in another way. */
  void (*keep_in)(ct_reader_t *r, ct_cache_t *cache);
  const ct_reader_info_t *(*info)(const ct_reader_t *r);
  /* Of samples that differ in size: that of one, with the channels and the dtype of info()->x.  It
   * is known since the opening, no file is touched.  NULL where samples are all alike. */
  void (*shape)(const ct_reader_t *r, int64_t index, ct_shape_t *out);
  /* How the i-th stretch of samples lies: in blocks that are read as a whole, or of which one best
   * reads neighbours together.  1; 0 beyond the last, which ends with the last sample.  NULL where
   * each sample lies alone. */
  int (*blocks)(const ct_reader_t *r, int i, ct_block_run_t *out);
  /* A hint: these n samples will be read soon.  As read(), but nothing fails.  NULL: it is of no
   * use. */
  void (*ahead)(ct_reader_t *r, int n, const int64_t index[]);
  /* n samples in the order of index[]; x: n samples as stored, each of its own size; y: n int64
   * labels, or n times `targets` floats, or n answers as stored; either may be NULL.
   * Thread-safe, allocates nothing.  CT_ERR_IO, CT_ERR_FORMAT; CT_ERR_ARG: no such sample. */
  int (*read)(ct_reader_t *r, int n, const int64_t index[], void *x, void *y);
  /* The bytes of one sample as it is encoded.  Thread-safe.  NULL unless samples may be encoded.
   * CT_ERR_IO, CT_ERR_FORMAT, CT_ERR_ARG, CT_ERR_NOMEM */
  int (*encoded)(ct_reader_t *r, int64_t index, ct_reader_file_t *to);
  /* Where a sample lies, for messages: "train-001.h5, sample 17". */
  void (*place)(const ct_reader_t *r, int64_t index, char *buf, size_t cap);
  /* NULL is fine */
  void (*close)(ct_reader_t *r);
} ct_reader_ops_t;

/** Local.  *row is the number of the reader of spec->files in \a readers, which ends in NULL: the
 * one whose name is the only word there, or by the format of the first file (ct_format_find()).  A
 * data set has one reader, which refuses files that are none of its own. */
int ct_reader_find(const ct_reader_ops_t *const readers[], const ct_reader_spec_t *spec,
                   int64_t *row);

/** Pure.  Whether the last of n dims of a sample is that of the channels, by the dims alone: it is
 * 1, 3 or 4 (of three dims), or the smallest, and either a quarter of any other at most or beside a
 * square; and the first is not 1, 3 or 4. */
int ct_reader_guess_last(const int64_t *dim, int n);
/** Pure.  1 if it says no although the last dim is the smallest. */
int ct_reader_guess_doubtful(const int64_t *dim, int n);

/** Images of noise with a pattern that depends on the class or the targets: learnable, any size, no
 * file. */
extern const ct_reader_ops_t ct_reader_synthetic;
/** PNG and JPEG files, a sample each (ct_image.h); they carry no labels: spec->target must be "".
 * The libraries that decode allocate. */
extern const ct_reader_ops_t ct_reader_images;

#endif
