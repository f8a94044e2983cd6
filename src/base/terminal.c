/* Finds the terminal of a launcher.  Launchers connect ranks to the terminal by a pipe.  On the
 * launcher's own node the terminal is found through the launcher, which is an ancestor of the rank.
 */
#include "base/ct_terminal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Reads the name and the parent of a process; 0: not readable. */
static int terminal_look(long pid, char name[64], long *parent)
{
  char path[64], line[512];
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  char *got = fgets(line, sizeof line, f);
  fclose(f);
  /* "12 (a name, with ) in it) S 1 …" */
  char *open = got ? strchr(line, '(') : NULL, *close = got ? strrchr(line, ')') : NULL;
  if (!open || !close || sscanf(close + 1, " %*c %ld", parent) != 1) return 0;
  snprintf(name, 64, "%.*s", (int)(close - open - 1), open + 1);
  return 1;
}

static int is_launcher(const char *name)
{
  static const char *const begins[] = {"mpiexec", "mpirun", "orterun", "prterun", "prun"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    if (strncmp(name, begins[i], strlen(begins[i])) == 0) return 1;
  return 0;
}

static int writes_to_terminal(long pid)
{
  char path[64], to[64];
  snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, STDERR_FILENO);
  ssize_t n = readlink(path, to, sizeof to - 1);
  if (n <= 0) return 0;
  to[n] = '\0';
  return strncmp(to, "/dev/pts/", 9) == 0 || strncmp(to, "/dev/tty", 8) == 0;
}

int ct_terminal_of_launcher(void)
{
  enum { LEVELS = 8 }; /* maximum number of parents to check: launcher, its proxies, wrappers */
  char name[64];
  long pid = getppid(), parent = 0;
  for (int i = 0; i < LEVELS && pid > 1 && terminal_look(pid, name, &parent); i++, pid = parent)
    if (is_launcher(name)) return writes_to_terminal(pid);
  return 0;
}
