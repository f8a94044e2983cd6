/** \file ct_comm.h  The data plane: gradients and parameters between ranks.  Layer 1.
 *
 * Overlap is expressed with tickets, so that neither MPI requests nor streams leak to the
 * trainer: reduce() starts a transfer, poke() lets it move, end() orders it before later
 * work.  At most CT_COMM_TICKETS are open at once, ended in any order; every rank issues the
 * same calls in the same order. */
#ifndef CT_COMM_H
#define CT_COMM_H
#include "backend/ct_backend.h"
#include "comm/ct_topo.h"

#define CT_COMM_TICKETS 1024

typedef struct ct_comm ct_comm_t;
typedef struct ct_group ct_group_t; /**< some of the ranks */

typedef struct ct_comm_opts {
  /** 1: sums of a reduction are made along a fixed binary tree over the rank numbers: the ranks
   * are a power of two, and a power-of-two block of ranks has the same partial sum as one rank
   * that added up the same parts in the same tree. */
  int fixed_order;
  /** CT_BF16: what crosses nodes is rounded to bfloat16, sums are made in float32; CT_F32: as
   * it is. Inside a node nothing is rounded. NCCL has one way for all: with more than one node it
   * rounds everywhere, also the sums that it passes on. */
  ct_dtype_t wire;
  /** 1: over MPI all ranks sum at once, 0: those of a node in its memory first.  With CT_BF16 it
   * must be 0, or numbers would be rounded inside nodes. */
  int flat;
} ct_comm_opts_t;

/** Who has the result of a reduction. */
typedef enum {
  CT_REDUCE_ALL,  /**< all ranks have all of it (all-reduce) */
  CT_REDUCE_SLICE /**< each rank its slice, the rest of buf is undefined (reduce-scatter) */
} ct_reduce_t;

typedef struct ct_comm_ops {
  size_t size;
  const char *name; /* "mpi", "nccl", "staged" */
  int repeatable;   /* 1: reduce(), end() and group_sum() may be part of a step that the device
                       repeats by itself */
  /* Collective.  Borrows the first three. */
  int (*open)(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev, const ct_comm_opts_t *o,
              ct_comm_t **out);
  /* Collective.  Zeroed memory of the device, 64-byte aligned, that this communicator reduces
   * fastest (a shared window, registered memory): the gradient arena lies in it.  Freed by
   * close(). */
  int (*alloc)(ct_comm_t *c, size_t bytes, void **out);
  /* Collective, Hot.  Sum over all ranks, in place, of n floats, starting after the event (of
   * work that fills buf; NULL: it is filled).  The sum is made in a fixed order: the same bits
   * in every run with the same ranks and nodes, and on every rank (`fixed_order` says more).
   * buf is untouchable until end().  It lies on all ranks in memory of alloc(), at the same
   * place, or on none.  If the event brings an error the transfer goes its way all the same,
   * since the others wait for it, and the ticket must be ended.  The event is the caller's
   * again on return. CT_REDUCE_SLICE saves, inside a node, writing the sums to the others;
   * across nodes it costs what CT_REDUCE_ALL does. */
  int (*reduce)(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                int *ticket);
  /* Local, pure.  This rank's slice of a buffer of n floats: [*from, *to), whole units of 16
   * floats but for the last slice.  The slices of all ranks are disjoint and cover the buffer.
   */
  void (*slice)(const ct_comm_t *c, int64_t n, int64_t *from, int64_t *to);
  /* Collective.  The other direction: each rank's slice of buf goes to all ranks.  Complete on
   * return; q's earlier work is waited for. */
  int (*gather)(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);
  /* Local, Hot.  Moves open transfers along; cheap when there are none. */
  int (*poke)(ct_comm_t *c);
  /* Hot.  Later work of q sees the result; on the CPU it waits. */
  int (*end)(ct_comm_t *c, int ticket, ct_queue_t *q);
  /* Collective.  Complete on return; q's earlier work is waited for. */
  int (*bcast)(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root);
  /* Collective over all ranks.  Ranks with the same color become a group; close() frees it. */
  int (*group)(ct_comm_t *c, int color, ct_group_t **out);
  /* Collective over the group, Hot.  Sum in place of n doubles in device memory, the same bits
   * on all ranks of the group; after q's earlier work and before its later work.  May be called
   * while transfers are open. */
  int (*group_sum)(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n);
  /* Collective.  Rows of device memory between rank 0 and all, as MPI_Scatterv and MPI_Gatherv:
   * bytes[r] of rank r, one after the other in `all`, which only rank 0 looks at.  Complete on
   * return; q's earlier work is waited for. */
  int (*scatter)(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine, const int64_t bytes[]);
  int (*collect)(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all, const int64_t bytes[]);
  /* Collective.  Sum over all ranks, at rank 0 alone; buf of the others is undefined after it.
   */
  int (*reduce_root)(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);
  /* Local.  Bytes that this rank has given to others since open(), by this library's own count:
   * what an ideal implementation of each call would send, of R ranks: an all-reduce 2 (R - 1) /
   * R of the buffer; slices, gather() and bcast() (on average) half of that; reduce_root() all
   * of it but on rank 0; rows once.  In bfloat16 half the bytes. */
  int64_t (*bytes_sent)(const ct_comm_t *c);
  /* Local, Hot.  Seconds, since the last call, in which work of a device waited for what end() and
   * what group_sum() ordered before it, while the host went on.  That work is done.  Both 0 where
   * the host itself waits. */
  void (*waited)(ct_comm_t *c, double *transfers, double *groups);
  /* Local.  Frees without waiting for peers; those that wait for this rank get CT_ERR_COMM
   * where they can be told.  Memory of alloc() stays until the process ends. */
  void (*abort)(ct_comm_t *c);
  /* Collective; NULL is fine.  Open transfers are completed first. */
  void (*close)(ct_comm_t *c);
} ct_comm_ops_t;

/** Host memory over MPI.  Inside a node the ranks reduce straight in each other's part of an
 * MPI-3 shared window, each its slice; across nodes the slices go through MPI_Iallreduce. */
extern const ct_comm_ops_t ct_comm_mpi;
/** Memory of any device over MPI, by way of the host's memory: what alloc() gives has a twin in
 * memory of ct_comm_mpi, which makes the sums there, so that they are the same bits.  A copy to
 * the host goes behind the event on a queue of this communicator's own, and its transfer starts
 * in the call that finds it arrived; the copy back goes on the queue of end().  An error of the
 * work before the event is told by that work's own queue.  What is not in memory of alloc()
 * wants staging memory of its size the first time. */
extern const ct_comm_ops_t ct_comm_staged;

#endif
