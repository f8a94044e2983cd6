/** \file ct_pack_tokens.h  Packs text, or token ids of other programs, as shards of tokens.
 * Layer 4.
 *
 * Shards are ranges of the bytes of all inputs, in the order of the inputs, so any number of ranks
 * writes the same bytes.  A shard ends where the first document begins at or after the end of its
 * share.  If the next document begins a whole share later, the document is cut there: text at a
 * UTF-8 character, a FASTA record between residues, ids between two tokens.  A line of JSON and a
 * compressed file are never cut. */
#ifndef CT_PACK_TOKENS_H
#define CT_PACK_TOKENS_H
#include "pack/ct_pack_job.h"

/** Kinds of inputs.  AUTO: by the suffix of the name, without .gz: .bin; .jsonl, .ndjson; .fa,
 * .fasta, .fna, .faa, .ffn, .frn, .fas; text is all else. */
typedef enum {
  CT_TOKENS_AUTO,
  CT_TOKENS_TEXT,  /**< a document is a file */
  CT_TOKENS_JSONL, /**< a document is a text in a line of JSON */
  CT_TOKENS_FASTA, /**< a document is a sequence, in upper case and without line ends */
  CT_TOKENS_BIN    /**< token ids: of llm.c with a header, of nanoGPT without one */
} ct_tokens_kind_t;

/** Where the end-of-text token stands.  AUTO: after each document, and in files of llm.c before
 * it; NONE if the tokenizer has no such token. */
typedef enum { CT_EOT_AUTO, CT_EOT_BEFORE, CT_EOT_AFTER, CT_EOT_NONE } ct_tokens_eot_t;

typedef struct ct_pack_tokens {
  /** Files, directories (all files below, in the order of their names' bytes; names that begin with
   * a dot are left out) and patterns. */
  const char *const *source;
  int sources;
  ct_tokens_kind_t kind;
  const char *tokenizer; /**< NULL: bytes, or for ids the one of meta.pkl, or none */
  const char *text_key;  /**< JSON lines: key of the text */
  ct_tokens_eot_t eot;
  /* Token ids; 0 and -1: by the file's header, the tokenizer or meta.pkl. */
  int bits;       /**< 16 or 32 */
  int64_t vocab;  /**< 0: not given */
  int64_t eot_id; /**< -1: not given */
} ct_pack_tokens_t;

typedef struct ct_tokens_result {
  int64_t tokens; /**< of the output */
  int64_t rest;   /**< tokens of the rest */
  int64_t vocab;
  int bits;           /**< width of a stored token */
  int kept;           /**< files reused from an interrupted run */
  char tokenizer[64]; /**< its name; "": none */
} ct_tokens_result_t;

/** Collective.  Writes all shards: names, locks, resuming and errors as in ct_pack_run(), with
 * job->output, shards, split, rest, rest_shards and force.  The split is a part of the bytes,
 * rounded down.  CT_ERR_FORMAT, CT_ERR_DATA: the message names the file, the line or the
 * offset, and what was expected; nothing is written. */
int ct_pack_tokens_run(const ct_topo_t *t, const ct_pack_tokens_t *o, const ct_pack_job_t *job,
                       ct_tokens_result_t *out);

#endif
