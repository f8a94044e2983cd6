/** \file ct_pack.h  What is packed into data sets, and the writing of one shard.
 *
 * A source gives samples by number.  Everything but the samples themselves is known when it is
 * open: how many there are, their labels, the names of the classes. */
#ifndef CT_PACK_H
#define CT_PACK_H
#include "base/ct_types.h"

/** A sample that is read. */
typedef struct ct_pack_sample {
  void *x;        /**< not encoded: room for one sample, row-major, in the machine's byte order */
  float *targets; /**< room for as many, if the source has them */
  /* Encoded: the whole file, in room that grows (ct_mem_grow(); the caller frees it), and the size
   * of the image. */
  char *file;
  int64_t file_cap;
  size_t file_bytes;
  int32_t height, width, channels;
} ct_pack_sample_t;

/** A source of samples.  Local; from one thread at a time.  All ranks open the same one. */
typedef struct ct_pack_source {
  ct_shape_t x;                   /**< not encoded: one sample; dim[0] == 1; any element type */
  int unsigned16;                 /**< 1: x.dtype is CT_I32, of 0 to 65535: stored as uint16 */
  int encoded;                    /**< 1: a sample is a whole JPEG or PNG file */
  int64_t samples;                /**< how many there are, at least 1 */
  int64_t targets;                /**< real numbers of a sample; 0: it has a label */
  int64_t classes;                /**< highest label + 1, or how many names there are */
  const char *const *class_names; /**< so many, borrowed; NULL: they have none */
  /** Hash of what is read (ct_pack_identity()): the same means the same samples. */
  uint64_t identity;
  const char *const *inputs; /**< files that no shard may replace, ended by NULL; borrowed */
  void *state;
  /** Label of a sample; NULL if there are targets. */
  int32_t (*label)(void *state, int64_t index);
  /** Encoded: bytes of a sample's file, as when the source was opened. */
  int64_t (*bytes)(void *state, int64_t index);
  /** CT_ERR_IO, CT_ERR_FORMAT, CT_ERR_DATA: the sample is bad, for a reason that is recorded
   * without its name; another code, with a text that has it, ends the packing. */
  int (*read)(void *state, int64_t index, ct_pack_sample_t *to);
  /** Where a sample comes from, in words ("a/b.jpg"; "data.csv, row 12"), into buf. */
  void (*place)(void *state, int64_t index, char *buf, size_t cap);
  void (*close)(void *state);
} ct_pack_source_t;

/** One shard to be written. */
typedef struct ct_pack_shard {
  const char *path;          /**< is created or replaced */
  const int64_t *index;      /**< numbers of its samples in the source */
  int64_t samples;           /**< how many; 0 is a shard without samples */
  int64_t chunk;             /**< most samples of a chunk; 0: no limit but a chunk's bytes */
  int deflate;               /**< level 0 (none) to 9; encoded samples are not compressed again */
  int64_t classes;           /**< of the attribute; 0: none */
  int32_t first_class;       /**< what is taken from each label: classes are counted from it */
  int (*progress)(void *of); /**< after each sample; NULL: none.  An error ends the writing */
  /** A sample cannot be read (the record of errors has the reason): CT_OK takes note and goes on,
   * an error ends the writing. */
  int (*bad)(void *of, int64_t index);
  void *of;
} ct_pack_shard_t;

/** Local.  Writes, flushes and closes one file as FORMAT.md has it; the same samples make the same
 * bytes.  *bad tells how many samples could not be read: if there are any the file is removed,
 * since the caller wants to write it again without them.  CT_ERR_IO, CT_ERR_NOMEM, and what
 * src->read, progress and bad return. */
int ct_pack_write_shard(const ct_pack_source_t *src, const ct_pack_shard_t *s, int64_t *bad);

#endif
