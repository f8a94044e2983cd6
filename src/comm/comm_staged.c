/* Communicator for device memory that MPI cannot access: copies to the host, uses ct_comm_mpi, and
 * copies back.
 *
 * Transfers start in ct_comm_mpi in ticket order, which is required on all ranks, each once its
 * copy to the host has completed. progress() checks for this. A call that waits for other ranks
 * first waits for the copies of all earlier tickets, since a rank that is already in end() needs
 * them from this one. */
#include <string.h>

#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/host/turn.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum {
  NONE = -1,
  STAGING = 1 << 20, /* bytes staged through the host at once, for memory without a twin */
  DOUBLES = 1 << 14  /* doubles of a group sum at once: batchnorm over 8191 channels */
};

/* A buffer of alloc() and its host copy. */
typedef struct twin {
  char *device; /* owned */
  char *host;   /* owned by the inner communicator */
  size_t bytes;
} twin_t;

/* Staging buffer for a transfer of memory not from alloc(), kept for reuse. */
typedef struct spare {
  void *host; /* owned */
  size_t bytes;
  int taken;
} spare_t;

typedef struct transfer {
  enum { FREE, COPYING, STARTED } state;
  float *buf, *host;
  int64_t n;
  ct_reduce_t how;
  int spare;  /* index of the buffer of `host`, or NONE: it is in a twin */
  int inner;  /* ticket of the inner communicator, once started */
  int marked; /* 1: `copied` is recorded; 0: only a queue sync shows that the copy is complete */
  ct_event_t *copied; /* owned; reused by later transfers of this ticket */
  int next;           /* next in the list of free transfers */
} transfer_t;

struct ct_comm {
  const ct_topo_t *t; /* borrowed, like the backend and the device */
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_comm_t *inner; /* owned; ct_comm_mpi */
  ct_queue_t *down; /* owned; for copies to the host */
  ct_event_t *back; /* owned; recorded after the last copy back */
  transfer_t transfer[CT_COMM_TICKETS];
  int unused;                   /* list of free transfers */
  int waiting[CT_COMM_TICKETS]; /* ring: `waits` unstarted tickets from `first` on */
  int first, waits;
  twin_t *twin; /* owned */
  int64_t twins, twin_cap;
  spare_t *spare; /* owned */
  int64_t spares, spare_cap;
  char *staging;        /* owned; staging memory of two halves of STAGING bytes */
  int64_t *chunk_bytes; /* owned; per rank */
  ct_group_t *groups;   /* owned; list */
};

struct ct_group {
  ct_comm_t *c; /* borrowed */
  ct_group_t *inner;
  double *host;     /* owned; staging memory of DOUBLES doubles */
  ct_event_t *back; /* owned; recorded after the last copy back */
  ct_group_t *next;
};

static const ct_comm_ops_t *const mpi = &ct_comm_mpi;

/* Queue sync of the backend given to ct_comm_mpi, whose data is already on the host. */
static int nothing_to_wait_for(ct_queue_t *q)
{
  (void)q;
  return CT_OK;
}
static const ct_queue_ops_t host_queue = {.sync = nothing_to_wait_for};
static const ct_backend_t host = {.name = "host", .host_memory = 1, .queue = &host_queue};

static int first_of(int rc, int later)
{
  return rc != CT_OK ? rc : later;
}

/* ---- copies ---- */

/* Copies and waits. */
static int copy_now(ct_comm_t *c, ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  int rc = CT_OK;
  if (bytes) CT_TRY(c->be->mem->copy(q, dst, src, bytes));
  CT_TRY(c->be->queue->sync(q));
out:
  return rc;
}

static char *find_twin(const ct_comm_t *c, const void *buf, size_t bytes)
{
  uintptr_t at = (uintptr_t)buf;
  for (int64_t i = 0; i < c->twins; i++) {
    const twin_t *m = &c->twin[i];
    uintptr_t start = (uintptr_t)m->device;
    if (at >= start && at + bytes <= start + m->bytes) return m->host + (at - start);
  }
  return NULL;
}

static int find_spare(const ct_comm_t *c, size_t bytes)
{
  int best = NONE;
  for (int i = 0; i < c->spares; i++)
    if (!c->spare[i].taken && c->spare[i].bytes >= bytes &&
        (best == NONE || c->spare[i].bytes < c->spare[best].bytes))
      best = i;
  return best;
}

/* *out: index of a free staging buffer, allocated if needed. */
static int take_spare(ct_comm_t *c, size_t bytes, int *out)
{
  int rc = CT_OK;
  *out = find_spare(c, bytes);
  if (*out == NONE) {
    void *p;
    CT_TRY(ct_mem_grow((void **)&c->spare, &c->spare_cap, c->spares + 1, sizeof *c->spare));
    CT_TRY(c->be->mem->alloc(c->dev, CT_MEM_STAGING, bytes, &p));
    *out = (int)c->spares++;
    c->spare[*out] = (spare_t){.host = p, .bytes = bytes};
  }
  c->spare[*out].taken = 1;
out:
  return rc;
}

/* ---- transfers ---- */

static size_t bytes_of(const transfer_t *x, int64_t n)
{
  return (size_t)n * (x->how == CT_GATHER_HALF ? 2 : sizeof *x->buf);
}

/* Chooses a transfer's host buffer. Without memory the run ends: other ranks wait for it. */
static void find_host(ct_comm_t *c, transfer_t *x)
{
  size_t bytes = bytes_of(x, x->n);
  x->spare = NONE;
  x->host = (float *)find_twin(c, x->buf, bytes);
  if (x->host) return;
  if (take_spare(c, bytes ? bytes : 1, &x->spare) != CT_OK)
    ct_panic(c->t, "%s", ct_err_last()->text);
  x->host = c->spare[x->spare].host;
}

/* Starts the oldest transfer that waits for its copy. */
static int start_first(ct_comm_t *c)
{
  transfer_t *x = &c->transfer[c->waiting[c->first]];
  c->first = (c->first + 1) % CT_COMM_TICKETS;
  c->waits--;
  x->state = STARTED;
  return mpi->reduce(c->inner, NULL, x->host, x->n, x->how, &x->inner);
}

/* Starts the transfers whose copies to the host are complete. A transfer whose copy failed is
 * started too, with an error. */
static int start_arrived(ct_comm_t *c)
{
  int rc = CT_OK;
  while (c->waits) {
    const transfer_t *x = &c->transfer[c->waiting[c->first]];
    int done = x->marked ? c->be->queue->done(x->copied) : 0;
    if (!done) break;
    if (done < 0) rc = first_of(rc, done);
    rc = first_of(rc, start_first(c));
  }
  return rc;
}

static int wait_for_first(ct_comm_t *c)
{
  const transfer_t *x = &c->transfer[c->waiting[c->first]];
  int rc = x->marked ? c->be->queue->wait(x->copied) : c->be->queue->sync(c->down);
  return first_of(rc, start_first(c));
}

static int start_all(ct_comm_t *c)
{
  int rc = CT_OK;
  while (c->waits)
    rc = first_of(rc, wait_for_first(c));
  return rc;
}

static int staged_reduce(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                         int *ticket)
{
  int rc = CT_OK;
  int64_t from = 0, to = n;
  *ticket = c->unused;
  if (c->unused == NONE)
    CT_FAIL(CT_ERR_ARG, "more than %d transfers are open at once", CT_COMM_TICKETS);
  transfer_t *x = &c->transfer[c->unused];
  c->unused = x->next;
  x->state = COPYING;
  x->buf = buf;
  x->n = n;
  x->how = how;
  find_host(c, x);
  /* continue on errors: the other ranks wait for this transfer */
  if (after) rc = c->be->queue->after(c->down, after);
  if (how >= CT_GATHER) mpi->slice(c->inner, c->t->rank, n, &from, &to);
  size_t at = bytes_of(x, from), bytes = bytes_of(x, to) - at;
  if (bytes)
    rc = first_of(rc, c->be->mem->copy(c->down, (char *)x->host + at, (char *)buf + at, bytes));
  int marked = c->be->queue->mark(c->down, &x->copied);
  x->marked = marked == CT_OK;
  rc = first_of(rc, marked);
  c->waiting[(c->first + c->waits++) % CT_COMM_TICKETS] = *ticket;
  rc = first_of(rc, start_arrived(c));
out:
  return rc;
}

static int staged_progress(ct_comm_t *c)
{
  int rc = start_arrived(c);
  return first_of(rc, mpi->progress(c->inner));
}

/* Waits for a transfer; starts later ones meanwhile. */
static int await(ct_comm_t *c, const transfer_t *x)
{
  int rc = CT_OK, failed = CT_OK;
  while (x->state == COPYING)
    failed = first_of(failed, wait_for_first(c));
  for (unsigned turn = 1; !ct__comm_complete(c->inner, x->inner); turn++) {
    failed = first_of(failed, start_arrived(c));
    CT_TRY(ct__comm_turn(c->inner, turn));
  }
  CT_TRY(mpi->end(c->inner, x->inner, NULL));
out:
  return first_of(rc, failed);
}

/* Copies the sum back. Later copies to the host wait for it, since they may use the same memory. */
static int copy_back(ct_comm_t *c, const transfer_t *x, ct_queue_t *q)
{
  int rc = CT_OK;
  int64_t from = 0, to = x->n;
  if (x->how == CT_REDUCE_SLICE) mpi->slice(c->inner, c->t->rank, x->n, &from, &to);
  if (from == to) return CT_OK;
  size_t at = bytes_of(x, from), bytes = bytes_of(x, to) - at;
  CT_TRY(c->be->mem->copy(q, (char *)x->buf + at, (char *)x->host + at, bytes));
  CT_TRY(c->be->queue->mark(q, &c->back));
  CT_TRY(c->be->queue->after(c->down, c->back));
out:
  return rc;
}

static int staged_end(ct_comm_t *c, int ticket, ct_queue_t *q)
{
  int rc = CT_OK;
  if (ticket < 0 || ticket >= CT_COMM_TICKETS || c->transfer[ticket].state == FREE)
    CT_FAIL(CT_ERR_ARG, "ticket %d is not open", ticket);
  transfer_t *x = &c->transfer[ticket];
  rc = await(c, x);
  rc = first_of(rc, copy_back(c, x, q));
  if (x->spare != NONE) c->spare[x->spare].taken = 0;
  x->state = FREE;
  x->next = c->unused;
  c->unused = ticket;
out:
  return rc;
}

static void slice(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to)
{
  mpi->slice(c->inner, rank, n, from, to);
}

/* ---- blocking calls ---- */

/* Starts all earlier transfers and waits for earlier work of q. */
static int settle(ct_comm_t *c, ct_queue_t *q)
{
  int rc = start_all(c);
  rc = first_of(rc, c->be->queue->sync(q));
  return ct_agree(c->t, rc);
}

static int staged_gather(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  int rc = CT_OK, ticket;
  CT_TRY(settle(c, q));
  rc = staged_reduce(c, NULL, buf, n, CT_GATHER, &ticket);
  rc = first_of(rc, staged_end(c, ticket, q));
out:
  return rc;
}

static size_t chunk_of(size_t bytes, size_t at, size_t most)
{
  size_t left = bytes > at ? bytes - at : 0;
  return left < most ? left : most;
}

static int bcast(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root)
{
  int rc = CT_OK, own = CT_OK;
  CT_TRY(settle(c, q));
  for (size_t at = 0; at < bytes; at += STAGING) {
    char *p = (char *)buf + at;
    size_t n = chunk_of(bytes, at, STAGING);
    if (c->t->rank == root) own = first_of(own, copy_now(c, q, c->staging, p, n));
    CT_TRY_ALL(c->t, own);
    CT_TRY(mpi->bcast(c->inner, NULL, c->staging, n, root));
    if (c->t->rank != root) own = copy_now(c, q, p, c->staging, n);
  }
  CT_TRY_ALL(c->t, own);
out:
  return rc;
}

/* Rank 0: copies rows [at, ..) of all ranks between the device and `room`'s packed first half. */
static int copy_rows(ct_comm_t *c, ct_queue_t *q, char *all, size_t at, const int64_t bytes[],
                     int down)
{
  int rc = CT_OK;
  char *row = c->staging;
  if (c->t->rank) return CT_OK;
  for (int r = 0; r < c->t->size; r++) {
    size_t n = (size_t)c->chunk_bytes[r];
    if (n) CT_TRY(c->be->mem->copy(q, down ? row : all + at, down ? all + at : row, n));
    all += bytes[r];
    row += n;
  }
  CT_TRY(c->be->queue->sync(q));
out:
  return rc;
}

/* Copies this rank's part of its row to or from the second half of `room`. */
static int copy_row(ct_comm_t *c, ct_queue_t *q, char *mine, size_t at, int down)
{
  size_t n = (size_t)c->chunk_bytes[c->t->rank];
  char *row = c->staging + STAGING;
  if (!n) return CT_OK; /* `mine` may be NULL if this rank has no rows */
  return copy_now(c, q, down ? row : mine + at, down ? mine + at : row, n);
}

/* Transfers rows in parts that fit the staging memory. */
static int staged_move_rows(ct_comm_t *c, ct_queue_t *q, char *all, char *mine,
                            const int64_t bytes[], int from_root)
{
  int rc = CT_OK, own = CT_OK, ranks = c->t->size;
  size_t most = STAGING / (size_t)ranks, longest = 0;
  CT_TRY(settle(c, q));
  for (int r = 0; r < ranks; r++)
    if ((size_t)bytes[r] > longest) longest = (size_t)bytes[r];
  for (size_t at = 0; at < longest; at += most) {
    for (int r = 0; r < ranks; r++)
      c->chunk_bytes[r] = (int64_t)chunk_of((size_t)bytes[r], at, most);
    own =
        first_of(own, from_root ? copy_rows(c, q, all, at, bytes, 1) : copy_row(c, q, mine, at, 1));
    CT_TRY_ALL(c->t, own);
    if (from_root) {
      CT_TRY(mpi->scatter(c->inner, NULL, c->staging, c->staging + STAGING, c->chunk_bytes));
      own = copy_row(c, q, mine, at, 0);
    } else {
      CT_TRY(mpi->collect(c->inner, NULL, c->staging + STAGING, c->staging, c->chunk_bytes));
      own = copy_rows(c, q, all, at, bytes, 0);
    }
  }
  CT_TRY_ALL(c->t, own);
out:
  return rc;
}

static int scatter(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine, const int64_t bytes[])
{
  return staged_move_rows(c, q, (void *)all, mine, bytes, 1);
}

static int staged_collect(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all,
                          const int64_t bytes[])
{
  return staged_move_rows(c, q, all, (void *)mine, bytes, 0);
}

/* Reduces as ct_comm_mpi does: in one call if the buffer has a host twin. */
static int reduce_root(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  int rc = CT_OK, own = CT_OK;
  size_t bytes = (size_t)n * sizeof *buf, n_bytes;
  char *twin = find_twin(c, buf, bytes), *p = twin ? twin : c->staging;
  CT_TRY(settle(c, q));
  for (size_t at = 0; at < bytes; at += n_bytes) {
    char *chunk = (char *)buf + at;
    n_bytes = twin ? bytes : chunk_of(bytes, at, STAGING);
    own = first_of(own, copy_now(c, q, p, chunk, n_bytes));
    CT_TRY_ALL(c->t, own);
    CT_TRY(mpi->reduce_root(c->inner, NULL, (float *)p, (int64_t)(n_bytes / sizeof *buf)));
    if (c->t->rank == 0) own = copy_now(c, q, chunk, p, n_bytes);
  }
  CT_TRY_ALL(c->t, own);
out:
  return rc;
}

/* ---- groups ---- */

static void free_group(ct_group_t *g)
{
  if (!g) return;
  g->c->be->queue->unmark(g->back);
  g->c->be->mem->free(g->c->dev, CT_MEM_STAGING, g->host);
  ct_mem_free(g);
}

static int group(ct_comm_t *c, int color, ct_group_t **out)
{
  int rc = CT_OK;
  void *p = NULL;
  *out = NULL;
  ct_group_t *g = ct_mem_alloc(sizeof *g, "a group of ranks");
  if (g) g->c = c;
  CT_TRY_ALL(c->t, g ? CT_OK : CT_ERR_NOMEM);
  rc = c->be->mem->alloc(c->dev, CT_MEM_STAGING, DOUBLES * sizeof *g->host, &p);
  g->host = p;
  CT_TRY_ALL(c->t, rc);
  CT_TRY(mpi->group(c->inner, color, &g->inner));
  g->next = c->groups;
  c->groups = g;
  *out = g;
  g = NULL;
out:
  free_group(g);
  return rc;
}

/* Continues on errors, since the other ranks wait for this one. */
static int group_sum(ct_group_t *g, ct_queue_t *q, double *buf, int64_t n)
{
  int rc = CT_OK;
  ct_comm_t *c = g->c;
  int own = start_all(c);
  if (g->back) own = first_of(own, c->be->queue->after(q, g->back));
  for (int64_t at = 0; at < n; at += DOUBLES) {
    int64_t len = n - at < DOUBLES ? n - at : DOUBLES;
    size_t bytes = (size_t)len * sizeof *buf;
    own = first_of(own, copy_now(c, q, g->host, buf + at, bytes));
    CT_TRY(mpi->group_sum(g->inner, NULL, g->host, len));
    own = first_of(own, c->be->mem->copy(q, buf + at, g->host, bytes));
    own = first_of(own, c->be->queue->mark(q, &g->back));
  }
out:
  return first_of(own, rc);
}

/* ---- creation and destruction ---- */

/* Frees everything but memory of alloc(), its twins, and the inner communicator. */
static void free_tables(ct_comm_t *c)
{
  while (c->groups) {
    ct_group_t *g = c->groups;
    c->groups = g->next;
    free_group(g);
  }
  for (int i = 0; i < CT_COMM_TICKETS; i++)
    c->be->queue->unmark(c->transfer[i].copied);
  c->be->queue->destroy(c->down);
  c->be->queue->unmark(c->back);
  for (int64_t i = 0; i < c->spares; i++)
    c->be->mem->free(c->dev, CT_MEM_STAGING, c->spare[i].host);
  c->be->mem->free(c->dev, CT_MEM_STAGING, c->staging);
  ct_mem_free(c->spare);
  ct_mem_free(c->twin);
  ct_mem_free(c->chunk_bytes);
  ct_mem_free(c);
}

static void free_parts(ct_comm_t *c)
{
  if (!c) return;
  for (int64_t i = 0; i < c->twins; i++) {
    c->be->mem->unpin(c->dev, c->twin[i].host);
    c->be->mem->free(c->dev, CT_MEM_DEVICE, c->twin[i].device);
  }
  mpi->close(c->inner);
  free_tables(c);
}

static ct_comm_t *new_comm(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev)
{
  ct_comm_t *c = ct_mem_alloc(sizeof *c, "the communicator");
  if (!c) return NULL;
  c->t = t;
  c->be = be;
  c->dev = dev;
  for (int i = 0; i < CT_COMM_TICKETS; i++)
    c->transfer[i].next = i + 1 < CT_COMM_TICKETS ? i + 1 : NONE;
  return c;
}

static int open_staging(ct_comm_t *c)
{
  int rc = CT_OK;
  void *p;
  CT_TRY(c->be->queue->create(c->dev, &c->down));
  CT_TRY(c->be->mem->alloc(c->dev, CT_MEM_STAGING, 2 * STAGING, &p));
  c->staging = p;
  c->chunk_bytes = ct_mem_array(c->t->size, sizeof *c->chunk_bytes, "rows of the ranks");
  if (!c->chunk_bytes) rc = CT_ERR_NOMEM;
out:
  return rc;
}

static int open_comm(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev,
                     const ct_comm_opts_t *o, ct_comm_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_comm_t *c = new_comm(t, be, dev);
  CT_TRY_ALL(t, c ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(t, open_staging(c));
  CT_TRY(mpi->open(t, &host, NULL, o, &c->inner));
  *out = c;
  c = NULL;
out:
  free_parts(c);
  return rc;
}

static int alloc(ct_comm_t *c, size_t bytes, void **out)
{
  int rc = CT_OK;
  void *device = NULL, *twin;
  *out = NULL;
  CT_TRY_ALL(c->t, ct_mem_grow((void **)&c->twin, &c->twin_cap, c->twins + 1, sizeof *c->twin));
  CT_TRY_ALL(c->t, c->be->mem->alloc(c->dev, CT_MEM_DEVICE, bytes, &device));
  CT_TRY(mpi->alloc(c->inner, bytes, &twin));
  if (c->be->mem->pin(c->dev, twin, bytes) != CT_OK)
    ct_log_all(CT_LOG_DEBUG, "gradients are copied to the host more slowly: %s",
               ct_err_last()->text);
  c->twin[c->twins++] = (twin_t){.device = device, .host = twin, .bytes = bytes};
  *out = device;
  device = NULL;
out:
  c->be->mem->free(c->dev, CT_MEM_DEVICE, device);
  return rc;
}

static int64_t bytes_sent(const ct_comm_t *c)
{
  return mpi->bytes_sent(c->inner);
}

static void abort_comm(ct_comm_t *c)
{
  mpi->abort(c->inner);
  free_tables(c);
}

static void close_comm(ct_comm_t *c)
{
  if (!c) return;
  for (int i = 0; i < CT_COMM_TICKETS; i++)
    if (c->transfer[i].state != FREE) staged_end(c, i, c->down);
  ct_err_info_t failure = *ct_err_last(); /* stays the last one if the wait fails */
  if (c->be->queue->sync(c->down) != CT_OK) ct_err_put(&failure);
  free_parts(c);
}

const ct_comm_ops_t ct_comm_staged = {.size = sizeof(ct_comm_ops_t),
                                      .name = "staged",
                                      .open = open_comm,
                                      .alloc = alloc,
                                      .reduce = staged_reduce,
                                      .slice = slice,
                                      .gather = staged_gather,
                                      .progress = staged_progress,
                                      .end = staged_end,
                                      .bcast = bcast,
                                      .group = group,
                                      .group_sum = group_sum,
                                      .scatter = scatter,
                                      .collect = staged_collect,
                                      .reduce_root = reduce_root,
                                      .bytes_sent = bytes_sent,
                                      .waited = ct__comm_waited,
                                      .abort = abort_comm,
                                      .close = close_comm};
