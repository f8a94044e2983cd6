/* Scatter and gather between rank 0 and the others. */
#include <string.h>

#include "base/ct_mem.h"
#include "comm/host/comm_mpi.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum {
  BYTES_AT_ONCE = 1 << 30, /* MPI counts are ints */
  FLOATS_AT_ONCE = 1 << 28
};

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
