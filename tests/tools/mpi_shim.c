/* An MPI library for tests, to be preloaded: in the moment in which MPI_Init_thread() is done, the
 * process gets the signal $MPI_SHIM_SIGNAL; with $MPI_SHIM_STUCK MPI_Finalize() never comes to an
 * end. */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
  const char *sig = getenv("MPI_SHIM_SIGNAL");
  int rc = PMPI_Init_thread(argc, argv, required, provided);
  if (sig) kill(getpid(), atoi(sig));
  return rc;
}

int MPI_Finalize(void)
{
  while (getenv("MPI_SHIM_STUCK"))
    pause();
  return PMPI_Finalize();
}
