/* Slices of the ranks, and their all-gather. */
#include "base/ct_mem.h"
#include "comm/host/comm_mpi.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

enum { UNIT = 16 }; /* elements per slice unit: a cache line of floats */

/* ---- slices ---- */

/* Assigns slices to ranks. With shared memory each local rank reduces one part of the buffer, and
 * the ranks of all nodes with the same local rank split that part. Without shared memory all ranks
 * split the whole buffer. */
int ct__comm_slice_open(ct_comm_t *c)
{
  int rc = CT_OK;
  const ct_topo_t *t = c->t;
  c->slice_number = ct_mem_array(t->size, sizeof *c->slice_number, "the slices of the ranks");
  c->request = ct_mem_array(t->size, sizeof *c->request, "messages of the ranks");
  c->counts[0] = ct_mem_array(2 * (int64_t)t->size, sizeof **c->counts, "slices of the ranks");
  c->spare_counts = c->counts[0] != NULL; /* more if several gathers are open */
  CT_TRY_ALL(t, c->slice_number && c->request && c->spare_counts ? CT_OK : CT_ERR_NOMEM);
  c->slice_number[t->rank] =
      ct__window_sharing(c->window) ? t->local_rank * t->nodes + t->node_index : t->rank;
  if (t->size > 1)
    CT_MPI(t, MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c->slice_number, 1, MPI_INT,
                            t->world));
out:
  return rc;
}

void ct__comm_slice(const ct_comm_t *c, int rank, int64_t n, int64_t *from, int64_t *to)
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

/* ---- gathers ---- */

/* Counts in units, so that any arena fits into MPI's int; the last unit, which may be partial, is
 * sent separately. */
void ct__comm_gather_begin(ct_comm_t *c, ct__comm_transfer_t *x, int64_t n, int size)
{
  const ct_topo_t *t = c->t;
  int owner = 0, *count = x->counts, *offset = count + t->size;
  MPI_Datatype unit;
  for (int r = 0; r < t->size; r++) {
    int64_t from, to;
    ct__comm_slice(c, r, n, &from, &to);
    if (to == n && from < to) owner = r;
    offset[r] = (int)(from / UNIT);
    count[r] = (int)((to - from) / UNIT);
  }
  CT_MPI(t, MPI_Type_contiguous(UNIT * size, MPI_BYTE, &unit));
  CT_MPI(t, MPI_Type_commit(&unit));
  CT_MPI(t, MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x->buf, count, offset, unit,
                            t->world, &x->gather[0]));
  CT_MPI(t, MPI_Type_free(&unit));
  CT_MPI(t, MPI_Ibcast((char *)x->buf + n / UNIT * UNIT * size, (int)(n % UNIT) * size, MPI_BYTE,
                       owner, t->world, &x->gather[1]));
  c->gathers++;
}

void ct__comm_gather_test(ct_comm_t *c, ct__comm_transfer_t *x)
{
  for (int i = 0, done; i < 2; i++) { /* a message that is complete is MPI_REQUEST_NULL */
    CT_MPI(c->t, MPI_Test(&x->gather[i], &done, MPI_STATUS_IGNORE));
    if (!done) return;
  }
  x->state = CT__TRANSFER_REDUCED;
  c->gathers--;
}
