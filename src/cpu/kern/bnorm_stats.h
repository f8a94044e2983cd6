/** \file kern/bnorm_stats.h  The statistics of batch normalisation: what is to be done to each
 * channel, from the sums of the tiles that kern/bnorm.c cuts a tensor into.  Module-internal. */
#ifndef CT_KERN_BNORM_STATS_H
#define CT_KERN_BNORM_STATS_H
#include "cpu/kern/loops.h"

typedef struct cpu__bnorm {
  ct_op_t op;
  const cpu__loops_t *loops;
  int64_t blocks, images;
  int64_t channels;               /* of a block */
  cpu__rows_t rows;               /* of a tile; the last tiles may be smaller: rows_of() */
  int64_t all_rows, all_channels; /* of the tensor, with padding */
  int64_t image_step, group_step; /* floats */
  int64_t group_blocks;           /* blocks whose channels lie side by side */
} cpu__bnorm_t;

/** One run. */
typedef struct cpu__bn_run {
  const cpu__bnorm_t *k;
  const ct_op_args_t *a;
  int stream, stream2; /* outputs to store around the caches: y or dx; dx2 */
  float *sums;         /* scratch: [blocks][images][CPU__BN_SUMS][width] */
  float *coefs;        /* scratch: [blocks][CPU__BN_COEFS][width] */
} cpu__bn_run_t;

static inline int64_t cpu__bn_sums_size(const cpu__bnorm_t *k)
{
  return CPU__BN_SUMS * k->loops->width;
}

static inline int64_t cpu__bn_coefs_size(const cpu__bnorm_t *k)
{
  return CPU__BN_COEFS * k->loops->width;
}

static inline float *cpu__bn_sums_of(const cpu__bn_run_t *r, int64_t block, int64_t image)
{
  return r->sums + (block * r->k->images + image) * cpu__bn_sums_size(r->k);
}

static inline float *cpu__bn_coefs_of(const cpu__bn_run_t *r, int64_t block)
{
  return r->coefs + block * cpu__bn_coefs_size(r->k);
}

static inline int64_t cpu__bn_least(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/** The last tiles may be smaller. */
static inline cpu__rows_t cpu__bn_rows_of(const cpu__bnorm_t *k, int64_t block, int64_t image)
{
  cpu__rows_t r = k->rows;

  r.rows = cpu__bn_least(r.rows, k->all_rows - image * r.rows);
  if (r.stride) r.width = cpu__bn_least(r.width, k->all_channels - block * k->channels);
  return r;
}

/** Bytes kept from forward to backward. */
size_t cpu__bn_saved_bytes(const ct_op_desc_t *d);
/** SyncBN: the elements of a channel on all ranks, kept with the statistics; NULL: nothing is
 * kept. */
double *cpu__bn_saved_count(const cpu__bn_run_t *r);
/** Elements of a channel on this rank. */
int64_t cpu__bn_elements(const cpu__bn_run_t *r);

/* What follows sets the coefficients of the channels of a block. */

/** Forward: from the sums of the tiles; updates the running statistics. */
void cpu__bn_batch_norms(const cpu__bn_run_t *r, int64_t block);
/** From what forward kept, or from the running statistics. */
void cpu__bn_known_norms(const cpu__bn_run_t *r, int64_t block);
/** Backward, after known_norms: from the sums of the tiles; writes dw if asked. */
void cpu__bn_gradients(const cpu__bn_run_t *r, int64_t block);

/* SyncBN: the sums of this rank into args.stats, and coefficients from those of all ranks. */

void cpu__bn_local_stats(const cpu__bn_run_t *r, int64_t block);
void cpu__bn_synced_norms(const cpu__bn_run_t *r, int64_t block);
/** After known_norms; writes dw. */
void cpu__bn_local_gradients(const cpu__bn_run_t *r, int64_t block);
void cpu__bn_synced_gradients(const cpu__bn_run_t *r, int64_t block);

#endif
