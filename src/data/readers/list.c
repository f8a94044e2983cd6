/* The files of a data set.  A directory stands for its files with a suffix of the format: data sets
 * of a file a sample have thousands. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "data/readers/ct_reader.h"

int ct_reader_list(const ct_format_t *format, const char *dir, const char *pattern, char ***list,
                   int *n)
{
  int rc = CT_OK, all = 0, kept = 0;
  char path[CT_PATH_MAX], inside[CT_PATH_MAX];
  *list = NULL;
  *n = 0;
  CT_TRY(ct_path_join(path, sizeof path, dir, pattern));
  if (!ct_file_is_dir(path)) return ct_file_glob(dir, pattern, list, n);
  CT_TRY(ct_path_join(inside, sizeof inside, path, "*"));
  CT_TRY(ct_file_glob("/", inside, list, &all));
  for (int i = 0; i < all; i++) {
    char *file = (*list)[i];
    if (ct_format_has_suffix(format, file))
      (*list)[kept++] = file;
    else
      ct_mem_free(file);
  }
  *n = kept;
  if (kept == 0)
    CT_FAIL(CT_ERR_USAGE, "%s: no file of this directory has a suffix of %s data (%s)", path,
            format->name, format->suffixes[0] ? format->suffixes[0] : "none");
out:
  if (rc != CT_OK) {
    ct_file_list_free(*list, kept);
    *list = NULL;
  }
  return rc;
}
