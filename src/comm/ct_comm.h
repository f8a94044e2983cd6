/** \file ct_comm.h  The data plane: gradients and parameters between ranks. Layer 1.
 *
 * Tickets express overlap without exposing MPI requests or streams to the trainer: reduce() starts
 * a transfer, progress() makes progress, and end() orders the result before later launches. At most
 * CT_COMM_TICKETS are open at once and may be ended in any order. Every rank issues the same calls
 * in the same order. */
#ifndef CT_COMM_H
#define CT_COMM_H
#include "backend/ct_backend.h"
#include "comm/ct_topo.h"

#define CT_COMM_TICKETS 1024

typedef struct ct_comm ct_comm_t;
typedef struct ct_group ct_group_t; /**< a subset of the ranks */

typedef struct ct_comm_opts {
  /** 1: sums are computed along a fixed binary tree over the rank numbers. The number of ranks must
   * be a power of two. A power-of-two block of ranks has the same partial sum as a single rank that
   * added the same summands in the same tree. */
  int fixed_order;
  /** CT_BF16: data sent between nodes is rounded to bfloat16 and summed in float32; nothing is
   * rounded inside a node. CT_F32: no rounding. NCCL uses one type for all: with more than one node
   * it rounds everywhere, including the partial sums that it forwards. */
  ct_dtype_t wire;
  /** 1: over MPI all ranks reduce at once; 0: the ranks of a node first reduce in shared memory.
   * CT_BF16 requires 0, or data would be rounded inside nodes. */
  int flat;
} ct_comm_opts_t;

/** What a transfer does with the buffers of the ranks. */
typedef enum {
  CT_REDUCE_ALL,   /**< sums them; all ranks get all of the sum (all-reduce) */
  CT_REDUCE_SLICE, /**< each rank gets its slice of the sum, the rest of buf is undefined
                      (reduce-scatter) */
  CT_GATHER,       /**< copies each rank's slice to all ranks (all-gather) */
  CT_GATHER_HALF   /**< the same, with n elements of 2 bytes */
} ct_reduce_t;

typedef struct ct_comm_ops {
  size_t size;
  const char *name;  /* "mpi", "nccl", "staged" */
  int repeatable;    /* 1: reduce(), end(), gather() and group_sum() may be part of a step that is
                       replayed as a CUDA graph */
  int gathers_ahead; /* 1: an open gather takes no memory, so that many may be open */
  /* Collective. Borrows the first three arguments. *out is owned by the caller. */
  int (*open)(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev, const ct_comm_opts_t *o,
              ct_comm_t **out);
  /* Collective. Zeroed, 64-byte aligned device memory that this communicator reduces fastest (a
   * shared window, registered memory); used for the gradient arena. Freed by close(). */
  int (*alloc)(ct_comm_t *c, size_t bytes, void **out);
  /* Collective, Hot. Starts the in-place sum of n floats over all ranks, or a gather, once the
   * event \a after has completed (it follows the launches that fill buf; NULL: buf is ready). The
   * order of summation
   * is fixed: the result is bit-identical in every run with the same ranks and nodes, and on every
   * rank (see also `fixed_order`). Do not touch buf until end(). Either all ranks pass memory of
   * alloc() at the same offset, or none does. If the event carries an error, the transfer still
   * runs, since the other ranks wait for it, and the ticket must be ended. The caller may reuse the
   * event after the return. CT_REDUCE_SLICE saves writing the sums to the other ranks inside a
   * node; across nodes it costs the same as CT_REDUCE_ALL. */
  int (*reduce)(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                int *ticket);
  /* Local, pure. The slice [*from, *to) of a rank in a buffer of n elements; a multiple of 16
   * elements except for the last slice. The slices of all ranks are disjoint and cover the
   * buffer. */
  void (*slice)(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to);
  /* Collective, Hot. All-gather: each rank's slice of buf is copied to all ranks. Ordered after
   * earlier and before later launches of q; complete once q is. An error may be returned on this
   * rank alone; it must then take part in the following calls. */
  int (*gather)(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);
  /* Local, Hot. Makes progress on open transfers; returns at once if all are complete. */
  int (*progress)(ct_comm_t *c);
  /* Hot. Orders the result before later launches of q; on the CPU it waits. */
  int (*end)(ct_comm_t *c, int ticket, ct_queue_t *q);
  /* Collective. Broadcast from \a root. Waits for earlier launches of q; complete on return. */
  int (*bcast)(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root);
  /* Collective over all ranks. Ranks with the same color form a group; freed by close(). */
  int (*group)(ct_comm_t *c, int color, ct_group_t **out);
  /* Collective over the group, Hot. In-place sum of n doubles in device memory, bit-identical on
   * all ranks of the group. Ordered after earlier and before later launches of q. Allowed while
   * transfers are open. */
  int (*group_sum)(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n);
  /* Collective. Scatters or gathers device memory between rank 0 and all ranks, as MPI_Scatterv and
   * MPI_Gatherv do: bytes[r] of rank r, contiguous in `all`, which only rank 0 uses. Waits for
   * earlier launches of q; complete on return. */
  int (*scatter)(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine, const int64_t bytes[]);
  int (*collect)(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all, const int64_t bytes[]);
  /* Collective. Sum over all ranks to rank 0; buf is undefined on the other ranks afterwards. */
  int (*reduce_root)(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);
  /* Local. Bytes that this rank has sent since open(), counted as an ideal implementation on R
   * ranks would send them: all-reduce: 2 (R - 1) / R of the buffer; slices, gather() and bcast()
   * (on average): half of that; reduce_root(): the whole buffer, except on rank 0; scatter and
   * collect: each row once. bfloat16 counts half. */
  int64_t (*bytes_sent)(const ct_comm_t *c);
  /* Local, Hot. Begins the measurement \a of, 0 or 1, of the waits of the device in later calls of
   * end() and group_sum(). NULL: the host itself waits. */
  void (*measure)(ct_comm_t *c, int of);
  /* Local, Hot. Seconds of measurement \a of that a device spent waiting for the results of end()
   * and of group_sum() while the host ran ahead; the launches concerned have completed. Both 0 if
   * the host itself waits. */
  void (*waited)(ct_comm_t *c, int of, double *transfers, double *groups);
  /* Local. Frees without waiting for peers; ranks that wait for this one get CT_ERR_COMM where
   * possible. Memory of alloc() stays until the process ends. */
  void (*abort)(ct_comm_t *c);
  /* Collective. Completes open transfers, then frees c, which may be NULL. */
  void (*close)(ct_comm_t *c);
} ct_comm_ops_t;

/** Host memory over MPI. Inside a node each rank reduces its slice directly in the other ranks'
 * parts of an MPI-3 shared window; across nodes the slices are reduced by MPI_Iallreduce. */
extern const ct_comm_ops_t ct_comm_mpi;
/** Memory of any device over MPI, staged through host memory. Each buffer of alloc() has a host
 * twin in memory of ct_comm_mpi, which computes the sums, so that they are bit-identical to its
 * own. The copy to the host is enqueued after the event on a queue of this communicator; the
 * transfer starts in the first call that finds the copy complete. The copy back is enqueued on the
 * queue of end(). Errors of launches before the event are reported by their own queue. Buffers not
 * from alloc() allocate staging memory of their size on first use. */
extern const ct_comm_ops_t ct_comm_staged;

#endif
