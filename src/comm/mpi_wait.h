/** \file mpi_wait.h  MPI calls that give the core away while they wait.  Internal to comm.
 *
 * MPI libraries wait by polling and never sleep.  With more ranks than cores a blocking call
 * then burns whole time slices that the others need: with 8 ranks on 2 cores a small all-reduce
 * took 26 ms, and 3 ms in the form used here.  With a core for each rank the two take the same
 * time within 1 us.
 *
 * All are collective over the communicator they are given, and panic if MPI fails.  \a t is for
 * the last words only. */
#ifndef CT_COMM_MPI_WAIT_H
#define CT_COMM_MPI_WAIT_H
#include <sched.h>
#include <stddef.h>

#include "comm/ct_topo.h"

/** One turn of a loop that waits: a short pause at first, later the core goes to who wants it. */
static inline void ct__relax(unsigned turn)
{
  enum { PAUSES = 100 }; /* a few us: what a peer that runs at the same time needs */
  if (turn >= PAUSES) {
    sched_yield();
    return;
  }
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/** Waits for one request. */
void ct__mpi_wait(const ct_topo_t *t, MPI_Request *request);
/** In place. */
void ct__mpi_allreduce(const ct_topo_t *t, MPI_Comm comm, void *io, int count, MPI_Datatype type,
                       MPI_Op op);
/** Any number of bytes. */
void ct__mpi_bcast(const ct_topo_t *t, MPI_Comm comm, void *data, size_t bytes, int root);
void ct__mpi_barrier(const ct_topo_t *t, MPI_Comm comm);
/** Barrier and MPI_Finalize; see mpich_finalize.c. */
void ct__mpi_finalize(void);

#endif
