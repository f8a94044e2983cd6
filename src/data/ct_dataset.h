/** \file ct_dataset.h  A data set: a reader, the transforms of its samples, the range of its
 * labels.  Layer 2.  All functions are local. */
#ifndef CT_DATASET_H
#define CT_DATASET_H
#include "data/order/ct_blocks.h"
#include "data/readers/ct_reader.h"

/** The values of data.shuffle. */
typedef enum { CT_SHUFFLE_OFF, CT_SHUFFLE_FULL, CT_SHUFFLE_BLOCKS } ct_shuffle_t;

enum { CT_BATCH_AUTO = -1 }; /**< `data.batch_per_rank: auto` */

/** Options of the section `data` of the configuration. */
typedef struct ct_data_opts {
  ct_opt_texts_t train;   /**< files or globs, or "synthetic" */
  ct_opt_texts_t val;     /**< files or globs, or "synthetic" */
  ct_opt_texts_t input;   /**< names of arrays */
  ct_opt_texts_t target;  /**< names of arrays, which are concatenated, or one for each loss */
  int join_inputs;        /**< 1: inputs that differ in channels alone are concatenated */
  char *weight;           /**< name of the array of sample weights; "": none */
  int64_t batch;          /**< global batch */
  int64_t batch_tokens;   /**< in place of batch: its tokens; 0: batch */
  int64_t batch_per_rank; /**< 0: batch decides; or CT_BATCH_AUTO */
  int64_t eval_batch;     /**< global batch in evaluation; 0: batch */
  int drop_last;          /**< training: drop a last batch that is smaller */
  int shuffle;            /**< ct_shuffle_t */
  int64_t lanes;          /**< with blocks: number of lanes (ct_sampler.h); 0:
                                   ct_blocks_lanes() */
  int64_t workers;        /**< prefetch threads of a rank */
  int layout;             /**< auto|nchw|nhwc */
  int files;              /**< shards|sample */
  ct_yaml_t *window;      /**< map of context, target, stride */
  int64_t context;        /**< tokens of a sample; 0: samples are not tokens */
  int64_t stride;         /**< tokens from one sample to the next; 0: context */
  int64_t eval_stride;    /**< the same in evaluation */
  int documents;          /**< ct_documents_t */
  int64_t pad;            /**< id of padding; -1: the attribute `pad` of the tokens */
  int normalize_targets;  /**< targets of windows get the map of their inputs */
  int64_t readahead;      /**< batches ahead for which posix_fadvise() is called; 0: off */
  ct_opt_doubles_t shape; /**< sample shape: a reshape of the stored one, or the shape of synthetic
                             data */
  int cf;                 /**< auto|off */
  char *missing;          /**< "nan", or a number */
  int64_t cache_mb;
  double retry_s;
  int on_error;        /**< stop|skip */
  int64_t max_skipped; /**< of an epoch */
  char *stage;    /**< directory on each node to which the files are copied; may contain $VARIABLES;
                     "": off */
  int stage_keep; /**< keep the copies at the end */
  char *cache_dir;  /**< directory on each node where bytes that were read are cached; may contain
                      $VARIABLES; "": off */
  int cache_keep;   /**< keep the cache at the end */
  int exact_decode; /**< never decode a JPEG at reduced size */
  int64_t samples;  /**< synthetic data: number of samples */
  int64_t classes;  /**< synthetic data: number of classes */
  int64_t synthetic_targets; /**< synthetic data: real-valued targets per sample; 0: classes */
  int synthetic_pixels;      /**< synthetic data: a class, or targets, for each pixel */
} ct_data_opts_t;
extern const ct_opt_t ct_data_rows[];

/** Local.  Reads data.window; *out is all zero if it is not set.  CT_ERR_USAGE names file and line
 * in \a where. */
int ct_data_window(const ct_data_opts_t *o, const char *where, ct_window_t *out);
/** Local.  Fills the options of the reader of \a files (o->train or o->val).  *out borrows from \a
 * o, \a dir and \a shape, which receives the sample shape.  CT_ERR_USAGE: no files, or a shape that
 * is not of whole numbers. */
int ct_data_spec(const ct_data_opts_t *o, const ct_opt_texts_t *files, const char *dir,
                 uint64_t seed, int64_t shape[CT_MAX_DIMS - 1], ct_reader_spec_t *out);

#define CT_AFFINE_MAX 64
/** Per-channel affine map that is applied in the conversion to float32: y = a[c] * x + b[c]. */
typedef struct ct_affine {
  int channels; /**< 1: all channels use the same map; fewer than the sample has: channel c uses
                   map c % channels */
  float a[CT_AFFINE_MAX], b[CT_AFFINE_MAX];
} ct_affine_t;

/** The transform lists of the configuration, borrowed while a data set is opened. */
typedef struct ct_transforms_opts {
  const ct_yaml_t *list;     /**< `transforms`; NULL: none */
  const ct_yaml_t *val_list; /**< `val_transforms`; NULL: `transforms` without its random ones */
  int training;              /**< 0: the data set is for evaluation */
  int values;                /**< 1: integers of a dense target are values, not labels */
  int exact_decode;          /**< data.exact_decode */
  int normalize_targets;     /**< data.normalize_targets */
} ct_transforms_opts_t;
/** The transforms that are not folded into the affine map of the conversion. */
typedef struct ct_transforms ct_transforms_t;
/** Appends the help text of all transforms to \a out. */
int ct_transforms_help(ct_str_t *out);

/** How a further target is read. */
typedef struct ct_more_as {
  int labels;      /**< 1: class labels; 0: real values */
  int64_t classes; /**< labels must lie in [0, classes); 0: any label of at least 0 is valid */
  int has_ignored; /**< 1: the label `ignored` is valid too */
  int64_t ignored;
  int skips;     /**< 1: targets that are NaN or `skipped` are valid; both become NaN */
  float skipped; /**< may be NaN */
} ct_more_as_t;

/** An opened data set. */
typedef struct ct_dataset {
  int64_t
      readahead; /**< batches that a feed announces to the reader in advance; set by the caller */
  const ct_reader_ops_t *ops;
  ct_reader_t *reader; /**< owned */
  ct_reader_info_t info;
  ct_shape_t x;      /**< one sample as the model sees it: float32 plain, dim[0] == 1 */
  ct_inputs_t extra; /**< extra inputs of the model, after the transforms */
  ct_inputs_t more;  /**< further targets, after the transforms */
  /* Channels of those that have the pixels of the samples and move along with them; 0: it is not
   * transformed. */
  int64_t extra_along[CT_INPUTS_EXTRA], more_along[CT_TARGETS_MORE];
  ct_more_as_t more_as[CT_TARGETS_MORE]; /**< set by the caller; all zero: real values */
  ct_affine_t affine;                    /**< applied in the conversion to float32 */
  int targets_mapped;                    /**< 1: `affine` is applied to the dense target too */
  ct_transforms_t *transforms;           /**< owned: applied after the conversion; NULL: none */
  struct ct__decode_time
      *decode_time; /**< owned: decode-time transforms of encoded samples; info.x is the
                                  shape after them; NULL: none */
  int reduces;      /**< 1: large JPEGs may be decoded at reduced size */
  ct_shape_t
      dense_target; /**< ndim > 0: the dense target of a sample, after the transforms: float32
                        plain */
  int by_class;     /**< 1: the dense target holds labels; 0: info.targets values per sample */
  int64_t pixels;   /**< labels per sample: 1, or one for each pixel or voxel */
  int64_t classes;  /**< labels must lie in [0, classes); 0: any label of at least 0 is valid.  With
                        targets: number of targets per sample, or per pixel or voxel */
  int has_ignored; /**< 1: the label `ignored` is valid too; the caller may set these two members */
  int64_t ignored;
  int skips; /**< as in ct_more_as_t; the caller may set these two members */
  float skipped;
  int skip; /**< 1: a sample that cannot be read or decoded is replaced in its batch by the next
               valid one in the order of their numbers; may be set by the caller */
} ct_dataset_t;

/** Local.  Opens a data set with the given reader; d->x is the shape after the transforms.  \a
 * transforms may be NULL; \a where is the name of the configuration file, for messages.
 * CT_ERR_USAGE names file:line, the transform and what it requires; also if samples would have
 * another shape in evaluation than in training because val_transforms is missing. */
int ct_dataset_open(const ct_reader_ops_t *ops, const ct_reader_spec_t *spec,
                    const ct_transforms_opts_t *transforms, const char *where, ct_dataset_t *out);
void ct_dataset_close(ct_dataset_t *d);
/** Local.  Counts the classes in the labels of up to \a limit samples (0: all), for files that do
 * not state the number of classes: d->classes becomes the highest label + 1, not counting the
 * ignored label.  Warns if that exceeds the number of samples.  Not for data with targets.
 * CT_ERR_DATA: a label is negative or not less than CT_CLASSES_MAX. */
int ct_dataset_count_classes(ct_dataset_t *d, int64_t limit);

/** A sample as stored.  The buffer grows as needed; all zero: an empty buffer. */
typedef struct ct_stored {
  void *v;          /**< in the order given by info.channels_last */
  ct_shape_t shape; /**< of this sample */
  int64_t cap;
  ct_reader_file_t file; /**< the file of an encoded sample */
} ct_stored_t;
/** Local.  Reads one sample without any transform, not even decode-time transforms.  The sample has
 * its original size, which may exceed info.x.  y: the sample's label or targets, as in the reader's
 * read().  CT_ERR_IO, CT_ERR_FORMAT, CT_ERR_NOMEM */
int ct_dataset_stored(const ct_dataset_t *d, int64_t index, ct_stored_t *to, void *y);
void ct_stored_clear(ct_stored_t *s);
/** Hot.  Reads the weights of n samples; requires d->info.weighted.  CT_ERR_DATA: a weight is
 * negative or not finite; the message names the sample. */
int ct_dataset_weights(const ct_dataset_t *d, int n, const int64_t index[], float *weights);
/** Hot.  Reads extra input k (info.extra.x[k]) of n samples as stored.  Errors are those of the
 * reader's read(). */
int ct_dataset_extra(const ct_dataset_t *d, int k, int n, const int64_t index[], void *x);
/** Hot.  Reads further target k (info.more.x[k]) of n samples as stored. */
int ct_dataset_more(const ct_dataset_t *d, int k, int n, const int64_t index[], void *y);
/** Returns the channel of element \a i of a stored sample of shape \a x. */
int64_t ct_dataset_channel(const ct_dataset_t *d, const ct_shape_t *x, int64_t i);
/** Returns 1 if a stored type is of integers, which can be class labels. */
int ct_dataset_is_whole(ct_dtype_t t);
/** Local.  Lists the blocks of the data set's samples, for the sampler; *out is freed by the
 * caller. CT_ERR_NOMEM */
int ct_dataset_blocks(const ct_dataset_t *d, ct_blocks_t **out);

/** Returns 1 if samples are stored as uint8, and only transforms that move pixels (crops, flips)
 * and the affine map of the conversion are applied to them. A feed can then deliver bytes, a
 * quarter of the float32 size, to a device that converts them. */
int ct_dataset_is_bytes(const ct_dataset_t *d);

#endif
