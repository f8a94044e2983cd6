/* A file server for tests, to be preloaded, on which answers are lost: what is done to names in
 * $NFS_SHIM_DIR is done, and answered as the second try is ($NFS_SHIM=retried: ENOENT, EEXIST), or
 * as nobody knows (=lost: EIO); or every other call is answered ESTALE and nothing done (=stale),
 * openings of files other than HDF5's too.  How often is noted in $NFS_SHIM_LOG: "rename PATH". */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *mode_of(const char *path)
{
  const char *dir = getenv("NFS_SHIM_DIR"), *mode = getenv("NFS_SHIM");
  return mode && dir && strncmp(path, dir, strlen(dir)) == 0 ? mode : "";
}

static void note(const char *what, const char *path)
{
  char line[4200];
  const char *log = getenv("NFS_SHIM_LOG");
  int n = snprintf(line, sizeof line, "%s %s\n", what, path);
  int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  int fd = log ? real(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (fd >= 0 && write(fd, line, (size_t)n) != n) abort();
  if (fd >= 0) close(fd);
}

/* Every other call of a thread, counted in *calls: 1. */
static int is_stale(const char *what, const char *path, unsigned *calls)
{
  if (strcmp(mode_of(path), "stale") != 0 || (*calls)++ % 2) return 0;
  note(what, path);
  errno = ESTALE;
  return 1;
}

/* What is answered for what was done. */
static int answer(const char *what, const char *path, int status, int again)
{
  const char *mode = mode_of(path);
  int retried = strcmp(mode, "retried") == 0;
  if (status != 0 || (!retried && strcmp(mode, "lost") != 0)) return status;
  note(what, path);
  errno = retried ? again : EIO;
  return -1;
}

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int rename(const char *from, const char *to)
{
  static __thread unsigned calls;
  REAL(rename);
  return is_stale("rename", to, &calls) ? -1 : answer("rename", to, real(from, to), ENOENT);
}

int unlink(const char *path)
{
  static __thread unsigned calls;
  REAL(unlink);
  return is_stale("unlink", path, &calls) ? -1 : answer("unlink", path, real(path), ENOENT);
}

int rmdir(const char *path)
{
  REAL(rmdir);
  return answer("rmdir", path, real(path), ENOENT);
}

int mkdir(const char *path, mode_t mode)
{
  static __thread unsigned calls;
  REAL(mkdir);
  return is_stale("mkdir", path, &calls) ? -1 : answer("mkdir", path, real(path, mode), EEXIST);
}

#define OPENS(name)                                                         \
  int name(const char *path, int flags, ...)                                \
  {                                                                         \
    static __thread unsigned calls;                                         \
    REAL(name);                                                             \
    va_list args;                                                           \
    va_start(args, flags);                                                  \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0; \
    va_end(args);                                                           \
    if (!strstr(path, ".h5") && is_stale("open", path, &calls)) return -1;  \
    return real(path, flags, mode);                                         \
  }
OPENS(open)
OPENS(open64)
