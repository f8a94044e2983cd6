/** \file ct_comm.h  The data plane: gradients and parameters between ranks.  Layer 1.
 *
 * Overlap is expressed with tickets, so that neither MPI requests nor streams leak to the
 * trainer: allreduce() starts a transfer, poke() lets it move, end() orders it before later
 * work.  At most CT_COMM_TICKETS are open at once, ended in any order; every rank issues the
 * same calls in the same order. */
#ifndef CT_COMM_H
#define CT_COMM_H
#include "backend/ct_backend.h"
#include "comm/ct_topo.h"

#define CT_COMM_TICKETS 1024

typedef struct ct_comm ct_comm_t;

typedef struct ct_comm_ops {
  size_t size;
  const char *name; /* "mpi", "nccl", "staged" */
  /* Collective.  Borrows all three. */
  int (*open)(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev, ct_comm_t **out);
  /* Collective.  Zeroed memory of the device, 64-byte aligned, that this communicator reduces
   * fastest (a shared window, registered memory): the gradient arena lies in it.  Freed by
   * close(). */
  int (*alloc)(ct_comm_t *c, size_t bytes, void **out);
  /* Collective, Hot.  Sum over all ranks, in place, of n floats, starting after the event (of
   * work that fills buf; NULL: it is filled).  The sum is made in a fixed order: the same bits
   * in every run with the same ranks and nodes, and on every rank.  buf is untouchable until
   * end().  It lies on all ranks in memory of alloc(), at the same place, or on none.  If the
   * event brings an error the transfer goes its way all the same, since the others wait for it,
   * and the ticket must be ended.  The event is the caller's again on return. */
  int (*allreduce)(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, int *ticket);
  /* Local, Hot.  Moves open transfers along; cheap when there are none. */
  int (*poke)(ct_comm_t *c);
  /* Hot.  Later work of q sees the result; on the CPU it waits. */
  int (*end)(ct_comm_t *c, int ticket, ct_queue_t *q);
  /* Collective.  Complete on return; q's earlier work is waited for. */
  int (*bcast)(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root);
  /* Local.  Frees without waiting for peers; those that wait for this rank get CT_ERR_COMM where
   * they can be told.  Memory of alloc() stays until the process ends. */
  void (*abort)(ct_comm_t *c);
  /* Collective; NULL is fine.  Open transfers are completed first. */
  void (*close)(ct_comm_t *c);
} ct_comm_ops_t;

/** Host memory over MPI.  Inside a node the ranks reduce straight in each other's part of an MPI-3
 * shared window, each its slice; across nodes the slices go through MPI_Iallreduce. */
extern const ct_comm_ops_t ct_comm_mpi;

#endif
