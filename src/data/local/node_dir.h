/** \file node_dir.h  A directory on a node's disk that several processes share.  Internal.
 *
 * Every process that uses the directory holds a shared flock() on its file `users`.  A process that
 * gets an exclusive lock is the last user. */
#ifndef CT_DATA_NODE_DIR_H
#define CT_DATA_NODE_DIR_H
#include "base/ct_text.h"

typedef struct ct__node_dir {
  char dir[CT_PATH_MAX];
  int users; /**< the lock file, with a shared lock; -1: not joined */
  int locks; /**< 0: the file system does not support locks */
} ct__node_dir_t;

/** Creates d->dir and marks it as in use, so that no other process removes it.  CT_ERR_IO: it
 * cannot be created or belongs to another user; the message says how to change \a key of the
 * configuration. */
int ct__node_join(ct__node_dir_t *d, const char *key);
/** Ends the use of the directory; does nothing if \a d is not joined.  Unless \a keep is 1, the
 * last user removes the directory; logs a warning if that fails. */
void ct__node_leave(ct__node_dir_t *d, int keep);
/** Removes a directory and its files, unless a process uses it.  \a fd: its file `users`, on which
 * an exclusive lock may remain. */
void ct__node_remove(const char *dir, int fd);
/** Calls flock(), and retries if a signal interrupts it. */
int ct__node_lock(int fd, int operation);
/** Opens a lock file and creates it if it is missing; *fd is -1 if the directory does not exist any
 * more.  CT_ERR_IO */
int ct__node_open_lock(const char *dir, const char *name, const char *key, int *fd);

#endif
