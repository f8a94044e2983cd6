/* The API functions of the fake NCCL (fake_nccl.h). */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_nccl.h"

static struct ncclComm *comms; /* including aborted ones, to which actions of streams may still
                                  point */
static int world_rank;         /* rank in the newest communicator that is not a split */
static char last_error[256];

/* ---- injected failures ---- */

typedef enum { FINE, FAILS, HANGS, ASYNC } fate_t;

static fate_t fate_of(const char *function)
{
  static int64_t calls;
  static char seen[256];
  const char *text = getenv("CTRAIN_FAKE_NCCL_FAIL");
  size_t len = strlen(function);
  long long n;
  int rank, read = 0;
  if (text && strcmp(text, seen) != 0) { /* the setting of another test */
    snprintf(seen, sizeof seen, "%s", text);
    calls = 0;
  }
  if (!text || strncmp(text, function, len) != 0 || text[len] != ':') return FINE;
  if (sscanf(text + len, ":%lld:%d%n", &n, &rank, &read) != 2 || rank != world_rank) return FINE;
  if (++calls != n) return FINE;
  snprintf(last_error, sizeof last_error, "an injected failure of %s", function);
  if (strcmp(text + len + read, ":hang") == 0) return HANGS;
  return strcmp(text + len + read, ":async") == 0 ? ASYNC : FAILS;
}

static ncclResult_t refuse(ncclResult_t r, const char *why)
{
  snprintf(last_error, sizeof last_error, "%s", why);
  return r;
}

/* First result of a call on a nonblocking communicator. */
static ncclResult_t soon(struct ncclComm *c)
{
  if (c->blocking) return ncclSuccess;
  c->asked_again = 1;
  return ncclInProgress;
}

/* ---- background progress ---- */

/* A GPU makes progress while its process waits elsewhere, for example in MPI. The fake's streams
 * only run when called, so with several ranks this thread calls them continuously. */
static pthread_t mover;
static atomic_int moving;

static void *move(void *unused)
{
  (void)unused;
  while (atomic_load(&moving)) {
    for (int i = 0; i < 64 && fake_cuda_progress(); i++)
      ;
    usleep(300);
  }
  return NULL;
}

__attribute__((destructor)) static void stop_moving(void)
{
  if (!atomic_load(&moving)) return;
  atomic_store(&moving, 0);
  pthread_join(mover, NULL);
}

static void start_moving(void)
{
  if (atomic_load(&moving)) return;
  atomic_store(&moving, 1);
  if (pthread_create(&mover, NULL, move, NULL) != 0) atomic_store(&moving, 0);
}

/* ---- life ---- */

static void find_gpu(char *text, int cap)
{
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetPCIBusId(text, cap, device) != cudaSuccess)
    snprintf(text, (size_t)cap, "?");
}

static fake_room_t *enter(const char *name)
{
  int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  void *p = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(fake_room_t)) == 0)
    p = mmap(NULL, sizeof(fake_room_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  return p == MAP_FAILED ? NULL : p;
}

static ncclResult_t create(ncclComm_t *out, int ranks, const char *name, int rank, int blocking,
                           int stuck)
{
  *out = NULL;
  if (rank < 0 || rank >= ranks || ranks > FAKE_RANKS)
    return refuse(ncclInvalidArgument, "bad rank, or too many for the fake");
  fake_room_t *room = enter(name);
  struct ncclComm *c = room ? calloc(1, sizeof *c) : NULL;
  if (!c) return refuse(ncclSystemError, "no shared memory");
  c->room = room;
  c->rank = rank;
  c->size = ranks;
  c->blocking = blocking;
  c->stuck = stuck;
  snprintf(c->name, sizeof c->name, "%s", name);
  c->next = comms;
  comms = c;
  fake_seat_t *s = &c->room->seat[rank];
  const char *host = getenv("NCCL_HOSTID");
  if (host)
    snprintf(s->host, sizeof s->host, "%s", host);
  else
    gethostname(s->host, sizeof s->host - 1);
  find_gpu(s->bus, sizeof s->bus);
  if (!stuck) atomic_store(&s->joined, 1);
  if (ranks > 1) start_moving();
  *out = c;
  return ncclSuccess;
}

static void refuse_duplicates(struct ncclComm *c)
{
  for (int a = 0; a < c->size; a++)
    for (int b = a + 1; b < c->size; b++) {
      const fake_seat_t *s = &c->room->seat[a], *t = &c->room->seat[b];
      if (strcmp(s->host, t->host) != 0 || strcmp(s->bus, t->bus) != 0) continue;
      c->async = ncclInvalidUsage;
      snprintf(c->last, sizeof c->last,
               "Duplicate GPU detected : rank %d and rank %d both on CUDA device %s", a, b, s->bus);
      return;
    }
}

/* Returns 1 when all ranks have joined. */
static int join(struct ncclComm *c)
{
  if (c->stuck) return 0;
  for (int r = 0; r < c->size; r++)
    if (!atomic_load(&c->room->seat[r].joined)) return 0;
  shm_unlink(c->name); /* the first rank that sees all ranks removes the name */
  refuse_duplicates(c);
  c->state = FAKE_READY;
  return 1;
}

/* Returns 1 when all ranks have set their colors and the child communicator exists. */
static int split(struct ncclComm *c)
{
  char name[sizeof c->name + 48];
  int number = c->splits - 1, members = 0, rank = 0;
  fake_seat_t *me = &c->room->seat[c->rank];
  for (int r = 0; r < c->size; r++)
    if (atomic_load(&c->room->seat[r].splits) <= number) return 0;
  for (int r = 0; r < c->size; r++) { /* keys are ranks here */
    members += c->room->seat[r].color[number] == me->color[number];
    rank += r < c->rank && c->room->seat[r].color[number] == me->color[number];
  }
  snprintf(name, sizeof name, "%s-%d-%d", c->name, number, me->color[number]);
  ncclResult_t r = create(c->child, members, name, rank, c->blocking, 0);
  if (r != ncclSuccess) c->async = r;
  c->child = NULL;
  return 1;
}

static int is_ready(struct ncclComm *c)
{
  if (c->async != ncclSuccess) return 1;
  if (c->state == FAKE_JOINING && !join(c)) return 0;
  if (c->child && !split(c)) return 0;
  return 1;
}

static ncclResult_t wait_if_blocking(struct ncclComm *c)
{
  if (!c->blocking) return ncclInProgress;
  while (!is_ready(c))
    usleep(100);
  return c->async;
}

ncclResult_t ncclGetVersion(int *version)
{
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  static int made;
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/ctrain-fake-nccl-%d-%d", (int)getpid(), made++);
  return fate_of("ncclGetUniqueId") == FINE ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
  world_rank = rank;
  fate_t fate = fate_of("ncclCommInitRankConfig");
  *out = NULL;
  if (config->magic != 0xcafebeef) return refuse(ncclInvalidArgument, "config not initialized");
  if (fate == FAILS) return ncclSystemError;
  ncclResult_t r = create(out, ranks, id.internal, rank, config->blocking != 0, fate == HANGS);
  if (r != ncclSuccess) return r;
  if (fate == ASYNC) (*out)->async = ncclRemoteError;
  return wait_if_blocking(*out);
}

ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
  fate_t fate = fate_of("ncclCommSplit");
  (void)config; /* the child inherits the parent's configuration */
  *out = NULL;
  if (fate == FAILS) return ncclSystemError;
  if (c->splits == FAKE_SPLITS || c->child) return refuse(ncclInvalidUsage, "too many splits");
  fake_seat_t *me = &c->room->seat[c->rank];
  me->color[c->splits] = color;
  me->key[c->splits] = key;
  c->child = out;
  c->splits++;
  if (fate != HANGS) atomic_store(&me->splits, c->splits);
  return wait_if_blocking(c);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *r)
{
  *r = ncclInProgress;
  if (!is_ready(c)) return ncclSuccess;
  if (c->asked_again && c->async == ncclSuccess) {
    c->asked_again = 0;
    return ncclSuccess;
  }
  *r = c->async;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *count)
{
  *count = c->size;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
  return fate_of("ncclCommFinalize") == FAILS ? ncclSystemError : soon(c);
}

/* Keeps the object: queues and graphs of the runtime may still hold its operations. */
ncclResult_t ncclCommAbort(ncclComm_t c)
{
  atomic_store(&c->aborted, 1);
  shm_unlink(c->name);
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
  atomic_store(&c->aborted, 1);
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
  static const char *const text[] = {"no error",
                                     "unhandled cuda error",
                                     "unhandled system error",
                                     "internal error",
                                     "invalid argument",
                                     "invalid usage",
                                     "remote process exited or there was a network error",
                                     "NCCL operation in progress"};
  return r < ncclNumResults ? text[r] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t c)
{
  return c && c->last[0] ? c->last : last_error;
}

/* ---- memory ---- */

ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
  if (fate_of("ncclMemAlloc") != FINE) return ncclSystemError;
  return cudaMalloc(p, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *p)
{
  return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *p, size_t bytes, void **handle)
{
  (void)c;
  (void)bytes;
  *handle = p;
  return fate_of("ncclCommRegister") == FINE ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
  (void)c;
  return handle ? ncclSuccess : refuse(ncclInvalidArgument, "no handle");
}

/* ---- operations ---- */

static struct {
  int depth, parts;
  ncclResult_t failed;
  cudaStream_t stream;
  fake_op_t op; /* a group of sends and receives */
} group;

static ncclResult_t enqueue(fake_op_t *op, cudaStream_t stream)
{
  if (fake_cuda_work(stream, fake_nccl_work, op, sizeof *op) != cudaSuccess)
    return ncclUnhandledCudaError;
  return soon(op->comm);
}

static ncclResult_t call(const char *function, fake_part_t part, ncclComm_t c, cudaStream_t stream)
{
  fate_t fate = fate_of(function);
  fake_op_t op = {.comm = c, .parts = 1, .hangs = fate == HANGS || fate == ASYNC};
  if (fate == FAILS) {
    group.failed = ncclSystemError;
    return ncclSystemError;
  }
  if (fate == ASYNC) c->async = ncclRemoteError;
  op.part[0] = part;
  group.op.comm = c;
  if (part.header.what < FAKE_SEND || !group.depth) {
    ncclResult_t r = enqueue(&op, stream);
    return group.depth && r == ncclInProgress ? ncclSuccess : r;
  }
  if (group.op.parts == FAKE_PARTS) return refuse(ncclInvalidUsage, "too many messages");
  group.op.hangs |= op.hangs;
  group.op.part[group.op.parts++] = part;
  group.stream = stream;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart(void); /* the header lacks `void` in this prototype */
ncclResult_t ncclGroupStart(void)
{
  if (group.depth++ == 0) {
    memset(&group.op, 0, sizeof group.op);
    group.failed = ncclSuccess;
  }
  return fate_of("ncclGroupStart") == FINE ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupEnd(void)
{
  if (--group.depth > 0) return ncclSuccess;
  if (fate_of("ncclGroupEnd") != FINE) return ncclSystemError;
  if (group.failed != ncclSuccess) return group.failed;
  if (!group.op.comm) return ncclSuccess;
  return group.op.parts ? enqueue(&group.op, group.stream) : soon(group.op.comm);
}

static fake_part_t part_of(fake_what_t what, const void *send, void *recv, size_t count,
                           ncclDataType_t type, int root)
{
  return (fake_part_t){.header = {what, (int)type, root, count}, .send = send, .recv = recv};
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
  if (op != ncclSum) return refuse(ncclInvalidArgument, "the fake only adds");
  return call(__func__, part_of(FAKE_ALL_REDUCE, send, recv, count, type, 0), c, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t stream)
{
  if (op != ncclSum) return refuse(ncclInvalidArgument, "the fake only adds");
  return call(__func__, part_of(FAKE_REDUCE, send, recv, count, type, root), c, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
  if (op != ncclSum) return refuse(ncclInvalidArgument, "the fake only adds");
  return call(__func__, part_of(FAKE_REDUCE_SCATTER, send, recv, count, type, 0), c, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t c, cudaStream_t stream)
{
  return call(__func__, part_of(FAKE_BROADCAST, send, recv, count, type, root), c, stream);
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t c, cudaStream_t stream)
{
  return call(__func__, part_of(FAKE_ALL_GATHER, send, recv, count, type, 0), c, stream);
}

static size_t bytes_of(size_t count, ncclDataType_t type)
{
  return count * fake_type_size(type);
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
  return call(__func__, part_of(FAKE_SEND, send, NULL, bytes_of(count, type), ncclUint8, peer), c,
              stream);
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream)
{
  return call(__func__, part_of(FAKE_RECV, NULL, recv, bytes_of(count, type), ncclUint8, peer), c,
              stream);
}
