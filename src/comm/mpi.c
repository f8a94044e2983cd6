/* Common handling of MPI calls: ending the job on failure, and waiting. */
#include "comm/ct_mpi.h"

#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/ct_clock.h"
#include "base/ct_log.h"

/* ---- panic ---- */

static const ct_panic_hook_t *_Atomic hook;

void ct_panic_set_hook(const ct_panic_hook_t *h)
{
  atomic_store(&hook, h);
}

void ct_panic(const ct_topo_t *t, const char *fmt, ...)
{
  char text[1024];
  int inside = 0, after = 0;
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  ct_log_all(CT_LOG_ERROR, "%s%s%s: unrecoverable error, aborting", t ? t->host : "",
             t && t->host[0] ? ": " : "", text);
  const ct_panic_hook_t *h = atomic_load(&hook);
  if (h) h->farewell();
  MPI_Initialized(&inside);
  MPI_Finalized(&after);
  if (inside && !after) MPI_Abort(MPI_COMM_WORLD, 1);
  _Exit(1);
}

void ct_mpi_panic(const ct_topo_t *t, const char *call, int mpi_rc)
{
  char text[MPI_MAX_ERROR_STRING] = "";
  int len = 0;
  const ct_panic_hook_t *h = atomic_load(&hook);
  if (h) h->await_cause();
  MPI_Error_string(mpi_rc, text, &len);
  ct_panic(t, "MPI failed in %s: %s", call, text);
}

/* ---- waiting ---- */

static _Atomic int naps;

void ct_mpi_set_naps(int on)
{
  naps = on;
}

void ct_mpi_relax(unsigned turn, int patient)
{
  enum { PAUSES = 100 }; /* a few us: the typical delay of a peer that is running */
  static const double patience = 1, share = 1.0 / 64, shortest = 50e-6;
  static _Thread_local double begin;
  if (turn < PAUSES) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* `yield` has no effect on processors with one thread per core */
#endif
    return;
  }
  if (turn == PAUSES) begin = ct_clock();
  double waited = ct_clock() - begin;
  if (naps || (patient && waited > patience)) {
    double nap = fmin(fmax(share * waited, shortest), patient ? 2e-3 : 0.5e-3);
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * nap)}, NULL);
  } else {
    sched_yield();
  }
}

enum { BCAST_PIECE = 1 << 30 }; /* MPI counts are ints */

void ct_mpi_wait(const ct_topo_t *t, MPI_Request *request)
{
  int done = 0;
  for (unsigned turn = 0;; turn++) {
    CT_MPI(t, MPI_Test(request, &done, MPI_STATUS_IGNORE));
    if (done) return;
    ct_mpi_relax(turn, CT_MPI_PATIENT);
  }
}

void ct_mpi_allreduce(const ct_topo_t *t, MPI_Comm comm, void *io, int count, MPI_Datatype type,
                      MPI_Op op)
{
  MPI_Request request;
  CT_MPI(t, MPI_Iallreduce(MPI_IN_PLACE, io, count, type, op, comm, &request));
  ct_mpi_wait(t, &request);
}

void ct_mpi_bcast(const ct_topo_t *t, MPI_Comm comm, void *data, size_t bytes, int root)
{
  for (size_t at = 0; at < bytes; at += BCAST_PIECE) {
    size_t n = bytes - at < BCAST_PIECE ? bytes - at : BCAST_PIECE;
    MPI_Request request;
    CT_MPI(t, MPI_Ibcast((char *)data + at, (int)n, MPI_BYTE, root, comm, &request));
    ct_mpi_wait(t, &request);
  }
}

void ct_mpi_barrier(const ct_topo_t *t, MPI_Comm comm)
{
  MPI_Request request;
  CT_MPI(t, MPI_Ibarrier(comm, &request));
  ct_mpi_wait(t, &request);
}
