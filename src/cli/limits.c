/* Checks, before MPI starts, the resource limits below which libraries crash without a message. */
#include "setup/ct_command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/ct_err.h"
#include "job/ct_launcher.h"

/* The program and its libraries overflow a smaller stack. */
static int check_stack(void)
{
  enum { LEAST = 256 << 10 };
  int rc = CT_OK;
  char has[32], least[32];
  struct rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= LEAST) return CT_OK;
  CT_FAIL(CT_ERR_NOMEM, "the stack is limited to %s, and %s are needed: ulimit -s 8192",
          ct_text_bytes((double)stack.rlim_cur, has, sizeof has),
          ct_text_bytes(LEAST, least, sizeof least));
out:
  return rc;
}

/* MPI and the watchdog open about 30 files with two ranks, and more with more ranks. */
static int check_files(void)
{
  enum { LEAST = 64 };
  int rc = CT_OK;
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= LEAST) return CT_OK;
  CT_FAIL(
      CT_ERR_NOMEM, "a process may open only %d files, and MPI needs %d to start: ulimit -n 4096%s",
      (int)files.rlim_cur, LEAST,
      files.rlim_max < LEAST ? " (the hard limit is as low: the administrator's to raise)" : "");
out:
  return rc;
}

/* At startup UCX allocates shared memory for each rank (4292720 bytes in version 1.13), unless
 * UCX_TLS excludes that transport. */
static int check_shm(void)
{
  const int64_t each = 4400000;
  int rc = CT_OK, ranks = ct_launcher_local_ranks(getenv);
  char library[160], has[32], wants[32];
  struct statvfs shm;
  ct_topo_device(library, sizeof library);
  if (!strstr(library, "ucx") || getenv("UCX_TLS") || statvfs("/dev/shm", &shm) != 0) return CT_OK;
  int64_t total = (int64_t)(shm.f_blocks * shm.f_frsize);
  int64_t left = (int64_t)(shm.f_bavail * shm.f_frsize);
  if (total >= ranks * each && left >= each) return CT_OK;
  const char *cure = "docker run --shm-size=2g (or --ipc=host), or mount -o remount,size=2g "
                     "/dev/shm on a node of its own";
  if (total < ranks * each)
    CT_FAIL(CT_ERR_NOMEM, "/dev/shm has %s, and MPI needs %s to start %d rank%s: %s",
            ct_text_bytes((double)total, has, sizeof has),
            ct_text_bytes((double)(ranks * each), wants, sizeof wants), ranks,
            ranks == 1 ? "" : "s", cure);
  CT_FAIL(CT_ERR_NOMEM,
          "/dev/shm is full: %s are free, and MPI needs %s to start a rank: remove what dead "
          "programs left there (ls -l /dev/shm)",
          ct_text_bytes((double)left, has, sizeof has),
          ct_text_bytes((double)each, wants, sizeof wants));
out:
  return rc;
}

int ct_app_check_limits(int ranks)
{
  int rc = CT_OK;
  CT_TRY(check_stack());
  if (!ranks) goto out;
  CT_TRY(check_files());
  CT_TRY(check_shm());
out:
  return rc;
}
