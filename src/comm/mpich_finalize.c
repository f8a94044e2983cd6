/* MPI_Finalize, with a workaround for a hang in it.
 *
 * MPICH before 4.2 on UCX can hang in MPI_Finalize if UCX uses TCP and there are more ranks than
 * cores. MPI_Finalize closes every connection with ucp_disconnect_nb(), which over TCP waits for
 * the peer to reply, and then blocks in the process manager's barrier, where it no longer replies.
 * A rank that starts the first part after its peer has reached the second waits forever. (MPICH
 * removed that barrier in 4.2: github.com/pmodels/mpich, pull request 6596.)
 *
 * The workaround is to not close connections individually. MPI_Finalize then proceeds directly to
 * its barrier, and destroys the whole UCX worker with its connections once all ranks are there. For
 * this the program defines its own ucp_disconnect_nb(), which the dynamic linker prefers to that of
 * libucp; NULL means "done" in UCX. The barrier before MPI_Finalize ensures that none of our
 * messages are in flight.
 *
 * Other MPI libraries, later MPICH versions, and MPICH without UCX never call it. */
#include "comm/ct_mpi.h"

#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40200000
void *ucp_disconnect_nb(void *endpoint);

__attribute__((visibility("default"), used)) void *ucp_disconnect_nb(void *endpoint)
{
  (void)endpoint;
  return NULL;
}
#endif

/* Is in this file, so that programs that finalize MPI link the function above. */
void ct_mpi_finalize(void)
{
  static const ct_topo_t unknown = {.world = MPI_COMM_NULL};
  ct_mpi_barrier(&unknown, MPI_COMM_WORLD);
  MPI_Finalize();
}
