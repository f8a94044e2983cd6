/** \file ct_mpi.h  MPI calls that end the job on failure, and waits that yield the core. Layer 1.
 *
 * MPI libraries wait by polling and never sleep. With more ranks than cores a blocking call then
 * burns whole time slices that other ranks need: with 8 ranks on 2 cores a small all-reduce took 26
 * ms, and 3 ms with the waits used here. With one core per rank both take the same time within 1
 * us. A rank that waits for one that reads a file or makes a plan even sleeps, and leaves it the
 * cores.
 *
 * The functions that wait are collective over the given communicator, and panic if MPI fails. \a t
 * is only used for the final message. */
#ifndef CT_MPI_H
#define CT_MPI_H
#include <stddef.h>

#include "comm/ct_topo.h"

/** Local, does not return: sends a final message to the log and to the other ranks, then calls
 * MPI_Abort with exit status 1. For MPI failures. \a t may be NULL. */
_Noreturn void ct_panic(const ct_topo_t *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/** Panics with MPI's error text if an MPI call on \a t fails. */
#define CT_MPI(t, call)                                            \
  do {                                                             \
    int mpi_rc_ = (call);                                          \
    if (mpi_rc_ != MPI_SUCCESS) ct_mpi_panic((t), #call, mpi_rc_); \
  } while (0)
_Noreturn void ct_mpi_panic(const ct_topo_t *t, const char *call, int mpi_rc);

/** Hooks of the watch, which knows more about the other ranks than MPI does. */
typedef struct ct_panic_hook {
  /** MPI failed here, maybe because another rank died: gives other ranks time to report it and to
   * end this process. */
  void (*await_cause)(void);
  /** This rank is about to end with its own message: the other ranks shall end without one. */
  void (*farewell)(void);
} ct_panic_hook_t;
/** Local, any thread. Sets the hooks that ct_panic() calls; borrowed. NULL: none. */
void ct_panic_set_hook(const ct_panic_hook_t *hook);

/** Local, any thread. naps 1: every wait, patient or not, sleeps from its first iteration on; 0:
 * the default as described below. */
void ct_mpi_set_naps(int naps);

enum {
  CT_MPI_IMPATIENT, /**< for messages that are already on their way */
  CT_MPI_PATIENT    /**< for a message whose sender may still be doing other work */
};

/** Runs one backoff iteration of a wait loop; \a turn counts the iterations, from 0 or 1. The first
 * iterations pause briefly, later ones yield the core. Patient waits sleep after 1 s; sleeping
 * delays them by at most 1/64 of the wait, and by at most 2 ms. */
void ct_mpi_relax(unsigned turn, int patient);

/** Waits for one request, as a patient wait. */
void ct_mpi_wait(const ct_topo_t *t, MPI_Request *request);
/** Calls MPI_Allreduce in place and waits for it. */
void ct_mpi_allreduce(const ct_topo_t *t, MPI_Comm comm, void *io, int count, MPI_Datatype type,
                      MPI_Op op);
/** Broadcasts any number of bytes as MPI_Bcast does. */
void ct_mpi_bcast(const ct_topo_t *t, MPI_Comm comm, void *data, size_t bytes, int root);
void ct_mpi_barrier(const ct_topo_t *t, MPI_Comm comm);
/** Calls a barrier, then MPI_Finalize; see mpich_finalize.c. */
void ct_mpi_finalize(void);

#endif
