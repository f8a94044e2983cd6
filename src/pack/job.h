/** \file job.h  The parts of a packing job: the order of samples, the names of files, the lock, bad
 * samples.  Internal. */
#ifndef CT_PACK_JOB_INTERNAL_H
#define CT_PACK_JOB_INTERNAL_H
#include "base/ct_file.h"
#include "base/ct_text.h"
#include "data/order/ct_sampler.h"
#include "pack/ct_pack_job.h"

/* ---- order.c: the samples that are packed, by position ---- */

typedef struct ct__pack_order {
  ct_sampler_t sampler;
  int64_t first, samples;
  int64_t *chosen; /**< owned: sample numbers, if only some classes are packed; else NULL */
} ct__pack_order_t;

/** CT_ERR_USAGE: no samples remain. */
int ct__pack_order_open(const ct_pack_source_t *src, const ct_pack_job_t *job,
                        ct__pack_order_t *out);
void ct__pack_order_close(ct__pack_order_t *o);
/** Writes the numbers of \a n samples from a position on to \a index. */
void ct__pack_order_fill(const ct__pack_order_t *o, int64_t position, int64_t n, int64_t index[]);
/** Returns a hash of everything that determines the order. */
uint64_t ct__pack_order_hash(const ct_pack_source_t *src, const ct_pack_job_t *job);

/* ---- names.c ---- */

/** One file of a job. */
typedef struct ct__pack_shard {
  const char *pattern; /**< names of output files, such as "train-%03d.h5" */
  int number;          /**< number of this shard, which replaces %03d in the pattern */
  int of;              /**< number of shards with this pattern */
  int64_t first;       /**< position of its first sample */
  int64_t samples;     /**< number of its samples */
  uint64_t hash;       /**< of everything that determines its bytes */
  int64_t bad;         /**< samples left out; -1: the shard is not complete */
} ct__pack_shard_t;

/** Write the final name of a shard, and its name while it is being written.  CT_ERR_USAGE: the
 * pattern is invalid. */
int ct__pack_name(const ct__pack_shard_t *s, char *path, size_t cap);
int ct__pack_name_tmp(const ct__pack_shard_t *s, char *path, size_t cap);
/** Writes the name of a shard that is complete but not yet renamed. */
int ct__pack_name_done(const ct__pack_shard_t *s, char *path, size_t cap);
/** CT_ERR_USAGE if a shard would replace an input file, under any of its names, or another
 * shard. */
int ct__pack_names_check(const ct_pack_source_t *src, const ct__pack_shard_t *shard, int n);
/** CT_ERR_USAGE if a file with the final name of a shard, or of the pattern with the next number,
 * exists, unless this job was interrupted while it renamed its shards.  With \a force it only
 * warns. */
int ct__pack_names_free(ct__pack_shard_t *shard, int n, int force);
/** Finds the shards that a previous run has completed (sets `bad`), and with \a clean removes
 * useless files. */
int ct__pack_find_done(ct__pack_shard_t *shard, int n, int clean, int *found);
/** Renames all shards to their final names; removes all if one cannot be renamed. */
int ct__pack_rename(const ct__pack_shard_t *shard, int n);
/** Removes the shards that do not have their final names yet. */
void ct__pack_remove(const ct__pack_shard_t *shard, int n);

/* ---- lock.c: no second job writes the same files ---- */

typedef struct ct__pack_lock {
  char path[CT_PATH_MAX];
  int fd, held;
} ct__pack_lock_t;

/** Locks all files of a shard's pattern with one lock file: NAME.lock, where NAME is that of shard
 * 0.  CT_ERR_IO: another job holds the lock.  If the file system does not support locks, it warns
 * and continues. */
int ct__pack_lock(const ct__pack_shard_t *s, ct__pack_lock_t *out);
void ct__pack_unlock(ct__pack_lock_t *lock);

/* ---- bad.c: samples that cannot be read ---- */

typedef struct ct__pack_bad {
  ct_str_t text; /**< a line each, "POSITION origin: reason" */
  int64_t n;
} ct__pack_bad_t;

/** Records the text of the last error. */
int ct__pack_bad_add(ct__pack_bad_t *b, int64_t position, const char *place);
/** Collective.  Rank 0 logs the bad samples of all ranks in order; *total: their number. */
int ct__pack_bad_tell(const ct_topo_t *t, const ct__pack_bad_t *b, int is_error, int64_t *total);

#endif
