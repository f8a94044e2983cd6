/* The communicator of host memory: transfers in flight, and who moves them.
 *
 * All transfers stand in one queue, in the order of the calls, which is the same on all ranks.
 * They are moved in pieces: a piece is summed inside the node (if it lies in shared memory),
 * then across nodes (between the ranks that have the same slice: by one MPI_Iallreduce, or by
 * an exchange of our own where the order or the type is not what MPI has), then given to the
 * others of the node.  Pieces of different transfers follow each other, a few at a time, so one
 * slow message does not stop the rest. Nothing moves but inside poke() and the calls that wait:
 * there is no thread. */
#include "comm/comm_mpi.h"

#include <string.h>

#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum { NONE = -1 };

typedef ct__transfer_t transfer_t;
typedef ct__piece_t piece_t;

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
  x->state = CT__REDUCED;
}

static void send_piece(ct_comm_t *c, int transfer, int64_t from, int64_t n)
{
  transfer_t *x = &c->transfer[transfer];
  piece_t *p = &c->piece[(c->oldest + c->in_flight++) % CT__IN_FLIGHT];
  MPI_Comm comm = x->shared ? c->rail[0] : c->world[0];
  p->transfer = transfer;
  p->from = from;
  p->n = n;
  p->turned = 0;
  if (p->exchange)
    ct__exchange_begin(p->exchange, comm, x->buf + from, n, &p->request);
  else
    CT_MPI(c->t, MPI_Iallreduce(MPI_IN_PLACE, x->buf + from, (int)n, MPI_FLOAT, MPI_SUM, comm,
                                &p->request));
}

/* The next piece of the first transfer that is not all begun.  0: not now.  An empty slice is a
 * piece too, of no elements: it keeps its place in the order. */
static int begin_piece(ct_comm_t *c)
{
  int transfer = c->first;
  if (transfer == NONE) return 0;
  transfer_t *x = &c->transfer[transfer];
  int crosses = crosses_nodes(c, x);
  if (crosses && c->in_flight == CT__IN_FLIGHT) return 0;
  if (x->shared && !ct__window_all_posted(c->window, x->number)) return 0;

  int64_t from = x->begun, n = x->end - from < CT__PIECE ? x->end - from : CT__PIECE;
  if (x->shared) ct__window_sum(c->window, x->place, from, n, !crosses && !x->slice_alone);
  x->begun += n;
  if (x->begun == x->end) c->first = x->next;
  if (crosses)
    send_piece(c, transfer, from, n);
  else
    land(c, x, n);
  return 1;
}

static int arrived(ct_comm_t *c, piece_t *p)
{
  int done;
  CT_MPI(c->t, MPI_Test(&p->request, &done, MPI_STATUS_IGNORE));
  return done;
}

/* Exchanges of which all has come in send the sums back, one after the other: the next one is
 * not looked at before. */
static void turn_pieces(ct_comm_t *c)
{
  for (int i = 0; i < c->in_flight; i++) {
    piece_t *p = &c->piece[(c->oldest + i) % CT__IN_FLIGHT];
    if (!p->exchange || p->turned) continue;
    if (!arrived(c, p)) return;
    MPI_Comm comm = c->transfer[p->transfer].shared ? c->rail[1] : c->world[1];
    ct__exchange_turn(p->exchange, comm, &p->request);
    p->turned = 1;
  }
}

/* The oldest message, if it has arrived. */
static int land_piece(ct_comm_t *c)
{
  if (!c->in_flight) return 0;
  turn_pieces(c);
  piece_t *p = &c->piece[c->oldest];
  if (p->exchange && !p->turned) return 0;
  if (!arrived(c, p)) return 0;
  if (p->exchange) ct__exchange_finish(p->exchange);
  c->oldest = (c->oldest + 1) % CT__IN_FLIGHT;
  c->in_flight--;
  transfer_t *x = &c->transfer[p->transfer];
  if (x->shared && !x->slice_alone) ct__window_spread(c->window, x->place, p->from, p->n);
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
  return x->state == CT__REDUCED && (!x->shared || ct__window_all_reduced(c->window, x->number));
}

/* While this rank waits in shared memory, a peer may wait for a message of an earlier MPI call
 * of ours that the library has only buffered: it is sent on when MPI is entered. */
static void enter_mpi(const ct_comm_t *c)
{
  int there;
  CT_MPI(c->t, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->world[0], &there, MPI_STATUS_IGNORE));
}

int ct__comm_turn(ct_comm_t *c, unsigned turn)
{
  enum { ENTER_MPI_EVERY = 64 };
  int rc = CT_OK;
  progress(c);
  if (ct__window_aborted(c->window))
    CT_FAIL(CT_ERR_COMM, "a rank on %s has given up in the middle of a transfer", c->t->host);
  if (c->t->size > 1 && turn % ENTER_MPI_EVERY == 0) enter_mpi(c);
  ct_mpi_relax(turn);
out:
  return rc;
}

int ct__comm_complete(ct_comm_t *c, int ticket)
{
  return complete(c, &c->transfer[ticket]);
}

int ct__comm_wait(ct_comm_t *c, MPI_Request *request)
{
  int rc = CT_OK, done;
  for (unsigned turn = 1;; turn++) {
    CT_MPI(c->t, MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return CT_OK;
    CT_TRY(ct__comm_turn(c, turn));
  }
out:
  return rc;
}

static int await(ct_comm_t *c, const transfer_t *x)
{
  int rc = CT_OK;
  for (unsigned turn = 1; progress(c), !complete(c, x); turn++)
    CT_TRY(ct__comm_turn(c, turn));
out:
  return rc;
}

void ct__comm_count(ct_comm_t *c, int64_t bytes, int share, int ranks)
{
  c->sent += bytes * share / ranks;
}

/* ---- the table ---- */

static void free_memory(ct_comm_t *c)
{
  for (int i = 0; i < CT__IN_FLIGHT; i++)
    ct__exchange_close(c->piece[i].exchange);
  ct_mem_free(c->place);
  ct_mem_free(c->request);
  ct_mem_free(c);
}

static void free_parts(ct_comm_t *c)
{
  if (!c) return;
  ct__comm_groups_free(c, 0);
  ct__window_close(c->window);
  MPI_Comm *comm[] = {&c->world[0], &c->world[1], &c->rail[0], &c->rail[1]};
  for (int i = 0; i < 4; i++)
    if (*comm[i] != MPI_COMM_NULL) MPI_Comm_free(comm[i]);
  free_memory(c);
}

static ct_comm_t *new_comm(const ct_topo_t *t, const ct_backend_t *be, const ct_comm_opts_t *o)
{
  ct_comm_t *c = ct_mem_alloc(sizeof *c, "the communicator");
  if (!c) return NULL;
  c->t = t;
  c->be = be;
  c->opts = *o;
  for (int i = 0; i < 2; i++)
    c->world[i] = c->rail[i] = MPI_COMM_NULL;
  c->first = c->last = NONE;
  for (int i = 0; i < CT_COMM_TICKETS; i++)
    c->transfer[i].next = i + 1 < CT_COMM_TICKETS ? i + 1 : NONE;
  return c;
}

static int check(const ct_topo_t *t, const ct_backend_t *be, const ct_comm_opts_t *o)
{
  int rc = CT_OK;
  if (!be->host_memory)
    CT_FAIL(CT_ERR_UNSUP, "backend '%s' keeps gradients where MPI cannot reach them", be->name);
  if (o->fixed_order && (t->size & (t->size - 1)))
    CT_FAIL(CT_ERR_USAGE, "sums along a binary tree over the ranks need 1, 2, 4, 8 … ranks, not %d",
            t->size);
  if (o->wire != CT_F32 && o->wire != CT_BF16)
    CT_FAIL(CT_ERR_UNSUP, "gradients cannot travel as %s; there are float32 and bfloat16",
            ct_dtype_name(o->wire));
  if (o->fixed_order && o->wire == CT_BF16)
    CT_FAIL(
        CT_ERR_USAGE,
        "gradients that travel as bfloat16 are rounded where they cross nodes, so their sum cannot "
        "be the same at every number of ranks");
out:
  return rc;
}

/* The ranks of each node are a branch of the tree over all: one that reduces in shared memory
 * first makes the same sums. */
static int nodes_are_branches(const ct_topo_t *t)
{
  int fits = t->equal_nodes && t->rank == t->node_index * t->local_size + t->local_rank;
  if (t->size > 1) ct_mpi_allreduce(t, t->world, &fits, 1, MPI_INT, MPI_MIN);
  return fits;
}

/* Inside a node nothing is rounded, so MPI can do it there. */
static int wants_exchange(const ct_comm_t *c)
{
  return c->t->size > 1 && (c->opts.fixed_order || (c->opts.wire == CT_BF16 && c->t->nodes > 1));
}

static int open_mpi(ct_comm_t *c)
{
  int rc = CT_OK;
  const ct_topo_t *t = c->t;
  int ways = wants_exchange(c) ? 2 : 1;
  for (int i = 0; i < ways && t->size > 1; i++) {
    CT_MPI(t, MPI_Comm_dup(t->world, &c->world[i]));
    CT_MPI(t, MPI_Comm_split(t->world, t->local_rank, t->node_index, &c->rail[i]));
  }
  for (int i = 0; i < CT__IN_FLIGHT && ways == 2; i++)
    CT_TRY(ct__exchange_open(t, c->opts.wire, CT__PIECE, &c->piece[i].exchange));
out:
  return rc;
}

static int open_comm(const ct_topo_t *t, const ct_backend_t *be, ct_dev_t *dev,
                     const ct_comm_opts_t *o, ct_comm_t **out)
{
  int rc = CT_OK;
  (void)dev;
  *out = NULL;
  ct_comm_t *c = new_comm(t, be, o);
  CT_TRY_ALL(t, c ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(t, check(t, be, o));
  CT_TRY_ALL(t, open_mpi(c));
  CT_TRY(ct__window_open(t, !o->fixed_order || nodes_are_branches(t), o->fixed_order, &c->window));
  CT_TRY(ct__comm_slice_open(c));
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

/* What the best of all algorithms makes each rank send. */
static void count_reduction(ct_comm_t *c, int64_t n, ct_reduce_t how)
{
  int ranks = c->t->size, half = c->opts.wire == CT_BF16 && c->t->nodes > 1;
  int64_t bytes = n * (int64_t)ct_dtype_size(half ? CT_BF16 : CT_F32);
  ct__comm_count(c, bytes, (how == CT_REDUCE_ALL ? 2 : 1) * (ranks - 1), ranks);
}

static int reduce(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                  int *ticket)
{
  int rc = CT_OK;
  *ticket = c->unused;
  if (c->unused == NONE)
    CT_FAIL(CT_ERR_ARG, "more than %d transfers are open at once", CT_COMM_TICKETS);
  transfer_t *x = &c->transfer[c->unused];
  c->unused = x->next;
  if (after)
    rc = c->be->queue->wait(after); /* even if it fails, the others count on this transfer */

  *x = (transfer_t){
      .state = CT__QUEUED, .buf = buf, .end = n, .slice_alone = how == CT_REDUCE_SLICE};
  x->shared = ct__window_find(c->window, buf, n, &x->place);
  if (x->shared) {
    ct__window_slice(c->window, n, &x->begun, &x->end);
    x->landed = x->begun;
    x->number = ct__window_post(c->window);
  }
  append(c, *ticket);
  count_reduction(c, n, how);
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
  if (ticket < 0 || ticket >= CT_COMM_TICKETS || c->transfer[ticket].state == CT__FREE)
    CT_FAIL(CT_ERR_ARG, "ticket %d is not open", ticket);
  CT_TRY(await(c, &c->transfer[ticket]));
  c->transfer[ticket].state = CT__FREE;
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
  if (c->t->size > 1) ct_mpi_bcast(c->t, c->t->world, buf, bytes, root);
  ct__comm_count(c, (int64_t)bytes, c->t->size - 1, c->t->size); /* all pass it on but the last */
out:
  return rc;
}

static void abort_comm(ct_comm_t *c)
{
  ct__comm_groups_free(c, 1);
  ct__window_abort(c->window);
  free_memory(c);
}

static void close_comm(ct_comm_t *c)
{
  for (int i = 0; c && i < CT_COMM_TICKETS; i++)
    if (c->transfer[i].state != CT__FREE) await(c, &c->transfer[i]);
  free_parts(c);
}

static int64_t bytes_sent(const ct_comm_t *c)
{
  return c->sent;
}

const ct_comm_ops_t ct_comm_mpi = {.size = sizeof(ct_comm_ops_t),
                                   .name = "mpi",
                                   .open = open_comm,
                                   .alloc = alloc,
                                   .reduce = reduce,
                                   .slice = ct__comm_slice,
                                   .gather = ct__comm_gather,
                                   .poke = poke,
                                   .end = end,
                                   .bcast = bcast,
                                   .group = ct__comm_group,
                                   .group_sum = ct__comm_group_sum,
                                   .scatter = ct__comm_scatter,
                                   .collect = ct__comm_collect,
                                   .reduce_root = ct__comm_reduce_root,
                                   .bytes_sent = bytes_sent,
                                   .abort = abort_comm,
                                   .close = close_comm};
