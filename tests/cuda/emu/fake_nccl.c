/* Communicators and memory of the fake NCCL (fake_nccl.h). */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_nccl.h"

struct ncclComm *fake_comms;

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

/* ---- creation ---- */

static void find_gpu(char *text, int cap)
{
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetPCIBusId(text, cap, device) != cudaSuccess)
    snprintf(text, (size_t)cap, "?");
}

static fake_room_t *open_room(const char *name)
{
  int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  void *p = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, sizeof(fake_room_t)) == 0)
    p = mmap(NULL, sizeof(fake_room_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) close(fd);
  return p == MAP_FAILED ? NULL : p;
}

static ncclResult_t create(ncclComm_t *out, int ranks, const char *name, int rank, int stuck,
                           struct ncclComm *family)
{
  *out = NULL;
  if (rank < 0 || rank >= ranks || ranks > FAKE_RANKS)
    return fake_nccl_refuse(ncclInvalidArgument, "bad rank, or too many for the fake");
  fake_room_t *room = open_room(name);
  struct ncclComm *c = room ? calloc(1, sizeof *c) : NULL;
  if (!c) return fake_nccl_refuse(ncclSystemError, "no shared memory");
  c->room = room;
  c->rank = rank;
  c->size = ranks;
  c->family = family ? family : c;
  snprintf(c->name, sizeof c->name, "%s", name);
  c->next = fake_comms;
  fake_comms = c;
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

/* ---- jobs ---- */

/* Returns 1 when all ranks have joined. */
static int join(struct ncclComm *c)
{
  for (int r = 0; r < c->size; r++)
    if (!atomic_load(&c->room->seat[r].joined)) return 0;
  shm_unlink(c->name); /* the first rank that sees all ranks removes the name */
  refuse_duplicates(c);
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
  ncclResult_t r = create(c->child, members, name, rank, 0, c->family);
  if (r == ncclSuccess)
    (void)fake_nccl_begin(*c->child, FAKE_JOIN, FAKE_FINE);
  else
    c->async = r;
  return 1;
}

static int finalize(const struct ncclComm *c)
{
  if (atomic_load(&c->queued)) (void)fake_cuda_progress();
  if (atomic_load(&c->queued) || atomic_load(&c->in_graphs)) return 0;
  for (int r = 0; r < c->size; r++)
    if (!atomic_load(&c->room->seat[r].finalized)) return 0;
  return 1;
}

static int finish_job(struct ncclComm *c)
{
  switch (c->job) {
  case FAKE_JOIN:
    return join(c);
  case FAKE_SPLIT:
    return split(c);
  case FAKE_ENQUEUE:
    fake_nccl_enqueue(c);
    return 1;
  case FAKE_REGISTER:
    if (c->handle) *c->handle = c->registered;
    return 1;
  case FAKE_FINALIZE:
    return finalize(c);
  default:
    return 1;
  }
}

int fake_nccl_busy(const struct ncclComm *c)
{
  return c->job != FAKE_IDLE && c->async == ncclSuccess;
}

/* Starts a job. Returns ncclSuccess if it is complete, or ncclInProgress. */
ncclResult_t fake_nccl_begin(struct ncclComm *c, fake_job_t job, fake_fate_t fate)
{
  c->job = job;
  c->stuck = fate == FAKE_HANGS;
  if (fate == FAKE_ASYNC) c->async = ncclRemoteError;
  if (fate == FAKE_FINE && !fake_nccl_draws_progress() && finish_job(c)) {
    c->job = FAKE_IDLE;
    return c->async;
  }
  c->polls = fake_nccl_draws_polls();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *r)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  ncclResult_t rc = fake_nccl_enter(c, __func__, FAKE_BUSY_OK | FAKE_FINALIZED_OK | FAKE_GROUP_OK);
  if (rc != ncclSuccess) return rc;
  if (fate == FAKE_HANGS && c->job != FAKE_IDLE) c->stuck = 1;
  if (fate == FAKE_ASYNC) c->async = ncclRemoteError;
  if (fake_nccl_busy(c) && !c->stuck && c->polls-- <= 0 && finish_job(c)) c->job = FAKE_IDLE;
  *r = fake_nccl_busy(c) ? ncclInProgress : c->async;
  return fake_nccl_leave(c, fate == FAKE_FAILS ? ncclSystemError : ncclSuccess);
}

/* ---- life ---- */

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
  return fake_nccl_fate(__func__) == FAKE_FINE ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
  fake_nccl_world(rank);
  fake_fate_t fate = fake_nccl_fate(__func__);
  *out = NULL;
  if (config->magic != 0xcafebeef)
    return fake_nccl_misuse(__func__, ncclInvalidArgument, "the configuration is not initialized");
  if (config->blocking != 0)
    return fake_nccl_misuse(__func__, ncclInvalidArgument, "the fake is only non-blocking");
  if (fake_nccl_in_group())
    return fake_nccl_misuse(__func__, ncclInvalidUsage, "called within a group");
  if (fate == FAKE_FAILS) return ncclSystemError;
  ncclResult_t r = create(out, ranks, id.internal, rank, fate == FAKE_HANGS, NULL);
  return r == ncclSuccess ? fake_nccl_begin(*out, FAKE_JOIN, fate) : r;
}

ncclResult_t ncclCommSplit(ncclComm_t c, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  (void)config; /* the child inherits the parent's configuration */
  ncclResult_t r = fake_nccl_enter(c, __func__, 0);
  if (r != ncclSuccess) return r;
  *out = NULL;
  if (atomic_load(&c->queued) || c->active)
    r = fake_nccl_misuse(__func__, ncclInvalidUsage, "operations are outstanding");
  else if (c->splits == FAKE_SPLITS || color < 0)
    r = fake_nccl_refuse(ncclInvalidUsage, "a negative color, or too many splits");
  else if (fate == FAKE_FAILS)
    r = ncclSystemError;
  if (r != ncclSuccess) return fake_nccl_leave(c, r);
  fake_seat_t *me = &c->room->seat[c->rank];
  me->color[c->splits] = color;
  me->key[c->splits] = key;
  c->child = out;
  c->splits++;
  if (fate != FAKE_HANGS) atomic_store(&me->splits, c->splits);
  r = fake_nccl_begin(c, FAKE_SPLIT, fate);
  return fake_nccl_leave(c, r == ncclInProgress ? ncclSuccess : r); /* as NCCL: it has begun */
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *count)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  ncclResult_t r = fake_nccl_enter(c, __func__, 0);
  if (r != ncclSuccess) return r;
  *count = c->size;
  return fake_nccl_leave(c, fate == FAKE_FINE ? ncclSuccess : ncclSystemError);
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  ncclResult_t r = fake_nccl_enter(c, __func__, 0);
  if (r != ncclSuccess) return r;
  if (c->registered) fake_nccl_misuse(__func__, ncclInvalidUsage, "memory is still registered");
  if (fate == FAKE_FAILS) return fake_nccl_leave(c, ncclSystemError);
  c->finalized = 1;
  if (fate != FAKE_HANGS) atomic_store(&c->room->seat[c->rank].finalized, 1);
  r = fake_nccl_begin(c, FAKE_FINALIZE, fate);
  return fake_nccl_leave(c, r);
}

/* The object is kept: queues and graphs of the runtime may still hold its operations. */
static void end_comm(struct ncclComm *c)
{
  atomic_store(&c->aborted, 1);
  shm_unlink(c->name);
  c->gone = 1;
  while (c->registered) {
    fake_registered_t *m = c->registered;
    c->registered = m->next;
    free(m);
  }
}

/* A split that is aborted returns a child, which must be aborted too. */
static void return_child(struct ncclComm *c)
{
  struct ncclComm *child = c->job == FAKE_SPLIT ? calloc(1, sizeof *child) : NULL;
  if (!child) return;
  snprintf(child->name, sizeof child->name, "/ctrain-fake-nccl-no-child");
  child->family = c->family;
  child->size = 1;
  child->async = ncclInternalError;
  child->next = fake_comms;
  fake_comms = child;
  *c->child = child;
}

/* Waits until no graph holds an operation of this communicator. */
static void wait_for_graphs(struct ncclComm *c)
{
  for (int ms = 0; ms < 5000 && atomic_load(&c->in_graphs); ms++)
    if (!fake_cuda_progress()) usleep(1000);
  if (atomic_load(&c->in_graphs))
    fake_nccl_misuse("ncclCommAbort", ncclInvalidUsage, "a graph with its operations exists");
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  if (!c) return ncclSuccess;
  ncclResult_t r = fake_nccl_enter(c, __func__, FAKE_BUSY_OK | FAKE_FINALIZED_OK | FAKE_GROUP_OK);
  if (r != ncclSuccess) return r;
  end_comm(c);
  return_child(c);
  for (struct ncclComm *other = fake_comms; other; other = other->next) {
    if (other->family != c->family || other->gone) continue;
    atomic_store(&other->aborted, 1);
    if (other->async == ncclSuccess) other->async = ncclInternalError;
    other->gone |= fate == FAKE_HANGS; /* the caller cannot abort it any more */
  }
  while (fate == FAKE_HANGS)
    pause();
  wait_for_graphs(c);
  return fake_nccl_leave(c, fate == FAKE_FINE ? ncclSuccess : ncclSystemError);
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  if (!c) return ncclSuccess;
  ncclResult_t r = fake_nccl_enter(c, __func__, FAKE_FINALIZED_OK);
  if (r != ncclSuccess) return r;
  if (!c->finalized) fake_nccl_misuse(__func__, ncclInvalidUsage, "called before ncclCommFinalize");
  end_comm(c);
  return fake_nccl_leave(c, fate == FAKE_FINE ? ncclSuccess : ncclSystemError);
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

/* ---- memory ---- */

/* Memory of ncclMemAlloc(), with `comm` NULL. */
static fake_registered_t *allocated;

static fake_registered_t *find_memory(fake_registered_t *list, const char *p, size_t bytes)
{
  for (; list; list = list->next)
    if (p >= list->p && p + bytes <= list->p + list->bytes) return list;
  return NULL;
}

int fake_nccl_is_registered(const struct ncclComm *c, const char *p, size_t *offset)
{
  const fake_registered_t *m = find_memory(c->registered, p, 1);
  *offset = m ? (size_t)(p - m->p) : 0;
  return m != NULL;
}

static ncclResult_t add_memory(fake_registered_t **list, struct ncclComm *c, void *p, size_t bytes)
{
  fake_registered_t *m = malloc(sizeof *m);
  if (!m) return ncclSystemError;
  *m = (fake_registered_t){c, p, bytes, *list};
  *list = m;
  return ncclSuccess;
}

static int remove_memory(fake_registered_t **list, const fake_registered_t *m)
{
  for (; *list; list = &(*list)->next) {
    if (*list != m) continue;
    fake_registered_t *old = *list;
    *list = old->next;
    free(old);
    return 1;
  }
  return 0;
}

ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
  if (fake_nccl_fate(__func__) != FAKE_FINE) return ncclSystemError;
  if (cudaMalloc(p, bytes) != cudaSuccess) return ncclUnhandledCudaError;
  return add_memory(&allocated, NULL, *p, bytes);
}

ncclResult_t ncclMemFree(void *p)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  fake_registered_t *m = find_memory(allocated, p, 1);
  if (!m || m->p != p)
    return fake_nccl_misuse(__func__, ncclInvalidArgument, "not memory of ncclMemAlloc");
  for (struct ncclComm *c = fake_comms; c; c = c->next)
    if (!c->gone && find_memory(c->registered, p, 1))
      fake_nccl_misuse(__func__, ncclInvalidUsage, "the memory is still registered");
  (void)remove_memory(&allocated, m);
  if (cudaFree(p) != cudaSuccess) return ncclUnhandledCudaError;
  return fate == FAKE_FINE ? ncclSuccess : ncclSystemError;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *p, size_t bytes, void **handle)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  ncclResult_t r = fake_nccl_enter(c, __func__, 0);
  if (r != ncclSuccess) return r;
  *handle = NULL;
  if (!find_memory(allocated, p, bytes))
    r = fake_nccl_misuse(__func__, ncclInvalidArgument, "not memory of ncclMemAlloc");
  if (r == ncclSuccess && fate == FAKE_FAILS) r = ncclSystemError;
  if (r == ncclSuccess) r = add_memory(&c->registered, c, p, bytes);
  c->handle = handle;
  return fake_nccl_leave(c, r == ncclSuccess ? fake_nccl_begin(c, FAKE_REGISTER, fate) : r);
}

ncclResult_t ncclCommDeregister(const ncclComm_t c, void *handle)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  ncclResult_t r = fake_nccl_enter(c, __func__, 0);
  if (r != ncclSuccess) return r;
  if (atomic_load(&c->queued) || atomic_load(&c->in_graphs))
    fake_nccl_misuse(__func__, ncclInvalidUsage, "operations may still access the memory");
  if (!remove_memory(&c->registered, handle))
    r = fake_nccl_misuse(__func__, ncclInvalidUsage, "no handle of this communicator");
  if (r == ncclSuccess && fate == FAKE_FAILS) r = ncclSystemError;
  c->handle = NULL;
  return fake_nccl_leave(c, r == ncclSuccess ? fake_nccl_begin(c, FAKE_REGISTER, fate) : r);
}
