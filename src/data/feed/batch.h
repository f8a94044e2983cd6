/** \file batch.h  Makes batches: the state of one thread of a feed.  Internal to data.
 *
 * Targets, and samples that stay as they are stored, are read directly into the batch.  Samples
 * that have to be converted or transformed, and labels, which become int32, are first read into
 * buffers of the maker. */
#ifndef CT_DATA_MAKE_H
#define CT_DATA_MAKE_H
#include "data/feed/ct_feed.h"
#include "data/image/encoded.h"
#include "data/transform/transforms.h"

typedef struct ct__make {
  const ct_dataset_t *data; /**< borrowed, like the sampler */
  const ct_sampler_t *sampler;
  int bytes;           /**< 1: samples are not converted */
  void *stored;        /**< samples as the reader returns them; NULL: read into the batch */
  void *dense_targets; /**< dense targets as stored; NULL if the data has none */
  ct_dataset_t as_dense_target; /**< how dense targets are converted */
  float *dense_target;          /**< one dense target, transformed */
  void *stored_extra;           /**< an extra input or a further target as stored */
  int64_t *labels;              /**< labels as stored; NULL if the data has targets */
  float *work;                  /**< workspace of the transforms */
  ct__encoded_t encoded;        /**< for samples that are decoded here */
  ct__transform_mix_t *mix; /**< for each sample; NULL without mixup and cutmix, like the members
                               below */
  int64_t *partner_ids;
  float *partner; /**< a sample */
  float *partner_targets;
} ct__make_t;

/** Allocates buffers for batches of up to \a n samples.  CT_ERR_NOMEM: ct__make_clear() has to be
 * called even then. */
int ct__make_init(ct__make_t *m, const ct_dataset_t *data, const ct_sampler_t *sampler, int64_t n,
                  int bytes);
void ct__make_clear(ct__make_t *m);
/** Pure.  Returns the bytes that ct__make_init() allocates for batches of n samples, without the
 * workspace of the transforms. */
size_t ct__make_bytes(const ct_dataset_t *d, int64_t n, int bytes);
/** Hot.  Fills a batch whose epoch, cursor, first and n are set.  CT_ERR_DATA, and the errors of
 * the reader: the message names the file and the sample. */
int ct__make_batch(ct__make_t *m, ct_batch_t *b);

#endif
