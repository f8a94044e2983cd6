/* A node whose counter of energy (HPE Cray's pm_counters) can be read: to be preloaded.  Each look
 * at it finds 250 J more. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int counter(void)
{
  static int looks;
  int fd = memfd_create("energy", MFD_CLOEXEC);
  if (fd >= 0) dprintf(fd, "%d J 1690000000 us\n", 1000 + 250 * looks++);
  if (fd >= 0) lseek(fd, 0, SEEK_SET);
  return fd;
}

static int any_open(const char *name, const char *path, int flags, mode_t mode)
{
  int (*next)(const char *, int, ...);
  if (strcmp(path, "/sys/cray/pm_counters/energy") == 0) return counter();
  *(void **)&next = dlsym(RTLD_NEXT, name);
  return next(path, flags, mode);
}

int open(const char *path, int flags, ...)
{
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return any_open("open", path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
  va_list more;
  va_start(more, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return any_open("open64", path, flags, mode);
}
