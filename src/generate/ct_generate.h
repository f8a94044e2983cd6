/** \file ct_generate.h  Continues sequences of tokens.  Layer 4; local. */
#ifndef CT_GENERATE_H
#define CT_GENERATE_H
#include "generate/ct_decoder.h"
#include "generate/ct_sample.h"

typedef enum {
  CT_END_NONE,   /**< not ended yet */
  CT_END_EOT,    /**< its last token is the end of a text */
  CT_END_LENGTH, /**< it has all tokens that were asked for */
  CT_END_CONTEXT /**< it is as long as the model's context */
} ct_text_end_t;
/** Returns "eot", "length" or "context". */
const char *ct_text_end_name(ct_text_end_t r);

typedef struct ct_generate_opts {
  ct_sample_opts_t sample;
  int64_t tokens;  /**< maximum number of new tokens */
  int64_t context; /**< maximum number of all tokens of a sequence */
  int32_t eot;     /**< token that ends a sequence; -1: none */
} ct_generate_opts_t;

typedef struct ct_generated {
  int32_t *id;     /**< memory for prompt + ct_generate_opts_t.tokens tokens, or for the context */
  int64_t prompt;  /**< number of tokens of the prompt: at least 1 */
  int64_t length;  /**< number of all tokens */
  uint32_t number; /**< of the sequence, for ct_sample() */
  ct_text_end_t stop;
} ct_generated_t;

/** Called for each new token, the last one of \a s. */
typedef int (*ct_generate_take_t)(void *ctx, const ct_generated_t *s);

/** Continues \a count sequences, whose prompts are in s[], in batches of the decoder's size and in
 * their order.  A sequence depends on its prompt, its number and the options alone.  \a take may be
 * NULL.  CT_ERR_DATA: a prompt has a token that the model does not have. */
int ct_generate(ct_decoder_t *d, int n, const ct_generate_opts_t *o, ct_generated_t *s,
                int64_t count, ct_generate_take_t take, void *ctx);

#endif
