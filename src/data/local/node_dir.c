/* Directories on a node's disk that processes share; the last user removes them.  Jobs may be
 * killed at any moment, so the use is recorded by file locks, which end with their process. */
#include "data/local/node_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_text.h"

#define USERS         "users" /* the file on which all users of a directory hold a lock */
#define CT__NODE_CURE "name another directory in %s, or unset it"

/* Creates the directory. Its name can be guessed, so in a public directory it may belong to another
 * user. */
static int make_dir(const char *dir, const char *key)
{
  int rc = CT_OK;
  struct stat st;
  int why = ct_dir_make(dir, 0700);
  if (why && why != ENOTDIR)
    CT_FAIL(CT_ERR_IO, "%s: cannot create the directory: %s; " CT__NODE_CURE, dir, strerror(why),
            key);
  if (lstat(dir, &st) != 0) return CT_OK; /* just removed by another process; the caller retries */
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
    CT_FAIL(CT_ERR_IO, "%s: is not a directory of this user; " CT__NODE_CURE, dir, key);
out:
  return rc;
}

int ct__node_lock(int fd, int operation)
{
  int status;
  do
    status = flock(fd, operation);
  while (status != 0 && errno == EINTR);
  return status;
}

int ct__node_open_lock(const char *dir, const char *name, const char *key, int *fd)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  *fd = -1;
  CT_TRY(ct_text_format(path, sizeof path, "%s/%s", dir, name));
  *fd = ct_file_open(path, O_RDWR | O_CREAT, 0600);
  if (*fd < 0 && errno != ENOENT)
    CT_FAIL(CT_ERR_IO, "%s: cannot create: %s; " CT__NODE_CURE, path, strerror(errno), key);
out:
  return rc;
}

int ct__node_join(ct__node_dir_t *d, const char *key)
{
  enum { TRIES = 1000 };
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(ct_text_format(path, sizeof path, "%s/" USERS, d->dir));
  for (int i = 0; i < TRIES; i++) {
    CT_TRY(make_dir(d->dir, key));
    CT_TRY(ct__node_open_lock(d->dir, USERS, key, &d->users));
    if (d->users < 0) continue;
    d->locks = ct__node_lock(d->users, LOCK_SH) == 0;
    /* the last user may just have removed it */
    if (!d->locks || ct_file_name(d->users, path) == CT_NAME_SAME) return CT_OK;
    close(d->users);
    d->users = -1;
  }
  CT_FAIL(CT_ERR_IO, "%s: other runs keep removing it", d->dir);
out:
  return rc;
}

/* Removes all files but `users`. */
static void empty(const char *dir)
{
  DIR *all = opendir(dir);
  const struct dirent *e;
  while (all && (e = readdir(all)))
    if (e->d_name[0] != '.' && strcmp(e->d_name, USERS) != 0) unlinkat(dirfd(all), e->d_name, 0);
  if (all) closedir(all);
}

/* flock(2) releases a shared lock before it takes the exclusive one.  Meanwhile other processes may
 * have removed and recreated the directory, so the lock may be on a file that has been unlinked.
 * If it is on the current file, no other process uses the directory, and new ones wait.  The lock
 * file is unlinked last; from then on the directory may belong to others, and nothing in it is
 * touched. */
void ct__node_remove(const char *dir, int fd)
{
  char users[CT_PATH_MAX];
  if (ct__node_lock(fd, LOCK_EX | LOCK_NB) != 0) return;
  if (ct_text_format(users, sizeof users, "%s/" USERS, dir) != CT_OK) return;
  if (ct_file_name(fd, users) != CT_NAME_SAME) return;
  empty(dir);
  ct_file_remove(users);
  int error = ct_dir_remove(dir);
  if (error && !ct_file_exists(users))
    ct_log_all(CT_LOG_WARN, "%s stays: %s", dir, strerror(error));
}

void ct__node_leave(ct__node_dir_t *d, int keep)
{
  if (d->users < 0) return;
  if (!d->locks && !keep)
    ct_log_all(CT_LOG_WARN, "%s is not removed: without file locks, other users of it are unknown",
               d->dir);
  if (d->locks && !keep) ct__node_remove(d->dir, d->users);
  close(d->users);
  d->users = -1;
}
