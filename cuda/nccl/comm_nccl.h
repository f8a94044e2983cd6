/** \file comm_nccl.h  The communicator over NCCL: what its files share.  Module-internal.
 *
 * All work of NCCL goes to one stream, in the order of the calls, which is the same on all ranks:
 * so no two kernels of NCCL wait for each other's multiprocessors.  comm_nccl.c has life and
 * transfers, comm_nccl_calls.c what is complete on return and groups, nccl_check.c errors. */
#ifndef GPU_COMM_NCCL_H
#define GPU_COMM_NCCL_H
#include <nccl.h>

#include "comm/ct_alarm.h"
#include "comm/ct_comm.h"
#include "cuda/gpu.h"

typedef struct gpu__transfer {
  int open;
  cudaEvent_t fork, done; /**< owned; NULL until the first transfer of this ticket */
} gpu__transfer_t;

/** A wait of a queue's work for a transfer, or for the sum of a group. */
typedef struct gpu__wait {
  cudaEvent_t from, to; /**< owned; NULL until the first wait of this number */
  int of_group;
} gpu__wait_t;

enum { GPU_WAITS = 1024 }; /**< of a step that are timed */

/** Memory that NCCL knows. */
typedef struct gpu__shared {
  char *p;
  size_t bytes;
  int by_nccl;  /**< ncclMemAlloc, else cudaMalloc */
  void *handle; /**< of its registration, or NULL */
} gpu__shared_t;

/** Of alloc(), and the same in bfloat16, if gradients travel so. */
typedef struct gpu__block {
  gpu__shared_t whole, low;
} gpu__block_t;

struct ct_comm {
  const ct_topo_t *t; /**< borrowed, like the device */
  ct_dev_t *dev;
  int low;               /**< 1: gradients cross nodes, in bfloat16 */
  ct_alarm_t *alarm;     /**< owned */
  ncclComm_t nccl;       /**< owned; NULL after a failure */
  ct_err_info_t failure; /**< code CT_OK: none */
  cudaStream_t stream;   /**< owned; of a higher priority than queues */
  const char *call;      /**< of NCCL, the latest, and its bytes */
  int64_t call_bytes;
  int repeated; /**< 1: calls may be in a graph, so their stream does not tell if they are done */
  gpu__transfer_t transfer[CT_COMM_TICKETS];
  int lowest;          /**< no free ticket is lower: the same steps have the same tickets */
  gpu__block_t *block; /**< owned */
  int64_t blocks, block_cap;
  ct_group_t *groups; /**< owned; list */
  int64_t sent;
  gpu__wait_t wait[GPU_WAITS]; /**< those since the last look, in the order of the calls */
  int waits;
};

struct ct_group {
  ct_comm_t *c;    /**< borrowed */
  ncclComm_t nccl; /**< owned; NULL: a rank alone, or after a failure */
  int size;
  cudaEvent_t fork, done; /**< owned */
  ct_group_t *next;
};

/* ---- errors (nccl_check.c) ---- */

/** Local, Hot.  CT_OK, or the error that ended this communicator. */
int gpu__nccl_alive(ct_comm_t *c);
/** Local, Hot.  For the result of a call on \a comm: until NCCL has enqueued it.  A failure is told
 * to the other ranks, and ends this communicator. */
int gpu__nccl_done(ct_comm_t *c, ncclComm_t comm, ncclResult_t r, const char *call, int64_t bytes);
/** Local.  An error of this rank that is recorded ends the communicator: the others are told.
 * Returns \a rc. */
int gpu__nccl_give_up(ct_comm_t *c, int rc);
/** Local.  Ends everything, on this rank: ncclCommAbort, and no graph starts any more.  Later, if a
 * step is just becoming a graph. */
void gpu__nccl_kill(ct_comm_t *c);
/** The communicator's watch (gpu__watch). */
int gpu__nccl_watch(void *comm, int late);

/* ---- used by both others ---- */

/** Local, Hot.  Work of c->stream starts after that of \a s so far. */
int gpu__nccl_fork(ct_comm_t *c, cudaStream_t s, cudaEvent_t e);
int gpu__nccl_event(cudaEvent_t *io);
void gpu__nccl_count(ct_comm_t *c, int64_t bytes, int share, int ranks);
/** Pure.  Floats of a slice, but for the last rank's, which has the rest too. */
int64_t gpu__nccl_slice(int64_t n, int ranks);

/* ---- waits (comm_nccl_waits.c) ---- */

/** Local, Hot.  The number of a wait that is about to be enqueued, or noted for a graph; the same
 * steps have the same numbers.  -1: it is not timed. */
int gpu__nccl_wait_open(ct_comm_t *c, int of_group);
/** Local, Hot.  Work of \a s waits for the event. */
int gpu__nccl_wait(ct_comm_t *c, int wait, cudaStream_t s, cudaEvent_t done);
void gpu__nccl_waited(ct_comm_t *c, double *transfers, double *groups);
void gpu__nccl_waits_free(ct_comm_t *c);

/* Entries of the table, as in ct_comm.h. */
int gpu__nccl_gather(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);
int gpu__nccl_bcast(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root);
int gpu__nccl_scatter(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine,
                      const int64_t bytes[]);
int gpu__nccl_collect(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all,
                      const int64_t bytes[]);
int gpu__nccl_reduce_root(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n);
int gpu__nccl_group(ct_comm_t *c, int color, ct_group_t **out);
int gpu__nccl_group_sum(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n);
void gpu__nccl_groups_free(ct_comm_t *c);

extern const ct_comm_ops_t gpu__comm_nccl;

#endif
