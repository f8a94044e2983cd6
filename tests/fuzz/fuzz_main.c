/* Replays a corpus through a fuzz target where no fuzzer is: each argument is a file or a directory
 * of files; each file is one TAP case.  A broken property aborts, as under the fuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int replayed;

static int replay_file(const char *path)
{
  int rc = CT_OK;
  char *data = NULL;
  uint8_t *exact = NULL;
  size_t bytes;
  CT_TRY(ct_file_read(path, &data, &bytes));
  /* a copy without the zero at its end, so that a sanitizer sees a read past it */
  exact = malloc(bytes ? bytes : 1);
  if (!exact) CT_FAIL(CT_ERR_NOMEM, "no memory for '%s'", path);
  for (size_t i = 0; i < bytes; i++)
    exact[i] = (uint8_t)data[i];
  LLVMFuzzerTestOneInput(exact, bytes);
  printf("ok %d - %s\n", ++replayed, path);
  fflush(stdout);
out:
  free(exact);
  ct_mem_free(data);
  return rc;
}

static int not_hidden(const struct dirent *e)
{
  return e->d_name[0] != '.';
}

static int replay_dir(const char *path)
{
  int rc = CT_OK;
  struct dirent **entries = NULL;
  int n = scandir(path, &entries, not_hidden, alphasort);
  if (n < 0) CT_FAIL(CT_ERR_IO, "%s: cannot list the directory", path);
  if (n == 0) CT_FAIL(CT_ERR_IO, "%s: no file to replay", path);
  for (int i = 0; i < n; i++) {
    char file[CT_PATH_MAX];
    CT_TRY(ct_path_join(file, sizeof file, path, entries[i]->d_name));
    CT_TRY(replay_file(file));
  }
out:
  for (int i = 0; i < n; i++)
    free(entries[i]);
  free(entries);
  return rc;
}

int main(int argc, char **argv)
{
  int rc = CT_OK;
  for (int i = 1; i < argc; i++) {
    struct stat st;
    int is_dir = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
    CT_TRY(is_dir ? replay_dir(argv[i]) : replay_file(argv[i]));
  }
  if (replayed == 0) CT_FAIL(CT_ERR_USAGE, "name corpus files or directories to replay");
  printf("1..%d\n", replayed);
out:
  if (rc != CT_OK) printf("Bail out! %s\n", ct_err_last()->text);
  return ct_err_exit_status(rc);
}
