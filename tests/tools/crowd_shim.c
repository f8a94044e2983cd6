/* For more MPI ranks than cores, to be preloaded: a rank that polls in vain lets others have its
 * core, and each says at its end how much memory it had.
 *
 * MPICH waits by polling.  With UCX's TCP each turn of that loop ends in an epoll_wait() without
 * patience.  Where it brings nothing, the core is given away, and after 3 ms of nothing else the
 * rank sleeps for a 64th of that time, up to 2 ms.
 *
 * CROWD_SHIM_DIR=DIR  where each rank leaves a file HOST.PID: "peak own", KiB (VmHWM, RssAnon);
 *                     programs that it has started do not */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1000000000LL * t.tv_sec + t.tv_nsec;
}

/* A poll follows the last one at once in loops of MPI's own; who looks now and then does not wait
 * here. */
static void rest(void)
{
  static const long long at_once = 50000, patience = 3000000, longest = 2000000;
  static _Thread_local long long begin, last;
  long long now = now_ns();
  if (now - last > at_once) begin = now;
  long long waited = now - begin, nap = waited / 64 < longest ? waited / 64 : longest;
  if (waited > patience)
    nanosleep(&(struct timespec){.tv_nsec = (long)nap}, NULL);
  else
    sched_yield();
  last = now_ns();
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
  enum { MASK_BYTES = 8 };
  long n = syscall(SYS_epoll_pwait, fd, events, most, timeout_ms, NULL, MASK_BYTES);
  if (n == 0 && timeout_ms == 0) {
    int before = errno;
    rest();
    errno = before;
  }
  return (int)n;
}

static void __attribute__((destructor)) say_memory(void)
{
  char line[200], path[4200];
  long peak = 0, own = 0;
  const char *dir = getenv("CROWD_SHIM_DIR");
  FILE *in = dir ? fopen("/proc/self/status", "re") : NULL;
  if (!in) return;
  if (strncmp(program_invocation_short_name, "ctrain", 6) != 0) {
    fclose(in);
    return;
  }
  while (fgets(line, sizeof line, in)) {
    sscanf(line, "VmHWM: %ld", &peak);
    sscanf(line, "RssAnon: %ld", &own);
  }
  fclose(in);
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  snprintf(path, sizeof path, "%s/%s.%d", dir, host, (int)getpid());
  FILE *out = fopen(path, "we");
  if (!out) return;
  fprintf(out, "%ld %ld\n", peak, own);
  fclose(out);
}
