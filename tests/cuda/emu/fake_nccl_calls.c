/* Groups, and the calls of operations, of the fake NCCL (fake_nccl.h). */
#include <stdio.h>
#include <string.h>

#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_nccl.h"

/* ---- from calls to streams ---- */

/* Runs when no stream and no graph holds the operation any more. */
static void forget(void *args)
{
  fake_op_t *op = args;
  atomic_fetch_sub(op->captured ? &op->comm->in_graphs : &op->comm->queued, 1);
}

static int is_capturing(cudaStream_t stream)
{
  enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status == cudaStreamCaptureStatusActive;
}

static void enqueue(struct ncclComm *c, fake_pending_t *p)
{
  fake_header_t *h = &p->op.part[0].header;
  h->captured = p->op.captured = is_capturing(p->stream);
  if (h->what < FAKE_SEND) h->number = c->numbers[h->captured]++;
  atomic_fetch_add(p->op.captured ? &c->in_graphs : &c->queued, 1);
  if (fake_cuda_work_owned(p->stream, fake_nccl_work, &p->op, sizeof p->op, forget) != cudaSuccess)
    c->async = ncclUnhandledCudaError;
}

static int same_position(const fake_pending_t *p)
{
  return fake_cuda_position(p->stream) == p->position;
}

void fake_nccl_enqueue(struct ncclComm *c)
{
  for (int i = 0; i < c->pending; i++)
    if (!same_position(&c->calls[i]))
      fake_nccl_misuse("CUDA", ncclInvalidUsage,
                       "work was put into a stream before NCCL's operation was in it");
  for (int i = 0; i < c->pending; i++)
    enqueue(c, &c->calls[i]);
  c->pending = 0;
}

/* ---- groups ---- */

/* A fatal error of one call is returned by ncclGroupEnd() again, and holds for all calls. */
static struct {
  int depth;
  ncclResult_t failed;
  struct ncclComm *comm;
} group;

int fake_nccl_in_group(void)
{
  return group.depth;
}

/* Sends and receives of a group are one operation. */
static ncclResult_t add(struct ncclComm *c, const fake_op_t *op, cudaStream_t stream)
{
  fake_pending_t *last = c->pending ? &c->calls[c->pending - 1] : NULL;
  int is_message = op->part[0].header.what >= FAKE_SEND;
  if (last && !same_position(last))
    fake_nccl_misuse("CUDA", ncclInvalidUsage, "work was put into a stream within a group");
  if (last && is_message && last->op.part[0].header.what >= FAKE_SEND && last->stream == stream) {
    if (last->op.parts == FAKE_PARTS)
      return fake_nccl_refuse(ncclInvalidUsage, "too many messages");
    last->op.part[last->op.parts++] = op->part[0];
    last->op.hangs |= op->hangs;
    return ncclSuccess;
  }
  if (c->pending == FAKE_PENDING) return fake_nccl_refuse(ncclInvalidUsage, "too many calls");
  c->calls[c->pending++] = (fake_pending_t){*op, stream, fake_cuda_position(stream)};
  return ncclSuccess;
}

/* Notes whether the buffer is registered, and where it begins. */
static void see_buffer(const struct ncclComm *c, fake_part_t *p)
{
  fake_header_t *h = &p->header;
  const char *buffer = h->what == FAKE_ALL_GATHER || h->what == FAKE_BROADCAST ? p->recv : p->send;
  if (h->what < FAKE_SEND) h->registered = fake_nccl_is_registered(c, buffer, &h->offset);
}

static ncclResult_t fail(struct ncclComm *c, ncclResult_t r)
{
  group.failed = r;
  c->async = r;
  c->pending = 0;
  return r;
}

static ncclResult_t call(const char *function, fake_part_t part, ncclComm_t c, cudaStream_t stream)
{
  fake_fate_t fate = fake_nccl_fate(function);
  fake_op_t op = {.comm = c, .parts = 1, .hangs = fate == FAKE_HANGS || fate == FAKE_ASYNC};
  ncclResult_t r = fake_nccl_enter(c, function, FAKE_GROUP_OK);
  if (r != ncclSuccess) {
    group.failed = r;
    return r;
  }
  if (group.depth && group.comm && group.comm != c)
    r = fake_nccl_misuse(function, ncclInvalidUsage, "the fake has one communicator in a group");
  op.part[0] = part;
  see_buffer(c, &op.part[0]);
  if (r == ncclSuccess) r = fate == FAKE_FAILS ? ncclSystemError : add(c, &op, stream);
  if (r != ncclSuccess) return fake_nccl_leave(c, fail(c, r));
  group.comm = c;
  if (fate == FAKE_ASYNC) c->async = ncclRemoteError;
  if (group.depth)
    return fake_nccl_leave(c, fake_nccl_draws_progress() ? ncclInProgress : ncclSuccess);
  group.comm = NULL;
  return fake_nccl_leave(c, fake_nccl_begin(c, FAKE_ENQUEUE, FAKE_FINE));
}

ncclResult_t ncclGroupStart(void); /* the header lacks `void` in this prototype */
ncclResult_t ncclGroupStart(void)
{
  if (fake_nccl_fate(__func__) != FAKE_FINE) return ncclSystemError; /* no group is open */
  if (group.depth++ == 0) {
    group.failed = ncclSuccess;
    group.comm = NULL;
  }
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupEnd(void)
{
  fake_fate_t fate = fake_nccl_fate(__func__);
  struct ncclComm *c = group.comm;
  if (group.depth == 0) return fake_nccl_misuse(__func__, ncclInvalidUsage, "no group is open");
  if (--group.depth > 0) return ncclSuccess;
  group.comm = NULL;
  if (fate == FAKE_FAILS) group.failed = ncclSystemError;
  if (group.failed != ncclSuccess) return c ? fail(c, group.failed) : group.failed;
  if (!c) return ncclSuccess;
  for (int i = 0; i < c->pending; i++)
    c->calls[i].op.hangs |= fate != FAKE_FINE;
  if (fate == FAKE_ASYNC) c->async = ncclRemoteError;
  return fake_nccl_begin(c, FAKE_ENQUEUE, FAKE_FINE);
}

/* ---- operations ---- */

static fake_part_t part_of(fake_what_t what, const void *send, void *recv, size_t count,
                           ncclDataType_t type, int root)
{
  return (fake_part_t){.header = {.what = what, .type = (int)type, .root = root, .count = count},
                       .send = send,
                       .recv = recv};
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
  if (op != ncclSum) return fake_nccl_refuse(ncclInvalidArgument, "the fake only adds");
  return call(__func__, part_of(FAKE_ALL_REDUCE, send, recv, count, type, 0), c, stream);
}

ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t stream)
{
  if (op != ncclSum) return fake_nccl_refuse(ncclInvalidArgument, "the fake only adds");
  return call(__func__, part_of(FAKE_REDUCE, send, recv, count, type, root), c, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
  if (op != ncclSum) return fake_nccl_refuse(ncclInvalidArgument, "the fake only adds");
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
