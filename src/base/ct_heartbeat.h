/** \file ct_heartbeat.h  Heartbeat: what this process is doing, for the watchdog.  Layer 0.
 *
 * The main thread records each operation that it enters; any thread may read the record.  No
 * function allocates memory: a call reads the clock and stores a few values, and takes a short lock
 * for the name of a file. */
#ifndef CT_HEARTBEAT_H
#define CT_HEARTBEAT_H
#include <stddef.h>
#include <stdint.h>

typedef struct ct_heartbeat {
  int64_t step;      /**< steps done */
  int64_t calls;     /**< collective operations entered: the same sequence on every rank */
  const char *doing; /**< the last operation entered */
  int64_t detail;    /**< index of the object of the operation, such as a bucket; -1: none */
  int local;         /**< 1: the operation is local to this process */
  double since_s;    /**< ct_clock() when the operation was entered */
  double progress_s; /**< ct_clock() of the last progress */
  int begun;         /**< 1 after the first step */
} ct_heartbeat_t;

/** Local, main thread only.  Records and counts the collective operation that this process enters;
 * \a doing is a string literal, such as "the all-reduce of a bucket". */
void ct_heartbeat_enter(const char *doing, int64_t detail);
/** Local, main thread only.  Records a local operation, such as "reading the batch", and does not
 * count it. */
void ct_heartbeat_at(const char *doing, int64_t detail);
/** Local, any thread.  Records progress: a step, a batch of an evaluation or a part of a copy is
 * finished.  Entering an operation also counts as progress. */
void ct_heartbeat_progress(void);
/** Local, any thread.  Records the number of steps done, which is progress. */
void ct_heartbeat_step(int64_t step);
/** Local, any thread.  Records that this thread waits for the file system to read or write the file
 * \a path; NULL: the wait is over.  Both calls count as progress. */
void ct_heartbeat_file(const char *path);
/** Local, any thread.  Copies to \a buf the path of the file that a thread has been waiting for the
 * longest; a long path loses its beginning; "" if no thread waits. */
void ct_heartbeat_file_read(char *buf, size_t cap);
/** Local, any thread.  Copies the record; its fields may have been written at slightly different
 * times. */
void ct_heartbeat_read(ct_heartbeat_t *out);

#endif
