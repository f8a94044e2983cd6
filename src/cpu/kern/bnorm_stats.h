/** \file kern/bnorm_stats.h  Batch normalisation statistics: per-channel coefficients from the sums
 * of the tiles into which kern/bnorm.c cuts a tensor.  Module-internal. */
#ifndef CT_KERN_BNORM_STATS_H
#define CT_KERN_BNORM_STATS_H
#include "base/ct_int.h"
#include "cpu/kern/loops.h"

/** A tensor is cut into tiles [images][blocks]: `image` is an image or a strip of pixels, a block
 * some channels.  The statistics are computed by units, the channels of one vector. */
typedef struct cpu__bnorm {
  ct_op_t op;
  const cpu__loops_t *loops;
  int64_t blocks, images;
  int64_t image_step, block_step; /* strides in elements */
  int64_t units, block_units;     /* number of units; units per block */
  int64_t channels;               /* channels per unit: 1, or the elements of a vector */
  cpu__rows_t rows;               /* rows of a tile; the last tiles may be smaller: rows_of() */
  int64_t all_rows, all_channels; /* size of the tensor, with padding */
  int64_t beyond; /* what the strides of the images of x and dx have in addition, as parts of
                     larger tensors */
} cpu__bnorm_t;

/** One run. */
typedef struct cpu__bn_run {
  const cpu__bnorm_t *k;
  const ct_op_args_t *a;
  int stream;   /* 1: non-temporal stores of y or dx */
  int stream2;  /* 1: non-temporal stores of dx2 */
  float *sums;  /* scratch: [blocks][images][CPU__BN_SUMS][rows.channels] */
  float *coefs; /* scratch: [blocks][CPU__BN_COEFS][rows.channels] */
} cpu__bn_run_t;

static inline int64_t cpu__bn_sums_size(const cpu__bnorm_t *k)
{
  return CPU__BN_SUMS * k->rows.channels;
}

static inline int64_t cpu__bn_coefs_size(const cpu__bnorm_t *k)
{
  return CPU__BN_COEFS * k->rows.channels;
}

static inline float *cpu__bn_sums_of(const cpu__bn_run_t *r, int64_t block, int64_t image)
{
  return r->sums + (block * r->k->images + image) * cpu__bn_sums_size(r->k);
}

static inline float *cpu__bn_coefs_of(const cpu__bn_run_t *r, int64_t block)
{
  return r->coefs + block * cpu__bn_coefs_size(r->k);
}

/** Returns the rows of a tile; the last tiles may be smaller. */
static inline cpu__rows_t cpu__bn_rows_of(const cpu__bnorm_t *k, int64_t block, int64_t image)
{
  cpu__rows_t r = k->rows;

  r.rows = ct_least(r.rows, k->all_rows - image * r.rows);
  r.width = ct_least(r.width, k->all_channels - block * r.channels);
  return r;
}

/** Returns the bytes kept from forward to backward. */
size_t cpu__bn_saved_bytes(const ct_op_desc_t *d);
/** SyncBN: returns the address of the number of elements of a channel over all ranks, which is kept
 * with the statistics; NULL: nothing is kept. */
double *cpu__bn_saved_count(const cpu__bn_run_t *r);
/** Returns the number of elements of a channel on this rank. */
int64_t cpu__bn_elements(const cpu__bn_run_t *r);

/* The functions below compute the coefficients (CPU__BN_… in loops.h) with which each channel of
 * one unit is normalized. */

/** Forward: computes the coefficients from the sums of the tiles, and updates the running
 * statistics. */
void cpu__bn_batch_norms(const cpu__bn_run_t *r, int64_t unit);
/** Computes the coefficients from the statistics that forward saved, or from the running
 * statistics. */
void cpu__bn_known_norms(const cpu__bn_run_t *r, int64_t unit);
/** Backward, after cpu__bn_known_norms(): computes the other coefficients from the sums of the
 * tiles, and writes dw if requested. */
void cpu__bn_gradients(const cpu__bn_run_t *r, int64_t unit);

/* SyncBN: "local" functions write this rank's sums to args.stats; "synced" functions set the
 * coefficients from the all-reduced sums. */

void cpu__bn_local_stats(const cpu__bn_run_t *r, int64_t unit);
void cpu__bn_synced_norms(const cpu__bn_run_t *r, int64_t unit);
/** Backward, after cpu__bn_known_norms(): writes this rank's sums and dw. */
void cpu__bn_local_gradients(const cpu__bn_run_t *r, int64_t unit);
void cpu__bn_synced_gradients(const cpu__bn_run_t *r, int64_t unit);

#endif
