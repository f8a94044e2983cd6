/* Changes of directory entries on file servers.  A server may do an operation and lose its reply;
 * the client's retry then fails: rename() and unlink() with ENOENT (rename(2), BUGS), mkdir() with
 * EEXIST.  After a failure the functions therefore check the state of the directory. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_file.h"

enum { TRIES = 4 }; /* attempts after ESTALE */

/* Calls stat() for the file that has the name now.  Opens the file first, which queries the server:
 * stat() alone may return cached attributes. */
static int entries_look(const char *path, struct stat *st)
{
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
  int status = fd >= 0 ? fstat(fd, st) : lstat(path, st);
  if (fd >= 0) close(fd);
  return status == 0;
}

static int entries_is_same(const struct stat *a, const struct stat *b)
{
  return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

int ct_file_rename(const char *from, const char *to)
{
  struct stat ours, there;
  int why = 0, known = lstat(from, &ours) == 0;
  for (int i = 0; i < TRIES; i++) {
    if (rename(from, to) == 0) return 0;
    why = errno;
    if (known && entries_look(to, &there) && entries_is_same(&ours, &there)) return 0;
    if (why != ESTALE) break;
  }
  return why;
}

static int is_gone(const char *path)
{
  struct stat st;
  return lstat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

int ct_file_remove(const char *path)
{
  int why = 0;
  for (int i = 0; i < TRIES; i++) {
    if (unlink(path) == 0) return 0;
    why = errno;
    if (why == ENOENT || is_gone(path)) return 0;
    if (why != ESTALE) break;
  }
  return why;
}

int ct_dir_remove(const char *path)
{
  if (rmdir(path) == 0) return 0;
  int why = errno;
  return why == ENOENT || is_gone(path) ? 0 : why;
}

int ct_dir_make(const char *path, unsigned mode)
{
  struct stat st;
  int why = 0;
  for (int i = 0; i < TRIES; i++) {
    if (mkdir(path, mode) == 0) return 0;
    why = errno;
    int there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) return 0;
    if (there && why == EEXIST) return ENOTDIR;
    if (why != ESTALE) break;
  }
  return why;
}

int ct_file_open(const char *path, int flags, unsigned mode)
{
  int fd = -1;
  if ((flags & O_ACCMODE) != O_RDONLY || flags & O_CREAT) flags |= O_NOFOLLOW;
  for (int i = 0; fd < 0 && i < TRIES && (i == 0 || errno == ESTALE); i++)
    fd = open(path, flags | O_CLOEXEC, mode);
  return fd;
}

int ct_file_new(const char *path, unsigned mode)
{
  ct_file_remove(path); /* if this fails, the next call fails and sets errno */
  return ct_file_open(path, O_WRONLY | O_CREAT | O_EXCL, mode);
}

FILE *ct_file_new_stream(const char *path)
{
  int fd = ct_file_new(path, 0666);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
  if (!f && fd >= 0) close(fd);
  return f;
}

const char *ct_file_why(int error)
{
  return error == ELOOP ? "it is a symbolic link, which is not followed" : strerror(error);
}
