/** \file ct_lock.h  Lock files, held by one process at a time.  Layer 0.  All functions are local.
 *
 * A lock file has an open-file-description lock (fcntl(2), F_OFD_SETLK).  The kernel releases the
 * lock when the process ends for any reason, and other nodes see it if the file system supports
 * locks across nodes.  The only line of the file names the holder. */
#ifndef CT_LOCK_H
#define CT_LOCK_H
#include <stddef.h>
#include <stdint.h>

/** The holder of a lock. */
typedef struct ct_lock_owner {
  char host[256];
  int64_t pid;
  char job[64];    /**< id of the holder's batch job; "-": none */
  int64_t restart; /**< how often that job was requeued */
  char since[32];  /**< when it took the lock: "2026-01-31T23:59:59Z" */
} ct_lock_owner_t;

/** Fills in this process and the current time.  job: id of the batch job; "": none. */
void ct_lock_self(const char *job, int64_t restart, ct_lock_owner_t *out);
/** Pure.  ct_lock_line() formats the line of a lock file into buf (returned).  ct_lock_parse()
 * parses the line and returns 1, or 0 if it is not valid. */
const char *ct_lock_line(const ct_lock_owner_t *o, char *buf, size_t cap);
int ct_lock_parse(const char *line, ct_lock_owner_t *out);
/** Pure.  Returns 1 if \a me is a later requeue of \a holder's job: then the holder's node must
 * have failed, although the file server still keeps the lock. */
int ct_lock_inherits(const ct_lock_owner_t *me, const ct_lock_owner_t *holder);

typedef struct ct_lock ct_lock_t;

/** Creates the file \a path, in a directory that passes ct_dir_open_own(), and locks it.  If the
 * lock is held, retries for \a wait_s seconds: a killed process takes a moment to end.  CT_ERR_IO:
 * still held (the message names the holder), or the file cannot be created.  If the file system
 * does not support locks, *out protects nothing (logged at DEBUG).  A lock that \a me inherits
 * (ct_lock_inherits()) is taken over with a warning. */
int ct_lock_take(const char *path, const ct_lock_owner_t *me, double wait_s, ct_lock_t **out);

/** State of a lock's holder, as seen by a process that does not take the lock. */
typedef enum {
  CT_HOLDER_LIVES,  /**< a process holds the lock */
  CT_HOLDER_GONE,   /**< the holder was a process on this node that ended without releasing it */
  CT_HOLDER_UNKNOWN /**< no holder is visible, but it may be on another node, or the file system
                         does not support locks */
} ct_lock_holder_t;
/** Returns the state of the holder of the lock file \a path. */
ct_lock_holder_t ct_lock_holder(const char *path);

/** State of a lock that this process has taken. */
typedef enum {
  CT_LOCK_HELD, /**< this process still holds the lock */
  CT_LOCK_GONE, /**< the file was removed */
  CT_LOCK_TAKEN /**< another file has its name: another process has taken over */
} ct_lock_state_t;
/** Returns the state of a lock of this process. */
ct_lock_state_t ct_lock_peek(const ct_lock_t *l);
/** Empties the file and releases the lock; \a l may be NULL.  Does not remove the file, so that a
 * process whose lock was taken over still finds another file under the name. */
void ct_lock_release(ct_lock_t *l);

#endif
