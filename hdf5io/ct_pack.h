/** \file ct_pack.h  Sources of samples for packing, and writing one shard.
 *
 * A source returns samples by number. Everything else is known once it is open: the number of
 * samples, their labels, and the class names. */
#ifndef CT_PACK_H
#define CT_PACK_H
#include "base/ct_types.h"

/** A sample that was read. */
typedef struct ct_pack_sample {
  void *x;        /**< not encoded: buffer for one sample, row-major, native byte order */
  float *targets; /**< buffer for the sample's targets, if the source has targets */
  /* Encoded: the whole file, in a growing buffer (ct_mem_grow(); the caller frees it), and the size
   * of the image. */
  char *file;
  int64_t file_cap;
  size_t file_bytes;
  int32_t height, width, channels;
} ct_pack_sample_t;

/** A source of samples. Local; used by one thread at a time. All ranks open the same source. */
typedef struct ct_pack_source {
  ct_shape_t x;                   /**< not encoded: shape of one sample; dim[0] == 1; any element
                                     type */
  int unsigned16;                 /**< 1: x.dtype is CT_I32 with values 0 to 65535, stored as
                                     uint16 */
  int encoded;                    /**< 1: a sample is a whole JPEG or PNG file */
  int64_t samples;                /**< number of samples, at least 1 */
  int64_t targets;                /**< target values per sample; 0: samples have labels */
  int64_t classes;                /**< number of class names, or highest label + 1 */
  const char *const *class_names; /**< [classes], borrowed; NULL: no names */
  /** Hash of the input (ct_pack_identity()): equal hashes mean equal samples. */
  uint64_t identity;
  const char *const *inputs; /**< files that must not be overwritten by a shard; ends with NULL;
                                borrowed */
  void *state;
  /** Label of a sample; NULL if there are targets. */
  int32_t (*label)(void *state, int64_t index);
  /** Encoded: size of a sample's file when the source was opened. */
  int64_t (*bytes)(void *state, int64_t index);
  /** CT_ERR_IO, CT_ERR_FORMAT, CT_ERR_DATA: the sample is bad; the recorded reason does not include
   * its name. Any other code, whose text includes the name, aborts the packing. */
  int (*read)(void *state, int64_t index, ct_pack_sample_t *to);
  /** Describes a sample's origin in buf ("a/b.jpg"; "data.csv, row 12"). */
  void (*place)(void *state, int64_t index, char *buf, size_t cap);
  void (*close)(void *state);
} ct_pack_source_t;

/** One shard to be written. */
typedef struct ct_pack_shard {
  const char *path;          /**< created or replaced */
  const int64_t *index;      /**< numbers of its samples in the source */
  int64_t samples;           /**< number of samples; 0 writes an empty shard */
  int64_t chunk;             /**< maximum samples per chunk; 0: limited by the chunk size in bytes
                                only */
  int deflate;               /**< compression level 0 (none) to 9; encoded samples are not
                                compressed again */
  int64_t classes;           /**< value of the attribute `classes`; 0: none */
  int32_t first_class;       /**< subtracted from each label, so that classes count from 0 */
  int (*progress)(void *of); /**< called after each sample; NULL: none. An error aborts the
                                writing */
  /** Called if a sample cannot be read (the error record has the reason): CT_OK continues, an error
   * aborts the writing. */
  int (*bad)(void *of, int64_t index);
  void *of;
} ct_pack_shard_t;

/** Local. Writes, flushes and closes one file as described in FORMAT.md; equal samples give equal
 * bytes. *bad: number of samples that could not be read. If there are any the file is removed,
 * since the caller must write it again without them. CT_ERR_IO, CT_ERR_NOMEM, and errors of
 * src->read, progress and bad. */
int ct_pack_write_shard(const ct_pack_source_t *src, const ct_pack_shard_t *s, int64_t *bad);

/** One shard of tokens to be written. Tokens and starts come from open files of plain numbers in
 * native byte order, since an array without chunks needs its length first. */
typedef struct ct_token_shard {
  const char *path; /**< created or replaced */
  int bits;         /**< 16 or 32: width of the tokens in the file and in the shard */
  int fd;           /**< tokens */
  int64_t tokens;
  int starts_fd; /**< int64: offset of each document in the shard */
  int64_t documents;
  int64_t vocab;         /**< all tokens are below */
  int64_t eot;           /**< token between documents; -1: none */
  int64_t bytes;         /**< bytes of the text that the tokens represent; -1: not known */
  const char *tokenizer; /**< name of the tokenizer; NULL: not known */
  const void *blob;      /**< the serialized tokenizer */
  int64_t blob_bytes;
} ct_token_shard_t;

/** Local. Writes, flushes and closes one file as described in FORMAT.md; equal tokens give equal
 * bytes. CT_ERR_IO, CT_ERR_NOMEM. */
int ct_pack_write_tokens(const ct_token_shard_t *s);

#endif
