/** \file ct_dataset.h  A data set: a reader, what is done to its samples, what their labels may be.
 * Layer 2.  Everything is local. */
#ifndef CT_DATASET_H
#define CT_DATASET_H
#include "data/order/ct_blocks.h"
#include "data/readers/ct_reader.h"

/** The words of data.shuffle. */
typedef enum { CT_SHUFFLE_OFF, CT_SHUFFLE_FULL, CT_SHUFFLE_BLOCKS } ct_shuffle_t;

/** Section `data` of the configuration. */
typedef struct ct_data_opts {
  ct_opt_texts_t train, val;    /**< files or globs; "synthetic" for made-up data */
  ct_opt_texts_t input, target; /**< names of arrays: several are joined, … */
  int join_inputs;              /**< … inputs if they are alike but for their channels */
  char *weight;                 /**< of the array of weights of samples; "": none */
  int64_t batch;                /**< global batch */
  int64_t batch_per_rank;       /**< 0: batch decides */
  int64_t eval_batch;           /**< global batch of evaluation; 0: as batch */
  int drop_last;                /**< training: no smaller batch at the end of an epoch */
  int shuffle;                  /**< ct_shuffle_t */
  int64_t lanes;                /**< with blocks: how many (ct_sampler.h); 0: ct_blocks_lanes() */
  int64_t workers;              /**< prefetch threads of a rank */
  int layout;                   /**< auto|nchw|nhwc */
  int64_t readahead; /**< batches that the system is asked for ahead of their reading; 0: off */
  ct_opt_doubles_t shape; /**< sample shape: other than the array's, or of synthetic data */
  int cf;                 /**< auto|off */
  char *missing;          /**< "nan", or a number */
  int64_t cache_mb;
  double retry_s;
  int on_error;        /**< stop|skip */
  int64_t max_skipped; /**< of an epoch */
  char *stage;    /**< directory on each node that the files are copied to; may hold $VARIABLES; "":
                     off */
  int stage_keep; /**< leave the copies there */
  char *cache_dir; /**< directory on each node where what was read is kept; may hold $VARIABLES; "":
                      off */
  int cache_keep;  /**< leave it there */
  int exact_decode;          /**< no JPEG is decoded at a fraction of its size */
  int64_t samples, classes;  /**< synthetic data */
  int64_t synthetic_targets; /**< synthetic data: real-valued targets of a sample; 0: classes */
} ct_data_opts_t;
extern const ct_opt_t ct_data_rows[];

/** Local.  What a reader of \a files (o->train or o->val) is told.  It borrows from \a o, \a dir
 * and \a shape, which receives the sample shape.  CT_ERR_USAGE: no files, or a shape of no whole
 * numbers. */
int ct_data_spec(const ct_data_opts_t *o, const ct_opt_texts_t *files, const char *dir,
                 uint64_t seed, int64_t shape[CT_MAX_DIMS - 1], ct_reader_spec_t *out);

#define CT_AFFINE_MAX 64
/** Per-channel affine map that a batch gets on its way to float32: y = a[c] * x + b[c]. */
typedef struct ct_affine {
  int channels; /**< 1: the same map for all channels */
  float a[CT_AFFINE_MAX], b[CT_AFFINE_MAX];
} ct_affine_t;

/** What is done to the samples: lists of the configuration, borrowed while a data set is opened. */
typedef struct ct_transforms_opts {
  const ct_yaml_t *list;     /**< `transforms`; NULL: nothing */
  const ct_yaml_t *val_list; /**< `val_transforms`; NULL: `transforms` without its random members */
  int training;              /**< 0: the data set is for evaluation */
  int values;                /**< 1: integers for each place are values, not labels */
  int exact_decode;          /**< section `data` */
} ct_transforms_opts_t;
/** What of them cannot be folded into the map of the conversion. */
typedef struct ct_transforms ct_transforms_t;
/** Help text of the transforms. */
int ct_transforms_help(ct_str_t *out);

/** An opened data set. */
typedef struct ct_dataset {
  int64_t
      readahead; /**< batches that a feed announces ahead of their reading; the caller sets it */
  const ct_reader_ops_t *ops;
  ct_reader_t *reader; /**< owned */
  ct_reader_info_t info;
  ct_shape_t x;                /**< one sample as the model sees it: float32 plain, dim[0] == 1 */
  ct_inputs_t more;            /**< what else it sees of a sample, without transforms */
  ct_affine_t affine;          /**< of the conversion to float32 */
  ct_transforms_t *transforms; /**< owned: what is done after it; NULL: nothing */
  struct ct__head *head;       /**< owned: what is done while encoded samples are decoded; info.x is
                                    the shape behind it; NULL: nothing */
  int reduces;                 /**< 1: large images may be decoded at a fraction of their size */
  ct_shape_t answer; /**< ndim > 0: a sample has a label or value for each of its places: float32
                        plain, behind the transforms */
  int by_class;      /**< 1: these are labels; 0: values, info.targets of a sample */
  int64_t places;    /**< labels of a sample: 1, or one for each place */
  int64_t classes;   /**< labels must lie in [0, classes); 0: only not below 0.  With targets:
                                    how many a sample has, or a place of it */
  int has_ignored;   /**< the label `ignored` is allowed too; the caller may set them */
  int64_t ignored;
  int skip; /**< 1: a sample that cannot be read or made is replaced in its batch by the next one by
               number that can; the caller may set it */
} ct_dataset_t;

/** Local.  Opens with the given reader; d->x is the shape after the transforms.  \a transforms may
 * be NULL; \a where names the file they stand in.  CT_ERR_USAGE names file:line, the transform, and
 * what it needs; also if evaluation would see another shape than training for want of
 * val_transforms. */
int ct_dataset_open(const ct_reader_ops_t *ops, const ct_reader_spec_t *spec,
                    const ct_transforms_opts_t *transforms, const char *where, ct_dataset_t *out);
void ct_dataset_close(ct_dataset_t *d);
/** Reads labels of up to \a limit samples (0: all) to count classes when the file does not say: the
 * highest label + 1, without the ignored one, becomes d->classes, with a warning if that is more
 * than there are samples.  Local; not for data with targets.  CT_ERR_DATA: a label that is negative
 * or beyond CT_CLASSES_MAX. */
int ct_dataset_count_classes(ct_dataset_t *d, int64_t limit);

/** A sample as its reader has it, in memory that grows; {0} is empty. */
typedef struct ct_stored {
  void *v;          /**< in the order of bytes that info.channels_last says */
  ct_shape_t shape; /**< of this sample */
  int64_t cap;
  ct_reader_file_t file; /**< of an encoded sample */
} ct_stored_t;
/** Local.  Reads one sample before any transform, those included that are else done while it is
 * decoded: of its own size, which info.x does not bound.  y: as of the reader's read().  CT_ERR_IO,
 * CT_ERR_FORMAT, CT_ERR_NOMEM */
int ct_dataset_stored(const ct_dataset_t *d, int64_t index, ct_stored_t *to, void *y);
void ct_stored_clear(ct_stored_t *s);
/** Hot.  The weights of n samples; only where d->info.weighted.  CT_ERR_DATA: one is negative or
 * not finite; names it. */
int ct_dataset_weights(const ct_dataset_t *d, int n, const int64_t index[], float *weights);
/** Hot.  Of n samples the array info.more.x[k] as stored.  As the reader's read(). */
int ct_dataset_more(const ct_dataset_t *d, int k, int n, const int64_t index[], void *x);
/** Local.  How its samples lie in blocks, for the sampler; the caller frees it.  CT_ERR_NOMEM */
int ct_dataset_blocks(const ct_dataset_t *d, ct_blocks_t **out);

/** 1 if samples are stored as uint8 and nothing is done to them but the map of their conversion:
 * then a feed can leave them as they are, a quarter of the bytes, for a device that converts them
 * itself. */
int ct_dataset_is_bytes(const ct_dataset_t *d);

#endif
