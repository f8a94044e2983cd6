/** \file ct_decoder.h  Logits of the next token for a batch of sequences.  Layer 4; local.
 *
 * With caches, a run computes only elements that are new: the keys and values of those before them
 * are kept (plan/cache.c).  Each sequence is at its own place.  Without caches, every run computes
 * all elements of the context. */
#ifndef CT_DECODER_H
#define CT_DECODER_H
#include "train/ct_trainer.h"

typedef struct ct_decoder ct_decoder_t;

typedef struct ct_decoder_opts {
  ct_trainer_weights_t weights;
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_dtype_t compute; /**< as in ct_plan_opts_t */
  int n;              /**< sequences of a batch */
  int64_t context;    /**< maximum number of tokens of a sequence; without caches the model's */
  int cached;
  /** Returns the model for sequences of \a length tokens, N x length -> N x length x vocabulary.
   * It must stay until the decoder is closed. */
  int (*graph)(void *ctx, int64_t length, const ct_graph_t **out);
  void *ctx;
} ct_decoder_opts_t;

/** CT_ERR_UNSUP names a layer that cannot use a cache. */
int ct_decoder_open(const ct_decoder_opts_t *o, ct_decoder_t **out);
void ct_decoder_close(ct_decoder_t *d);
/** Returns the size of the vocabulary. */
int64_t ct_decoder_vocab(const ct_decoder_t *d);
/** Returns the bytes of the caches. */
size_t ct_decoder_cache_bytes(const ct_decoder_t *d);

/** A sequence so far.  A row of a batch without a sequence has length 0. */
typedef struct ct_sequence {
  const int32_t *id;
  int64_t length;
} ct_sequence_t;

/** Begins with n new sequences: computes the caches for all tokens but their last ones. */
int ct_decoder_begin(ct_decoder_t *d, const ct_sequence_t *s);
/** Writes to logits[n][vocab] the logits of the token after the last one of each sequence.  Since
 * the previous call, or ct_decoder_begin(), a sequence has got at most one more token; those before
 * it are the same. CT_ERR_DATA: a token is not in the vocabulary. */
int ct_decoder_next(ct_decoder_t *d, const ct_sequence_t *s, float *logits);

#endif
