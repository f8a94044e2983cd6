/** \file ct_heartbeat.h  Heartbeat: what this process is doing, for the watchdog.  Layer 0.
 *
 * The main thread records each operation that it enters; any thread may read the record.  Nothing
 * here allocates: a call costs a clock reading and a few stores, and a short lock for the name of a
 * file. */
#ifndef CT_HEARTBEAT_H
#define CT_HEARTBEAT_H
#include <stddef.h>
#include <stdint.h>

typedef struct ct_heartbeat {
  int64_t step;      /**< steps done */
  int64_t calls;     /**< collective operations entered: the same sequence on every rank */
  const char *doing; /**< the last operation entered */
  int64_t detail;    /**< number of the operation's object, such as a bucket; -1: none */
  int local;         /**< 1: the operation is local to this process */
  double since_s;    /**< ct_clock() when the operation was entered */
  double progress_s; /**< ct_clock() of the last progress */
  int begun;         /**< 1 after the first step */
} ct_heartbeat_t;

/** Local, main thread only.  Records and counts a collective operation that is entered; \a doing is
 * a string literal, such as "the all-reduce of a bucket". */
void ct_heartbeat_enter(const char *doing, int64_t detail);
/** The same for a local operation, such as "reading the batch"; it is not counted. */
void ct_heartbeat_at(const char *doing, int64_t detail);
/** Local, any thread.  Records progress: a step, a batch of an evaluation or a block of a copy is
 * finished.  To enter an operation counts as progress, too. */
void ct_heartbeat_progress(void);
/** Local, any thread.  Records the number of steps done, which is progress. */
void ct_heartbeat_step(int64_t step);
/** Local, any thread.  Records that this thread waits for the file system because of this file;
 * NULL: the wait is over.  Either call is progress. */
void ct_heartbeat_file(const char *path);
/** Local, any thread.  Copies the file of the longest wait of any thread to \a buf, a long path
 * without its beginning; "" if no thread waits. */
void ct_heartbeat_file_read(char *buf, size_t cap);
/** Local, any thread.  Copies the record; its fields may be of slightly different times. */
void ct_heartbeat_read(ct_heartbeat_t *out);

#endif
