/** \file comm_nccl.h  The NCCL communicator: declarations shared by its files. Module-internal.
 *
 * All NCCL calls go to one stream in call order, which is identical on all ranks, so that two NCCL
 * kernels never compete for multiprocessors. comm_nccl.c: opening, closing and transfers;
 * comm_nccl_calls.c: gathers, blocking calls and groups; nccl_check.c: errors.
 *
 * Transfers, gathers and group sums may be captured into CUDA graphs, by all ranks alike. Each must
 * have run once outside of a graph before, with the same size, so that NCCL has connected the ranks
 * and no rank waits for others during a capture. For the same reason NCCL does not register the
 * buffers of captured calls (NCCL_GRAPH_REGISTER=0): registration exchanges messages, and a rank
 * whose capture fails does not make the calls. The large buffers are registered by alloc(). */
#ifndef GPU_COMM_NCCL_H
#define GPU_COMM_NCCL_H
#include <nccl.h>

#include "comm/ct_alarm.h"
#include "comm/ct_comm.h"
#include "cuda/gpu.h"

typedef struct gpu__transfer {
  int open;
  /* Both events are owned, and NULL until this ticket's first transfer. */
  cudaEvent_t fork; /**< after this event the buffer is filled */
  cudaEvent_t done; /**< after this event the transfer is complete */
} gpu__transfer_t;

/** A timed wait of a queue for a transfer or for a group sum. */
typedef struct gpu__wait {
  cudaEvent_t from, to; /**< begin and end of the wait; owned; NULL until the first use of this
                           entry */
  int of_group;
} gpu__wait_t;

enum { GPU_WAITS = 1024 }; /**< timed waits per step */

/** Memory registered with NCCL. */
typedef struct gpu__shared {
  char *p;
  size_t bytes;
  int by_nccl;  /**< 1: from ncclMemAlloc; 0: from cudaMalloc */
  void *handle; /**< registration handle, or NULL */
} gpu__shared_t;

/** Memory of alloc(), and its bfloat16 copy if gradients are sent as bfloat16. */
typedef struct gpu__block {
  gpu__shared_t whole, bf16;
} gpu__block_t;

struct ct_comm {
  const ct_topo_t *t; /**< borrowed, like the device */
  ct_dev_t *dev;
  int bf16;              /**< 1: gradients are sent as bfloat16 between nodes */
  ct_alarm_t *alarm;     /**< owned */
  ncclComm_t nccl;       /**< owned; NULL after a failure */
  ncclComm_t *child;     /**< owned; where NCCL returns the child of a split in progress, or NULL */
  int stuck;             /**< 1: an abort did not complete: NCCL may still access memory */
  ct_err_info_t failure; /**< error that ended the communicator; code CT_OK: none */
  cudaStream_t stream;   /**< owned; higher priority than the queues' streams */
  const char *call;      /**< last NCCL call and its size */
  int64_t call_bytes;
  int repeated; /**< 1: calls may be part of a graph, so the state of the stream does not show
                   whether they have completed */
  gpu__transfer_t transfer[CT_COMM_TICKETS];
  int lowest;          /**< no free ticket is lower, so that equal steps use equal tickets */
  gpu__block_t *block; /**< owned */
  int64_t blocks, block_cap;
  ct_group_t *groups;                   /**< owned; list */
  cudaEvent_t gather_fork, gather_done; /**< owned; NULL until the first gather */
  gpu__shared_t tree; /**< owned; fixed_order: a part of a peer's sum; p NULL: any order */
  int64_t sent;
  gpu__wait_t wait[2][GPU_WAITS]; /**< waits of two measurements, in call order */
  int waits[2], measured;         /**< index of the measurement in progress */
};

struct ct_group {
  ct_comm_t *c;    /**< borrowed */
  ncclComm_t nccl; /**< owned; NULL: group of one rank, or after a failure */
  int size;
  cudaEvent_t fork, done; /**< owned */
  ct_group_t *next;
};

/* ---- errors (nccl_check.c) ---- */

/** Local, Hot. Returns CT_OK, or the error that ended this communicator. */
int gpu__nccl_alive(ct_comm_t *c);
/** Local, Hot. Checks the result of a call on \a comm, and waits until NCCL has enqueued it. A
 * failure is reported to the other ranks and ends this communicator. */
int gpu__nccl_done(ct_comm_t *c, ncclComm_t comm, ncclResult_t r, const char *call, int64_t bytes);
/** Pure. Returns 1 if a call within a group succeeded: it may already be in progress. */
int gpu__nccl_is_fine(ncclResult_t r);
/** Local, Hot. Ends an open group. Returns its result for gpu__nccl_done(), or \a r if a call
 * within it failed with r. */
ncclResult_t gpu__nccl_end_group(ncclResult_t r);
/** Local. Ends the communicator because of this rank's recorded error, and reports the error to the
 * other ranks. Returns \a rc. */
int gpu__nccl_give_up(ct_comm_t *c, int rc);
/** Local, Hot. Returns \a rc, the result of enqueuing a call. A failure ends the communicator,
 * because the other ranks wait for the call, except during the capture of a step. */
int gpu__nccl_enqueued(ct_comm_t *c, int rc);
/** Local. Aborts everything on this rank: ncclCommAbort, and no further graph launches. Deferred
 * while a step is being captured. */
void gpu__nccl_kill(ct_comm_t *c);
/** The communicator's callback for host waits (gpu__watch). */
int gpu__nccl_watch(void *comm, int late);

/* ---- shared helpers ---- */

/** Local, Hot. Makes c->stream wait for all work enqueued on \a s so far. */
int gpu__nccl_fork(ct_comm_t *c, cudaStream_t s, cudaEvent_t e);
int gpu__nccl_event(cudaEvent_t *io);
void gpu__nccl_count(ct_comm_t *c, int64_t bytes, int share, int ranks);
/** Pure. Returns the floats per slice; the last rank's slice also has the remainder. */
int64_t gpu__nccl_slice(int64_t n, int ranks);

/* ---- timed waits (comm_nccl_waits.c) ---- */

/** Local, Hot. Returns an index for a wait that is about to be enqueued or captured; equal steps
 * with equal measurements have equal indices. -1: the wait is not timed. */
int gpu__nccl_wait_open(ct_comm_t *c, int of_group);
/** Local, Hot. Makes \a s wait for the event. */
int gpu__nccl_wait(ct_comm_t *c, int wait, cudaStream_t s, cudaEvent_t done);
void gpu__nccl_measure(ct_comm_t *c, int of);
void gpu__nccl_waited(ct_comm_t *c, int of, double *transfers, double *groups);
void gpu__nccl_waits_free(ct_comm_t *c);

/** Hot. Enqueues a gather on the communicator's stream. */
int gpu__nccl_gather_slices(ct_comm_t *c, void *buf, int64_t n, ct_reduce_t how);

/* Entries of ct_comm_ops_t, see ct_comm.h. */
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
