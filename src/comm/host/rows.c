/* All-gather of slices, and scatter and gather between rank 0 and the others. */
#include <string.h>

#include "base/ct_mem.h"
#include "comm/host/comm_mpi.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum {
  UNIT = 16,               /* floats per slice unit: a cache line */
  BYTES_AT_ONCE = 1 << 30, /* MPI counts are ints */
  FLOATS_AT_ONCE = 1 << 28
};

/* ---- slices ---- */

/* Assigns slices to ranks. With shared memory each local rank reduces one part of the buffer, and
 * the ranks of all nodes with the same local rank split that part. Without shared memory all ranks
 * split the whole buffer. */
int ct__comm_slice_open(ct_comm_t *c)
{
  int rc = CT_OK;
  const ct_topo_t *t = c->t;
  c->slice_number =
      ct_mem_array(3 * (int64_t)t->size, sizeof *c->slice_number, "the slices of the ranks");
  c->request = ct_mem_array(t->size, sizeof *c->request, "messages of the ranks");
  CT_TRY_ALL(t, c->slice_number && c->request ? CT_OK : CT_ERR_NOMEM);
  c->count = c->slice_number + t->size;
  c->offset = c->count + t->size;
  c->slice_number[t->rank] =
      ct__window_sharing(c->window) ? t->local_rank * t->nodes + t->node_index : t->rank;
  if (t->size > 1)
    CT_MPI(t, MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c->slice_number, 1, MPI_INT,
                            t->world));
out:
  return rc;
}

static void slice_of(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to)
{
  int number = c->slice_number[rank];
  *from = 0;
  *to = n;
  if (ct__window_sharing(c->window)) {
    ct__window_cut(from, to, c->t->local_size, number / c->t->nodes);
    ct__window_cut(from, to, c->t->nodes, number % c->t->nodes);
  } else {
    ct__window_cut(from, to, c->t->size, number);
  }
}

void ct__comm_slice(const ct_comm_t *c, int64_t n, int64_t *from, int64_t *to)
{
  slice_of(c, c->t->rank, n, from, to);
}

/* Counts in units, so that any arena fits into MPI's int; the last unit, which may be partial, is
 * sent separately. */
int ct__comm_gather(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  int rc = CT_OK;
  const ct_topo_t *t = c->t;
  int owner = 0;
  MPI_Datatype unit;
  MPI_Request request;
  CT_TRY_ALL(t, c->be->queue->sync(q));
  if (t->size == 1) return CT_OK;
  for (int r = 0; r < t->size; r++) {
    int64_t from, to;
    slice_of(c, r, n, &from, &to);
    if (to == n && from < to) owner = r;
    c->offset[r] = (int)(from / UNIT);
    c->count[r] = (int)((to - from) / UNIT);
  }
  CT_MPI(t, MPI_Type_contiguous(UNIT, MPI_FLOAT, &unit));
  CT_MPI(t, MPI_Type_commit(&unit));
  CT_MPI(t, MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, buf, c->count, c->offset, unit,
                            t->world, &request));
  CT_MPI(t, MPI_Type_free(&unit));
  CT_TRY(ct__comm_wait(c, &request));
  CT_MPI(t,
         MPI_Ibcast(buf + n / UNIT * UNIT, (int)(n % UNIT), MPI_FLOAT, owner, t->world, &request));
  CT_TRY(ct__comm_wait(c, &request));
  ct__comm_count(c, n * (int64_t)sizeof *buf, t->size - 1, t->size);
out:
  return rc;
}

/* ---- rows ---- */

enum { ROW_TAG = 1 };

static int chunk_of(int64_t bytes, int64_t at)
{
  int64_t left = bytes > at ? bytes - at : 0;
  return left < BYTES_AT_ONCE ? (int)left : BYTES_AT_ONCE;
}

/* Rank 0: starts messages for bytes [at, ..) of each rank's row, up to MPI's limit. */
static void post_rows(ct_comm_t *c, char *all, const int64_t bytes[], int64_t at, int out)
{
  const ct_topo_t *t = c->t;
  int64_t row = bytes[0];
  c->request[0] = MPI_REQUEST_NULL;
  for (int r = 1; r < t->size; row += bytes[r++]) {
    char *p = all + row + at;
    int n = chunk_of(bytes[r], at);
    c->request[r] = MPI_REQUEST_NULL;
    if (!n) continue;
    if (out)
      CT_MPI(t, MPI_Isend(p, n, MPI_BYTE, r, ROW_TAG, t->world, &c->request[r]));
    else
      CT_MPI(t, MPI_Irecv(p, n, MPI_BYTE, r, ROW_TAG, t->world, &c->request[r]));
  }
}

/* Starts this rank's message of n bytes of its row, from or to rank 0. */
static void post_row(ct_comm_t *c, char *mine, int n, int out)
{
  const ct_topo_t *t = c->t;
  c->request[0] = MPI_REQUEST_NULL;
  if (!n) return;
  if (out)
    CT_MPI(t, MPI_Isend(mine, n, MPI_BYTE, 0, ROW_TAG, t->world, &c->request[0]));
  else
    CT_MPI(t, MPI_Irecv(mine, n, MPI_BYTE, 0, ROW_TAG, t->world, &c->request[0]));
}

/* Transfers all rows; rank 0 copies its own. */
static int rows_move_rows(ct_comm_t *c, ct_queue_t *q, char *all, char *mine, const int64_t bytes[],
                          int from_root)
{
  int rc = CT_OK;
  const ct_topo_t *t = c->t;
  int64_t longest = 0, others = 0;
  CT_TRY_ALL(t, c->be->queue->sync(q));
  for (int r = 1; r < t->size; r++) {
    others += bytes[r];
    if (bytes[r] > longest) longest = bytes[r];
  }
  if (t->rank == 0 && bytes[0])
    memcpy(from_root ? mine : all, from_root ? all : mine, (size_t)bytes[0]);
  for (int64_t at = 0; at < longest; at += BYTES_AT_ONCE) {
    int n = chunk_of(bytes[t->rank], at);
    if (t->rank == 0)
      post_rows(c, all, bytes, at, from_root);
    else
      post_row(c, n ? mine + at : NULL, n, !from_root); /* `mine` may be NULL if this rank has no
                                                           rows */
    for (int r = 0; r < (t->rank == 0 ? t->size : 1); r++)
      CT_TRY(ct__comm_wait(c, &c->request[r]));
  }
  if (from_root == (t->rank == 0)) c->sent += from_root ? others : bytes[t->rank];
out:
  return rc;
}

int ct__comm_scatter(ct_comm_t *c, ct_queue_t *q, const void *all, void *mine,
                     const int64_t bytes[])
{
  return rows_move_rows(c, q, (void *)all, mine, bytes, 1);
}

int ct__comm_collect(ct_comm_t *c, ct_queue_t *q, const void *mine, void *all,
                     const int64_t bytes[])
{
  return rows_move_rows(c, q, all, (void *)mine, bytes, 0);
}

int ct__comm_reduce_root(ct_comm_t *c, ct_queue_t *q, float *buf, int64_t n)
{
  int rc = CT_OK;
  const ct_topo_t *t = c->t;
  CT_TRY_ALL(t, c->be->queue->sync(q));
  for (int64_t at = 0; t->size > 1 && at < n; at += FLOATS_AT_ONCE) {
    int len = n - at < FLOATS_AT_ONCE ? (int)(n - at) : FLOATS_AT_ONCE;
    MPI_Request request;
    CT_MPI(t, MPI_Ireduce(t->rank ? buf + at : MPI_IN_PLACE, t->rank ? NULL : buf + at, len,
                          MPI_FLOAT, MPI_SUM, 0, t->world, &request));
    CT_TRY(ct__comm_wait(c, &request));
  }
  if (t->rank) c->sent += n * (int64_t)sizeof *buf;
out:
  return rc;
}
