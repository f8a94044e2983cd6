/* A thread of the program itself, and what to say where the system gives none. */
#include "host/ct_thread.h"

#include <signal.h>
#include <string.h>

#include "host/ct_cores.h"
#include "base/ct_err.h"
#include "host/ct_machine.h"

int ct_thread_refused(int error, const char *what)
{
  char limits[160];
  ct_machine_threads(limits, sizeof limits);
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no thread %s: %s%s", what, strerror(error),
                    limits);
}

int ct_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *), void *arg,
                    const char *what)
{
  unsigned char mask[CT_MASK_BYTES];
  sigset_t all, before;
  pthread_attr_t attr;
  sigfillset(&all);
  pthread_attr_init(&attr);
  if (stack > 0) pthread_attr_setstacksize(&attr, stack);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  ct_cores_widen(mask);
  int error = pthread_create(thread, &attr, run, arg);
  ct_cores_narrow(mask);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
  return error ? ct_thread_refused(error, what) : CT_OK;
}
