/** \file fake_nccl.h  A fake NCCL for the emulated CUDA module: declarations that its two files
 * share.
 *
 * The prototypes are those of the real header.  The ranks of a communicator share a POSIX shared
 * memory segment, named by the unique id, and exchange data there in chunks.  An operation is an
 * action in a stream of the fake runtime (fake_cuda.h), which is called until all peers have
 * completed it.  Sums are added in rank order.  Like NCCL, it rejects two ranks with the same host
 * (NCCL_HOSTID) and GPU, and does not report a failure of one rank to the others.
 *
 *     CTRAIN_FAKE_NCCL_FAIL=function:n:rank[:how]   the n-th call of the function on that
 *                                 rank returns ncclSystemError; how = hang: its operation
 *                                 never ends; async: the same, and ncclCommGetAsyncError
 *                                 returns ncclRemoteError */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H
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
} fake_header_t;

/** The part of the shared segment that one rank writes. */
typedef struct fake_seat {
  atomic_int joined;
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
  size_t bytes;
  unsigned char data[FAKE_CHUNK];
} fake_box_t;

typedef struct fake_room {
  fake_seat_t seat[FAKE_RANKS];
  fake_box_t box[FAKE_RANKS][FAKE_RANKS]; /* [from][to] */
} fake_room_t;

typedef enum { FAKE_JOINING, FAKE_READY } fake_state_t;

struct ncclComm {
  fake_room_t *room;
  char name[96];
  int rank, size, blocking;
  fake_state_t state;
  int stuck;       /* 1: injected failure; this rank never joins */
  int asked_again; /* 1: the next query returns ncclInProgress once */
  atomic_int aborted;
  ncclResult_t async;
  char last[256];
  int64_t rounds;        /* rounds completed on this rank */
  void *active;          /* operation in progress, or NULL */
  int splits;            /* number of splits started */
  ncclComm_t *child;     /* result of the split in progress, or NULL */
  struct ncclComm *next; /* next in the list of all communicators */
};

typedef struct fake_part {
  fake_header_t header; /* root: the peer of a send or receive */
  const char *send;
  char *recv;
  size_t at; /* elements completed; for sends and receives, bytes */
} fake_part_t;

enum { FAKE_PARTS = 2 * FAKE_RANKS };

/** One operation: a collective, or a group of sends and receives. */
typedef struct fake_op {
  struct ncclComm *comm;
  int parts, posted, hangs;
  fake_part_t part[FAKE_PARTS];
} fake_op_t;

size_t fake_type_size(ncclDataType_t t);
/** Runs a fake_op_t as an action of a stream. */
cudaError_t fake_nccl_work(void *op);

#endif
