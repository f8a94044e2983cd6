/* The end of MPI, and the cure for a hang in it.
 *
 * MPICH before 4.2 on UCX can hang in MPI_Finalize when UCX talks TCP and ranks outnumber cores.
 * There MPI_Finalize closes every connection with ucp_disconnect_nb(), which over TCP waits for
 * the peer to answer, and then blocks in the process manager's barrier, where it answers nobody.
 * A rank that begins the first part after its peer has reached the second waits for ever.
 * (MPICH took that barrier out in 4.2: github.com/pmodels/mpich, pull request 6596.)
 *
 * The cure is to close nothing one by one.  MPI_Finalize then goes straight on to its barrier,
 * and destroys the whole UCX worker with its connections once every rank is there.  For that the
 * program has its own ucp_disconnect_nb(), which the dynamic linker prefers to that of libucp;
 * NULL is UCX's "done".  The barrier before MPI_Finalize sees to it that nothing we sent is
 * still on its way.
 *
 * Other MPI libraries, later MPICH, and MPICH without UCX never call it. */
#include "comm/ct_mpi.h"

#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
void *ucp_disconnect_nb(void *endpoint);

__attribute__((visibility("default"), used)) void *ucp_disconnect_nb(void *endpoint)
{
  (void)endpoint;
  return NULL;
}
#endif

/* Here, so that whoever ends MPI has the function above linked in. */
void ct_mpi_finalize(void)
{
  static const ct_topo_t unknown = {.world = MPI_COMM_NULL};
  ct_mpi_barrier(&unknown, MPI_COMM_WORLD);
  MPI_Finalize();
}
