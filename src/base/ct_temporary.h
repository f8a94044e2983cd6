/** \file ct_temporary.h  Files that are not finished: who leaves at once removes them.  Layer 0.
 *
 * All functions may be called by any thread; none fails. */
#ifndef CT_TEMPORARY_H
#define CT_TEMPORARY_H

/** From now on this process writes that file, which is of no use before it has its name.  Of more
 * than 16 at a time the oldest are forgotten. */
void ct_temporary_begin(const char *path);
/** It has its name now, or was removed.  A path that was not begun is fine. */
void ct_temporary_end(const char *path);
/** Removes those that were begun and have not ended, for a process that ends without a word to who
 * writes them. */
void ct_temporary_remove(void);

#endif
