/* A disk for tests, to be preloaded: no temporary file (NAME.tmp) may grow beyond $DISK_SHIM_QUOTA
 * bytes, and with $DISK_SHIM_NO_LOCKS there are no locks of fcntl(). */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int exceeds(int fd, long long end)
{
  char link[40], path[4096];
  const char *quota = getenv("DISK_SHIM_QUOTA");
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (!quota || n < 4 || memcmp(path + n - 4, ".tmp", 4) != 0 || end <= atoll(quota)) return 0;
  errno = EDQUOT;
  return 1;
}

#define WRITES(name, offset_t)                                                    \
  ssize_t name(int fd, const void *data, size_t bytes, offset_t at)               \
  {                                                                               \
    ssize_t (*real)(int, const void *, size_t, offset_t) =                        \
        (ssize_t(*)(int, const void *, size_t, offset_t))dlsym(RTLD_NEXT, #name); \
    return exceeds(fd, at + (long long)bytes) ? -1 : real(fd, data, bytes, at);   \
  }
WRITES(pwrite, off_t)
WRITES(pwrite64, off64_t)

#define CONTROLS(name)                                                                            \
  int name(int fd, int what, ...)                                                                 \
  {                                                                                               \
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, #name);                 \
    va_list args;                                                                                 \
    va_start(args, what);                                                                         \
    void *argument = va_arg(args, void *); /* an int comes in the same register, or not at all */ \
    va_end(args);                                                                                 \
    if (what != F_OFD_SETLK || !getenv("DISK_SHIM_NO_LOCKS")) return real(fd, what, argument);    \
    errno = ENOLCK;                                                                               \
    return -1;                                                                                    \
  }
CONTROLS(fcntl)
CONTROLS(fcntl64)
