/** \file comm_mpi.h  Declarations shared by the files of the host-memory communicator. Internal to
 * comm. */
#ifndef CT_COMM_MPI_H
#define CT_COMM_MPI_H
#include "comm/host/turn.h"
#include "comm/host/exchange.h"
#include "comm/host/window.h"

enum {
  CT__COMM_CHUNK = 256 * 1024, /* floats: 1 MiB, the message size at which MPI libraries reduce
                                  fastest */
  CT__COMM_IN_FLIGHT = 8
};

typedef struct ct__comm_transfer {
  /** REDUCED: this rank has reduced its slice; or the gather is complete. */
  enum {
    CT__TRANSFER_FREE,
    CT__TRANSFER_QUEUED,
    CT__TRANSFER_GATHERING,
    CT__TRANSFER_REDUCED
  } state;
  float *buf;
  int shared;      /**< 1: buf is in shared memory, at `location`; the transfer's number there is
                      `number` */
  int slice_alone; /**< 1: reduce-scatter: the other ranks do not need the slice that this rank
                      sums */
  ct__window_location_t location;
  int64_t number;
  /* Positions in buf, in elements. This rank reduces the elements up to `end`. */
  int64_t begun;  /**< reductions of all elements before this one have been started */
  int64_t landed; /**< reductions of all elements before this one are complete */
  int64_t end;
  double posted_s;       /**< start time, if a timeline is recorded */
  int next;              /**< next transfer in the queue or in the free list */
  MPI_Request gather[2]; /**< of whole units, and of the rest */
  int *counts;           /**< owned; counts and offsets of an open gather, or NULL */
} ct__comm_transfer_t;

typedef struct ct__comm_chunk {
  MPI_Request request;
  int transfer;
  int exchanged; /**< 1: reduced by our own exchange; 0: by MPI_Iallreduce */
  int turned;    /**< exchange: 1: the second phase (returning the sums) has started */
  int64_t from, n;
  ct__exchange_t *exchange; /**< owned; NULL: exchanges are never used */
} ct__comm_chunk_t;

struct ct_comm {
  const ct_topo_t *t; /**< borrowed, like the backend */
  const ct_backend_t *be;
  ct_comm_opts_t opts;
  ct__window_t *window;
  int exchange_all; /**< 1: exchange chunks of any size */
  /* Owned duplicates of a communicator, two each: calls on one MPI communicator must be issued in
   * the same order on all ranks, but the two phases of an exchange start at different times on each
   * rank. */
  MPI_Comm world[2]; /**< for private memory */
  MPI_Comm rail[2];  /**< for shared memory: the ranks with this local rank on all nodes */
  ct__comm_transfer_t transfer[CT_COMM_TICKETS];
  int unused; /**< list of free transfers */
  int first;  /**< oldest transfer with chunks still to be started */
  int last;   /**< newest transfer in that queue */
  ct__comm_chunk_t chunk[CT__COMM_IN_FLIGHT]; /**< ring buffer: `in_flight` chunks from `oldest`
                                                 on */
  int oldest, in_flight;
  int gathers;                  /**< number of gathers that are not complete */
  int *counts[CT_COMM_TICKETS]; /**< owned; `spare_counts` of earlier gathers */
  int spare_counts;
  int *slice_number;    /**< owned; per rank: index of its slice */
  MPI_Request *request; /**< owned; one per rank */
  ct_group_t *groups;   /**< owned; list */
  int64_t sent;         /**< bytes sent to other ranks */
};

enum { CT__COMM_NONE = -1 }; /**< end of a list of transfers */

/** Appends a transfer to the queue. */
void ct__comm_append(ct_comm_t *c, int transfer);
/** Makes progress on all transfers without waiting. */
void ct__comm_progress(ct_comm_t *c);
/** Waits until a ticket is complete. */
int ct__comm_await(ct_comm_t *c, int ticket);
/** Waits for a request of another call while making progress on open transfers. */
int ct__comm_wait(ct_comm_t *c, MPI_Request *request);
/** Adds \a share / ranks of \a bytes to the count of bytes_sent(). */
void ct__comm_count(ct_comm_t *c, int64_t bytes, int share, int ranks);

/* Entries of ct_comm_ops_t, see ct_comm.h. */
int ct__comm_group(ct_comm_t *c, int color, ct_group_t **out);
int ct__comm_group_sum(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n);
void ct__comm_groups_free(ct_comm_t *c, int aborted);
int ct__comm_slice_open(ct_comm_t *c);
void ct__comm_slice(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to);
/** Starts a gather of n elements of \a size bytes. */
void ct__comm_gather_begin(ct_comm_t *c, ct__comm_transfer_t *x, int64_t n, int size);
/** Makes progress on a gather. */
void ct__comm_gather_test(ct_comm_t *c, ct__comm_transfer_t *x);
int ct__comm_scatter(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine,
                     const int64_t bytes[]);
int ct__comm_collect(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all,
                     const int64_t bytes[]);
int ct__comm_reduce_root(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);

#endif
