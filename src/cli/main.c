/* Only main(), so that tests can link all other code as a library. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setup/ct_command.h"
#include "host/ct_cores.h"
#include "commit.h"

/* How often a waiting OpenMP thread spins before it sleeps: 0.25 to 0.5 ms. libgomp's default is 30
 * times longer and assumes an idle machine.  Where two threads share cores with other work, each
 * spins while the other is preempted, and steps of a small network took 200 times as long as with
 * one thread.  Without spinning, each parallel region pays for a sleep and a wake-up, which doubled
 * the step time of the same network.  From 3000 to 30000 spins, a step was as fast as with the
 * default on an idle machine, and as fast as without spinning on a busy one. */
#define SPINS "10000"

/* libgomp reads its environment variables before main(), so setting one requires a restart of the
 * program.  Does not restart if the user has set one of the variables, or if a loader was started
 * with this program as its argument. */
static void choose_waiting(char **argv)
{
  static const char self[] = "/proc/self/exe";
  char path[4096];
  unsigned char bound[CT_MASK_BYTES];
  if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
  ssize_t n = readlink(self, path, sizeof path - 1);
  if (n <= 0) return;
  path[n] = 0;
  const char *slash = strrchr(path, '/');
  if (!slash || strncmp(slash, "/ld", 3) == 0) return;
  if (setenv("GOMP_SPINCOUNT", SPINS, 1) != 0) return;
  /* OMP_PROC_BIND has pinned this thread to one core, and the restarted program would inherit that
   * affinity */
  ct_cores_widen(bound);
  execv(path, argv); /* this path becomes the name of the process */
  execv(self, argv); /* if the file was replaced; if this fails too, continue without a restart */
  ct_cores_narrow(bound);
}

int main(int argc, char **argv)
{
  choose_waiting(argv);
  signal(SIGXFSZ, SIG_IGN); /* writing beyond the file size limit fails, as on a full disk */
  return ct_app_run(argc, argv, CT_VERSION);
}
