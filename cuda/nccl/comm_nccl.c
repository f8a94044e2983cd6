/* The NCCL communicator: opening, closing and transfers.
 *
 * A ticket consists of two events: NCCL's stream waits for the first, recorded after the launches
 * that fill the buffer, and end() makes a queue wait for the second. The host never waits, and both
 * calls may be recorded as part of a replayed step (gpu__enqueue_call), in which the events become
 * edges of a CUDA graph.
 *
 * Slices are chosen to suit ncclReduceScatter and ncclAllGather: all slices have the same number of
 * whole units. The last rank's slice also has the remaining floats, for which a separate ncclReduce
 * or ncclBroadcast is part of the same group call.
 *
 * For bfloat16 transfers gradients are converted into a copy of the arena and back. Unlike
 * ct_comm_mpi, NCCL also rounds the partial sums that it forwards.
 *
 * NCCL chooses the order of its sums. For a fixed order (ct_comm_opts_t) ranks exchange partial
 * sums by ncclSend and ncclRecv, and own kernels add them. */
#include "cuda/nccl/comm_nccl.h"

#include <stdlib.h>
#include <string.h>

#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "cuda/kernels/elt.h"

enum {
  UNIT = 16,      /* floats per slice unit */
  PART = 16 << 20 /* bytes exchanged at once for sums in a fixed order */
};

/* Arguments of the work that reduce() and end() enqueue. */
typedef struct work {
  ct_comm_t *c;
  float *buf;
  int64_t n, how, ticket, wait;
} work_t;

int64_t gpu__nccl_slice(int64_t n, int ranks)
{
  return n / ranks / UNIT * UNIT;
}

static void slice(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to)
{
  int64_t step = gpu__nccl_slice(n, c->t->size);
  *from = rank * step;
  *to = rank == c->t->size - 1 ? n : *from + step;
}

void gpu__nccl_count(ct_comm_t *c, int64_t bytes, int share, int ranks)
{
  c->sent += bytes * share / ranks;
}

int gpu__nccl_event(cudaEvent_t *io)
{
  return *io ? CT_OK : GPU_CHECK(cudaEventCreateWithFlags(io, cudaEventDisableTiming));
}

int gpu__nccl_fork(ct_comm_t *c, cudaStream_t s, cudaEvent_t e)
{
  int rc = CT_OK;
  GPU_TRY(cudaEventRecord(e, s));
  GPU_TRY(cudaStreamWaitEvent(c->stream, e, 0));
out:
  return rc;
}

/* ---- transfers ---- */

/* Returns the bfloat16 copy of a buffer; NULL: the buffer is not from alloc() and is sent as
 * float32. */
static char *bf16_of(const ct_comm_t *c, const float *buf, int64_t n)
{
  const char *p = (const char *)buf;
  for (int64_t i = 0; c->bf16 && i < c->blocks; i++) {
    const gpu__block_t *b = &c->block[i];
    if (p >= b->whole.p && p + n * (int64_t)sizeof *buf <= b->whole.p + b->whole.bytes)
      return b->bf16.p + (p - b->whole.p) / 2;
  }
  return NULL;
}

static int sum_slices(ct_comm_t *c, char *p, int64_t n, ncclDataType_t type, size_t size)
{
  int ranks = c->t->size;
  int64_t step = gpu__nccl_slice(n, ranks);
  char *mine = p + (size_t)(c->t->rank * step) * size, *rest = p + (size_t)(ranks * step) * size;
  ncclResult_t r = ncclGroupStart();
  if (r != ncclSuccess) return gpu__nccl_done(c, c->nccl, r, "ncclGroupStart", 0);
  if (step) r = ncclReduceScatter(p, mine, (size_t)step, type, ncclSum, c->nccl, c->stream);
  if (gpu__nccl_is_fine(r) && n > ranks * step)
    r = ncclReduce(rest, rest, (size_t)(n - ranks * step), type, ncclSum, ranks - 1, c->nccl,
                   c->stream);
  return gpu__nccl_done(c, c->nccl, gpu__nccl_end_group(r), "ncclReduceScatter", n * (int64_t)size);
}

/* Sums along a binary tree over the ranks, neighbours first: in each round a rank exchanges its
 * partial sum with the rank whose number differs in one bit. Both add the same two numbers, so that
 * all ranks get the same bits. */
static int sum_part(ct_comm_t *c, float *buf, int64_t n)
{
  int rc = CT_OK;
  for (int bit = 1; bit < c->t->size; bit *= 2) {
    int peer = c->t->rank ^ bit;
    ncclResult_t r = ncclGroupStart();
    if (r != ncclSuccess) return gpu__nccl_done(c, c->nccl, r, "ncclGroupStart", 0);
    r = ncclSend(buf, (size_t)n, ncclFloat32, peer, c->nccl, c->stream);
    if (gpu__nccl_is_fine(r))
      r = ncclRecv(c->tree.p, (size_t)n, ncclFloat32, peer, c->nccl, c->stream);
    CT_TRY(
        gpu__nccl_done(c, c->nccl, gpu__nccl_end_group(r), "ncclSend", n * (int64_t)sizeof *buf));
    GPU_TRY(gpu__sum(CT_F32, n, buf, c->tree.p, 0, buf, c->stream));
  }
out:
  return rc;
}

static int sum_tree(ct_comm_t *c, float *buf, int64_t n)
{
  int rc = CT_OK;
  int64_t most = PART / (int64_t)sizeof *buf;
  for (int64_t at = 0; at < n; at += most)
    CT_TRY(sum_part(c, buf + at, n - at < most ? n - at : most));
out:
  return rc;
}

static int sum(ct_comm_t *c, float *buf, int64_t n, ct_reduce_t how)
{
  int rc = CT_OK;
  int64_t from = 0, to = n;
  char *bf16 = how < CT_GATHER ? bf16_of(c, buf, n) : NULL, *p = bf16 ? bf16 : (char *)buf;
  ncclDataType_t type = bf16 ? ncclBfloat16 : ncclFloat32;
  size_t size = ct_dtype_size(bf16 ? CT_BF16 : CT_F32);
  if (n == 0) return CT_OK;
  if (how >= CT_GATHER) return gpu__nccl_gather_slices(c, buf, n, how);
  if (c->tree.p) return sum_tree(c, buf, n);
  if (bf16) GPU_TRY(gpu__cast(CT_F32, CT_BF16, n, buf, bf16, c->stream));
  if (how == CT_REDUCE_SLICE)
    CT_TRY(sum_slices(c, p, n, type, size));
  else
    CT_TRY(gpu__nccl_done(c, c->nccl,
                          ncclAllReduce(p, p, (size_t)n, type, ncclSum, c->nccl, c->stream),
                          "ncclAllReduce", n * (int64_t)size));
  if (how == CT_REDUCE_SLICE) slice(c, c->t->rank, n, &from, &to);
  if (bf16 && from < to)
    GPU_TRY(
        gpu__cast(CT_BF16, CT_F32, to - from, bf16 + (size_t)from * size, buf + from, c->stream));
out:
  return rc;
}

/* Starts a transfer after the work on \a s; s NULL: the buffer is ready. */
static int nccl_launch(void *arg, cudaStream_t s)
{
  int rc = CT_OK;
  const work_t *w = arg;
  ct_comm_t *c = w->c;
  gpu__transfer_t *x = &c->transfer[w->ticket];
  CT_TRY(gpu__nccl_alive(c));
  if (s) CT_TRY(gpu__nccl_fork(c, s, x->fork));
  CT_TRY(sum(c, w->buf, w->n, (ct_reduce_t)w->how));
  GPU_TRY(cudaEventRecord(x->done, c->stream));
out:
  return gpu__nccl_enqueued(c, rc);
}

static int join(void *arg, cudaStream_t s)
{
  int rc = CT_OK;
  const work_t *w = arg;
  CT_TRY(gpu__nccl_alive(w->c));
  CT_TRY(gpu__nccl_wait(w->c, (int)w->wait, s, w->c->transfer[w->ticket].done));
out:
  return rc;
}

static void count_reduction(ct_comm_t *c, float *buf, int64_t n, ct_reduce_t how)
{
  int ranks = c->t->size;
  int half = how == CT_GATHER_HALF || (how < CT_GATHER && bf16_of(c, buf, n));
  int64_t bytes = n * (int64_t)ct_dtype_size(half ? CT_BF16 : CT_F32);
  gpu__nccl_count(c, bytes, (how == CT_REDUCE_ALL ? 2 : 1) * (ranks - 1), ranks);
}

static int nccl_reduce(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                       int *ticket)
{
  int rc = CT_OK;
  while (c->lowest < CT_COMM_TICKETS && c->transfer[c->lowest].open)
    c->lowest++;
  *ticket = c->lowest;
  if (c->lowest == CT_COMM_TICKETS)
    CT_FAIL(CT_ERR_ARG, "more than %d transfers are open at once", CT_COMM_TICKETS);
  gpu__transfer_t *x = &c->transfer[*ticket];
  x->open = 1;
  count_reduction(c, buf, n, how);
  rc = gpu__nccl_event(&x->fork);
  if (rc == CT_OK) rc = gpu__nccl_event(&x->done);
  if (rc != CT_OK) return gpu__nccl_give_up(c, rc);
  work_t w = {c, buf, n, how, *ticket, -1};
  if (!after) return nccl_launch(&w, NULL);
  c->repeated |= after->queue->noting;
  CT_TRY(gpu__enqueue_call(after->queue, nccl_launch, &w, sizeof w));
out:
  return rc;
}

static int nccl_progress(ct_comm_t *c)
{
  return gpu__nccl_alive(c); /* NCCL makes progress by itself */
}

static int nccl_end(ct_comm_t *c, int ticket, ct_queue_t *q)
{
  int rc = CT_OK;
  if (ticket < 0 || ticket >= CT_COMM_TICKETS || !c->transfer[ticket].open)
    CT_FAIL(CT_ERR_ARG, "ticket %d is not open", ticket);
  work_t w = {.c = c, .ticket = ticket, .wait = gpu__nccl_wait_open(c, 0)};
  c->transfer[ticket].open = 0;
  if (ticket < c->lowest) c->lowest = ticket;
  CT_TRY(gpu__enqueue_call(q, join, &w, sizeof w));
out:
  return rc;
}

/* ---- memory ---- */

/* Allocates memory by NCCL, or by cudaMalloc if NCCL cannot allocate any: slower, but correct. */
static int new_memory(ct_comm_t *c, size_t bytes, gpu__shared_t *m)
{
  int rc = CT_OK;
  void *p = NULL;
  *m = (gpu__shared_t){.bytes = bytes ? bytes : 1};
  ncclResult_t r = ncclMemAlloc(&p, m->bytes);
  m->by_nccl = r == ncclSuccess;
  if (!m->by_nccl) {
    (void)cudaGetLastError();
    ct_log_all(CT_LOG_DEBUG, "no memory from ncclMemAlloc: %s", ncclGetErrorString(r));
    GPU_TRY(cudaMalloc(&p, m->bytes));
  }
  m->p = p;
  GPU_TRY(cudaMemsetAsync(p, 0, m->bytes, c->stream));
  CT_TRY(gpu__wait_stream(c->dev, c->stream));
out:
  return rc;
}

static void free_memory(ct_comm_t *c, gpu__shared_t *m)
{
  if (m->handle && c->nccl)
    (void)gpu__nccl_done(c, c->nccl, ncclCommDeregister(c->nccl, m->handle), "ncclCommDeregister",
                         0);
  if (!m->p || c->stuck) return;
  if (m->by_nccl)
    (void)ncclMemFree(m->p);
  else
    (void)cudaFree(m->p);
  *m = (gpu__shared_t){0};
}

/* Registers memory. NCCL requires that all ranks do, or none, and supports only memory that it has
 * allocated. */
static int register_memory(ct_comm_t *c, gpu__shared_t *m)
{
  int64_t foreign = !m->by_nccl;
  ct_agree_sum(c->t, &foreign, 1);
  if (foreign) return CT_OK;
  return gpu__nccl_done(c, c->nccl, ncclCommRegister(c->nccl, m->p, m->bytes, &m->handle),
                        "ncclCommRegister", (int64_t)m->bytes);
}

static int alloc(ct_comm_t *c, size_t bytes, void **out)
{
  int rc = CT_OK;
  gpu__block_t b = {0};
  *out = NULL;
  rc = gpu__nccl_alive(c);
  if (rc == CT_OK)
    rc = ct_mem_grow((void **)&c->block, &c->block_cap, c->blocks + 1, sizeof *c->block);
  CT_TRY_ALL(c->t, rc);
  rc = new_memory(c, bytes, &b.whole);
  if (rc == CT_OK && c->bf16) rc = new_memory(c, bytes / 2 + UNIT, &b.bf16);
  CT_TRY_ALL(c->t, rc);
  rc = register_memory(c, c->bf16 ? &b.bf16 : &b.whole); /* the memory that NCCL accesses */
  CT_TRY_ALL(c->t, rc);
  c->block[c->blocks++] = b;
  *out = b.whole.p;
  b = (gpu__block_t){0};
out:
  free_memory(c, &b.whole);
  free_memory(c, &b.bf16);
  return rc;
}

/* ---- opening and closing ---- */

static int64_t bytes_sent(const ct_comm_t *c)
{
  return c->sent;
}

static void free_events(ct_comm_t *c)
{
  for (int i = 0; i < CT_COMM_TICKETS; i++) {
    if (c->transfer[i].fork) (void)cudaEventDestroy(c->transfer[i].fork);
    if (c->transfer[i].done) (void)cudaEventDestroy(c->transfer[i].done);
  }
  if (c->gather_fork) (void)cudaEventDestroy(c->gather_fork);
  if (c->gather_done) (void)cudaEventDestroy(c->gather_done);
}

/* Frees everything except memory from alloc(). */
static void free_parts(ct_comm_t *c, int alone)
{
  gpu__nccl_groups_free(c);
  gpu__unwatch(c->dev, gpu__nccl_watch, c);
  free_events(c);
  gpu__nccl_waits_free(c);
  if (c->stream) (void)cudaStreamDestroy(c->stream);
  ct_alarm_close(c->alarm, alone);
  ct_mem_free(c->block);
  ct_mem_free(c);
}

/* Closes NCCL when all ranks have finished their work. */
static void close_nccl(ct_comm_t *c)
{
  if (!c->nccl) return;
  if (gpu__nccl_done(c, c->nccl, ncclCommFinalize(c->nccl), "ncclCommFinalize", 0) != CT_OK) return;
  (void)ncclCommDestroy(c->nccl);
  c->nccl = NULL;
}

static void close_comm(ct_comm_t *c)
{
  ct_err_info_t failure = *ct_err_last(); /* stays the last one */
  if (!c) return;
  if (c->stream) {
    int rc = gpu__wait_stream(c->dev, c->stream);
    if (rc != CT_OK) gpu__nccl_give_up(c, rc);
  }
  int failed = c->failure.code;
  gpu__drop_graphs(c->dev); /* NCCL would wait for graphs that contain its work */
  if (c->failure.code != CT_OK) gpu__nccl_kill(c);
  free_memory(c, &c->tree);
  for (int64_t i = 0; i < c->blocks; i++) {
    free_memory(c, &c->block[i].whole);
    free_memory(c, &c->block[i].bf16);
  }
  gpu__nccl_groups_free(c);
  close_nccl(c);
  if (failed == CT_OK && c->failure.code != CT_OK && c->failure.rank < 0) /* not another rank's */
    ct_log_all(CT_LOG_WARN, "%s; all transfers were complete", c->failure.text);
  free_parts(c, 0);
  ct_err_put(&failure);
}

static void abort_comm(ct_comm_t *c)
{
  ct_err_info_t last = *ct_err_last();
  if (c->failure.code == CT_OK)
    gpu__nccl_give_up(c, ct_err_set(CT_ERR_COMM, __FILE__, __LINE__,
                                    "rank %d on %s aborted during a transfer", c->t->rank,
                                    c->t->host));
  else
    gpu__nccl_kill(c);
  ct_err_put(&last);
  free_parts(c, 1);
}

static int nccl_check(const ct_topo_t *t, const ct_backend_t *be, const ct_comm_opts_t *o)
{
  int rc = CT_OK;
  if (be != &gpu__backend)
    CT_FAIL(CT_ERR_UNSUP, "NCCL cannot reach memory of backend '%s'", be->name);
  if (o->fixed_order && (t->size & (t->size - 1)))
    CT_FAIL(CT_ERR_USAGE, "sums along a binary tree over the ranks need 1, 2, 4, 8 … ranks, not %d",
            t->size);
  if (o->wire != CT_F32 && o->wire != CT_BF16)
    CT_FAIL(CT_ERR_UNSUP, "gradients cannot be sent as %s; expected float32 or bfloat16",
            ct_dtype_name(o->wire));
  if (o->fixed_order && o->wire == CT_BF16)
    CT_FAIL(CT_ERR_USAGE, "gradients sent as bfloat16 are rounded between nodes, so their sum "
                          "cannot be the same at every number of ranks");
out:
  return rc;
}

static int open_stream(ct_comm_t *c)
{
  int rc = CT_OK, least, greatest;
  GPU_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  GPU_TRY(cudaStreamCreateWithPriority(&c->stream, cudaStreamNonBlocking, greatest));
  CT_TRY(gpu__watch(c->dev, gpu__nccl_watch, c));
out:
  return rc;
}

static int open_nccl(ct_comm_t *c)
{
  int rc = CT_OK;
  ncclUniqueId id;
  void *data = &id;
  size_t bytes = sizeof id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  (void)setenv("NCCL_GRAPH_REGISTER", "0", 0); /* see comm_nccl.h; the user's value has priority */
  config.blocking = 0;
  config.splitShare = 1;
  if (c->t->rank == 0) rc = gpu__nccl_done(c, NULL, ncclGetUniqueId(&id), "ncclGetUniqueId", 0);
  CT_TRY(ct_agree_bytes(c->t, rc, &data, &bytes));
  if (data != &id) {
    memcpy(&id, data, sizeof id);
    ct_mem_free(data);
  }
  ncclResult_t r = ncclCommInitRankConfig(&c->nccl, c->t->size, id, c->t->rank, &config);
  CT_TRY_ALL(c->t, gpu__nccl_done(c, c->nccl, r, "ncclCommInitRankConfig", 0));
out:
  return rc;
}

static int open_comm(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev,
                     const ct_comm_opts_t *o, ct_comm_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_comm_t *c = ct_mem_alloc(sizeof *c, "the communicator");
  if (c) {
    c->t = t;
    c->dev = dev;
    c->bf16 = o->wire == CT_BF16 && t->nodes > 1;
  }
  CT_TRY_ALL(t, c ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(t, nccl_check(t, be, o));
  CT_TRY(ct_alarm_open(t, &c->alarm));
  CT_TRY_ALL(t, open_stream(c));
  CT_TRY(open_nccl(c));
  if (o->fixed_order && t->size > 1) CT_TRY_ALL(t, new_memory(c, PART, &c->tree));
  *out = c;
  c = NULL;
out:
  if (c) {
    free_memory(c, &c->tree);
    gpu__nccl_kill(c);
    free_parts(c, 0);
  }
  return rc;
}

const ct_comm_ops_t gpu__comm_nccl = {.size = sizeof(ct_comm_ops_t),
                                      .name = "nccl",
                                      .repeatable = 1,
                                      .gathers_ahead = 1,
                                      .open = open_comm,
                                      .alloc = alloc,
                                      .reduce = nccl_reduce,
                                      .slice = slice,
                                      .gather = gpu__nccl_gather,
                                      .progress = nccl_progress,
                                      .end = nccl_end,
                                      .bcast = gpu__nccl_bcast,
                                      .group = gpu__nccl_group,
                                      .group_sum = gpu__nccl_group_sum,
                                      .scatter = gpu__nccl_scatter,
                                      .collect = gpu__nccl_collect,
                                      .reduce_root = gpu__nccl_reduce_root,
                                      .bytes_sent = bytes_sent,
                                      .measure = gpu__nccl_measure,
                                      .waited = gpu__nccl_waited,
                                      .abort = abort_comm,
                                      .close = close_comm};
