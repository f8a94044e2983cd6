/* A lock that other nodes see and whose holder is known.  The lock is one of fcntl(), so it ends
 * with the process.  A line in the file names the holder; from this line a requeued job recognizes
 * the lock of its own earlier run. */
#include "host/ct_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_owner.h"
#include "base/ct_text.h"

struct ct_lock {
  int fd, dir; /* dir: open while the lock is being taken, else -1 */
  char path[CT_PATH_MAX];
};

/* ---- who ---- */

void ct_lock_self(const char *job, int64_t restart, ct_lock_owner_t *out)
{
  time_t now = time(NULL);
  struct tm tm;
  *out = (ct_lock_owner_t){.pid = getpid(), .restart = restart};
  gethostname(out->host, sizeof out->host - 1); /* always fits: a host name has at most 64
                                                   characters */
  snprintf(out->job, sizeof out->job, "%s", *job ? job : "-");
  strftime(out->since, sizeof out->since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
}

const char *ct_lock_line(const ct_lock_owner_t *o, char *buf, size_t cap)
{
  snprintf(buf, cap, "host=%s pid=%" PRId64 " job=%s restart=%" PRId64 " since=%s\n", o->host,
           o->pid, o->job, o->restart, o->since);
  return buf;
}

int ct_lock_parse(const char *line, ct_lock_owner_t *out)
{
  *out = (ct_lock_owner_t){0};
  return sscanf(line, "host=%255s pid=%" SCNd64 " job=%63s restart=%" SCNd64 " since=%31s",
                out->host, &out->pid, out->job, &out->restart, out->since) == 5;
}

int ct_lock_inherits(const ct_lock_owner_t *me, const ct_lock_owner_t *holder)
{
  return strcmp(me->job, "-") != 0 && strcmp(me->job, holder->job) == 0 &&
         me->restart > holder->restart;
}

static void read_owner(const char *path, ct_lock_owner_t *out)
{
  char line[512] = "";
  int fd = ct_file_open(path, O_RDONLY, 0);
  ssize_t n = fd >= 0 ? pread(fd, line, sizeof line - 1, 0) : 0;
  if (n < 0 || !ct_lock_parse(line, out)) *out = (ct_lock_owner_t){0};
  if (fd >= 0) close(fd);
}

/* ---- the lock ---- */

typedef enum { GOT, HELD, NO_LOCKS } attempt_t;

static attempt_t attempt(int fd)
{
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  if (fcntl(fd, F_OFD_SETLK, &whole) == 0) return GOT;
  return errno == EAGAIN || errno == EACCES ? HELD : NO_LOCKS;
}

ct_lock_state_t ct_lock_peek(const ct_lock_t *l)
{
  ct_name_t name = ct_file_name(l->fd, l->path);
  return name == CT_NAME_GONE ? CT_LOCK_GONE : name == CT_NAME_OTHER ? CT_LOCK_TAKEN : CT_LOCK_HELD;
}

/* Does not change the file. */
ct_lock_holder_t ct_lock_holder(const char *path)
{
  struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
  ct_lock_owner_t holder, me;
  int fd = ct_file_open(path, O_RDONLY, 0);
  int known = fd >= 0 && fcntl(fd, F_OFD_GETLK, &whole) == 0;
  if (fd >= 0) close(fd);
  if (!known) return CT_HOLDER_UNKNOWN;
  if (whole.l_type != F_UNLCK) return CT_HOLDER_LIVES;
  read_owner(path, &holder);
  ct_lock_self("", 0, &me);
  return strcmp(holder.host, me.host) == 0 ? CT_HOLDER_GONE : CT_HOLDER_UNKNOWN;
}

/* Writes the holder's line.  If the disk is full the line is missing, but the lock is valid. */
static void sign(const ct_lock_t *l, const ct_lock_owner_t *me)
{
  char line[512];
  ct_lock_line(me, line, sizeof line);
  if (ftruncate(l->fd, 0) != 0 || pwrite(l->fd, line, strlen(line), 0) < 0)
    ct_log(CT_LOG_DEBUG, "%s: cannot be written: %s", l->path, strerror(errno));
}

/* Names a holder without a line in the file.  The system knows the process of a POSIX lock on this
 * node, but not the process of an open-file-description lock. */
static void name_stranger(int fd, int no_line, char *buf, size_t cap)
{
  struct flock by = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct stat st;
  char path[64], name[64] = "", user[300] = "";
  buf[0] = '\0';
  if (fcntl(fd, F_GETLK, &by) != 0 || by.l_type == F_UNLCK || by.l_pid <= 0) return;
  if (by.l_type == F_WRLCK && !no_line) return;
  snprintf(path, sizeof path, "/proc/%d/comm", (int)by.l_pid);
  FILE *f = fopen(path, "re");
  if (f && fscanf(f, "%63[^\n]", name) != 1) name[0] = '\0';
  if (f && fstat(fileno(f), &st) == 0) ct_owner_name(st.st_uid, user, sizeof user);
  if (f) fclose(f);
  snprintf(buf, cap, ", process %d%s%s%s%s%s%s", (int)by.l_pid, *name ? " (" : "", name,
           *name && *user ? ", " : "", *name ? user : "", *name ? ")" : "",
           by.l_type == F_RDLCK ? ", not a run" : "");
}

/* Takes over a held lock if \a me may do so, by removing its file; otherwise fails. */
static int take_over(const ct_lock_t *l, const ct_lock_owner_t *me)
{
  int rc = CT_OK;
  ct_lock_owner_t holder;
  char dir[CT_PATH_MAX], job[80] = "", stranger[500];
  read_owner(l->path, &holder);
  name_stranger(l->fd, !holder.host[0], stranger, sizeof stranger);
  CT_TRY(ct_path_dir(dir, sizeof dir, l->path));
  if (strcmp(holder.job, "-") != 0) snprintf(job, sizeof job, ", job %s", holder.job);
  if (!holder.host[0] || *stranger)
    CT_FAIL(CT_ERR_IO,
            "%s: another run is at work in this directory (it holds '%s'%s): wait for its "
            "end, or choose another run.dir",
            dir, l->path, stranger);
  if (!ct_lock_inherits(me, &holder))
    CT_FAIL(CT_ERR_IO,
            "%s: another run is at work in this directory, process %" PRId64
            " on %s%s, since %s: wait for its end or end it, or choose another run.dir",
            dir, holder.pid, holder.host, job, holder.since);
  ct_log(CT_LOG_WARN,
         "%s: process %" PRId64 " on %s still seems to hold it; it belongs to this job before its "
         "requeue, so this run takes over",
         dir, holder.pid, holder.host);
  int why = ct_file_remove(l->path);
  if (why) CT_FAIL(CT_ERR_IO, "%s: cannot be removed: %s", l->path, strerror(why));
out:
  return rc;
}

/* Opens the file and tries once to lock it. *held: 1 if another process has the lock. */
static int try_once(ct_lock_t *l, int *held)
{
  int rc = CT_OK;
  const char *slash = strrchr(l->path, '/');
  *held = 0;
  if (l->fd >= 0) close(l->fd);
  l->fd = ct_owner_lock_file(l->dir, slash ? slash + 1 : l->path);
  if (l->fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot be made: %s", l->path, ct_file_why(errno));
  attempt_t a = attempt(l->fd);
  if (a == NO_LOCKS)
    ct_log(CT_LOG_DEBUG,
           "%s: this file system has no file locks (%s): a second run in this directory would not "
           "be noticed",
           l->path, strerror(errno));
  /* the previous holder may have removed the file meanwhile: then this lock protects nothing */
  *held = a == HELD || (a == GOT && ct_lock_peek(l) != CT_LOCK_HELD);
out:
  return rc;
}

int ct_lock_take(const char *path, const ct_lock_owner_t *me, double wait_s, ct_lock_t **out)
{
  int rc = CT_OK, held;
  char dir[CT_PATH_MAX];
  double end = ct_clock() + wait_s;
  *out = NULL;
  ct_lock_t *l = ct_mem_alloc(sizeof *l, "a lock");
  if (!l) return CT_ERR_NOMEM;
  l->fd = l->dir = -1;
  CT_TRY(ct_text_format(l->path, sizeof l->path, "%s", path));
  CT_TRY(ct_path_dir(dir, sizeof dir, path));
  CT_TRY(ct_dir_open_own(dir, &l->dir));
  CT_TRY(try_once(l, &held));
  while (held) {
    if (ct_clock() >= end) CT_TRY(take_over(l, me));
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000000}, NULL);
    CT_TRY(try_once(l, &held));
  }
  sign(l, me);
  close(l->dir);
  *out = l;
  l = NULL;
out:
  if (l && l->fd >= 0) close(l->fd);
  if (l && l->dir >= 0) close(l->dir);
  ct_mem_free(l);
  return rc;
}

void ct_lock_release(ct_lock_t *l)
{
  if (!l) return;
  if (ftruncate(l->fd, 0) != 0)
    ct_log(CT_LOG_DEBUG, "%s: cannot be emptied: %s", l->path, strerror(errno));
  close(l->fd);
  ct_mem_free(l);
}
