/** \file ct_agree.h  The control plane: small MPI messages by which all ranks agree. Layer 1.
 *
 * A topology of one rank needs no MPI here: {.size = 1} is enough. */
#ifndef CT_AGREE_H
#define CT_AGREE_H
#include <stddef.h>
#include <stdint.h>

#include "base/ct_err.h"
#include "base/ct_step_times.h"
#include "comm/ct_topo.h"

/** Collective. Returns the same code on every rank: CT_OK iff all ranks passed CT_OK, else the
 * lowest code. ct_err_last() then holds the record of the lowest rank with that code on all ranks,
 * with its rank number (unless it already carries one from an earlier agreement). If all pass CT_OK
 * it costs one 8-byte allreduce (MINLOC). */
int ct_agree(const ct_topo_t *t, int rc);
/** Wraps a local call in collective code: all ranks fail if one does. */
#define CT_TRY_ALL(topo, call) CT_TRY(ct_agree((topo), (call)))
/** Collective. If the ranks passed different values, CT_ERR_DIFFER on every rank; the message names
 * \a what and the first rank that differs from rank 0. */
int ct_agree_same(const ct_topo_t *t, const char *what, uint64_t value);
/** Collective. Broadcasts bytes from rank 0. On the other ranks *data is allocated (ct_mem_alloc)
 * with a zero byte after the end; NULL on failure. \a rc is rank 0's own code and ignored on the
 * others: if it is not CT_OK nothing is sent and every rank returns it with its text. */
int ct_agree_bytes(const ct_topo_t *t, int rc, void **data, size_t *bytes);

/** Collective. Broadcasts bytes from the first rank of each node within the node, in place. */
void ct_agree_node(const ct_topo_t *t, void *data, size_t bytes);

/** Collective. Replaces each of count[n] by its sum over the ranks; n is identical on all ranks. */
void ct_agree_sum(const ct_topo_t *t, int64_t *count, int64_t n);
/** Collective, Hot. Replaces n doubles by their sums over all ranks, or by their maxima if \a max
 * is 1. The result is bit-identical on all ranks, as MPI guarantees for an all-reduce (MPI 3.1,
 * 5.9.6). */
int ct_agree_doubles(const ct_topo_t *t, double *io, int n, int max);

/** Collective, Hot. Gathers \a bytes bytes from each rank, in rank order, into \a all on rank 0,
 * which holds bytes times the number of ranks; NULL on the others. */
void ct_agree_gather(const ct_topo_t *t, const void *mine, int bytes, void *all);

/** Hot. Receives one part of the data of \a rank. All parts of a rank arrive in order before those
 * of the next rank. */
typedef void (*ct_agree_part_t)(void *ctx, int rank, const void *data, size_t bytes);
/** Collective. Sends any number of bytes from each rank to rank 0, which passes them in rank order
 * and in parts to \a take. Rank 0 buffers only one part at a time. */
void ct_agree_each(const ct_topo_t *t, const void *mine, size_t bytes, ct_agree_part_t take,
                   void *ctx);

enum { CT_STEP_LOSSES = 8 };
/** Sums of one of several losses, as in ct_loss_t. */
typedef struct ct_step_loss {
  double sum, weight, abs_error;
  int64_t samples, top1, top5;
} ct_step_loss_t;

/** Step status: what all ranks learn at the end of each step, in one small allreduce. */
typedef struct ct_step_status {
  int64_t err;      /**< lowest code of all ranks */
  int64_t err_rank; /**< lowest rank with that code (out only) */
  int64_t stop;     /**< nonzero: a rank was asked to stop (max) */
  double loss_sum;  /**< sums, as in ct_loss_t */
  double loss_weight, abs_error;
  int64_t samples, top1, top5;
  ct_step_loss_t loss[CT_STEP_LOSSES]; /**< of each loss, if there are several: sums */
  int64_t skipped;                     /**< samples skipped because they could not be read (sum) */
  /* time breakdown of the step so far: sums and maxima over the ranks */
  ct_step_times_t time_sum, time_max;
  double busy_max; /**< maximum of their busy times */
  double work_max; /**< maximum of compute plus update */
} ct_step_status_t;

/** Collective, Hot. Merges the status of all ranks in place. If err is not CT_OK after the merge,
 * the failing rank's text has been broadcast as in ct_agree(), and the code is returned on every
 * rank. */
int ct_step_agree(const ct_topo_t *t, ct_step_status_t *io);
/** Creates and frees the MPI type and operation of the step status in \a t; called by
 * ct_topo_open() and ct_topo_close(). */
void ct__step_status_open(ct_topo_t *t);
void ct__step_status_close(ct_topo_t *t);

#endif
