/** \file ct_lock.h  Lock files, held by one process at a time.  Layer 0.  All functions are local.
 *
 * An open-file-description lock (fcntl(2), F_OFD_SETLK): it is released when the process ends for
 * any reason, and other nodes see it if the file system supports locks across nodes.  The only line
 * of the file names the holder. */
#ifndef CT_LOCK_H
#define CT_LOCK_H
#include <stddef.h>
#include <stdint.h>

/** The holder of a lock. */
typedef struct ct_lock_owner {
  char host[256];
  int64_t pid;
  char job[64];    /**< id of its batch job; "-": none */
  int64_t restart; /**< how often that job was requeued */
  char since[32];  /**< "2026-01-31T23:59:59Z" */
} ct_lock_owner_t;

/** Fills in this process and the current time.  job: "" if there is none. */
void ct_lock_self(const char *job, int64_t restart, ct_lock_owner_t *out);
/** Pure.  Formats the line of a lock file into buf (returned), and parses it: 1, or 0 if it is not
 * valid. */
const char *ct_lock_line(const ct_lock_owner_t *o, char *buf, size_t cap);
int ct_lock_parse(const char *line, ct_lock_owner_t *out);
/** Pure.  1: \a me is a later requeue of \a holder's job.  The holder's node must have failed,
 * though the file server still keeps its lock. */
int ct_lock_inherits(const ct_lock_owner_t *me, const ct_lock_owner_t *holder);

typedef struct ct_lock ct_lock_t;

/** Creates the file \a path, in a directory that passes ct_dir_open_own(), and locks it.  If the
 * lock is held, retries for \a wait_s seconds: a killed process takes a moment to end.  CT_ERR_IO:
 * still held (the message names the holder), or the file cannot be created.  If the file system has
 * no locks, *out protects nothing (logged at DEBUG).  A lock that \a me inherits
 * (ct_lock_inherits()) is taken over with a warning. */
int ct_lock_take(const char *path, const ct_lock_owner_t *me, double wait_s, ct_lock_t **out);

/** State of a lock's holder, as seen by a process that does not take the lock. */
typedef enum {
  CT_HOLDER_LIVES,
  CT_HOLDER_GONE,   /**< it was a process on this node that ended without releasing the lock */
  CT_HOLDER_UNKNOWN /**< no holder is visible, but it may be on another node, or the file system
                         has no locks */
} ct_lock_holder_t;
ct_lock_holder_t ct_lock_holder(const char *path);

/** State of a lock that this process has taken. */
typedef enum {
  CT_LOCK_HELD, /**< it is ours */
  CT_LOCK_GONE, /**< the file was removed */
  CT_LOCK_TAKEN /**< another file has its name: another process has taken over */
} ct_lock_state_t;
ct_lock_state_t ct_lock_peek(const ct_lock_t *l);
/** Empties the file and releases the lock; NULL is fine.  The file stays: a process whose lock was
 * taken over then still finds another file under the name. */
void ct_lock_release(ct_lock_t *l);

#endif
