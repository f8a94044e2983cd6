/* Detects the format of a file.
 *
 * The suffix decides if possible: on a parallel file system each open is a request to one server.
 * If the suffix is wrong, the reader of that format reports the error. */
#include "base/ct_format.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_text.h"
#include "config.h"

int ct_format_has_suffix(const ct_format_t *f, const char *path)
{
  size_t length = strlen(path);
  for (int i = 0; i < CT_FORMAT_SUFFIXES && f->suffixes[i]; i++) {
    size_t n = strlen(f->suffixes[i]);
    if (length <= n || path[length - n - 1] == '/') continue; /* no name before the suffix */
    if (strcmp(path + length - n, f->suffixes[i]) == 0) return 1;
  }
  return 0;
}

/* Probes the file for each format, or for those with its suffix; *found: n if none recognizes it.
 */
static int probe_all(const ct_format_t *const formats[], int n, int by_suffix, const char *path,
                     int *found)
{
  int rc = CT_OK;
  FILE *f = NULL;
  CT_TRY(ct_file_regular(path));
  ct_heartbeat_file(path);
  f = fopen(path, "rbe");
  if (!f) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  for (*found = 0; *found < n; (*found)++) {
    if (by_suffix && !ct_format_has_suffix(formats[*found], path)) continue;
    fseek(f, 0, SEEK_SET); /* rewind() would clear the error */
    if (formats[*found]->probe && formats[*found]->probe(f)) break;
    if (ferror(f)) CT_FAIL(CT_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
  }
out:
  if (f) fclose(f);
  ct_heartbeat_file(NULL);
  return rc;
}

/* Lists the formats that have files, as "HDF5 (.h5, .hdf5)". */
static int list_formats(const ct_format_t *const formats[], int n, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++) {
    const ct_format_t *f = formats[i];
    if (!f->probe) continue;
    CT_TRY(ct_str_add(out, "%s%s (", out->len ? ", " : "", f->name));
    for (int k = 0; k < CT_FORMAT_SUFFIXES && f->suffixes[k]; k++)
      CT_TRY(ct_str_add(out, "%s%s", k ? ", " : "", f->suffixes[k]));
    CT_TRY(ct_str_add(out, ")"));
  }
out:
  return rc;
}

/* Returns advice for common file types that are not supported. */
const char *ct_format_cure(const char *path)
{
  static const struct {
    const char *magic, *is;
  } known[] = {
      {"CDF", ": this is a netCDF-3 file; nccopy -k netCDF-4 IN.nc OUT.nc makes one of netCDF-4, "
              "which is HDF5"},
      {"\x93NUMPY", ": this is a NumPy array; ctrain-hpc pack --images X.npy --labels Y.npy makes "
                    "an HDF5 file"},
      {"PK\3\4", ": this is a zip file; if it is an npz file, ctrain-hpc pack --images F.npz:NAME "
                 "--labels F.npz:NAME makes an HDF5 file"},
  };
  char start[8] = "";
  FILE *f = fopen(path, "rbe");
  size_t n = f ? fread(start, 1, sizeof start, f) : 0;
  if (f) fclose(f);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (n >= strlen(known[i].magic) && strncmp(start, known[i].magic, strlen(known[i].magic)) == 0)
      return known[i].is;
  return "";
}

int ct_format_find(const ct_format_t *const formats[], int n, const char *path, int *out)
{
  int rc = CT_OK;
  ct_str_t all = {0};
  int first = n, same = 0; /* formats with the suffix */
  for (int i = n - 1; i >= 0; i--)
    if (ct_format_has_suffix(formats[i], path)) first = i, same++;
  *out = first;
  if (same == 1) return CT_OK;
  CT_TRY(probe_all(formats, n, same > 1, path, out));
  if (same > 1 && *out == n) *out = first;
  if (*out < n) goto out;
  CT_TRY(list_formats(formats, n, &all));
  CT_FAIL(CT_ERR_FORMAT, "%s: is in no format that can be read here; there are %s%s", path,
          all.data, ct_format_cure(path));
out:
  ct_str_clear(&all);
  return rc;
}

int ct_format_number(const char *path, const char *text, const char *kind, int known,
                     const char *by)
{
  int rc = CT_OK;
  int64_t number = 0;
  size_t n = strlen(kind);
  if (strncmp(text, kind, n) != 0 || text[n] != ' ' ||
      ct_text_int(text + n + 1, &number) != CT_OK || number < 1)
    CT_FAIL(CT_ERR_FORMAT, "%s: its format is '%s', expected '%s %d'", path, text, kind, known);
  if (number > known)
    CT_FAIL(
        CT_ERR_NEWER,
        "%s: made by a newer version of ctrain-hpc%s%s%s: its format is '%s', and this version, "
        "%s, reads up to %d; use the newer version, or write the file again with this one",
        path, by && *by ? " (" : "", by && *by ? by : "", by && *by ? ")" : "", text,
        PACKAGE_VERSION, known);
out:
  return rc;
}

int ct_format_line(const char *path, int64_t number, const char *kind, int known, const char *by)
{
  char text[64];
  if (number == 0) return CT_OK;
  snprintf(text, sizeof text, "%s %" PRId64, kind, number);
  return ct_format_number(path, text, kind, known, by);
}
