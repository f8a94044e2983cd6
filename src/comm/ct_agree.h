/** \file ct_agree.h  The control plane: a few bytes over MPI on which all ranks agree.  Layer 1.
 *
 * A topology of one rank needs no MPI here: {.size = 1} is enough. */
#ifndef CT_AGREE_H
#define CT_AGREE_H
#include <stddef.h>
#include <stdint.h>

#include "base/ct_err.h"
#include "base/ct_step_times.h"
#include "comm/ct_topo.h"

/** Collective.  The same code on every rank: CT_OK iff all passed CT_OK; else the lowest code,
 * and the record of its lowest rank is in ct_err_last() everywhere (with that rank's number,
 * unless it already carries one from an earlier agreement).  All well costs one 8-byte allreduce
 * (MINLOC). */
int ct_agree(const ct_topo_t *t, int rc);
/** Around a local call in collective code. */
#define CT_TRY_ALL(topo, call) CT_TRY(ct_agree((topo), (call)))
/** Collective.  CT_ERR_DIFFER on every rank, naming \a what and the first rank that differs from
 * rank 0, unless all passed the same value. */
int ct_agree_same(const ct_topo_t *t, const char *what, uint64_t value);
/** Collective.  Bytes from rank 0 to all; *data is allocated (ct_mem_alloc, with a zero byte
 * after the end) on the others, NULL on failure.  rc is rank 0's own code, that of the others is
 * not looked at: if it is not CT_OK nothing is sent and every rank returns it with its text. */
int ct_agree_bytes(const ct_topo_t *t, int rc, void **data, size_t *bytes);

/** Collective.  Bytes from the first rank of each node to the others of it, in place. */
void ct_agree_node(const ct_topo_t *t, void *data, size_t bytes);

/** Collective.  Each of count[n] becomes its sum over the ranks; n is the same on all. */
void ct_agree_sum(const ct_topo_t *t, int64_t *count, int64_t n);
/** Collective, Hot.  In place: sums of n doubles over all ranks, or their maxima; the same bits
 * everywhere, as MPI promises of an all-reduce (MPI 3.1, 5.9.6). */
int ct_agree_doubles(const ct_topo_t *t, double *io, int n, int max);

/** Collective, Hot.  So many bytes of each rank, in the order of the ranks, into \a all of rank 0,
 * which has room for `bytes` times the ranks; NULL on the others. */
void ct_agree_gather(const ct_topo_t *t, const void *mine, int bytes, void *all);

/** Hot.  A part of what a rank sends; of each rank all parts, in their order, before the next
 * rank's. */
typedef void (*ct_agree_part_t)(void *ctx, int rank, const void *data, size_t bytes);
/** Collective.  Any number of bytes of each rank, in the order of the ranks, in parts to \a take of
 * rank 0, which keeps no more than one part. */
void ct_agree_each(const ct_topo_t *t, const void *mine, size_t bytes, ct_agree_part_t take,
                   void *ctx);

/** What all ranks learn once per step, in one small allreduce. */
typedef struct ct_step_word {
  int64_t err, err_rank; /**< lowest code, with its lowest rank (out only) */
  int64_t stop;          /**< any rank was asked to stop (max) */
  double loss_sum;       /**< sums, as in ct_loss_t */
  double loss_weight, abs_error;
  int64_t samples, top1, top5;
  int64_t skipped; /**< samples that could not be read (sum) */
  /* where the time of the step went up to here: sums over the ranks, and maxima, */
  ct_step_times_t time_sum, time_max;
  double busy_max; /**< … of their busy times, … */
  double work_max; /**< … of compute and update together */
} ct_step_word_t;

/** Collective, Hot.  Merges in place.  If err is not CT_OK after the merge, the failing rank's
 * text has been broadcast as in ct_agree(), and the code is returned on every rank. */
int ct_step_agree(const ct_topo_t *t, ct_step_word_t *io);
/** The MPI type and operation of the step word, in \a t: made and freed by ct_topo_open() and
 * _close(). */
void ct__step_word_open(ct_topo_t *t);
void ct__step_word_close(ct_topo_t *t);

#endif
