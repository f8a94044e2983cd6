/* Progress of transfers in host memory.
 *
 * All transfers are in one queue, in call order, which is identical on all ranks. They are
 * processed in chunks: a chunk is summed inside the node (if it is in shared memory), then across
 * nodes (between the ranks with the same slice: by one MPI_Iallreduce, or by our own exchange if
 * MPI does not support the order or type, or is slow), then copied to the other ranks of the node.
 * Chunks of successive transfers are pipelined, a few at a time, so that one slow message does not
 * stop the rest. No thread runs in the background: progress is made only inside progress() and
 * blocking calls. */
#include "comm/host/comm_mpi.h"

#include "base/ct_trace.h"

#include "comm/ct_agree.h"
#include "comm/ct_comm_model.h"
#include "comm/ct_mpi.h"

/* ---- the queue ---- */

void ct__comm_append(ct_comm_t *c, int transfer)
{
  c->transfer[transfer].next = CT__COMM_NONE;
  if (c->first == CT__COMM_NONE)
    c->first = transfer;
  else
    c->transfer[c->last].next = transfer;
  c->last = transfer;
}

/* ---- progress ---- */

static int crosses_nodes(const ct_comm_t *c, const ct__comm_transfer_t *x)
{
  return c->t->size > 1 && !(x->shared && c->t->nodes == 1);
}

/* n more elements are final, here and on the other ranks of the node. */
static void land(ct_comm_t *c, ct__comm_transfer_t *x, int64_t n)
{
  x->landed += n;
  if (x->begun < x->end || x->landed < x->begun) return;
  if (x->shared) ct__window_reduced(c->window);
  x->state = CT__TRANSFER_REDUCED;
  ct_trace_flight("gradients", x - c->transfer, x->posted_s);
}

/* Identical on all ranks that share the chunk. */
static int wants_exchange(const ct_comm_t *c, int ranks, int64_t n)
{
  return c->exchange_all ||
         (c->chunk[0].exchange &&
          ct_comm_algorithm(ranks, n * (int64_t)sizeof(float)) == CT_COMM_EXCHANGE);
}

static void send_chunk(ct_comm_t *c, int transfer, int64_t from, int64_t n)
{
  ct__comm_transfer_t *x = &c->transfer[transfer];
  ct__comm_chunk_t *p = &c->chunk[(c->oldest + c->in_flight++) % CT__COMM_IN_FLIGHT];
  MPI_Comm comm = x->shared ? c->rail[0] : c->world[0];
  p->transfer = transfer;
  p->from = from;
  p->n = n;
  p->turned = 0;
  p->exchanged = wants_exchange(c, x->shared ? c->t->nodes : c->t->size, n);
  if (p->exchanged)
    ct__exchange_begin(p->exchange, comm, x->buf + from, n, &p->request);
  else
    CT_MPI(c->t, MPI_Iallreduce(MPI_IN_PLACE, x->buf + from, (int)n, MPI_FLOAT, MPI_SUM, comm,
                                &p->request));
}

/* Starts the next chunk of the first unfinished transfer. 0: not possible now. An empty slice also
 * is a chunk, of no elements, to keep the order. */
static int begin_chunk(ct_comm_t *c)
{
  int transfer = c->first;
  if (transfer == CT__COMM_NONE) return 0;
  ct__comm_transfer_t *x = &c->transfer[transfer];
  int crosses = crosses_nodes(c, x);
  if (crosses && c->in_flight == CT__COMM_IN_FLIGHT) return 0;
  if (x->shared && !ct__window_all_posted(c->window, x->number)) return 0;

  int64_t from = x->begun, n = x->end - from < CT__COMM_CHUNK ? x->end - from : CT__COMM_CHUNK;
  if (x->shared) ct__window_sum(c->window, x->location, from, n, !crosses && !x->slice_alone);
  x->begun += n;
  if (x->begun == x->end) c->first = x->next;
  if (crosses)
    send_chunk(c, transfer, from, n);
  else
    land(c, x, n);
  return 1;
}

static int arrived(ct_comm_t *c, ct__comm_chunk_t *p)
{
  int done;
  CT_MPI(c->t, MPI_Test(&p->request, &done, MPI_STATUS_IGNORE));
  return done;
}

/* Starts the second phase of exchanges whose first phase is complete, strictly in order. */
static void turn_chunks(ct_comm_t *c)
{
  for (int i = 0; i < c->in_flight; i++) {
    ct__comm_chunk_t *p = &c->chunk[(c->oldest + i) % CT__COMM_IN_FLIGHT];
    if (!p->exchanged || p->turned) continue;
    if (!arrived(c, p)) return;
    MPI_Comm comm = c->transfer[p->transfer].shared ? c->rail[1] : c->world[1];
    ct__exchange_turn(p->exchange, comm, &p->request);
    p->turned = 1;
  }
}

/* Completes the oldest chunk if its message has arrived. */
static int land_chunk(ct_comm_t *c)
{
  if (!c->in_flight) return 0;
  turn_chunks(c);
  ct__comm_chunk_t *p = &c->chunk[c->oldest];
  if (p->exchanged && !p->turned) return 0;
  if (!arrived(c, p)) return 0;
  if (p->exchanged) ct__exchange_finish(p->exchange);
  c->oldest = (c->oldest + 1) % CT__COMM_IN_FLIGHT;
  c->in_flight--;
  ct__comm_transfer_t *x = &c->transfer[p->transfer];
  if (x->shared && !x->slice_alone) ct__window_spread(c->window, x->location, p->from, p->n);
  land(c, x, p->n);
  return 1;
}

void ct__comm_progress(ct_comm_t *c)
{
  while (land_chunk(c))
    ;
  while (begin_chunk(c))
    ;
  for (int i = 0; c->gathers && i < CT_COMM_TICKETS; i++) /* all are tested in one MPI call */
    if (c->transfer[i].state == CT__TRANSFER_GATHERING) {
      ct__comm_gather_test(c, &c->transfer[i]);
      break;
    }
}

static int complete(ct_comm_t *c, ct__comm_transfer_t *x)
{
  if (x->state == CT__TRANSFER_GATHERING) ct__comm_gather_test(c, x);
  return x->state == CT__TRANSFER_REDUCED &&
         (!x->shared || ct__window_all_reduced(c->window, x->number));
}

/* While this rank waits in shared memory, a peer may wait for a message of an earlier MPI call of
 * this rank that the MPI library has only buffered; entering MPI sends it. */
static void enter_mpi(const ct_comm_t *c)
{
  int there;
  CT_MPI(c->t, MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->world[0], &there, MPI_STATUS_IGNORE));
}

int ct__comm_turn(ct_comm_t *c, unsigned turn)
{
  enum { ENTER_MPI_EVERY = 64 };
  int rc = CT_OK;
  ct__comm_progress(c);
  if (ct__window_aborted(c->window))
    CT_FAIL(CT_ERR_COMM, "a rank on %s aborted during a transfer", c->t->host);
  if (c->t->size > 1 && turn % ENTER_MPI_EVERY == 0) enter_mpi(c);
  ct_mpi_relax(turn, CT_MPI_IMPATIENT);
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

int ct__comm_await(ct_comm_t *c, int ticket)
{
  int rc = CT_OK;
  ct__comm_transfer_t *x = &c->transfer[ticket];
  for (unsigned turn = 1; ct__comm_progress(c), !complete(c, x); turn++)
    CT_TRY(ct__comm_turn(c, turn));
out:
  return rc;
}

void ct__comm_count(ct_comm_t *c, int64_t bytes, int share, int ranks)
{
  c->sent += bytes * share / ranks;
}
