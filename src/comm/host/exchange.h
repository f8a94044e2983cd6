/** \file exchange.h  All-reduce of one chunk over the ranks of an MPI communicator, implemented
 * here instead of by MPI: with an order of summation and a type that MPI does not offer, and for
 * numbers of ranks such as 3, 6 or 12, which MPI folds to a power of two at twice the bytes.
 * Internal to comm.
 *
 * The chunk is cut into one slice per rank. Each rank sends every other rank the summands of that
 * rank's slice, sums the summands it received, and sends the sum of its slice to all. A rank sends
 * 2 (R - 1) / R of the chunk, as MPI's best algorithms do, in 2 (R - 1) messages.
 *
 * In float32 the ranks are summed as ((r0 + r1) + (r2 + r3)) + …, a binary tree over the rank
 * numbers; a rank without a neighbour is added at the next level.
 *
 * In bfloat16 each summand is rounded once before it is sent, they are added in float32 in rank
 * order, and the sum is rounded once before it is sent, identically on all ranks. One rounding
 * changes a number by a factor of at most 1 ± 2^-8, so |error| <= 2^-8 (sum of |summands| + |sum|)
 * to first order, for any number of ranks. */
#ifndef CT_COMM_EXCHANGE_H
#define CT_COMM_EXCHANGE_H
#include "base/ct_types.h"
#include "comm/ct_topo.h"

typedef struct ct__exchange ct__exchange_t; /**< buffers for one chunk */

/** Local. Allocates buffers for chunks of up to \a capacity floats and up to t->size ranks; wire:
 * CT_F32 or CT_BF16. CT_ERR_NOMEM. */
int ct__exchange_open(const ct_topo_t *t, ct_dtype_t wire, int64_t capacity, ct__exchange_t **out);
/** Frees \a x, which may be NULL. */
void ct__exchange_close(ct__exchange_t *x);
/** Collective over comm, Hot. Starts the exchange of the summands in buf[0..n). */
void ct__exchange_begin(ct__exchange_t *x, MPI_Comm comm, float *buf, int64_t n,
                        MPI_Request *request);
/** Collective over comm, Hot. Call after the request has completed: sums the slice and starts to
 * return the sums. */
void ct__exchange_turn(ct__exchange_t *x, MPI_Comm comm, MPI_Request *request);
/** Local, Hot. Call after the request of ct__exchange_turn() has completed: copies the result to
 * buf. */
void ct__exchange_finish(ct__exchange_t *x);

#endif
