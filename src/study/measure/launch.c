/* A study of several ranks that was started without a launcher starts its ranks itself: it executes
 * the same command line with the mpiexec that this program was built with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "study/measure/ct_scale.h"
#include "host/ct_cores.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "config.h"
#include "job/ct_launcher.h"

enum { WORDS = 256 };

/* Appends the arguments of this process after those of the launcher. */
static int own_words(char **word, int n)
{
  int rc = CT_OK;
  static char text[1 << 16];
  FILE *f = fopen("/proc/self/cmdline", "re");
  if (!f) CT_FAIL(CT_ERR_IO, "/proc/self/cmdline: %m");
  size_t bytes = fread(text, 1, sizeof text, f);
  fclose(f);
  if (bytes == sizeof text) CT_FAIL(CT_ERR_USAGE, "scale: the command line is too long");
  for (char *p = text; p < text + bytes; p += strlen(p) + 1) {
    if (n >= WORDS - 1) CT_FAIL(CT_ERR_USAGE, "scale: the command line has too many arguments");
    word[n++] = p;
  }
  word[n] = NULL;
out:
  return rc;
}

static int start_ranks(const ct_args_t *a)
{
  int rc = CT_OK, most = 1, n = 0;
  static ct_scale_opts_t o;
  static char launcher[] = CT_MPIEXEC, ranks[16], self[CT_PATH_MAX];
  char *word[WORDS], option[] = "-n";
  unsigned char bound[CT_MASK_BYTES];
  ct_launcher_t started_by;
  ct_launcher_read(getenv, &started_by);
  if (started_by.kind != CT_LAUNCHER_NONE) return CT_OK;
  CT_TRY(ct_scale_opts(a, 0, &o));
  if (o.nodes) return CT_OK; /* ranks without a launcher are on one node */
  for (int i = 0; i < o.nranks; i++)
    most = o.ranks[i] > most ? o.ranks[i] : most;
  if (most == 1) return CT_OK;
  if (!launcher[0])
    CT_FAIL(CT_ERR_USAGE, "scale: %d ranks need a launcher; run: mpirun -np %d ctrain-hpc scale …",
            most, most);
  snprintf(ranks, sizeof ranks, "%d", most);
  for (char *p = strtok(launcher, " "); p && n < WORDS / 2; p = strtok(NULL, " "))
    word[n++] = p;
  word[n++] = option;
  word[n++] = ranks;
  CT_TRY(own_words(word, n));
  CT_TRY(ct_path_join(self, sizeof self, "/proc/self", "exe"));
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  if (len > 0) self[len] = '\0', word[n] = self;
  ct_cores_widen(bound); /* ranks inherit the core mask of the launcher */
  execvp(word[0], word);
  CT_FAIL(CT_ERR_IO, "scale: %s cannot be started: %m; run: mpirun -np %d ctrain-hpc scale …",
          word[0], most);
out:
  return rc;
}

int ct_scale_before_mpi(const ct_args_t *a, int *done)
{
  int rc = CT_OK;
  CT_TRY(ct_scale_submit(a, done));
  if (!*done) CT_TRY(start_ranks(a));
out:
  return rc;
}
