/** \file ct_pack_job.h  From a source to shards, over all ranks.  Layer 4.
 *
 * Each shard is written by one rank, from samples that follow from the source and the options
 * alone: any number of ranks makes the same bytes.  A shard is written as NAME.tmp; a finished one
 * waits as NAME.done-HASH-BAD, where HASH is of the input (names, sizes, times of its files) and of
 * all options that its bytes depend on, and BAD counts the samples that were left out.  All get
 * their names when all are done.  What an interrupted run has left of the same hash is kept and not
 * made again; of another hash it is removed.  Rank 0 holds NAME.lock of the first shard of each
 * pattern meanwhile, by flock(). */
#ifndef CT_PACK_JOB_H
#define CT_PACK_JOB_H
#include "comm/ct_topo.h"
#include "hdf5io/ct_pack.h"

typedef struct ct_pack_job {
  int shuffle; /**< 1: the samples in an order that depends on the seed alone */
  uint64_t seed;
  int64_t first, last;           /**< then these, last excluded and cut to what there is */
  int64_t only_first, only_last; /**< then those of these classes, which are counted from 0 then;
                                      both 0: all */
  const char *output;            /**< pattern with one %d ("train-%03d.h5"), or one file's name */
  int shards;
  double split;     /**< this part of the samples goes to the output; 0: all */
  const char *rest; /**< pattern for the others */
  int rest_shards;
  int deflate;     /**< 0 to 9 */
  int64_t classes; /**< 0: as many as the source has */
  int skip_bad;    /**< 1: samples that cannot be read are left out */
  int force;       /**< 1: files that are there are replaced */
} ct_pack_job_t;

typedef struct ct_pack_result {
  int64_t samples, rest; /**< written to the output and to the rest */
  int64_t bad;           /**< left out */
  int64_t classes;
  int shards, kept; /**< files; of them from an interrupted run */
} ct_pack_result_t;

/** Collective.  Writes all shards; with a bar on rank 0.  A sample that cannot be read is listed
 * with its reason at the end, and unless skip_bad is set it is CT_ERR_DATA.  On failure none of the
 * new files stays, nor what was finished; a process that is killed leaves what the next run goes on
 * with.  CT_ERR_USAGE before anything is written: a pattern without its %d, one that names a file
 * that is read, an empty range; without force also a file that is there, unless this same job was
 * interrupted while it gave its files their names.  CT_ERR_IO: another job writes these files; they
 * stay. */
int ct_pack_run(const ct_topo_t *t, const ct_pack_source_t *src, const ct_pack_job_t *job,
                ct_pack_result_t *out);

#endif
