/** \file ct_sample.h  Chooses the next token from logits.  Layer 4, pure and local.
 *
 * The order of the steps is that of transformers: temperature, top-k, top-p, softmax, draw. */
#ifndef CT_SAMPLE_H
#define CT_SAMPLE_H
#include <stdint.h>

typedef struct ct_sample_opts {
  double temperature; /**< divisor of the logits; 0: the highest logit, the first of equal ones */
  int64_t top_k;      /**< keeps the k highest logits, and those equal to the k-th; 0: all */
  double top_p; /**< keeps the highest logits whose probabilities sum up to at least p; 1: all.
                           Of equal logits those of lower ids come first */
  uint64_t seed;
} ct_sample_opts_t;

/** A token with its probability. */
typedef struct ct_candidate {
  int64_t id;
  double p;
} ct_candidate_t;

/** Writes to c[vocab] the tokens that can be drawn, and returns how many they are: at least 1.  All
 * tokens come in their order, a selection with the highest probability first.  Probabilities sum up
 * to 1.  NaN counts as -infinity. */
int64_t ct_sample_filter(const ct_sample_opts_t *o, const float *logits, int64_t vocab,
                         ct_candidate_t *c);

/** Returns the token at place \a position of a sequence.  It depends on the logits, the options and
 * (seed, sequence, position) alone.  \a c: memory for \a vocab candidates. */
int64_t ct_sample(const ct_sample_opts_t *o, const float *logits, int64_t vocab, uint32_t sequence,
                  int64_t position, ct_candidate_t *c);

#endif
