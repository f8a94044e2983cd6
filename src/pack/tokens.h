/** \file tokens.h  The parts of packing tokens: inputs, documents, cuts, the writer.  Internal.
 *
 * A position is an offset in the contents of all inputs, one after the other.  The content of a
 * file is the file without its header.  A compressed file counts as it is, and is not divided. */
#ifndef CT_PACK_TOKENS_INTERNAL_H
#define CT_PACK_TOKENS_INTERNAL_H
#include "pack/ct_pack_tokens.h"
#include "pack/job.h"
#include "token/ct_tokenizer.h"

typedef struct ct__tokens_file {
  int64_t name;  /**< its path, as an offset in the texts */
  int64_t at;    /**< offset of its content in the file */
  int64_t bytes; /**< of its content */
  int64_t first; /**< position of its content */
  uint64_t identity;
  int32_t kind; /**< ct_tokens_kind_t */
  int32_t gzip;
} ct__tokens_file_t;

typedef struct ct__tokens_input {
  ct__tokens_file_t *file; /**< [n] */
  int64_t n, cap;
  char *text; /**< concatenated paths, each with its NUL */
  int64_t text_bytes, text_cap;
  int64_t bytes;  /**< of all contents */
  int64_t unit;   /**< bytes of an id; 1: text */
  int64_t vocab;  /**< ids are below */
  int64_t eot_id; /**< -1: none */
  int llmc;       /**< ids are of llm.c */
  ct_tokens_eot_t eot;
  const char *text_key;      /**< borrowed */
  int64_t chunk;             /**< bytes that are read at once; 0: 1 MiB */
  ct_tokenizer_t *tokenizer; /**< NULL: ids without one */
  int32_t *id_bytes;         /**< ids with a tokenizer: [vocab] bytes of text of each token */
} ct__tokens_input_t;

/* ---- tokens_list.c: local, on rank 0 ---- */

/** Lists the files of the sources with their kinds and sizes, and closes with the positions.  Empty
 * files are left out with a warning.  CT_ERR_USAGE: text and ids together, or nothing to pack. */
int ct__tokens_list(const ct_pack_tokens_t *o, ct__tokens_input_t *in);

/* ---- tokens_bin.c: files of ids ---- */

/** Local.  Reads the header of a file of ids, if it has one, and sets f->at, f->bytes, in->unit,
 * in->vocab, in->eot_id and in->llmc.  \a bits: width of an id without a header; 0: 16.
 * CT_ERR_FORMAT: a header of another kind of file, an unexpected size, or other ids than those of
 * the files before. */
int ct__tokens_bin(ct__tokens_input_t *in, ct__tokens_file_t *f, int bits);
/** Local.  Makes a list tokenizer of the characters in meta.pkl, in the directory of a file of
 * nanoGPT; *out stays NULL without such a file. */
int ct__tokens_meta(const char *path, ct_tokenizer_t **out);

/* ---- tokens_read.c: the bytes of an input ---- */

const char *ct__tokens_path(const ct__tokens_input_t *in, const ct__tokens_file_t *f);
/** Frees everything but the tokenizer. */
void ct__tokens_input_clear(ct__tokens_input_t *in);

typedef struct ct__tokens_reader {
  const ct__tokens_input_t *in;
  const ct__tokens_file_t *f;
  const char *path;
  int fd;
  char *whole; /**< content of a compressed file */
  char *chunk;
  int64_t at, end; /**< offsets in the content: next, and the end of what is read */
  void (*progress)(void *of, int64_t bytes); /**< NULL: none */
  void *of;
} ct__tokens_reader_t;

/** Local.  Opens the content of a file from offset \a at to \a end; a compressed file must be read
 * as a whole.  Close it even after an error. */
int ct__tokens_open(const ct__tokens_input_t *in, const ct__tokens_file_t *f, int64_t at,
                    int64_t end, ct__tokens_reader_t *out);
void ct__tokens_close(ct__tokens_reader_t *r);
/** Reads the next bytes; they are valid until the next call.  *n is 0 at the end. */
int ct__tokens_next(ct__tokens_reader_t *r, const char **data, int64_t *n);
/** Records an error at an offset of the content, with its line number; returns CT_ERR_FORMAT. */
int ct__tokens_refuse(const ct__tokens_reader_t *r, int64_t at, const char *why);

/* ---- tokens_parse.c: the documents of an input ---- */

/** Receives documents.  A document whose beginning is in the shard before is `continued`; one whose
 * end is in the next shard is `cut`. */
typedef struct ct__tokens_sink {
  int (*begin)(void *of, int64_t at, int continued); /**< at: offset of its first line */
  int (*text)(void *of, const char *text, int64_t n);
  int (*end)(void *of, int cut);
  /** Files of ids: \a n ids as stored; \a continued: not the first ones of the file. */
  int (*ids)(void *of, const void *id, int64_t n, int continued);
  void *of;
} ct__tokens_sink_t;

/** Local.  Passes all documents between two offsets of a file, which are cuts as made by
 * ct__tokens_cut().  CT_ERR_FORMAT: the message names the file and the line. */
int ct__tokens_parse(ct__tokens_reader_t *r, const ct__tokens_sink_t *sink);

/* ---- tokens_cut.c ---- */

/** Local.  Moves a position to the beginning of a document, as ct_pack_tokens.h says; \a share: the
 * bytes of the share that begins there. */
int ct__tokens_cut(const ct__tokens_input_t *in, int64_t position, int64_t share, int64_t *out);
/** Returns the index of the file with a position; n: the end. */
int64_t ct__tokens_find(const ct__tokens_input_t *in, int64_t position);

/* ---- tokens_write.c ---- */

/** Local.  Writes the documents of s->samples bytes from position s->first on to a file.  *tokens:
 * their number. */
int ct__tokens_write(const ct__tokens_input_t *in, const ct__pack_shard_t *s, const char *path,
                     void (*progress)(void *of, int64_t bytes), void *of, int64_t *tokens);
/** Returns 16 or 32: the width of a stored token. */
int ct__tokens_bits(int64_t vocab);

#endif
