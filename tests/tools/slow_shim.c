/* A slow and failing disk for tests, to be preloaded or linked in.  It concerns pread() of files
 * with $SLOW_SHIM_FILE in their path:
 *
 * SLOW_SHIM_MS=5       each takes so many milliseconds longer
 * SLOW_SHIM_SHORT=100  each gives at most so many bytes
 * SLOW_SHIM_FAIL=3     so many of them fail with EIO, and then no more
 * SLOW_SHIM_STALE=1    so many of them find that the file server has forgotten the open file
 *                      (ESTALE), as does what else is done with that descriptor */
#include "tests/tools/slow_shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096 };

static atomic_int reads, under_way, most, failed, staled;
static atomic_char is_stale[DESCRIPTORS];

void slow_shim_reset(void)
{
  reads = most = failed = staled = 0;
}

int slow_shim_at_once(void)
{
  return most;
}

int slow_shim_reads(void)
{
  return reads;
}

static long setting(const char *name)
{
  const char *value = getenv(name);
  return value ? atol(value) : 0;
}

static int is_slow(int fd)
{
  char link[40], path[4096];
  const char *part = getenv("SLOW_SHIM_FILE");
  if (!part) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  return strstr(path, part) != NULL;
}

static int fail(int error)
{
  errno = error;
  return -1;
}

/* 0, or what goes wrong. */
static int suffer(int fd)
{
  int now = atomic_fetch_add(&under_way, 1) + 1;
  atomic_fetch_add(&reads, 1);
  for (int seen = most; now > seen && !atomic_compare_exchange_weak(&most, &seen, now);)
    continue;
  struct timespec t = {0, setting("SLOW_SHIM_MS") * 1000000};
  if (t.tv_nsec) nanosleep(&t, NULL);
  atomic_fetch_sub(&under_way, 1);
  if (atomic_fetch_add(&staled, 1) < setting("SLOW_SHIM_STALE")) is_stale[fd % DESCRIPTORS] = 1;
  if (is_stale[fd % DESCRIPTORS]) return ESTALE;
  return atomic_fetch_add(&failed, 1) < setting("SLOW_SHIM_FAIL") ? EIO : 0;
}

#define READS(name, offset_t)                                                       \
  ssize_t name(int fd, void *to, size_t bytes, offset_t at)                         \
  {                                                                                 \
    ssize_t (*real)(int, void *, size_t, offset_t) =                                \
        (ssize_t(*)(int, void *, size_t, offset_t))dlsym(RTLD_NEXT, #name);         \
    if (!is_slow(fd)) return real(fd, to, bytes, at);                               \
    int error = suffer(fd);                                                         \
    if (error) return fail(error);                                                  \
    size_t most_bytes = (size_t)setting("SLOW_SHIM_SHORT");                         \
    return real(fd, to, most_bytes && most_bytes < bytes ? most_bytes : bytes, at); \
  }
READS(pread, off_t)
READS(pread64, off64_t)

#define ASKS(name, type)                                                         \
  int name(int fd, type *out)                                                    \
  {                                                                              \
    int (*real)(int, type *) = (int (*)(int, type *))dlsym(RTLD_NEXT, #name);    \
    return fd >= 0 && is_stale[fd % DESCRIPTORS] ? fail(ESTALE) : real(fd, out); \
  }
ASKS(fstat, struct stat)
ASKS(fstat64, struct stat64)

int close(int fd)
{
  int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
  if (fd >= 0) is_stale[fd % DESCRIPTORS] = 0;
  return real(fd);
}
