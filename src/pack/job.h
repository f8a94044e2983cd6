/** \file job.h  The rooms of a packing job: which samples, which names, which were bad.
 * Internal. */
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
  int64_t *chosen; /**< owned: numbers of samples, if some classes alone are packed */
} ct__pack_order_t;

/** CT_ERR_USAGE: there is none. */
int ct__pack_order_open(const ct_pack_source_t *src, const ct_pack_job_t *job,
                        ct__pack_order_t *out);
void ct__pack_order_close(ct__pack_order_t *o);
/** Numbers of \a n samples from a position on. */
void ct__pack_order_fill(const ct__pack_order_t *o, int64_t position, int64_t n, int64_t index[]);
/** What the order depends on. */
uint64_t ct__pack_order_hash(const ct_pack_source_t *src, const ct_pack_job_t *job);

/* ---- names.c ---- */

/** One file of a job. */
typedef struct ct__pack_shard {
  const char *pattern;
  int number, of;         /**< which of how many of its pattern */
  int64_t first, samples; /**< positions of its samples */
  uint64_t hash;          /**< of all that its bytes follow from */
  int64_t bad;            /**< samples left out; -1: it is not done */
} ct__pack_shard_t;

/** Its name at the end, and while it is written.  CT_ERR_USAGE: the pattern is wrong. */
int ct__pack_name(const ct__pack_shard_t *s, char *path, size_t cap);
int ct__pack_name_tmp(const ct__pack_shard_t *s, char *path, size_t cap);
/** Its name when it is done. */
int ct__pack_name_done(const ct__pack_shard_t *s, char *path, size_t cap);
/** CT_ERR_USAGE if a shard would replace what is read, by whatever name, or another shard. */
int ct__pack_names_check(const ct_pack_source_t *src, const ct__pack_shard_t *shard, int n);
/** CT_ERR_USAGE if a shard is there under its own name, or one of the pattern with the next number;
 * not if this very job was interrupted while it named its shards.  With \a force nothing is but
 * warned of. */
int ct__pack_names_free(ct__pack_shard_t *shard, int n, int force);
/** Finds the shards that a run before has finished (sets `bad`), and if \a clean removes what is of
 * no use. */
int ct__pack_find_done(ct__pack_shard_t *shard, int n, int clean, int *found);
/** Gives all their names; none stays if one cannot be named. */
int ct__pack_rename(const ct__pack_shard_t *shard, int n);
/** Removes what is not named yet. */
void ct__pack_remove(const ct__pack_shard_t *shard, int n);

/* ---- lock.c: no second job writes the same files ---- */

typedef struct ct__pack_lock {
  char path[CT_PATH_MAX];
  int fd, held;
} ct__pack_lock_t;

/** Of all files of a shard's pattern, by the name of the shard number 0: NAME.lock.  CT_ERR_IO:
 * another job has it.  A file system without locks is told about, and it goes on. */
int ct__pack_lock(const ct__pack_shard_t *s, ct__pack_lock_t *out);
void ct__pack_unlock(ct__pack_lock_t *lock);

/* ---- bad.c: samples that cannot be read ---- */

typedef struct ct__pack_bad {
  ct_str_t text; /**< a line each, "POSITION place: reason" */
  int64_t n;
} ct__pack_bad_t;

/** Takes note of the last error's text. */
int ct__pack_bad_add(ct__pack_bad_t *b, int64_t position, const char *place);
/** Collective.  Rank 0 logs all of them in order; *total: of all ranks. */
int ct__pack_bad_tell(const ct_topo_t *t, const ct__pack_bad_t *b, int is_error, int64_t *total);

#endif
