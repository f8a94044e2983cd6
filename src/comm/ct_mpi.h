/** \file ct_mpi.h  MPI calls: what fails ends the job, and what waits gives its core away. Layer 1.
 *
 * MPI libraries wait by polling and never sleep.  With more ranks than cores a blocking call
 * then burns whole time slices that the others need: with 8 ranks on 2 cores a small all-reduce
 * took 26 ms, and 3 ms in the form used here.  With a core for each rank the two take the same
 * time within 1 us.  Who waits for a rank that reads a file or makes a plan even sleeps, and leaves
 * the cores to it.
 *
 * Those that wait are collective over the communicator they are given, and panic if MPI fails.  \a
 * t is for the last words only. */
#ifndef CT_MPI_H
#define CT_MPI_H
#include <stddef.h>

#include "comm/ct_topo.h"

/** Local, does not return: last words to the log and to the other ranks, MPI_Abort with exit status
 * 1.  For a dead MPI.  \a t may be NULL. */
_Noreturn void ct_panic(const ct_topo_t *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** Panics with MPI's own text if an MPI call on \a t failed. */
#define CT_MPI(t, call)                                            \
  do {                                                             \
    int mpi_rc_ = (call);                                          \
    if (mpi_rc_ != MPI_SUCCESS) ct_mpi_panic((t), #call, mpi_rc_); \
  } while (0)
_Noreturn void ct_mpi_panic(const ct_topo_t *t, const char *call, int mpi_rc);

/** Who knows more about the other ranks than MPI does. */
typedef struct ct_panic_hook {
  /** MPI has failed here, maybe because another rank has died: gives others the time to say so, and
   * to end this process. */
  void (*await_cause)(void);
  /** This rank is about to end with a message of its own: the others are to end without one. */
  void (*farewell)(void);
} ct_panic_hook_t;
/** Local, any thread.  From now on ct_panic() calls these; borrowed.  NULL: none any more. */
void ct_panic_tell(const ct_panic_hook_t *hook);

/** Local, any thread.  From now on who waits sleeps, patient or not, and not only after a
 * second; 0: as below. */
void ct_mpi_set_naps(int naps);

enum {
  CT_MPI_IMPATIENT, /**< for messages that are under way */
  CT_MPI_PATIENT    /**< for what a rank does before it sends something */
};

/** One turn, counted from 0 or 1, of a loop that waits: a short pause at first, then the core goes
 * to who wants it.  After a second who is patient sleeps; the wait may become longer by a 64th, and
 * by 2 ms at most. */
void ct_mpi_relax(unsigned turn, int patient);

/** Waits for one request, patiently. */
void ct_mpi_wait(const ct_topo_t *t, MPI_Request *request);
/** In place. */
void ct_mpi_allreduce(const ct_topo_t *t, MPI_Comm comm, void *io, int count, MPI_Datatype type,
                      MPI_Op op);
/** Any number of bytes. */
void ct_mpi_bcast(const ct_topo_t *t, MPI_Comm comm, void *data, size_t bytes, int root);
void ct_mpi_barrier(const ct_topo_t *t, MPI_Comm comm);
/** Barrier and MPI_Finalize; see mpich_finalize.c. */
void ct_mpi_finalize(void);

#endif
