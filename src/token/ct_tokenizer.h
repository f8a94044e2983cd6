/** \file ct_tokenizer.h  Tokenizers: text to token ids, and back.  Layer 1.
 *
 * A tokenizer is read-only after it was opened: any number of threads may encode and decode with it
 * at the same time, each with its own ct_tokens_t.  All functions are local.
 *
 * Text is bytes.  The byte-pair encodings give the ids of tiktoken (0.8 and later,
 * encode_ordinary()) and of Hugging Face's tokenizers (`add_special_tokens=False`).  Both take
 * valid Unicode only.  Here a byte that is not part of valid UTF-8 is a symbol (neither letter,
 * number nor space) of its own, so that decoding gives the same bytes again. */
#ifndef CT_TOKENIZER_H
#define CT_TOKENIZER_H
#include <stddef.h>
#include <stdint.h>

typedef struct ct_tokenizer ct_tokenizer_t;

/** Ids, and workspace of the encoder that is kept between calls.  {0} is empty; freed by
 * ct_tokens_clear().  To encode the next text into it, set n to 0. */
typedef struct ct_tokens {
  int32_t *id;
  int64_t n, cap;
  void *work; /**< of the encoder */
} ct_tokens_t;
void ct_tokens_clear(ct_tokens_t *t);

/** Bytes of decoded ids.  {0} is empty; freed by ct_token_text_clear(). */
typedef struct ct_token_text {
  char *data; /**< may contain NUL bytes; not NUL-terminated */
  int64_t n, cap;
} ct_token_text_t;
void ct_token_text_clear(ct_token_text_t *t);

/** Opens a tokenizer by the text that the user gives:
 *  - "bytes": ids 0 to 255 are bytes, 256 is the end of a text;
 *  - "residues": the list of amino acids of ESM-2, with its ids; "kmers:K": all K-mers of A, T, C
 *    and G, and these and N alone, with the ids of the Nucleotide Transformer for K = 6; "codons":
 *    kmers:3;
 *  - a directory with tokenizer.blob (ct_tokenizer_blob()), tokenizer.json (byte-level BPE only),
 *    or vocab.json and merges.txt;
 *  - a file: one of these, a tiktoken file (lines of base64 and rank), or a list of tokens, one per
 *    line, for greedy longest match;
 *  - KIND:FILE, for a file whose kind is not recognized: KIND is list, or the pattern of a tiktoken
 *    file: gpt2, cl100k, llama3 or o200k (default: by its number of ranks).
 *
 * A list gives its token `<unk>` or `[UNK]` once for neighbouring characters that no token matches;
 * without such a token, encoding fails there.  White space that no token matches is skipped.  Its
 * tokens of the forms <...> and [...] are special.
 *
 * CT_ERR_IO; CT_ERR_FORMAT, which names the file, its line or item and what was expected;
 * CT_ERR_UNSUP: a known other format, such as SentencePiece; CT_ERR_USAGE; CT_ERR_NOMEM. */
int ct_tokenizer_open(const char *spec, ct_tokenizer_t **out);
/** Makes a list of n tokens by id; NULL: no token has this id.  The bytes are copied.  They may
 * contain line ends, which a list in a file cannot hold. */
int ct_tokenizer_open_list(const char *const *token, const int64_t *bytes, int64_t n,
                           ct_tokenizer_t **out);
/** Opens a serialized tokenizer; \a name names its source in messages.  The bytes are copied. */
int ct_tokenizer_open_blob(const void *blob, int64_t bytes, const char *name, ct_tokenizer_t **out);
void ct_tokenizer_close(ct_tokenizer_t *t);

/** Serializes a tokenizer with all its files.  Equal tokenizers give equal bytes.  \a blob is freed
 * with ct_mem_free(). */
int ct_tokenizer_blob(const ct_tokenizer_t *t, char **blob, int64_t *bytes);

/** Returns the number of ids: all ids are below it. */
int32_t ct_tokenizer_vocab(const ct_tokenizer_t *t);
/** Returns the id of the token that ends a text: the first that exists of `<|endoftext|>` (256 of
 * bytes), `<|end_of_text|>`, `</s>`, `<eos>`, `[SEP]`, `[EOS]`; -1: none does. */
int32_t ct_tokenizer_eot(const ct_tokenizer_t *t);
/** Returns the id of the token with these bytes, special or not; -1: there is none. */
int32_t ct_tokenizer_find(const ct_tokenizer_t *t, const void *text, int64_t bytes);
/** Returns a short text for messages and logs, such as "bytes" or "tiktoken (cl100k)"; borrowed. */
const char *ct_tokenizer_name(const ct_tokenizer_t *t);

enum {
  CT_TOKEN_SPECIAL = 1, /**< the names of special tokens in the text become these tokens */
  CT_TOKEN_MORE = 2     /**< more text follows: stop where it may change the ids */
};
/** Encodes a text and appends its ids to \a out.  With CT_TOKEN_MORE, *used is the number of bytes
 * that were encoded; pass the rest again, followed by more text.  Without it, all bytes are encoded
 * (\a used may be NULL).  Encoding a text in parts with CT_TOKEN_MORE gives the ids of the whole.
 * Time is O(n log n) for any text.  CT_ERR_DATA: the tokenizer is a list without an unknown token,
 * and no token matches (the message gives the offset in \a text); CT_ERR_NOMEM. */
int ct_tokenizer_encode(const ct_tokenizer_t *t, const void *text, int64_t bytes, int flags,
                        int64_t *used, ct_tokens_t *out);
/** Returns the first offset >= \a at where the text may be cut: encoding both parts on their own
 * (without CT_TOKEN_SPECIAL) gives the ids of the whole.  \a bytes: there is no such offset.  Pure;
 * for workers that share a text. */
int64_t ct_tokenizer_cut(const ct_tokenizer_t *t, const void *text, int64_t bytes, int64_t at);

/** Returns the bytes of a token, borrowed, and their number in *bytes; those of a special token are
 * its name.  NULL: no token has this id. */
const void *ct_tokenizer_token(const ct_tokenizer_t *t, int32_t id, int64_t *bytes);
/** Returns 1 if the id is a special token, which no text gives without CT_TOKEN_SPECIAL. */
int ct_tokenizer_is_special(const ct_tokenizer_t *t, int32_t id);
/** Appends the bytes of n ids to \a out.  CT_ERR_DATA: no token has an id. */
int ct_tokenizer_decode(const ct_tokenizer_t *t, const int32_t *id, int64_t n,
                        ct_token_text_t *out);
/** For printing while ids arrive.  Returns the length of the part of out->data that does not end
 * inside a UTF-8 character; print it, and then drop it. */
int64_t ct_token_text_ready(const ct_token_text_t *t);
void ct_token_text_drop(ct_token_text_t *t, int64_t n);

#endif
