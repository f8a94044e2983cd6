/** \file exchange.h  The sum of one chunk over the ranks of an MPI communicator, made by this
 * library instead of MPI's own reduction: in an order and in a type that MPI does not offer, and
 * on a number of ranks, such as 3, 6 or 12, that MPI folds to a power of two at twice the bytes.
 * Internal to comm.
 *
 * The chunk is cut into one slice for each rank.  All send everybody his slice of their
 * summands; each sums up what he got, and sends the sum of his slice to all.  A rank sends
 * 2 (R - 1) / R of the chunk, as the best of MPI's algorithms, in 2 (R - 1) messages.
 *
 * In float32 the sum of the ranks is ((r0 + r1) + (r2 + r3)) + …, a binary tree over their
 * numbers, in which a rank without a neighbour waits for the next level.
 *
 * In bfloat16 each summand is rounded once on its way in, they are added in float32 in the
 * order of the ranks, and the sum is rounded once on its way out, on all ranks alike.  One
 * rounding errs by a factor of at most 1 ± 2^-8, so |error| <= 2^-8 (sum of |summands| + |sum|)
 * to first order, whatever the number of ranks. */
#ifndef CT_COMM_EXCHANGE_H
#define CT_COMM_EXCHANGE_H
#include "base/ct_types.h"
#include "comm/ct_topo.h"

typedef struct ct__exchange ct__exchange_t; /**< room for one chunk under way */

/** Local.  For chunks of up to \a room floats between up to t->size ranks; wire: CT_F32 or
 * CT_BF16.  CT_ERR_NOMEM. */
int ct__exchange_open(const ct_topo_t *t, ct_dtype_t wire, int64_t room, ct__exchange_t **out);
/** NULL is fine. */
void ct__exchange_close(ct__exchange_t *x);
/** Collective over comm, Hot.  Starts with the summands in buf[0..n). */
void ct__exchange_begin(ct__exchange_t *x, MPI_Comm comm, float *buf, int64_t n,
                        MPI_Request *request);
/** Collective over comm, Hot.  When the request is done: sums up and starts the way back. */
void ct__exchange_turn(ct__exchange_t *x, MPI_Comm comm, MPI_Request *request);
/** Local, Hot.  When that is done: the sum is in buf. */
void ct__exchange_finish(ct__exchange_t *x);

#endif
