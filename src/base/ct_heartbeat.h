/** \file ct_heartbeat.h  What this process is doing, for those who watch it.  Layer 0.
 *
 * The main thread says what it enters; any thread may look.  Nothing here allocates: a call costs a
 * clock reading and a few stores, and for the name of a file a short lock. */
#ifndef CT_BEAT_H
#define CT_BEAT_H
#include <stddef.h>
#include <stdint.h>

typedef struct ct_beat {
  int64_t step;      /**< steps done */
  int64_t calls;     /**< collective operations entered: the same sequence on every rank */
  const char *doing; /**< the operation entered last */
  int64_t detail;    /**< its number, such as that of a bucket; -1: none */
  int local;         /**< 1: it is work of this process alone */
  double since_s;    /**< ct_clock() of that */
  double progress_s; /**< ct_clock() of the last progress */
  int begun;         /**< a step was done */
} ct_beat_t;

/** Local, main thread only.  A collective operation is entered, which counts; \a doing is a string
 * literal, such as "the all-reduce of a bucket". */
void ct_beat_enter(const char *doing, int64_t detail);
/** The same of local work, such as "reading the batch". */
void ct_beat_at(const char *doing, int64_t detail);
/** Local, any thread.  Something was finished: a step, a batch of an evaluation, a piece of a copy.
 * What is entered counts as progress anyway. */
void ct_beat_progress(void);
/** Likewise: so many steps are done. */
void ct_beat_step(int64_t step);
/** Local, any thread.  The file system is asked for this file by this thread from now on; NULL:
 * that is over.  A file is progress, whichever thread asks for it. */
void ct_beat_file(const char *path);
/** Local, any thread.  The file that a thread waits for longest into \a buf, a long path without
 * its beginning; "" if there is none. */
void ct_beat_file_read(char *buf, size_t cap);
/** Local, any thread.  The fields may be a moment apart. */
void ct_beat_read(ct_beat_t *out);

#endif
