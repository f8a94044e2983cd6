#include "comm/mpi_wait.h"

#include "comm/ct_agree.h"

enum { BCAST_PIECE = 1 << 30 }; /* MPI counts in int */

void ct__mpi_wait(const ct_topo_t *t, MPI_Request *request)
{
  int done = 0;
  for (unsigned turn = 0;; turn++) {
    CT_MPI(t, MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return;
    ct__relax(turn);
  }
}

void ct__mpi_allreduce(const ct_topo_t *t, MPI_Comm comm, void *io, int count, MPI_Datatype type,
                       MPI_Op op)
{
  MPI_Request request;
  CT_MPI(t, MPI_Iallreduce(MPI_IN_PLACE, io, count, type, op, comm, &request));
  ct__mpi_wait(t, &request);
}

void ct__mpi_bcast(const ct_topo_t *t, MPI_Comm comm, void *data, size_t bytes, int root)
{
  for (size_t at = 0; at < bytes; at += BCAST_PIECE) {
    size_t n = bytes - at < BCAST_PIECE ? bytes - at : BCAST_PIECE;
    MPI_Request request;
    CT_MPI(t, MPI_Ibcast((char *)data + at, (int)n, MPI_BYTE, root, comm, &request));
    ct__mpi_wait(t, &request);
  }
}

void ct__mpi_barrier(const ct_topo_t *t, MPI_Comm comm)
{
  MPI_Request request;
  CT_MPI(t, MPI_Ibarrier(comm, &request));
  ct__mpi_wait(t, &request);
}
