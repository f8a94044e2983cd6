/** \file fake_nccl.h  A fake NCCL for the emulated CUDA module: declarations that its files share.
 *
 * The prototypes are those of the real header.  The ranks of a communicator share a POSIX shared
 * memory segment, named by the unique id, and exchange data there in chunks.  An operation is an
 * action in a stream of the fake runtime (fake_cuda.h), which is called until all peers have
 * completed it.  Sums are added in rank order.  Like NCCL, it rejects two ranks with the same host
 * (NCCL_HOSTID) and GPU, and does not report a failure of one rank to the others.
 *
 * There are only non-blocking communicators, which behave as strictly as NCCL's manual allows; the
 * table in STRICT.md has each rule with the sentence that it follows.  A broken rule is *misuse*:
 * it is printed, the call fails, and the process ends with status 86.
 *
 *     CTRAIN_FAKE_NCCL_PROGRESS=always    each call that may return ncclInProgress returns it, and
 *                                 its operation is enqueued only when the caller polls (default);
 *                                 a number: drawn with this seed, also how often to poll
 *     CTRAIN_FAKE_NCCL_FAIL=function:n:rank[:how],…   the n-th call of the function on that
 *                                 rank returns ncclSystemError; how = hang: its operation
 *                                 never ends; async: the same, and ncclCommGetAsyncError
 *                                 returns ncclRemoteError
 *     CTRAIN_FAKE_NCCL_CALLS=prefix       at the end, prefix.rank gets a line `function calls` for
 *                                 each function that was called
 */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdint.h>

enum { FAKE_RANKS = 8, FAKE_CHUNK = 1 << 17, FAKE_SPLITS = 16 };

typedef enum {
  FAKE_ALL_REDUCE,
  FAKE_REDUCE,
  FAKE_BROADCAST,
  FAKE_ALL_GATHER,
  FAKE_REDUCE_SCATTER,
  FAKE_SEND,
  FAKE_RECV
} fake_what_t;

/** Arguments that must be identical on all ranks of a collective. */
typedef struct fake_header {
  fake_what_t what;
  int type, root;
  size_t count;
  int captured;   /* 1: part of a CUDA graph */
  int registered; /* 1: the buffer is registered */
  size_t offset;  /* of the buffer in its registered memory */
  int64_t number; /* position among the collectives of its kind (captured or not) */
} fake_header_t;

/** The part of the shared segment that one rank writes. */
typedef struct fake_seat {
  atomic_int joined, finalized;
  char host[64], bus[32];
  atomic_int splits; /* number of splits for which the color is set */
  int color[FAKE_SPLITS], key[FAKE_SPLITS];
  atomic_int_fast64_t posted, taken; /* rounds for which this rank's chunk is there, and for
                                        which it has read all chunks */
  fake_header_t header;
  unsigned char data[FAKE_CHUNK];
} fake_seat_t;

/** Buffer for messages from one rank to another. */
typedef struct fake_box {
  atomic_int full;
  size_t bytes, total; /* total: bytes of the whole message */
  unsigned char data[FAKE_CHUNK];
} fake_box_t;

typedef struct fake_room {
  fake_seat_t seat[FAKE_RANKS];
  fake_box_t box[FAKE_RANKS][FAKE_RANKS]; /* [from][to] */
} fake_room_t;

typedef struct fake_part {
  fake_header_t header; /* root: the peer of a send or receive */
  const char *send;
  char *recv;
  size_t at; /* elements completed; for sends and receives, bytes */
} fake_part_t;

enum { FAKE_PARTS = 2 * FAKE_RANKS, FAKE_PENDING = 8 };

/** One operation: a collective, or a group of sends and receives. */
typedef struct fake_op {
  struct ncclComm *comm;
  int parts, posted, hangs, captured;
  fake_part_t part[FAKE_PARTS];
} fake_op_t;

/** An operation that was called and is not in its stream yet. */
typedef struct fake_pending {
  fake_op_t op;
  cudaStream_t stream;
  int64_t position; /* of the stream when it was called: nothing may follow until it is enqueued */
} fake_pending_t;

/** What a communicator does in the background. */
typedef enum {
  FAKE_IDLE,
  FAKE_JOIN,
  FAKE_SPLIT,
  FAKE_ENQUEUE,
  FAKE_REGISTER,
  FAKE_FINALIZE
} fake_job_t;

typedef struct fake_registered {
  struct ncclComm *comm;
  char *p;
  size_t bytes;
  struct fake_registered *next;
} fake_registered_t;

struct ncclComm {
  fake_room_t *room;
  char name[96];
  int rank, size;
  struct ncclComm *family; /* the communicator from which all of its family were split */
  fake_job_t job;
  int polls;                  /* queries that still return ncclInProgress */
  int stuck;                  /* 1: injected: the job never ends */
  int finalized, gone;        /* gone: aborted or destroyed */
  atomic_int aborted, inside; /* inside: threads that are in a call on it */
  _Atomic ncclResult_t async;
  char last[256];
  int64_t rounds;               /* rounds completed on this rank */
  void *active;                 /* operation in progress, or NULL */
  atomic_int queued, in_graphs; /* operations in streams; in graphs that exist */
  int64_t numbers[2];           /* collectives enqueued: outside of graphs, in graphs */
  int pending;                  /* valid entries of `calls` */
  fake_pending_t calls[FAKE_PENDING];
  int splits;        /* number of splits started */
  ncclComm_t *child; /* where to return the child of the split in progress */
  void **handle;     /* where to return the handle of the registration in progress */
  fake_registered_t *registered;
  struct ncclComm *next; /* next in the list of all communicators */
};

/* ---- rules (fake_nccl_rules.c) ---- */

/** How a call ends that is chosen to fail. */
typedef enum { FAKE_FINE, FAKE_FAILS, FAKE_HANGS, FAKE_ASYNC } fake_fate_t;

/** What a call may find. */
enum {
  FAKE_BUSY_OK = 1,      /* it may be called while another is in progress */
  FAKE_FINALIZED_OK = 2, /* it may be called after ncclCommFinalize */
  FAKE_GROUP_OK = 4      /* it may be called between ncclGroupStart and ncclGroupEnd */
};

/** Counts the call and draws its fate. */
fake_fate_t fake_nccl_fate(const char *function);
/** Checks the rules that all calls on a communicator keep.  ncclSuccess must be followed by
 * fake_nccl_leave(). */
ncclResult_t fake_nccl_enter(struct ncclComm *c, const char *function, int allowed);
ncclResult_t fake_nccl_leave(struct ncclComm *c, ncclResult_t r);
/** Reports misuse and returns \a r. */
ncclResult_t fake_nccl_misuse(const char *function, ncclResult_t r, const char *why, ...)
    __attribute__((format(printf, 3, 4)));
/** Sets the text of ncclGetLastError() and returns \a r. */
ncclResult_t fake_nccl_refuse(ncclResult_t r, const char *why);
/** 1: a call returns ncclInProgress though it could return ncclSuccess. */
int fake_nccl_draws_progress(void);
/** How often a caller polls at least. */
int fake_nccl_draws_polls(void);
/** Rank whose calls are counted from now on. */
void fake_nccl_world(int rank);
/** Cases of misuse since the last call; they no longer end the process with an error. */
int fake_nccl_misuses(void);

/* ---- communicators (fake_nccl.c) ---- */

extern struct ncclComm *fake_comms; /* all of them, also aborted ones */
int fake_nccl_busy(const struct ncclComm *c);
ncclResult_t fake_nccl_begin(struct ncclComm *c, fake_job_t job, fake_fate_t fate);

/** 1: the address is in memory that is registered, at *offset. */
int fake_nccl_is_registered(const struct ncclComm *c, const char *p, size_t *offset);

/* ---- operations (fake_nccl_calls.c, fake_nccl_work.c) ---- */

int fake_nccl_in_group(void);
/** Puts what was called into its streams. */
void fake_nccl_enqueue(struct ncclComm *c);
size_t fake_type_size(ncclDataType_t t);
/** Runs a fake_op_t as an action of a stream. */
cudaError_t fake_nccl_work(void *op);

#endif
