/** \file ct_lock.h  A file that one process at a time holds.  Layer 0.  All functions are local.
 *
 * An open-file-description lock (fcntl(2), F_OFD_SETLK): it ends with the process, however that
 * dies, and other nodes see it where the file system carries locks.  The file's one line says who
 * holds it. */
#ifndef CT_LOCK_H
#define CT_LOCK_H
#include <stddef.h>
#include <stdint.h>

/** Who holds a lock. */
typedef struct ct_lock_owner {
  char host[256];
  int64_t pid;
  char job[64];    /**< id of its job, a word; "-": none */
  int64_t restart; /**< how often that job was begun anew */
  char since[32];  /**< "2026-01-31T23:59:59Z" */
} ct_lock_owner_t;

/** This process, now.  job: "" if there is none. */
void ct_lock_self(const char *job, int64_t restart, ct_lock_owner_t *out);
/** Pure.  The line of a lock's file into buf (returned), and back: 1, or 0 if it is none. */
const char *ct_lock_line(const ct_lock_owner_t *o, char *buf, size_t cap);
int ct_lock_parse(const char *line, ct_lock_owner_t *out);
/** Pure.  1: \a me is the same job as \a holder, requeued since, so that the holder's node must
 * be lost, though the file server still keeps its lock. */
int ct_lock_inherits(const ct_lock_owner_t *me, const ct_lock_owner_t *holder);

typedef struct ct_lock ct_lock_t;

/** Takes the lock of the file \a path, which is made, in a directory that is this user's
 * (ct_dir_open_own()).  One that is held is tried again for
 * \a wait_s seconds: a killed process takes a moment to end.  CT_ERR_IO: still held, and by whom;
 * or the file cannot be made.  Where the file system has no locks, *out is one that protects
 * nothing (a note at DEBUG).  One whose holder's job \a me inherits is taken over, with a warning.
 */
int ct_lock_take(const char *path, const ct_lock_owner_t *me, double wait_s, ct_lock_t **out);

/** Who has the lock of a file, for one who only looks. */
typedef enum {
  CT_HOLDER_LIVES,
  CT_HOLDER_GONE,   /**< it was of a process on this node, which ended without giving it back */
  CT_HOLDER_UNKNOWN /**< nobody is seen to hold it, which says nothing: its process is, or may be,
                       on another node, or the file system has no locks */
} ct_lock_holder_t;
ct_lock_holder_t ct_lock_holder(const char *path);

/** What has become of the file since. */
typedef enum {
  CT_LOCK_HELD, /**< it is ours */
  CT_LOCK_GONE, /**< there is no such file any more */
  CT_LOCK_TAKEN /**< another one stands in its place: somebody has taken over */
} ct_lock_state_t;
ct_lock_state_t ct_lock_look(const ct_lock_t *l);
/** Empties the file and gives the lock back; NULL is fine.  The file stays, so that one who was
 * taken over finds another in its place, also when that is over. */
void ct_lock_release(ct_lock_t *l);

#endif
