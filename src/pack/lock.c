/* Ensures that only one job at a time writes files of a pattern: a second one would remove the
 * unfinished files of the first as leftovers of an interrupted run.  The lock ends with its
 * process. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_owner.h"
#include "base/ct_text.h"
#include "pack/job.h"

/* Returns 1 if the open file still has its name; another job may have removed it. */
static int is_still_there(int fd, const char *path)
{
  struct stat open_one, named;
  return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 && open_one.st_ino == named.st_ino &&
         open_one.st_dev == named.st_dev;
}

static int lock_take(int fd)
{
  int status;
  do
    status = flock(fd, LOCK_EX | LOCK_NB);
  while (status != 0 && errno == EINTR);
  return status == 0 ? 0 : errno;
}

/* Opens the lock file; -1: failed, see errno. */
static int open_lock(const char *path)
{
  char dir[CT_PATH_MAX];
  const char *slash = strrchr(path, '/');
  if (ct_path_dir(dir, sizeof dir, path) != CT_OK) return -1;
  int at = ct_file_open(dir, O_RDONLY | O_DIRECTORY, 0);
  int fd = at < 0 ? -1 : ct_owner_lock_file(at, slash ? slash + 1 : path);
  if (at >= 0) close(at);
  return fd;
}

int ct__pack_lock(const ct__pack_shard_t *s, ct__pack_lock_t *out)
{
  int rc = CT_OK, error;
  char name[CT_PATH_MAX];
  out->held = 0;
  CT_TRY(ct__pack_name(s, name, sizeof name));
  CT_TRY(ct_text_format(out->path, sizeof out->path, "%s.lock", name));
  for (;;) {
    out->fd = open_lock(out->path);
    if (out->fd < 0) goto out; /* writing will report the error */
    error = lock_take(out->fd);
    if (error || is_still_there(out->fd, out->path)) break;
    close(out->fd);
  }
  if (error == EWOULDBLOCK) {
    close(out->fd);
    CT_FAIL(CT_ERR_IO, "%s: another pack is writing it (it holds %s): wait for its end", name,
            out->path);
  }
  out->held = 1;
  if (error)
    ct_log(CT_LOG_WARN, "%s: no lock: %s: see to it that no second pack writes the same files",
           out->path, strerror(error));
out:
  return rc;
}

void ct__pack_unlock(ct__pack_lock_t *lock)
{
  if (!lock->held) return;
  ct_file_remove(lock->path);
  close(lock->fd);
  lock->held = 0;
}
