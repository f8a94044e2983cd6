/* The NCCL communicator: gathers, blocking calls and groups. */
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "cuda/nccl/comm_nccl.h"

/* ---- gathers ---- */

typedef struct gather {
  ct_comm_t *c;
  float *buf;
  int64_t n, wait;
} gather_t;

int gpu__nccl_gather_slices(ct_comm_t *c, void *buf, int64_t n, ct_reduce_t how)
{
  int ranks = c->t->size;
  ncclDataType_t type = how == CT_GATHER ? ncclFloat32 : ncclBfloat16;
  size_t size = how == CT_GATHER ? 4 : 2;
  int64_t step = gpu__nccl_slice(n, ranks);
  char *mine = (char *)buf + (size_t)(c->t->rank * step) * size;
  char *rest = (char *)buf + (size_t)(ranks * step) * size;
  size_t left = (size_t)(n - ranks * step);
  if (ranks == 1) return CT_OK;
  ncclResult_t r = ncclGroupStart();
  if (r != ncclSuccess) return gpu__nccl_done(c, c->nccl, r, "ncclGroupStart", 0);
  if (step) r = ncclAllGather(mine, buf, (size_t)step, type, c->nccl, c->stream);
  if (gpu__nccl_is_fine(r) && left)
    r = ncclBroadcast(rest, rest, left, type, ranks - 1, c->nccl, c->stream);
  return gpu__nccl_done(c, c->nccl, gpu__nccl_end_group(r), "ncclAllGather", n * (int64_t)size);
}

/* Enqueues a gather on the communicator's stream, after earlier transfers. */
static int gather_launch(void *arg, cudaStream_t s)
{
  int rc = CT_OK;
  const gather_t *w = arg;
  ct_comm_t *c = w->c;
  CT_TRY(gpu__nccl_alive(c));
  CT_TRY(gpu__nccl_fork(c, s, c->gather_fork));
  CT_TRY(gpu__nccl_gather_slices(c, w->buf, w->n, CT_GATHER));
  GPU_TRY(cudaEventRecord(c->gather_done, c->stream));
  CT_TRY(gpu__nccl_wait(c, (int)w->wait, s, c->gather_done));
out:
  return gpu__nccl_enqueued(c, rc);
}

int gpu__nccl_gather(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  gpu__nccl_count(c, n * (int64_t)sizeof *buf, c->t->size - 1, c->t->size);
  int rc = gpu__nccl_event(&c->gather_fork);
  if (rc == CT_OK) rc = gpu__nccl_event(&c->gather_done);
  if (rc != CT_OK) return gpu__nccl_give_up(c, rc);
  if (c->t->size == 1 || n == 0) return gpu__nccl_alive(c);
  gather_t w = {c, buf, n, gpu__nccl_wait_open(c, 0)};
  c->repeated |= q->noting;
  return gpu__enqueue_call(q, gather_launch, &w, sizeof w);
}

/* ---- blocking calls ---- */

/* Waits until q's earlier work has completed here and on all other ranks. */
static int nccl_calls_begin(ct_comm_t *c, ct_queue_t *q)
{
  int rc = gpu__nccl_alive(c);
  if (rc == CT_OK) rc = gpu__queue_ops.sync(q);
  return ct_agree(c->t, rc);
}

/* Waits until the enqueued work, whose result so far is rc, has completed on all ranks. */
static int nccl_calls_finish(ct_comm_t *c, int rc)
{
  if (rc == CT_OK) rc = gpu__wait_stream(c->dev, c->stream);
  if (rc != CT_OK) gpu__nccl_give_up(c, rc);
  return ct_agree(c->t, rc);
}

int gpu__nccl_bcast(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root)
{
  int rc = CT_OK, own = CT_OK;
  CT_TRY(nccl_calls_begin(c, q));
  if (bytes)
    own = gpu__nccl_done(c, c->nccl,
                         ncclBroadcast(buf, buf, bytes, ncclUint8, root, c->nccl, c->stream),
                         "ncclBroadcast", (int64_t)bytes);
  CT_TRY(nccl_calls_finish(c, own));
  gpu__nccl_count(c, (int64_t)bytes, c->t->size - 1, c->t->size);
out:
  return rc;
}

int gpu__nccl_reduce_root(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  int rc = CT_OK, own = CT_OK;
  CT_TRY(nccl_calls_begin(c, q));
  if (n)
    own = gpu__nccl_done(
        c, c->nccl, ncclReduce(buf, buf, (size_t)n, ncclFloat32, ncclSum, 0, c->nccl, c->stream),
        "ncclReduce", n * (int64_t)sizeof *buf);
  CT_TRY(nccl_calls_finish(c, own));
  if (c->t->rank) c->sent += n * (int64_t)sizeof *buf;
out:
  return rc;
}

/* ---- scatter and gather ---- */

/* Enqueues the messages of rank 0, or the single message of another rank. */
static ncclResult_t send_or_receive(ct_comm_t *c, char *all, char *mine, const int64_t bytes[],
                                    int from_root)
{
  ncclResult_t r = ncclSuccess;
  size_t n = (size_t)bytes[c->t->rank];
  if (c->t->rank && n)
    return from_root ? ncclRecv(mine, n, ncclUint8, 0, c->nccl, c->stream)
                     : ncclSend(mine, n, ncclUint8, 0, c->nccl, c->stream);
  if (c->t->rank) return r;
  char *row = all + bytes[0];
  for (int peer = 1; peer < c->t->size && gpu__nccl_is_fine(r); row += bytes[peer++]) {
    if (!bytes[peer]) continue;
    r = from_root ? ncclSend(row, (size_t)bytes[peer], ncclUint8, peer, c->nccl, c->stream)
                  : ncclRecv(row, (size_t)bytes[peer], ncclUint8, peer, c->nccl, c->stream);
  }
  return r;
}

static int enqueue_rows(ct_comm_t *c, char *all, char *mine, const int64_t bytes[], int from_root)
{
  int rc = CT_OK;
  ncclResult_t r = ncclGroupStart();
  if (r != ncclSuccess) return gpu__nccl_done(c, c->nccl, r, "ncclGroupStart", 0);
  r = gpu__nccl_end_group(send_or_receive(c, all, mine, bytes, from_root));
  CT_TRY(gpu__nccl_done(c, c->nccl, r, from_root ? "ncclSend" : "ncclRecv", bytes[c->t->rank]));
  if (c->t->rank == 0 && bytes[0])
    GPU_TRY(cudaMemcpyAsync(from_root ? mine : all, from_root ? all : mine, (size_t)bytes[0],
                            cudaMemcpyDeviceToDevice, c->stream));
out:
  return rc;
}

static int nccl_calls_move_rows(ct_comm_t *c, ct_queue_t *q, char *all, char *mine,
                                const int64_t bytes[], int from_root)
{
  int rc = CT_OK;
  int64_t others = 0;
  CT_TRY(nccl_calls_begin(c, q));
  CT_TRY(nccl_calls_finish(c, enqueue_rows(c, all, mine, bytes, from_root)));
  for (int r = 1; r < c->t->size; r++)
    others += bytes[r];
  if (from_root == (c->t->rank == 0)) c->sent += from_root ? others : bytes[c->t->rank];
out:
  return rc;
}

int gpu__nccl_scatter(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine,
                      const int64_t bytes[])
{
  return nccl_calls_move_rows(c, q, (void *)all, mine, bytes, 1);
}

int gpu__nccl_collect(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all,
                      const int64_t bytes[])
{
  return nccl_calls_move_rows(c, q, all, (void *)mine, bytes, 0);
}

/* ---- groups ---- */

static void free_group(ct_group_t *g)
{
  if (!g) return;
  if (g->nccl &&
      gpu__nccl_done(g->c, g->nccl, ncclCommFinalize(g->nccl), "ncclCommFinalize", 0) == CT_OK) {
    (void)ncclCommDestroy(g->nccl);
    g->nccl = NULL;
  }
  if (g->fork) (void)cudaEventDestroy(g->fork);
  if (g->done) (void)cudaEventDestroy(g->done);
  ct_mem_free(g);
}

void gpu__nccl_groups_free(ct_comm_t *c)
{
  while (c->groups) {
    ct_group_t *g = c->groups;
    free_group(g); /* stays in the list until now, so that a failure aborts it too */
    c->groups = g->next;
  }
}

/* Splits the communicator. NCCL returns the child when the parent has completed the call, and the
 * child is usable when it has completed its own initialization. ncclCommSplit() returns ncclSuccess
 * as soon as the split has begun (NCCL 2.28), so the parent is asked in any case. */
static int split(ct_comm_t *c, int color, ct_group_t *g)
{
  int rc = CT_OK;
  CT_TRY(gpu__wait_stream(c->dev, c->stream)); /* no transfer may be in flight */
  c->child = ct_mem_alloc(sizeof *c->child, "a communicator of NCCL");
  CT_TRY(c->child ? CT_OK : CT_ERR_NOMEM);
  ncclResult_t r = ncclCommSplit(c->nccl, color, c->t->rank, c->child, NULL);
  CT_TRY(gpu__nccl_done(c, c->nccl, gpu__nccl_is_fine(r) ? ncclInProgress : r, "ncclCommSplit", 0));
  g->nccl = *c->child;
  ct_mem_free(c->child);
  c->child = NULL;
  CT_TRY(gpu__nccl_done(c, g->nccl, ncclInProgress, "ncclCommSplit", 0));
  CT_TRY(gpu__nccl_done(c, g->nccl, ncclCommCount(g->nccl, &g->size), "ncclCommCount", 0));
  CT_TRY(gpu__nccl_event(&g->fork));
  CT_TRY(gpu__nccl_event(&g->done));
out:
  return rc == CT_OK ? rc : gpu__nccl_give_up(c, rc);
}

int gpu__nccl_group(ct_comm_t *c, int color, ct_group_t **out)
{
  int rc = gpu__nccl_alive(c);
  *out = NULL;
  ct_group_t *g = ct_mem_alloc(sizeof *g, "a group of ranks");
  if (!g) {
    rc = CT_ERR_NOMEM;
  } else {
    *g = (ct_group_t){.c = c, .size = 1};
    if (color < 0)
      rc = ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a group of ranks has the number %d", color);
  }
  CT_TRY_ALL(c->t, rc);
  g->next = c->groups;
  c->groups = g;
  CT_TRY_ALL(c->t, c->t->size > 1 ? split(c, color, g) : CT_OK);
  *out = g;
  return rc;
out:
  if (g && c->groups == g) {
    gpu__nccl_give_up(c, rc); /* here too if another rank failed, which cannot close its part */
    c->groups = g->next;
  }
  free_group(g);
  return rc;
}

typedef struct work {
  ct_group_t *g;
  double *buf;
  int64_t n, wait;
} work_t;

/* Enqueues the all-reduce of a group on the communicator's stream, after earlier transfers. */
static int nccl_calls_launch(void *arg, cudaStream_t s)
{
  int rc = CT_OK;
  const work_t *w = arg;
  ct_group_t *g = w->g;
  ct_comm_t *c = g->c;
  CT_TRY(gpu__nccl_alive(c));
  CT_TRY(gpu__nccl_fork(c, s, g->fork));
  CT_TRY(gpu__nccl_done(
      c, g->nccl,
      ncclAllReduce(w->buf, w->buf, (size_t)w->n, ncclFloat64, ncclSum, g->nccl, c->stream),
      "ncclAllReduce of a group", w->n * (int64_t)sizeof *w->buf));
  GPU_TRY(cudaEventRecord(g->done, c->stream));
  CT_TRY(gpu__nccl_wait(c, (int)w->wait, s, g->done));
out:
  return gpu__nccl_enqueued(c, rc);
}

int gpu__nccl_group_sum(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n)
{
  int rc = CT_OK;
  gpu__nccl_count(g->c, n * (int64_t)sizeof *buf, 2 * (g->size - 1), g->size);
  if (g->size == 1 || n == 0) return gpu__nccl_alive(g->c);
  work_t w = {g, buf, n, gpu__nccl_wait_open(g->c, 1)};
  g->c->repeated |= q->noting;
  CT_TRY(gpu__enqueue_call(q, nccl_calls_launch, &w, sizeof w));
out:
  return rc;
}
