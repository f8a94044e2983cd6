/** \file fake_nccl.h  A fake NCCL for the emulated module: what its two files share.
 *
 * The prototypes are the real header's.  The ranks of a communicator meet in a segment of POSIX
 * shared memory named by the unique id, and hand each other their data in chunks there; an
 * operation is work of the fake runtime's stream (fake_cuda.h) that is asked until its peers are
 * through with it.  Sums are made in the order of the ranks.  Like NCCL it refuses two ranks with
 * the same host (NCCL_HOSTID) and GPU, and a failure of one rank is not told to the others.
 *
 *     CTRAIN_FAKE_NCCL_FAIL=function:n:rank[:how]   the n-th call of the function on that
 *                                 rank returns ncclSystemError; how = hang: its operation
 *                                 never ends; async: that, and ncclCommGetAsyncError says
 *                                 ncclRemoteError */
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

/** What all ranks of a collective must have in common. */
typedef struct fake_header {
  fake_what_t what;
  int type, root;
  size_t count;
} fake_header_t;

/** What one rank shows to the others. */
typedef struct fake_seat {
  atomic_int joined;
  char host[64], bus[32];
  atomic_int splits; /* so many colors are there */
  int color[FAKE_SPLITS], key[FAKE_SPLITS];
  atomic_int_fast64_t posted, taken; /* rounds: my chunk is there; I have all chunks */
  fake_header_t header;
  unsigned char data[FAKE_CHUNK];
} fake_seat_t;

/** From one rank to another. */
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
  int stuck;       /* injected: it never joins */
  int asked_again; /* answers "in progress" once more */
  atomic_int aborted;
  ncclResult_t async;
  char last[256];
  int64_t rounds;        /* done here */
  void *active;          /* operation that is under way */
  int splits;            /* begun */
  ncclComm_t *child;     /* where that of the split under way goes, or NULL */
  struct ncclComm *next; /* of all that live */
};

typedef struct fake_part {
  fake_header_t header; /* root: the peer of a message */
  const char *send;
  char *recv;
  size_t at; /* elements done; of a message: bytes */
} fake_part_t;

enum { FAKE_PARTS = 2 * FAKE_RANKS };

/** One operation: a collective, or messages that go at the same time. */
typedef struct fake_op {
  struct ncclComm *comm;
  int parts, posted, hangs;
  fake_part_t part[FAKE_PARTS];
} fake_op_t;

size_t fake_type_size(ncclDataType_t t);
/** Work of a stream on a fake_op_t. */
cudaError_t fake_nccl_work(void *op);

#endif
