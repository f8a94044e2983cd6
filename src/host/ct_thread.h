/** \file ct_thread.h  Threads of the program itself: those that read, write and watch.  Layer 0. */
#ifndef CT_THREAD_H
#define CT_THREAD_H
#include <pthread.h>
#include <stddef.h>

/** Local.  A thread that may use all cores that the process was given, and takes no signals: those
 * are the main thread's.  \a stack: bytes; 0: as usual.  CT_ERR_NOMEM: "no thread \a what (for a
 * checkpoint, …)", and the limits of the user and the cgroup. */
int ct_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *), void *arg,
                    const char *what);
/** Records CT_ERR_NOMEM: that text, and the limits that may be why pthread_create() gave \a error.
 */
int ct_thread_refused(int error, const char *what);

#endif
