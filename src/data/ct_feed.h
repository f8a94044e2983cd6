/** \file ct_feed.h  Batches, read and converted ahead of their use.  Layer 2.  Everything is local.
 *
 * A feed runs through the steps of an epoch from a cursor on, for one rank.  Worker threads keep
 * the next batches ready; with 0 workers a batch is made when it is asked for. */
#ifndef CT_FEED_H
#define CT_FEED_H
#include "data/ct_reader.h"
#include "data/ct_sampler.h"

/** Section `data` of the configuration. */
typedef struct ct_data_opts {
  ct_opt_texts_t train, val; /**< files or globs; "synthetic" for made-up data */
  char *input, *target;
  int64_t batch;          /**< global batch */
  int64_t batch_per_rank; /**< 0: batch decides */
  int64_t eval_batch;     /**< global batch of evaluation; 0: as batch */
  int shuffle;
  int64_t workers;        /**< prefetch threads of a rank */
  int layout;             /**< auto|nchw|nhwc */
  ct_opt_doubles_t shape; /**< sample shape, for flat arrays and synthetic data */
  int64_t cache_mb;
  char *stage;    /**< directory on each node that the files are copied to; may hold $VARIABLES; "":
                     off */
  int stage_keep; /**< leave the copies there */
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
} ct_transforms_opts_t;
/** What of them cannot be folded into the map of the conversion. */
typedef struct ct_transforms ct_transforms_t;
/** Help text of the transforms. */
int ct_transforms_help(ct_str_t *out);

/** An opened data set. */
typedef struct ct_dataset {
  const ct_reader_ops_t *ops;
  ct_reader_t *reader; /**< owned */
  ct_reader_info_t info;
  ct_shape_t x;                /**< one sample as the model sees it: float32 plain, dim[0] == 1 */
  ct_affine_t affine;          /**< of the conversion to float32 */
  ct_transforms_t *transforms; /**< owned: what is done after it; NULL: nothing */
  int64_t classes; /**< labels must lie in [0, classes); 0: only not below 0.  With targets:
                                    how many a sample has */
  int has_ignored; /**< the label `ignored` is allowed too; the caller may set them */
  int64_t ignored;
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

/** 1 if samples are stored as uint8 and nothing is done to them but the map of their conversion:
 * then a feed can leave them as they are, a quarter of the bytes, for a device that converts them
 * itself. */
int ct_dataset_is_bytes(const ct_dataset_t *d);

/** One rank's share of one step, borrowed from the feed until the next ct_feed_next() or close. */
typedef struct ct_batch {
  int64_t epoch, cursor; /**< of the global step */
  int64_t global;        /**< samples of the step over all ranks */
  int64_t first;         /**< position of x[0] within the global batch */
  int n;                 /**< samples of this rank; 0 is possible */
  float *x;              /**< [n, C, H, W] plain, 64-byte aligned, room for the largest n */
  uint8_t *bytes;   /**< instead of x (which is NULL then): [n] samples as stored, unconverted */
  int32_t *labels;  /**< [n]; zeros if the data has targets */
  int32_t *labels2; /**< mixup, cutmix: [n], the label that is mixed in; else NULL */
  float *mix;       /**< likewise: [n], share of labels[i] */
  float *targets;   /**< [n, K] if the data has real-valued targets; else NULL */
  int64_t *ids;     /**< [n] sample numbers */
} ct_batch_t;

typedef struct ct_feed ct_feed_t;

/** Where the arrays of batches lie: memory that a device copies fast.  Called by the thread that
 * opens and closes the feed. */
typedef struct ct_feed_mem {
  int (*alloc)(void *ctx, size_t bytes, void **out); /**< 64-byte aligned; CT_OK or a code */
  void (*release)(void *ctx, void *p);               /**< NULL is fine */
  void *ctx;
} ct_feed_mem_t;

typedef struct ct_feed_opts {
  int rank, size;
  int64_t epoch, cursor; /**< where it begins */
  int workers;
  int one_epoch;     /**< 1: it ends with the epoch */
  int bytes;         /**< 1: samples stay as they are stored (ct_dataset_is_bytes()) */
  ct_feed_mem_t mem; /**< alloc NULL: plain host memory */
} ct_feed_opts_t;

/** Local.  From (epoch, cursor) through the end of that epoch and on into the next ones for ever
 * (the caller stops asking), or with one_epoch to its end.  Borrows the data set, which must
 * outlive it; reads are under the reader's own lock.  workers + 2 batches are allocated now, none
 * later (with 0 workers one).  CT_ERR_ARG: a cursor beyond the samples; bytes of a data set that
 * has none. */
int ct_feed_open(const ct_dataset_t *d, const ct_sampler_t *s, const ct_feed_opts_t *o,
                 ct_feed_t **out);
/** Hot.  The next batch, waiting for it if it is not ready; *out is NULL after the last one
 * (one_epoch). A worker's error (unreadable shard, label out of range: CT_ERR_DATA, names file,
 * sample, label, classes) is returned here, at the batch it concerns; the next call goes on with
 * the batch after it. */
int ct_feed_next(ct_feed_t *f, const ct_batch_t **out);
/** Hot.  The batch that the next ct_feed_next() will return, if it is ready and without an error;
 * else NULL. Does not wait.  It stays as it is until the ct_feed_next() behind the one that returns
 * it. */
const ct_batch_t *ct_feed_ahead(ct_feed_t *f);
/** Largest n this rank can get. */
int ct_feed_max(const ct_feed_t *f);
/** Ends the workers; NULL is fine. */
void ct_feed_close(ct_feed_t *f);

#endif
