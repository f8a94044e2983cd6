/** \file ct_temporary.h  Registry of temporary files, removed when the process ends early.
 * Layer 0.
 *
 * All functions are local, may be called by any thread, and do not fail. */
#ifndef CT_TEMPORARY_H
#define CT_TEMPORARY_H

/** Registers a temporary file that this process writes.  If more than 16 are registered, the oldest
 * are dropped from the registry. */
void ct_temporary_begin(const char *path);
/** Unregisters a file that was renamed or removed; does nothing if the path is not registered. */
void ct_temporary_end(const char *path);
/** Removes all registered files.  For a process that ends before the writers of the files can
 * remove them. */
void ct_temporary_remove(void);

#endif
