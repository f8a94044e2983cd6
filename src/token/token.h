/** \file token.h  What the files of this folder share.  All functions are local. */
#ifndef CT__TOKEN_H
#define CT__TOKEN_H
#include "base/ct_text.h"
#include "token/ct_tokenizer.h"
#include "token/pieces.h"

/* ---- vocab.c: ids and their bytes ---- */

typedef struct ct__token {
  int64_t at;    /**< in ct__vocab_t.text */
  int32_t bytes; /**< -1: no token has this id */
  char special;  /**< text does not give it */
  char merged;   /**< a merge gives it */
  char whole;    /**< a piece of text with exactly these bytes is this token */
} ct__token_t;

typedef struct ct__vocab {
  ct__token_t *token;
  int64_t n, cap; /**< highest id + 1 */
  char *text;
  int64_t bytes, text_cap;
  int32_t *slot; /**< hash table of id + 1; 0: free */
  int64_t slots, count;
} ct__vocab_t;

enum { CT__TOKEN_MOST = 1024 }; /* bytes of a token */
/** Makes the table for up to \a most tokens and \a specials further ones. */
int ct__vocab_init(ct__vocab_t *v, int64_t most, int64_t specials);
/** Adds a token; *why is set to what is wrong with it, or to NULL.  CT_ERR_NOMEM. */
int ct__vocab_add(ct__vocab_t *v, int64_t id, const char *text, int64_t bytes, const char **why);
/** Returns the id of a token; -1: there is none. */
int32_t ct__vocab_find(const ct__vocab_t *v, const char *text, int64_t bytes);
void ct__vocab_clear(ct__vocab_t *v);

/* ---- pairs.c: a hash table from two numbers to two numbers ---- */

typedef struct ct__pair {
  uint64_t key;   /**< left << 32 | right */
  uint32_t rank;  /**< of a merge */
  int32_t id_one; /**< id + 1; 0: free */
} ct__pair_t;

typedef struct ct__pairs {
  ct__pair_t *pair;
  int64_t slots, n;
} ct__pairs_t;

/** Adds a pair; *added is 0 if the key exists (it stays as it is).  CT_ERR_NOMEM. */
int ct__pairs_add(ct__pairs_t *p, int32_t left, int32_t right, uint32_t rank, int32_t id,
                  int *added);
const ct__pair_t *ct__pairs_find(const ct__pairs_t *p, int32_t left, int32_t right);
void ct__pairs_clear(ct__pairs_t *p);

/* ---- tokens.c ---- */

/** A symbol of byte-pair merging, and its merge with the next one. */
typedef struct ct__symbol {
  int32_t id, previous, next; /**< neighbours; -1: none */
  int32_t merged;
  uint32_t rank; /**< UINT32_MAX: there is no merge */
} ct__symbol_t;

/** Workspace: ct_tokens_t.work. */
typedef struct ct__work {
  ct__symbol_t *symbol;
  int64_t symbols_cap;
  uint64_t *heap; /**< rank << 32 | position */
  int64_t n, heap_cap;
} ct__work_t;

/** Appends an id. */
int ct__tokens_add(ct_tokens_t *out, int32_t id);

/* ---- tokenizer.c ---- */

enum { CT__FILES = 2 };

/** A file of the tokenizer; a blob has the same bytes. */
typedef struct ct__source {
  char *data; /**< NUL-terminated */
  int64_t bytes;
  char name[CT_PATH_MAX]; /**< for messages */
} ct__source_t;

typedef struct ct__kind ct__kind_t;

struct ct_tokenizer {
  const ct__kind_t *kind;
  ct__pattern_t pattern; /**< of byte-pair encodings; CT__PATTERNS: not known yet */
  char name[64];
  ct__source_t source[CT__FILES];
  ct__vocab_t vocab;
  int32_t eot;
  int32_t *special; /**< ids of special tokens, longest first */
  int64_t specials, specials_cap;
  int64_t special_most; /**< bytes of the longest one */
  int32_t byte[256];    /**< byte-pair encodings: the tokens of single bytes */
  ct__pairs_t merges; /**< byte-pair encodings: tokens; lists: nodes of the trie (right: a byte) */
  int32_t unknown;    /**< lists; -1: none */
  int32_t *at_node;   /**< lists: the token that ends at a node, -1: none */
  int64_t nodes, nodes_cap;
  int has_blanks; /**< lists: a token contains white space */
};

/** Makes an existing token special (vocab.c). */
int ct__special_add(ct_tokenizer_t *t, int32_t id);

struct ct__kind {
  const char *name;                /**< in a blob */
  const char *file[CT__FILES];     /**< in a directory and a blob; NULL: no such file */
  int (*build)(ct_tokenizer_t *t); /**< reads the sources */
  /** Encodes text between special tokens up to *used, which is \a bytes unless \a more. */
  int (*encode)(const ct_tokenizer_t *t, const char *text, int64_t bytes, int more, int64_t *used,
                ct_tokens_t *out);
};
extern const ct__kind_t ct__kind_bytes, ct__kind_files, ct__kind_json, ct__kind_tiktoken,
    ct__kind_list, ct__kind_tokens;
extern const ct__kind_t *const ct__kinds[];

/** Makes a tokenizer of sources, which it takes over also if it fails. */
int ct__tokenizer_build(ct_tokenizer_t *t, ct_tokenizer_t **out);

/** Writes the text of a built-in list: residues, codons, kmers:K.  CT_ERR_USAGE: no such list. */
int ct__list_text(const char *name, ct_str_t *text);

/* ---- blob.c ---- */

#define CT__BLOB_MAGIC "ctrain-hpc tokenizer 1\n"
/** Returns 1 if the bytes begin as a serialized tokenizer. */
int ct__is_blob(const char *data, int64_t bytes);

/* ---- bpe.c ---- */

/** Encodes pieces of byte-pair encodings: ct__kind_t.encode. */
int ct__bpe_encode(const ct_tokenizer_t *t, const char *text, int64_t bytes, int more,
                   int64_t *used, ct_tokens_t *out);
/** Finds the tokens of single bytes, and which tokens their own bytes give.  \a whole: all do,
 * since pieces are looked up before merging. */
int ct__bpe_ready(ct_tokenizer_t *t, int whole);

#endif
