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
  int64_t bad;         /**< samples left out, of tokens: their number; -1: it is not complete */
} ct__pack_shard_t;

/** Write the final name of a shard, and its name while it is being written.  CT_ERR_USAGE: the
 * pattern is invalid. */
int ct__pack_name(const ct__pack_shard_t *s, char *path, size_t cap);
int ct__pack_name_tmp(const ct__pack_shard_t *s, char *path, size_t cap);
/** Writes the name of a shard that is complete but not yet renamed. */
int ct__pack_name_done(const ct__pack_shard_t *s, char *path, size_t cap);
/** CT_ERR_USAGE if a shard would replace an input file (a list that ends with NULL), under any of
 * its names, or another shard. */
int ct__pack_names_check(const char *const *inputs, const ct__pack_shard_t *shard, int n);
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

/* ---- files.c: the files of a job, from the locks to the final names ---- */

typedef struct ct__pack_files {
  const ct_topo_t *topo;
  ct__pack_shard_t *shard; /**< [n], owned: shards of the output, then of the rest */
  int n, outputs;
  int *todo; /**< [todos], owned: shards that are not complete yet */
  int todos;
  ct__pack_lock_t lock[2]; /**< locks of the output and of the rest, held by rank 0 */
} ct__pack_files_t;

/** Local.  Lists o->shards shards of the output and \a rests of the rest, to which the caller gives
 * `first`, `samples` and `hash`. */
int ct__pack_files_new(ct__pack_files_t *f, const ct_topo_t *t, const ct_pack_job_t *o, int rests);
/** Collective.  Locks the files and finds those that an interrupted run has completed; *kept: their
 * number.  Errors as those of ct_pack_run(). */
int ct__pack_files_begin(ct__pack_files_t *f, int force, int *kept);
/** Collective.  Writes the other shards in rounds of one for each rank. */
int ct__pack_files_write(ct__pack_files_t *f, int (*write)(void *of, ct__pack_shard_t *s),
                         void *of);
/** Collective.  Sends `bad` of the shards that were written now to all ranks. */
void ct__pack_files_share(const ct__pack_files_t *f);
/** Collective.  Removes the completed shards after an error: each rank its own, since no other rank
 * knows them.  Keeps the error record. */
void ct__pack_files_abort(const ct__pack_files_t *f);
/** Releases the locks and frees the lists. */
void ct__pack_files_close(ct__pack_files_t *f);

/** What rank 0 shows while it writes its own shards. */
typedef struct ct__pack_progress {
  int64_t done, total; /**< samples of this rank, or bytes of text */
  int bytes;           /**< 1: they are bytes */
  double begun_s, shown_s, told_s;
} ct__pack_progress_t;

void ct__pack_progress_begin(ct__pack_progress_t *p, const ct__pack_files_t *f, int bytes);
/** Counts \a more and shows a progress bar at most ten times a second; without a terminal, a line a
 * minute. */
void ct__pack_progress(ct__pack_progress_t *p, const ct_topo_t *t, int64_t more);

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
