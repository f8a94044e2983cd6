/** \file node_dir.h  A directory on a node's disk that several processes use.  Internal.
 *
 * Its file `users` is locked with flock() for sharing by all that use it; who can lock it alone is
 * the last. */
#ifndef CT_DATA_NODE_DIR_H
#define CT_DATA_NODE_DIR_H
#include "base/ct_text.h"

typedef struct ct__node_dir {
  char dir[CT_PATH_MAX];
  int users; /**< the lock file, locked for sharing; -1: not joined */
  int locks; /**< 0: the file system has none */
} ct__node_dir_t;

/** Makes d->dir and says that it is in use, so that nobody removes it.  CT_ERR_IO says what to do
 * about \a key, that of the configuration; also if the directory is not ours. */
int ct__node_join(ct__node_dir_t *d, const char *key);
/** It is used no more: unless \a keep, the last user removes it, and a warning says what stays in
 * spite of that.  Not joined is fine. */
void ct__node_leave(ct__node_dir_t *d, int keep);
/** Removes a directory with all in it, unless somebody uses it.  \a fd: of its file `users`, on
 * which it leaves a lock. */
void ct__node_remove(const char *dir, int fd);
/** flock(), again if a signal interrupts it. */
int ct__node_lock(int fd, int operation);
/** Opens a lock file, which is made; *fd is -1 if the directory has gone.  CT_ERR_IO */
int ct__node_open_lock(const char *dir, const char *name, const char *key, int *fd);

#endif
