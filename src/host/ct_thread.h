/** \file ct_thread.h  Starts the program's own threads: readers, writers and the watchdog.
 * Layer 0. */
#ifndef CT_THREAD_H
#define CT_THREAD_H
#include <pthread.h>
#include <stddef.h>

/** Local.  Starts a thread that may use all cores of the process and blocks all signals, which the
 * main thread handles.  \a stack: bytes; 0: the default.  CT_ERR_NOMEM: the message
 * says "no thread" and \a what, such as "for a checkpoint", and the limits of the user and the
 * cgroup. */
int ct_thread_start(pthread_t *thread, size_t stack, void *(*run)(void *), void *arg,
                    const char *what);
/** Records CT_ERR_NOMEM with the text of ct_thread_start(); \a error: that of pthread_create(). */
int ct_thread_refused(int error, const char *what);

#endif
