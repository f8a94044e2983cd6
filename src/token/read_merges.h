/** \file read_merges.h  Byte-pair encodings as tables of tokens and merges, with bytes written as
 * characters: vocab.json and merges.txt, tokenizer.json.  Errors name the file \a name.  Local. */
#ifndef CT__TOKEN_READ_MERGES_H
#define CT__TOKEN_READ_MERGES_H
#include <jansson.h>

#include "token/token.h"

/** Parses a source.  \a out is freed with json_decref(). */
int ct__merges_json(const ct__source_t *s, json_t **out);
/** Translates characters that stand for bytes; returns the number of bytes, or -1: there are other
 * characters, or more than CT__TOKEN_MOST. */
int ct__merges_bytes(const char *text, int64_t bytes, char *to);
/** Adds all tokens of an object of tokens and ids; \a specials more may follow. */
int ct__merges_vocab(ct_tokenizer_t *t, const char *name, const json_t *vocab, int64_t specials);
/** Adds a token. */
int ct__merges_token(ct_tokenizer_t *t, const char *name, const char *text, int64_t bytes,
                     const json_t *id);
/** Adds a merge; *why is set to what is wrong with it, or to NULL. */
int ct__merges_pair(ct_tokenizer_t *t, const char *left, int64_t n_left, const char *right,
                    int64_t n_right, int64_t rank, const char **why);

#endif
