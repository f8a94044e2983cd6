/* A file system for tests, to be preloaded: it has no file locks (flock() fails with ENOSYS), and
 * notes in the file $FS_SHIM_LOG who opens, asks about or locks which HDF5 file: "open PID PATH".
 * To open one with $FS_SHIM_STUCK in its name never comes to an end.  With $FS_SHIM_STRIPES it is a
 * Lustre. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Also one that is still being written, beside its name. */
static int is_ours(const char *path)
{
  return path && strstr(path, ".h5");
}

static void note(const char *what, const char *path)
{
  char line[4200];
  const char *log = getenv("FS_SHIM_LOG");
  int n = snprintf(line, sizeof line, "%s %d %s\n", what, (int)getpid(), path);
  int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
  int fd = log ? real(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (fd < 0) return;
  if (write(fd, line, (size_t)n) != n) abort();
  close(fd);
}

static void get_stuck(const char *path)
{
  const char *stuck = getenv("FS_SHIM_STUCK");
  while (stuck && *stuck && strstr(path, stuck))
    pause();
}

#define OPENS(name)                                                         \
  int name(const char *path, int flags, ...)                                \
  {                                                                         \
    int (*real)(const char *, int, ...) =                                   \
        (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);           \
    va_list args;                                                           \
    va_start(args, flags);                                                  \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0; \
    va_end(args);                                                           \
    if (is_ours(path)) note("open", path);                                  \
    get_stuck(path);                                                        \
    return real(path, flags, mode);                                         \
  }
OPENS(open)
OPENS(open64)

#define ASKS(name, type)                                                                    \
  int name(const char *path, type argument)                                                 \
  {                                                                                         \
    int (*real)(const char *, type) = (int (*)(const char *, type))dlsym(RTLD_NEXT, #name); \
    if (is_ours(path)) note("ask", path);                                                   \
    return real(path, argument);                                                            \
  }
ASKS(access, int)
ASKS(stat, struct stat *)
ASKS(lstat, struct stat *)
ASKS(stat64, struct stat64 *)
ASKS(lstat64, struct stat64 *)

/* With $FS_SHIM_STRIPES=N it is Lustre, and HDF5 files have so many stripes (a plain layout). */
ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
  ssize_t (*real)(const char *, const char *, void *, size_t) =
      (ssize_t(*)(const char *, const char *, void *, size_t))dlsym(RTLD_NEXT, "getxattr");
  const char *stripes = getenv("FS_SHIM_STRIPES");
  if (!stripes || !is_ours(path) || strcmp(name, "lustre.lov") != 0 || size < 32)
    return real(path, name, value, size);
  unsigned char layout[32] = {0xD0, 0x0B, 0xD1, 0x0B, [28] = (unsigned char)atoi(stripes)};
  memcpy(value, layout, sizeof layout);
  return sizeof layout;
}

int flock(int fd, int operation)
{
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  if (!is_ours(path)) {
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    return real(fd, operation);
  }
  note("lock", path);
  errno = ENOSYS;
  return -1;
}
