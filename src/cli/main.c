/* main() alone: a library of everything else can be linked into tests. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "setup/ct_command.h"
#include "host/ct_cores.h"
#include "commit.h"

/* How often a thread of OpenMP that waits looks again before it sleeps, a quarter of a millisecond
 * to half of one.  libgomp's own number, thirty times that, is for a machine to oneself: where two
 * threads share their cores with other work, each waits for one that does not run, and a step of a
 * small network was seen to take 200 times as long as with one thread.  Without any looking each
 * region pays for a sleep and a wake-up, on the same network twice the step.  Measured between:
 * from 3000 to 30000 a step is as fast as with the most, and on a full machine as with none. */
#define SPINS "10000"

/* libgomp reads its variables before main(), so that who sets one must start again.  Not if the
 * user has set one, nor if this is not the program that was started, but a loader was. */
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
  /* OMP_PROC_BIND has bound this thread to a core, which the second start would take for all */
  ct_cores_widen(bound);
  execv(path, argv); /* by its name, which becomes that of the process */
  execv(self, argv); /* the file was replaced since; if this fails too: as it is */
  ct_cores_narrow(bound);
}

int main(int argc, char **argv)
{
  choose_waiting(argv);
  signal(SIGXFSZ, SIG_IGN); /* a file at its size limit fails the write, as a full disk does */
  return ct_app_run(argc, argv, CT_VERSION);
}
