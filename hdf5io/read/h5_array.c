/* An open array of a shard.
 *
 * It keeps a descriptor of its file, by which it can be checked at any time that this is still the
 * file that was opened. If a name cannot be resolved the reason is determined here, since HDF5 only
 * reports a failure. */
#include "hdf5io/read/h5_array.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "data/feed/ct_io_times.h"
#include "hdf5io/read/h5_offset_vfd.h"

/* ---- why an array cannot be opened ---- */

static int is_group(hid_t file, const char *name)
{
  hid_t group =
      H5Oexists_by_name(file, name, H5P_DEFAULT) > 0 ? H5Gopen2(file, name, H5P_DEFAULT) : -1;
  ct__h5_drop(group);
  return group >= 0;
}

/* Lists the names at the top of the file, or in one of its groups, in buf (returned): "images,
 * labels, more/"; group names end with a slash. */
static const char *list_names(hid_t file, const char *group, char *buf, size_t cap)
{
  H5G_info_t info = {0};
  size_t len = 0;
  snprintf(buf, cap, "nothing");
  if (H5Gget_info_by_name(file, group, &info, H5P_DEFAULT) < 0) return buf;
  for (hsize_t i = 0; i < info.nlinks && i < 20; i++) {
    char name[64], path[CT_PATH_MAX];
    if (H5Lget_name_by_idx(file, group, H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, 0) < 0)
      continue;
    snprintf(path, sizeof path, "%s/%s", group, name);
    int n = snprintf(buf + len, cap - len, "%s%s%s", len ? ", " : "", name,
                     is_group(file, path) ? "/" : "");
    if (n < 0 || (size_t)n >= cap - len) break;
    len += (size_t)n;
  }
  return buf;
}

/* Describes the target of a soft or external link: "'/x' of other.h5". Returns 1,
 * or 0 if the name is not a soft or external link. */
static int follow(hid_t file, const char *name, char *buf, size_t cap)
{
  H5L_info_t info;
  char value[2048];
  const char *other = NULL, *object = value;
  if (H5Lget_info(file, name, &info, H5P_DEFAULT) < 0 || info.type == H5L_TYPE_HARD ||
      info.u.val_size > sizeof value ||
      H5Lget_val(file, name, value, sizeof value, H5P_DEFAULT) < 0)
    return 0;
  if (info.type == H5L_TYPE_EXTERNAL &&
      H5Lunpack_elink_val(value, info.u.val_size, NULL, &other, &object) < 0)
    return 0;
  snprintf(buf, cap, "'%s' of %s", object, other ? other : "the same file");
  return 1;
}

/* Finds the first component of the name that is a broken link. 1, or 0: there is none. */
static int find_broken(hid_t file, const char *name, char *part, char *to, size_t cap)
{
  size_t length = strlen(name);
  for (size_t end = 1; length < CT_PATH_MAX && end <= length; end++) {
    if (name[end] != '/' && name[end] != '\0') continue;
    snprintf(part, CT_PATH_MAX, "%.*s", (int)end, name);
    if (H5Lexists(file, part, H5P_DEFAULT) <= 0) return 0;
    if (H5Oexists_by_name(file, part, H5P_DEFAULT) <= 0) return follow(file, part, to, cap);
  }
  return 0;
}

/* Returns 1 if the name exists, although it could not be opened: it is damaged, newer than this
 * HDF5, or not an array. */
static int is_there(hid_t file, const char *name)
{
  return name[0] && H5Lexists(file, name, H5P_DEFAULT) > 0;
}

static int cannot_open(const ct__h5_array_t *a, hid_t file, const char *key)
{
  int rc = CT_OK;
  char names[200], why[200], part[CT_PATH_MAX], to[400];
  int error = ct__h5_note_error();
  ct__h5_why(why, sizeof why);
  if (error)
    CT_FAIL(error == ENOMEM ? CT_ERR_NOMEM : CT_ERR_IO, "%s: array '%s' cannot be read: %s",
            a->path, a->name, strerror(error));
  if (a->name[0] && find_broken(file, a->name, part, to, sizeof to))
    CT_FAIL(CT_ERR_FORMAT, "%s: '%.80s' (data.%s) is a link to %s, which cannot be opened: %s",
            a->path, part, key, to, why);
  if (is_there(file, a->name) && is_group(file, a->name))
    CT_FAIL(
        CT_ERR_FORMAT,
        "%s: '%.80s' (data.%s) is a group, not an array; it holds: %s: name one of these, as in "
        "data.%s: %.80s/NAME",
        a->path, a->name, key, list_names(file, a->name, names, sizeof names), key, a->name);
  if (is_there(file, a->name))
    CT_FAIL(CT_ERR_FORMAT, "%s: '%.80s' (data.%s) cannot be opened as an array: %s", a->path,
            a->name, key, why);
  CT_FAIL(CT_ERR_FORMAT, "%s: array '%.80s' (data.%s) not found; the file contains: %s", a->path,
          a->name, key, list_names(file, ".", names, sizeof names));
out:
  return rc;
}

/* ---- opening and checking ---- */

/* Finds the file that holds the array, which may be another one if the name is a link. */
static int find_file(ct__h5_array_t *a)
{
  int rc = CT_OK;
  char name[CT_PATH_MAX];
  if (H5Fget_name(a->id, name, sizeof name) < 0 || strcmp(name, a->path) == 0) return CT_OK;
  a->elsewhere = ct_mem_strdup(name);
  if (!a->elsewhere) rc = CT_ERR_NOMEM;
  return rc;
}

static const char *path_of(const ct__h5_array_t *a)
{
  return a->elsewhere ? a->elsewhere : a->path;
}

/* Adds to an error of another file which array it concerns. */
static int blame(const ct__h5_array_t *a, int rc)
{
  return ct_err_prefix(rc, "%s: array '%s': ", a->path, a->name);
}

int ct__h5_array_open(ct__h5_array_t *a, hid_t file, const char *path, const char *name,
                      const char *key)
{
  int rc = CT_OK;
  *a = (ct__h5_array_t){.path = path, .name = name, .fd = -1};
  ct__h5_note_no_error();
  a->id = name[0] ? H5Dopen2(file, name, H5P_DEFAULT) : -1;
  if (a->id < 0) return cannot_open(a, file, key);
  CT_TRY(find_file(a));
  CT_TRY(ct__h5_stamp_take(a->id, path_of(a), &a->fd, &a->stamp));
  CT_TRY(ct__h5_sources_list(&a->sources, a->id));
out:
  if (rc != CT_OK) ct__h5_array_shut(a);
  return rc;
}

void ct__h5_array_cache(ct__h5_array_t *a, ct_cache_t *cache)
{
  if (cache && !a->elsewhere && !a->cached)
    a->cached = ct_cache_file_open(cache, a->path, a->stamp.bytes, a->stamp.modified_ns);
}

int ct__h5_array_need(ct__h5_array_t *a, int64_t first, int64_t rows)
{
  int rc = ct__h5_sources_need(&a->sources, first, rows);
  return rc == CT_OK ? rc : blame(a, rc);
}

int ct__h5_array_read(const ct__h5_array_t *a, int64_t at, size_t bytes, void *to)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_READ);
  int rc = a->cached ? ct_cache_read(a->cached, a->fd, path_of(a), at, to, bytes)
                     : ct_file_read_at(a->fd, path_of(a), at, to, bytes);
  ct_io_enter(before);
  ct_io_count(CT_IO_READ, (int64_t)bytes);
  if (rc == CT_ERR_FORMAT) /* the file was longer before */
    rc = ct_err_set(CT_ERR_IO, __FILE__, __LINE__,
                    "%s: bytes %lld to %lld no longer exist; was the file truncated?", path_of(a),
                    (long long)at, (long long)(at + (int64_t)bytes - 1));
  return rc == CT_OK || !a->elsewhere ? rc : blame(a, rc);
}

void ct__h5_array_ahead(const ct__h5_array_t *a, int64_t at, int64_t bytes)
{
  if (!a->cached || !ct_cache_has(a->cached, at, bytes))
    posix_fadvise(a->fd, at, bytes, POSIX_FADV_WILLNEED);
}

int ct__h5_array_stat(const ct__h5_array_t *a, int *changed)
{
  int rc = CT_OK;
  ct__h5_stamp_t now;
  CT_TRY(ct__h5_stamp_read(a->fd, path_of(a), &now));
  CT_TRY(ct__h5_stamp_compare(path_of(a), &a->stamp, &now, changed));
out:
  return rc == CT_OK || !a->elsewhere ? rc : blame(a, rc);
}

int ct__h5_array_check(ct__h5_array_t *a, int64_t first, int64_t rows)
{
  int rc = CT_OK;
  CT_TRY(ct__h5_array_stat(a, &a->changed));
  rc = ct__h5_sources_check(&a->sources, first, rows, &a->changed);
  if (rc != CT_OK) rc = blame(a, rc);
out:
  return rc;
}

void ct__h5_array_shut(ct__h5_array_t *a)
{
  ct__h5_sources_clear(&a->sources);
  ct_cache_file_close(a->cached);
  ct_mem_free(a->elsewhere);
  ct__h5_drop(a->id);
  *a = (ct__h5_array_t){.id = -1};
}
