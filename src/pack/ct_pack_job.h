/** \file ct_pack_job.h  Writes a source into shards, on all ranks.  Layer 4.
 *
 * Each shard is written by one rank.  Its samples depend on the source and the options alone, so
 * any number of ranks writes the same bytes.  A shard is written as NAME.tmp and renamed to
 * NAME.done-HASH-BAD when it is complete: HASH covers the input (names, sizes and times of its
 * files) and all options that determine the bytes, BAD is the number of samples left out.
 * When all shards are complete they are renamed to their final names.  Shards with the same hash
 * from an interrupted run are reused; those with another hash are removed.  Rank 0 holds a flock()
 * on NAME.lock of the first shard of each pattern meanwhile. */
#ifndef CT_PACK_JOB_H
#define CT_PACK_JOB_H
#include "comm/ct_topo.h"
#include "hdf5io/ct_pack.h"

typedef struct ct_pack_job {
  int shuffle; /**< 1: shuffle the samples, in an order that depends on the seed alone */
  uint64_t seed;
  /* After shuffling, the samples [first, last) are kept, as far as they exist. */
  int64_t first, last;
  /* Of these, the samples of the classes [only_first, only_last) are kept and renumbered from 0;
   * both 0: all classes. */
  int64_t only_first, only_last;
  const char *output; /**< pattern with one %d ("train-%03d.h5"), or the name of a single
                                    file */
  int shards;
  double split;     /**< fraction of the samples written to the output; 0: all */
  const char *rest; /**< pattern for the remaining samples */
  int rest_shards;
  int deflate;     /**< 0 to 9 */
  int64_t classes; /**< 0: the number of classes of the source */
  int skip_bad;    /**< 1: leave out samples that cannot be read */
  int force;       /**< 1: replace existing files */
} ct_pack_job_t;

typedef struct ct_pack_result {
  int64_t samples; /**< samples written to the output */
  int64_t rest;    /**< samples written to the rest */
  int64_t bad;     /**< left out */
  int64_t classes;
  int shards; /**< files written or reused */
  int kept;   /**< files reused from an interrupted run */
} ct_pack_result_t;

/** Collective.  Writes all shards; rank 0 shows a progress bar.  Samples that cannot be read are
 * listed with the reason at the end; unless skip_bad is set they are CT_ERR_DATA.  On failure all
 * new files are removed, finished shards included; a killed process leaves files from which the
 * next run resumes.  CT_ERR_USAGE, before anything is written: a pattern without %d, a pattern that
 * names an input file, an empty range, or without force a file that exists, unless this job was
 * interrupted while it renamed its files.  CT_ERR_IO: another job writes these files, which are not
 * touched. */
int ct_pack_run(const ct_topo_t *t, const ct_pack_source_t *src, const ct_pack_job_t *job,
                ct_pack_result_t *out);

#endif
