/** \file comm_mpi.h  The communicator of host memory: what its files share.  Internal to comm.
 */
#ifndef CT_COMM_MPI_H
#define CT_COMM_MPI_H
#include "comm/host/turn.h"
#include "comm/host/exchange.h"
#include "comm/host/window.h"

enum {
  CT__COMM_CHUNK = 256 * 1024, /* floats: 1 MiB, where MPI libraries reduce fastest */
  CT__COMM_IN_FLIGHT = 8
};

typedef struct ct__comm_transfer {
  /** REDUCED: this rank's work is done. */
  enum { CT__TRANSFER_FREE, CT__TRANSFER_QUEUED, CT__TRANSFER_REDUCED } state;
  float *buf;
  int shared;      /**< 1: lies in shared memory, at `place`, as number `number` */
  int slice_alone; /**< 1: the others do not want what this rank sums up */
  ct__window_place_t place;
  int64_t number;
  int64_t begun, landed, end; /**< elements of buf: [.., end) is this rank's to reduce */
  double posted_s;            /**< when, if a timeline is made */
  int next;                   /**< in the queue or among the free ones */
} ct__comm_transfer_t;

typedef struct ct__comm_chunk {
  MPI_Request request;
  int transfer;
  int exchanged; /**< goes by the exchange, else by MPI_Iallreduce */
  int turned;    /**< of an exchange: the sums are on their way back */
  int64_t from, n;
  ct__exchange_t *exchange; /**< owned; NULL: none is ever wanted */
} ct__comm_chunk_t;

struct ct_comm {
  const ct_topo_t *t; /**< borrowed, like the backend */
  const ct_backend_t *be;
  ct_comm_opts_t opts;
  ct__window_t *window;
  int exchange_all; /**< 1: chunks must be exchanged, however small */
  /* Owned duplicates, two each: what comes in and what goes back is started at different times
   * on each rank, and calls on one MPI communicator must come in the same order everywhere. */
  MPI_Comm world[2]; /**< for private memory */
  MPI_Comm rail[2];  /**< for shared memory: the ranks of all nodes that have this local rank */
  ct__comm_transfer_t transfer[CT_COMM_TICKETS];
  int unused;                                 /**< list of free transfers */
  int first, last;                            /**< queue of transfers not all begun */
  ct__comm_chunk_t chunk[CT__COMM_IN_FLIGHT]; /**< ring: from `oldest`, `in_flight` of them */
  int oldest, in_flight;
  int *slice_number;    /**< owned; of each rank: number of its slice */
  int *count, *offset;  /**< owned; of each rank; for one MPI call */
  MPI_Request *request; /**< owned; one for each rank */
  ct_group_t *groups;   /**< owned; list */
  int64_t sent;         /**< bytes given to others */
};

enum { CT__COMM_NONE = -1 }; /**< the end of a list of transfers */

/** Puts a transfer at the end of the queue. */
void ct__comm_append(ct_comm_t *c, int transfer);
/** Moves transfers as far as they go without waiting. */
void ct__comm_progress(ct_comm_t *c);
/** Until a ticket is complete. */
int ct__comm_await(ct_comm_t *c, int ticket);
/** Waits for a request of another call's while open transfers go on. */
int ct__comm_wait(ct_comm_t *c, MPI_Request *request);
/** Adds to what bytes_sent() says: \a share / ranks of \a bytes. */
void ct__comm_count(ct_comm_t *c, int64_t bytes, int share, int ranks);

/* Entries of the table, as in ct_comm.h. */
int ct__comm_group(ct_comm_t *c, int color, ct_group_t **out);
int ct__comm_group_sum(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n);
void ct__comm_groups_free(ct_comm_t *c, int aborted);
int ct__comm_slice_open(ct_comm_t *c);
void ct__comm_slice(const ct_comm_t *c, int64_t n, int64_t *from, int64_t *to);
int ct__comm_gather(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);
int ct__comm_scatter(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine,
                     const int64_t bytes[]);
int ct__comm_collect(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all,
                     const int64_t bytes[]);
int ct__comm_reduce_root(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);

#endif
