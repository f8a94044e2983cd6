/* The host-memory communicator: creation and table of operations. transfers.c makes progress
 * on transfers; group.c and rows.c implement other entries. */
#include "comm/host/comm_mpi.h"

#include "base/ct_mem.h"
#include "base/ct_trace.h"
#include "comm/ct_agree.h"
#include "comm/ct_comm_model.h"
#include "comm/ct_mpi.h"

/* ---- creation and destruction ---- */

static void free_memory(ct_comm_t *c)
{
  for (int i = 0; i < CT__COMM_IN_FLIGHT; i++)
    ct__exchange_close(c->chunk[i].exchange);
  ct_mem_free(c->slice_number);
  ct_mem_free(c->request);
  for (int i = 0; i < CT_COMM_TICKETS; i++) {
    ct_mem_free(c->transfer[i].counts);
    if (i < c->spare_counts) ct_mem_free(c->counts[i]);
  }
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
  c->first = c->last = CT__COMM_NONE;
  for (int i = 0; i < CT_COMM_TICKETS; i++)
    c->transfer[i].next = i + 1 < CT_COMM_TICKETS ? i + 1 : CT__COMM_NONE;
  return c;
}

static int mpi_check(const ct_topo_t *t, const ct_backend_t *be, const ct_comm_opts_t *o)
{
  int rc = CT_OK;
  if (!be->host_memory)
    CT_FAIL(CT_ERR_UNSUP, "MPI cannot access the gradients of backend '%s'", be->name);
  if (o->fixed_order && (t->size & (t->size - 1)))
    CT_FAIL(CT_ERR_USAGE, "sums along a binary tree over the ranks need 1, 2, 4, 8 … ranks, not %d",
            t->size);
  if (o->wire != CT_F32 && o->wire != CT_BF16)
    CT_FAIL(CT_ERR_UNSUP, "gradients cannot be sent as %s; expected float32 or bfloat16",
            ct_dtype_name(o->wire));
  if (o->fixed_order && o->wire == CT_BF16)
    CT_FAIL(CT_ERR_USAGE, "gradients sent as bfloat16 are rounded between nodes, so their sum "
                          "cannot be the same at every number of ranks");
  if (o->flat && o->wire == CT_BF16)
    CT_FAIL(CT_ERR_USAGE, "gradients sent as bfloat16 between nodes are summed inside nodes first: "
                          "parallel.allreduce must be hierarchical");
out:
  return rc;
}

/* Returns 1 if the ranks of each node form a subtree of the tree over all ranks, so that reducing
 * in shared memory first gives the same sums. */
static int nodes_are_branches(const ct_topo_t *t)
{
  int fits = t->equal_nodes && t->rank == t->node_index * t->local_size + t->local_rank;
  if (t->size > 1) ct_mpi_allreduce(t, t->world, &fits, 1, MPI_INT, MPI_MIN);
  return fits;
}

/* Returns 1 if MPI's reductions cannot be used: MPI supports neither a fixed order nor rounding
 * between nodes. Inside a node nothing is rounded. */
static int must_exchange(const ct_comm_t *c)
{
  return c->t->size > 1 && (c->opts.fixed_order || (c->opts.wire == CT_BF16 && c->t->nodes > 1));
}

/* Returns 1 if our exchange is faster than MPI, which folds numbers of ranks that are not a power
 * of two. */
static int may_exchange(const ct_comm_t *c)
{
  const int64_t most = CT__COMM_CHUNK * (int64_t)sizeof(float);
  return c->t->nodes > 1 && (ct_comm_algorithm(c->t->nodes, most) == CT_COMM_EXCHANGE ||
                             ct_comm_algorithm(c->t->size, most) == CT_COMM_EXCHANGE);
}

static int open_mpi(ct_comm_t *c)
{
  int rc = CT_OK;
  const ct_topo_t *t = c->t;
  c->exchange_all = must_exchange(c);
  int ways = c->exchange_all || may_exchange(c) ? 2 : 1;
  for (int i = 0; i < ways && t->size > 1; i++) {
    CT_MPI(t, MPI_Comm_dup(t->world, &c->world[i]));
    CT_MPI(t, MPI_Comm_split(t->world, t->local_rank, t->node_index, &c->rail[i]));
  }
  for (int i = 0; i < CT__COMM_IN_FLIGHT && ways == 2; i++)
    CT_TRY(ct__exchange_open(t, c->opts.wire, CT__COMM_CHUNK, &c->chunk[i].exchange));
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
  CT_TRY_ALL(t, mpi_check(t, be, o));
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

/* Counts the bytes that the best algorithm makes each rank send. */
static void count_reduction(ct_comm_t *c, int64_t n, ct_reduce_t how)
{
  int ranks = c->t->size, half = c->opts.wire == CT_BF16 && c->t->nodes > 1;
  half = how == CT_GATHER_HALF || (how < CT_GATHER && half);
  int64_t bytes = n * (int64_t)ct_dtype_size(half ? CT_BF16 : CT_F32);
  ct__comm_count(c, bytes, (how == CT_REDUCE_ALL ? 2 : 1) * (ranks - 1), ranks);
}

/* A rank without memory ends the run: the others wait for it. */
static void start_gather(ct_comm_t *c, ct__comm_transfer_t *x, int64_t n, int size)
{
  if (c->t->size == 1) {
    x->state = CT__TRANSFER_REDUCED;
    return;
  }
  if (c->spare_counts)
    x->counts = c->counts[--c->spare_counts];
  else
    x->counts = ct_mem_array(2 * (int64_t)c->t->size, sizeof *x->counts, "slices of the ranks");
  if (!x->counts) ct_panic(c->t, "%s", ct_err_last()->text);
  x->state = CT__TRANSFER_GATHERING;
  ct__comm_gather_begin(c, x, n, size);
}

static int mpi_reduce(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                      int *ticket)
{
  int rc = CT_OK;
  *ticket = c->unused;
  if (c->unused == CT__COMM_NONE)
    CT_FAIL(CT_ERR_ARG, "more than %d transfers are open at once", CT_COMM_TICKETS);
  ct__comm_transfer_t *x = &c->transfer[c->unused];
  c->unused = x->next;
  if (after)
    rc = c->be->queue->wait(after); /* continue on error: the other ranks wait for this transfer */

  *x = (ct__comm_transfer_t){.state = CT__TRANSFER_QUEUED,
                             .buf = buf,
                             .end = n,
                             .posted_s = ct_trace_now(),
                             .slice_alone = how == CT_REDUCE_SLICE};
  if (how >= CT_GATHER) {
    start_gather(c, x, n, how == CT_GATHER ? 4 : 2);
    count_reduction(c, n, how);
    goto out;
  }
  x->shared = !c->opts.flat && ct__window_find(c->window, buf, n, &x->location);
  if (x->shared) {
    ct__window_slice(c->window, n, &x->begun, &x->end);
    x->landed = x->begun;
    x->number = ct__window_post(c->window);
  }
  ct__comm_append(c, *ticket);
  count_reduction(c, n, how);
  ct__comm_progress(c);
out:
  return rc;
}

static int mpi_progress(ct_comm_t *c)
{
  ct__comm_progress(c);
  return CT_OK;
}

static int mpi_end(ct_comm_t *c, int ticket, ct_queue_t *q)
{
  int rc = CT_OK;
  (void)q; /* in host memory the result is visible to all later work on return */
  if (ticket < 0 || ticket >= CT_COMM_TICKETS || c->transfer[ticket].state == CT__TRANSFER_FREE)
    CT_FAIL(CT_ERR_ARG, "ticket %d is not open", ticket);
  CT_TRY(ct__comm_await(c, ticket));
  ct__comm_transfer_t *x = &c->transfer[ticket];
  if (x->counts) c->counts[c->spare_counts++] = x->counts;
  x->counts = NULL;
  x->state = CT__TRANSFER_FREE;
  x->next = c->unused;
  c->unused = ticket;
out:
  return rc;
}

static int mpi_gather(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  int rc = CT_OK, ticket;
  CT_TRY_ALL(c->t, c->be->queue->sync(q));
  CT_TRY(mpi_reduce(c, NULL, buf, n, CT_GATHER, &ticket));
  CT_TRY(mpi_end(c, ticket, q));
out:
  return rc;
}

static int bcast(ct_comm_t *c, ct_queue_t *q, void *buf, size_t bytes, int root)
{
  int rc = CT_OK;
  CT_TRY_ALL(c->t, c->be->queue->sync(q));
  /* Not over c->world: chunks of open transfers are started there at different times on each rank,
   * and calls on one MPI communicator must have the same order on all ranks. */
  if (c->t->size > 1) ct_mpi_bcast(c->t, c->t->world, buf, bytes, root);
  ct__comm_count(c, (int64_t)bytes, c->t->size - 1, c->t->size); /* every rank but the last forwards
                                                                    the data */
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
    if (c->transfer[i].state != CT__TRANSFER_FREE) ct__comm_await(c, i);
  free_parts(c);
}

void ct__comm_waited(ct_comm_t *c, int of, double *transfers, double *groups)
{
  (void)c;
  (void)of;
  *transfers = *groups = 0;
}

static int64_t bytes_sent(const ct_comm_t *c)
{
  return c->sent;
}

const ct_comm_ops_t ct_comm_mpi = {.size = sizeof(ct_comm_ops_t),
                                   .name = "mpi",
                                   .gathers_ahead = 1,
                                   .open = open_comm,
                                   .alloc = alloc,
                                   .reduce = mpi_reduce,
                                   .slice = ct__comm_slice,
                                   .gather = mpi_gather,
                                   .progress = mpi_progress,
                                   .end = mpi_end,
                                   .bcast = bcast,
                                   .group = ct__comm_group,
                                   .group_sum = ct__comm_group_sum,
                                   .scatter = ct__comm_scatter,
                                   .collect = ct__comm_collect,
                                   .reduce_root = ct__comm_reduce_root,
                                   .bytes_sent = bytes_sent,
                                   .waited = ct__comm_waited,
                                   .abort = abort_comm,
                                   .close = close_comm};
