/** \file batch.h  Makes batches: what a thread of the feed has for it.  Internal to data.
 *
 * Targets, and bytes that stay as they are, are read to where they are used; samples that are still
 * to be converted, and labels, which are made shorter, get there by way of the maker's memory. */
#ifndef CT_DATA_MAKE_H
#define CT_DATA_MAKE_H
#include "data/feed/ct_feed.h"
#include "data/image/encoded.h"
#include "data/transform/transforms.h"

typedef struct ct__make {
  const ct_dataset_t *data; /**< borrowed, as the sampler */
  const ct_sampler_t *sampler;
  int bytes;                /**< 1: samples stay as they are stored */
  void *stored;             /**< samples as the reader gives them */
  void *answers;            /**< likewise, answers by place; NULL if there are none */
  ct_dataset_t as_answer;   /**< how they are converted */
  float *answer;            /**< one of them, transformed */
  void *stored_more;        /**< likewise, a further input */
  int64_t *labels;          /**< likewise; NULL if the data has targets */
  float *work;              /**< room for the transforms */
  ct__encoded_t encoded;    /**< for samples that are decoded here */
  ct__transform_mix_t *mix; /**< of each sample; NULL if none is mixed, as what follows */
  int64_t *partner_ids;
  float *partner; /**< a sample */
  float *partner_targets;
} ct__make_t;

/** For batches of up to \a n samples.  CT_ERR_NOMEM: ct__make_clear() is still to be called. */
int ct__make_init(ct__make_t *m, const ct_dataset_t *data, const ct_sampler_t *sampler, int64_t n,
                  int bytes);
void ct__make_clear(ct__make_t *m);
/** Hot.  Fills a batch, of which epoch, cursor, first and n are known.  CT_ERR_DATA and what
 * reading gives: names the file and the sample. */
int ct__make_batch(ct__make_t *m, ct_batch_t *b);

#endif
