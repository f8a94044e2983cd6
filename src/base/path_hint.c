/* Hints for a missing file: the longest existing part of its path, and the most similar name there.
 */
#include "base/ct_file.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

enum { MAX_NAMES = 4096 }; /* maximum number of directory entries that are compared */

/* Finds the name in the directory that is most similar to the word, which may be a pattern; "" if
 * none is similar. */
static void nearest_in(const char *dir, const char *word, char *out, size_t cap)
{
  char **name = ct_mem_array(MAX_NAMES, sizeof *name, "the names in a directory");
  DIR *d = name ? opendir(dir) : NULL;
  int n = 0;
  *out = '\0';
  for (struct dirent *e; d && n < MAX_NAMES && (e = readdir(d));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    name[n] = ct_mem_strdup(e->d_name);
    if (!name[n]) break;
    n++;
  }
  const char *best = ct_text_nearest(word, (const char *const *)name, n);
  if (best) snprintf(out, cap, "%s", best);
  if (d) closedir(d);
  while (n > 0)
    ct_mem_free(name[--n]);
  ct_mem_free(name);
}

const char *ct_file_missing(const char *path, char *buf, size_t cap)
{
  char at[CT_PATH_MAX], up[CT_PATH_MAX], cwd[CT_PATH_MAX], near[256];
  *buf = '\0';
  if (ct_text_format(at, sizeof at, "%s", path) != CT_OK) return buf;
  while (ct_path_dir(up, sizeof up, at) == CT_OK && access(up, F_OK) != 0 && strcmp(up, at) != 0)
    strcpy(at, up);
  const char *slash = strrchr(at, '/'), *name = slash ? slash + 1 : at;
  int here = strcmp(up, ".") == 0 && getcwd(cwd, sizeof cwd);
  nearest_in(up, name, near, sizeof near);
  if (*near)
    snprintf(buf, cap, "; '%s' has '%s'", here ? cwd : up, near);
  else
    snprintf(buf, cap, "; '%s' has no '%s'", here ? cwd : up, name);
  return buf;
}
