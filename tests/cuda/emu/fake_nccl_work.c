/* Execution of operations of the fake NCCL (fake_nccl.h).  A collective takes several rounds.  In
 * round k a rank writes its chunk once all ranks have read round k - 1, and reads the others'
 * chunks once all have written round k. */
#include <stdio.h>
#include <string.h>

#include "base/ct_types.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_nccl.h"

typedef enum { WAITS, MOVED, DONE } outcome_t;

size_t fake_type_size(ncclDataType_t t)
{
  switch (t) {
  case ncclFloat64:
    return 8;
  case ncclFloat32:
    return 4;
  case ncclBfloat16:
  case ncclFloat16:
    return 2;
  default:
    return 1;
  }
}

/* ---- collectives ---- */

static int all_have(const struct ncclComm *c, int posted, int64_t rounds)
{
  for (int r = 0; r < c->size; r++) {
    const fake_seat_t *s = &c->room->seat[r];
    if (atomic_load(posted ? &s->posted : &s->taken) < rounds) return 0;
  }
  return 1;
}

static size_t total(const fake_part_t *p, int ranks)
{
  return p->header.what == FAKE_REDUCE_SCATTER ? p->header.count * (size_t)ranks : p->header.count;
}

static size_t chunk_of(const fake_part_t *p, int ranks)
{
  size_t most = FAKE_CHUNK / fake_type_size((ncclDataType_t)p->header.type);
  size_t left = total(p, ranks) - p->at;
  return left < most ? left : most;
}

static void post(struct ncclComm *c, const fake_part_t *p)
{
  fake_seat_t *s = &c->room->seat[c->rank];
  size_t size = fake_type_size((ncclDataType_t)p->header.type);
  s->header = p->header;
  if (p->header.what != FAKE_BROADCAST || p->header.root == c->rank)
    fake_cuda_access(p->send + p->at * size, chunk_of(p, c->size) * size, 0);
  if (p->header.what != FAKE_BROADCAST || p->header.root == c->rank)
    memcpy(s->data, p->send + p->at * size, chunk_of(p, c->size) * size);
  atomic_store(&s->posted, c->rounds + 1);
}

/* Adds element i of all ranks' chunks. */
static void sum_element(const struct ncclComm *c, int type, size_t i, char *out)
{
  double wide = 0;
  float sum = 0;
  for (int r = 0; r < c->size; r++) {
    const unsigned char *data = c->room->seat[r].data;
    if (type == ncclFloat64)
      wide += ((const double *)(const void *)data)[i];
    else if (type == ncclFloat32)
      sum += ((const float *)(const void *)data)[i];
    else
      sum += ct_bf16_float(((const uint16_t *)(const void *)data)[i]);
  }
  uint16_t low = ct_bf16_of(sum);
  if (type == ncclFloat64)
    memcpy(out, &wide, sizeof wide);
  else if (type == ncclFloat32)
    memcpy(out, &sum, sizeof sum);
  else
    memcpy(out, &low, sizeof low);
}

/* Tells the fake runtime what is written when n elements are taken. */
static void tell_writes(const struct ncclComm *c, const fake_part_t *p, size_t size, size_t n)
{
  const fake_header_t *h = &p->header;
  if (h->what == FAKE_ALL_GATHER || h->what == FAKE_REDUCE_SCATTER) {
    size_t blocks = h->what == FAKE_ALL_GATHER ? (size_t)c->size : 1;
    fake_cuda_access(p->recv, blocks * h->count * size, 1);
  } else if (h->what == FAKE_BROADCAST || h->what == FAKE_ALL_REDUCE || h->root == c->rank) {
    fake_cuda_access(p->recv + p->at * size, n * size, 1);
  }
}

static void take(const struct ncclComm *c, const fake_part_t *p)
{
  const fake_header_t *h = &p->header;
  size_t size = fake_type_size((ncclDataType_t)h->type), n = chunk_of(p, c->size);
  size_t mine = (size_t)c->rank * h->count;
  tell_writes(c, p, size, n);
  switch (h->what) {
  case FAKE_BROADCAST:
    memcpy(p->recv + p->at * size, c->room->seat[h->root].data, n * size);
    break;
  case FAKE_ALL_GATHER:
    for (int r = 0; r < c->size; r++)
      memcpy(p->recv + ((size_t)r * h->count + p->at) * size, c->room->seat[r].data, n * size);
    break;
  case FAKE_REDUCE_SCATTER:
    for (size_t i = 0; i < n; i++)
      if (p->at + i >= mine && p->at + i < mine + h->count)
        sum_element(c, h->type, i, p->recv + (p->at + i - mine) * size);
    break;
  default:
    for (size_t i = 0; i < n && (h->what == FAKE_ALL_REDUCE || h->root == c->rank); i++)
      sum_element(c, h->type, i, p->recv + (p->at + i) * size);
  }
}

/* Returns what differs between two calls of a collective, or NULL. */
static const char *difference(const fake_header_t *a, const fake_header_t *b)
{
  if (a->what != b->what) return "collectives";
  if (a->type != b->type) return "types";
  if (a->root != b->root) return "roots";
  if (a->count != b->count) return "counts";
  if (a->captured != b->captured) return "modes, captured and not";
  if (a->registered != b->registered) return "buffers, registered and not";
  if (a->offset != b->offset) return "offsets in registered memory";
  return a->number == b->number ? NULL : a->captured ? "captures" : "positions in their order";
}

/* Returns 1 if all ranks called the same collective with the same arguments. */
static int agree(struct ncclComm *c, const fake_header_t *h)
{
  for (int r = 0; r < c->size && c->async == ncclSuccess; r++) {
    const char *other = difference(h, &c->room->seat[r].header);
    if (!other) continue;
    fake_nccl_misuse("collective", ncclInvalidUsage, "ranks %d and %d have different %s", c->rank,
                     r, other);
    snprintf(c->last, sizeof c->last, "ranks %d and %d have different %s", c->rank, r, other);
    c->async = ncclInvalidUsage;
  }
  return c->async == ncclSuccess;
}

static outcome_t collective(struct ncclComm *c, fake_op_t *op)
{
  fake_part_t *p = &op->part[0];
  if (p->at >= total(p, c->size)) return DONE;
  if (!op->posted) {
    if (!all_have(c, 0, c->rounds)) return WAITS;
    post(c, p);
    op->posted = 1;
    return MOVED;
  }
  if (!all_have(c, 1, c->rounds + 1) || !agree(c, &p->header)) return WAITS;
  take(c, p);
  p->at += chunk_of(p, c->size);
  op->posted = 0;
  atomic_store(&c->room->seat[c->rank].taken, ++c->rounds);
  return MOVED;
}

/* ---- sends and receives ---- */

static outcome_t message(struct ncclComm *c, fake_part_t *p)
{
  int sends = p->header.what == FAKE_SEND, peer = p->header.root;
  fake_box_t *box = sends ? &c->room->box[c->rank][peer] : &c->room->box[peer][c->rank];
  if (p->at >= p->header.count) return DONE;
  if (atomic_load(&box->full) == sends) return WAITS;
  if (sends) {
    size_t left = p->header.count - p->at;
    box->bytes = left < FAKE_CHUNK ? left : FAKE_CHUNK;
    box->total = p->header.count;
    fake_cuda_access(p->send + p->at, box->bytes, 0);
    memcpy(box->data, p->send + p->at, box->bytes);
  } else {
    if (box->total != p->header.count) {
      if (c->async == ncclSuccess)
        fake_nccl_misuse("ncclRecv", ncclInvalidUsage, "rank %d sends %zu bytes, not %zu", peer,
                         box->total, p->header.count);
      c->async = ncclInvalidUsage;
      return WAITS;
    }
    fake_cuda_access(p->recv + p->at, box->bytes, 1);
    memcpy(p->recv + p->at, box->data, box->bytes);
  }
  p->at += box->bytes;
  atomic_store(&box->full, sends);
  return MOVED;
}

static outcome_t messages(struct ncclComm *c, fake_op_t *op)
{
  outcome_t all = DONE;
  for (int i = 0; i < op->parts; i++) {
    outcome_t one = message(c, &op->part[i]);
    if (one == MOVED || all == MOVED)
      all = MOVED;
    else if (one == WAITS)
      all = WAITS;
  }
  return all;
}

/* ---- operations ---- */

/* Resets the operation for another launch of its graph. */
static cudaError_t finish(struct ncclComm *c, fake_op_t *op)
{
  for (int i = 0; i < op->parts; i++)
    op->part[i].at = 0;
  op->posted = 0;
  c->active = NULL;
  return cudaSuccess;
}

cudaError_t fake_nccl_work(void *args)
{
  fake_op_t *op = args;
  struct ncclComm *c = op->comm;
  outcome_t o = MOVED;
  if (atomic_load(&c->aborted)) return finish(c, op);
  if (op->hangs || (c->active && c->active != op)) return cudaErrorNotReady;
  c->active = op;
  while (o == MOVED)
    o = op->part[0].header.what >= FAKE_SEND ? messages(c, op) : collective(c, op);
  return o == DONE ? finish(c, op) : cudaErrorNotReady;
}
