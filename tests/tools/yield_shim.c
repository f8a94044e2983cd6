/* For more MPI ranks than cores, to be preloaded: a rank that waits in MPICH yields its core.
 *
 * MPICH waits by polling, and its blocking calls never yield: with three ranks on two cores each of
 * them costs a time slice. Each poll calls ucp_worker_progress() of UCX; after many polls without
 * progress this shim calls sched_yield(). */
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

typedef unsigned progress_t(void *worker);

unsigned ucp_worker_progress(void *worker);
unsigned ucp_worker_progress(void *worker)
{
  enum { PATIENCE = 50 }; /* a few us: what a rank that runs at the same time needs */
  static progress_t *real;
  static _Thread_local unsigned in_vain;
  if (!real) {
    void *found = dlsym(RTLD_NEXT, "ucp_worker_progress");
    memcpy(&real, &found, sizeof real);
  }
  unsigned done = real ? real(worker) : 0;
  in_vain = done ? 0 : in_vain + 1;
  if (in_vain % PATIENCE == PATIENCE - 1) sched_yield();
  return done;
}
