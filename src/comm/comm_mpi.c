/* The communicator of host memory: transfers in flight, and who moves them.
 *
 * All transfers stand in one queue, in the order of the calls, which is the same on all ranks.
 * They are moved in pieces: a piece is summed inside the node (if it lies in shared memory),
 * then across nodes (by one MPI_Iallreduce between the ranks that have the same slice), then
 * given to the others of the node.  Pieces of different transfers follow each other, a few at a
 * time, so one slow message does not stop the rest.  Nothing moves but inside poke() and end():
 * there is no thread. */
#include <string.h>

#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_comm.h"
#include "comm/mpi_wait.h"
#include "comm/window.h"

enum {
  PIECE = 256 * 1024, /* floats: 1 MiB, where MPI libraries reduce fastest */
  IN_FLIGHT = 8,
  NONE = -1
};

typedef enum { FREE, QUEUED, REDUCED } state_t;

typedef struct transfer {
  state_t state; /* REDUCED: this rank's part of the work is done */
  float *buf;
  int shared; /* 1: lies in shared memory, at `place`, as number `number` */
  ct__place_t place;
  int64_t number;
  int64_t begun, landed, end; /* elements of buf: [.., end) is this rank's to reduce */
  int next;                   /* in the queue or among the free ones */
} transfer_t;

typedef struct piece {
  MPI_Request request;
  int transfer;
  int64_t from, n;
} piece_t;

struct ct_comm {
  const ct_topo_t *t; /* borrowed, like the backend */
  const ct_backend_t *be;
  ct__window_t *window;
  MPI_Comm world; /* owned duplicate: pieces of private memory */
  MPI_Comm rail;  /* owned; the ranks of all nodes that have this local rank: of shared memory */
  transfer_t transfer[CT_COMM_TICKETS];
  int unused;               /* list of free transfers */
  int first, last;          /* queue of transfers not all begun */
  piece_t piece[IN_FLIGHT]; /* ring: from `oldest`, `in_flight` of them */
  int oldest, in_flight;
};

/* ---- progress ---- */

static int crosses_nodes(const ct_comm_t *c, const transfer_t *x)
{
  return c->t->size > 1 && !(x->shared && c->t->nodes == 1);
}

/* n more elements are as they shall be, here and on the other ranks of the node. */
static void land(ct_comm_t *c, transfer_t *x, int64_t n)
{
  x->landed += n;
  if (x->begun < x->end || x->landed < x->begun) return;
  if (x->shared) ct__window_reduced(c->window);
  x->state = REDUCED;
}

static void send_piece(ct_comm_t *c, int transfer, int64_t from, int64_t n)
{
  transfer_t *x = &c->transfer[transfer];
  piece_t *p = &c->piece[(c->oldest + c->in_flight++) % IN_FLIGHT];
  *p = (piece_t){.transfer = transfer, .from = from, .n = n};
  CT_MPI(c->t, MPI_Iallreduce(MPI_IN_PLACE, x->buf + from, (int)n, MPI_FLOAT, MPI_SUM,
                              x->shared ? c->rail : c->world, &p->request));
}

/* The next piece of the first transfer that is not all begun.  0: not now.  An empty slice is a
 * piece too, of no elements: it keeps its place in the order. */
static int begin_piece(ct_comm_t *c)
{
  int transfer = c->first;
  if (transfer == NONE) return 0;
  transfer_t *x = &c->transfer[transfer];
  int crosses = crosses_nodes(c, x);
  if (crosses && c->in_flight == IN_FLIGHT) return 0;
  if (x->shared && !ct__window_all_posted(c->window, x->number)) return 0;

  int64_t from = x->begun, n = x->end - from < PIECE ? x->end - from : PIECE;
  if (x->shared) ct__window_sum(c->window, x->place, from, n, !crosses);
  x->begun += n;
  if (x->begun == x->end) c->first = x->next;
  if (crosses)
    send_piece(c, transfer, from, n);
  else
    land(c, x, n);
  return 1;
}

/* The oldest message, if it has arrived. */
static int land_piece(ct_comm_t *c)
{
  if (!c->in_flight) return 0;
  int arrived;
  piece_t *p = &c->piece[c->oldest];
  CT_MPI(c->t, MPI_Test(&p->request, &arrived, MPI_STATUS_IGNORE));
  if (!arrived) return 0;
  c->oldest = (c->oldest + 1) % IN_FLIGHT;
  c->in_flight--;
  transfer_t *x = &c->transfer[p->transfer];
  if (x->shared) ct__window_spread(c->window, x->place, p->from, p->n);
  land(c, x, p->n);
  return 1;
}

static void progress(ct_comm_t *c)
{
  while (land_piece(c))
    ;
  while (begin_piece(c))
    ;
}

static int complete(ct_comm_t *c, const transfer_t *x)
{
  return x->state == REDUCED && (!x->shared || ct__window_all_reduced(c->window, x->number));
}

/* While this rank waits in shared memory, a peer may wait for a message of an earlier MPI call
 * of ours that the library has only buffered: it is sent on when MPI is entered. */
static void enter_mpi(ct_comm_t *c)
{
  int there;
  CT_MPI(c->t, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->world, &there, MPI_STATUS_IGNORE));
}

static int await(ct_comm_t *c, const transfer_t *x)
{
  enum { ENTER_MPI_EVERY = 64 };
  int rc = CT_OK;
  for (unsigned turn = 1; progress(c), !complete(c, x); turn++) {
    if (ct__window_aborted(c->window))
      CT_FAIL(CT_ERR_COMM, "a rank on %s has given up in the middle of a transfer", c->t->host);
    if (turn % ENTER_MPI_EVERY == 0) enter_mpi(c);
    ct__relax(turn);
  }
out:
  return rc;
}

/* ---- the table ---- */

static void free_parts(ct_comm_t *c)
{
  if (!c) return;
  ct__window_close(c->window);
  if (c->rail != MPI_COMM_NULL) MPI_Comm_free(&c->rail);
  if (c->world != MPI_COMM_NULL) MPI_Comm_free(&c->world);
  ct_mem_free(c);
}

static ct_comm_t *new_comm(const ct_topo_t *t, const ct_backend_t *be)
{
  ct_comm_t *c = ct_mem_alloc(sizeof *c, "the communicator");
  if (!c) return NULL;
  c->t = t;
  c->be = be;
  c->world = c->rail = MPI_COMM_NULL;
  c->first = c->last = NONE;
  for (int i = 0; i < CT_COMM_TICKETS; i++)
    c->transfer[i].next = i + 1 < CT_COMM_TICKETS ? i + 1 : NONE;
  return c;
}

static int open_comm(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev,
                     const ct_comm_opts_t *o, ct_comm_t **out)
{
  int rc = CT_OK;
  (void)dev;
  (void)o;
  *out = NULL;
  ct_comm_t *c = new_comm(t, be);
  CT_TRY_ALL(t, c ? CT_OK : CT_ERR_NOMEM);
  if (!be->host_memory)
    rc = ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__,
                    "backend '%s' keeps gradients where MPI cannot reach them", be->name);
  CT_TRY_ALL(t, rc);
  if (t->size > 1) {
    CT_MPI(t, MPI_Comm_dup(t->world, &c->world));
    CT_MPI(t, MPI_Comm_split(t->world, t->local_rank, t->node_index, &c->rail));
  }
  CT_TRY(ct__window_open(t, &c->window));
  *out = c;
  c = NULL;
out:
  free_parts(c);
  return rc;
}

static int alloc(ct_comm_t *c, size_t bytes, void **out)
{
  return ct__window_alloc(c->window, bytes, out);
}

static void append(ct_comm_t *c, int transfer)
{
  c->transfer[transfer].next = NONE;
  if (c->first == NONE)
    c->first = transfer;
  else
    c->transfer[c->last].next = transfer;
  c->last = transfer;
}

static int reduce(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                  int *ticket)
{
  int rc = CT_OK;
  (void)how;
  *ticket = c->unused;
  if (c->unused == NONE)
    CT_FAIL(CT_ERR_ARG, "more than %d transfers are open at once", CT_COMM_TICKETS);
  transfer_t *x = &c->transfer[c->unused];
  c->unused = x->next;
  if (after)
    rc = c->be->queue->wait(after); /* even if it fails, the others count on this transfer */

  *x = (transfer_t){.state = QUEUED, .buf = buf, .end = n};
  x->shared = ct__window_find(c->window, buf, n, &x->place);
  if (x->shared) {
    ct__window_slice(c->window, n, &x->begun, &x->end);
    x->landed = x->begun;
    x->number = ct__window_post(c->window);
  }
  append(c, *ticket);
  progress(c);
out:
  return rc;
}

static int poke(ct_comm_t *c)
{
  progress(c);
  return CT_OK;
}

static int end(ct_comm_t *c, int ticket, ct_queue_t *q)
{
  int rc = CT_OK;
  (void)q; /* host memory: what is there when this returns is there for all later work */
  if (ticket < 0 || ticket >= CT_COMM_TICKETS || c->transfer[ticket].state == FREE)
    CT_FAIL(CT_ERR_ARG, "ticket %d is not open", ticket);
  CT_TRY(await(c, &c->transfer[ticket]));
  c->transfer[ticket].state = FREE;
  c->transfer[ticket].next = c->unused;
  c->unused = ticket;
out:
  return rc;
}

static int bcast(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root)
{
  int rc = CT_OK;
  CT_TRY_ALL(c->t, c->be->queue->sync(q));
  /* Not over c->world: pieces of open transfers go there when they can, at other times on each
   * rank, and calls on one MPI communicator must come in the same order everywhere. */
  if (c->t->size > 1) ct__mpi_bcast(c->t, c->t->world, buf, bytes, root);
out:
  return rc;
}

static void abort_comm(ct_comm_t *c)
{
  ct__window_abort(c->window);
  ct_mem_free(c);
}

static void close_comm(ct_comm_t *c)
{
  for (int i = 0; c && i < CT_COMM_TICKETS; i++)
    if (c->transfer[i].state != FREE) await(c, &c->transfer[i]);
  free_parts(c);
}

const ct_comm_ops_t ct_comm_mpi = {.size = sizeof(ct_comm_ops_t),
                                   .name = "mpi",
                                   .open = open_comm,
                                   .alloc = alloc,
                                   .reduce = reduce,
                                   .poke = poke,
                                   .end = end,
                                   .bcast = bcast,
                                   .abort = abort_comm,
                                   .close = close_comm};
