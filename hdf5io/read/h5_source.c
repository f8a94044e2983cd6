/* Finds and checks the source files of arrays, mapping by mapping, because HDF5 does not report
 * missing ones: the samples would silently be zero. */
#include "hdf5io/read/h5_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

enum { MOST_DEPTH = 8 }; /* nesting of virtual arrays, which may refer to themselves */

/* ---- listing ---- */

static int source_add(ct__h5_sources_t *s, const ct__h5_source_t *source)
{
  int rc = ct_mem_grow((void **)&s->v, &s->cap, s->n + 1, sizeof *s->v);
  if (rc == CT_OK) s->v[s->n++] = *source;
  return rc;
}

/* Narrows the range of samples that a source of the outermost array affects. */
static void narrow(ct__h5_source_t *source, hsize_t first, hsize_t end)
{
  if (source->depth > 0) return;
  if ((hsize_t)source->first < first) source->first = (int64_t)first;
  if ((hsize_t)source->end > end) source->end = (int64_t)end;
}

static int has_number(const char *name)
{
  for (; *name; name += name[0] == '%' && name[1] ? 2 : 1)
    if (name[0] == '%' && name[1] == 'b') return 1;
  return 0;
}

/* Returns the dim along which an unlimited selection repeats; -1: none. */
static int counting_dim(hid_t space, hsize_t *start, hsize_t *stride, hsize_t *count,
                        hsize_t *block)
{
  int ndim = H5Sget_simple_extent_ndims(space), along = -1;
  if (H5Sget_select_type(space) == H5S_SEL_HYPERSLABS && H5Sis_regular_hyperslab(space) > 0 &&
      H5Sget_regular_hyperslab(space, start, stride, count, block) >= 0)
    for (int i = 0; i < ndim; i++)
      if (count[i] == H5S_UNLIMITED) along = i;
  return along;
}

/* Adds one source, or one per block within the array's current dims. */
static int add_mapping(ct__h5_sources_t *s, const ct__h5_source_t *like, hid_t creation,
                       const hsize_t *dims)
{
  int rc = CT_OK;
  char file[CT_PATH_MAX] = "", array[CT_PATH_MAX] = "";
  hsize_t start[H5S_MAX_RANK], other[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK];
  ct__h5_source_t source = *like;
  hid_t space = H5Pget_virtual_vspace(creation, like->mapping);
  H5Pget_virtual_filename(creation, like->mapping, file, sizeof file);
  H5Pget_virtual_dsetname(creation, like->mapping, array, sizeof array);
  int along = counting_dim(space, start, other, count, block);
  if (along < 0 || (!has_number(file) && !has_number(array))) {
    if (H5Sget_select_bounds(space, start, other) >= 0)
      narrow(&source, start[0], other[0] == H5S_UNLIMITED ? dims[0] : other[0] + 1);
    CT_TRY(source_add(s, &source));
    goto out;
  }
  for (hsize_t at = start[along]; at < dims[along]; at += other[along]) {
    source.first = like->first;
    source.end = like->end;
    if (along == 0) narrow(&source, at, at + block[0]);
    CT_TRY(source_add(s, &source));
    source.block++;
  }
out:
  ct__h5_drop(space);
  return rc;
}

/* Raw files hold the elements consecutively. */
static int add_raw(ct__h5_sources_t *s, const ct__h5_source_t *like, hid_t creation, hsize_t row,
                   hsize_t bytes)
{
  int rc = CT_OK, n = H5Pget_external_count(creation);
  hsize_t at = 0, size;
  off_t offset;
  for (int i = 0; i < n && at < bytes; i++) {
    ct__h5_source_t source = *like;
    H5Pget_external(creation, (unsigned)i, 0, NULL, &offset, &size);
    if (size > bytes - at) size = bytes - at; /* the size of the last one may be unlimited */
    source.mapping = (size_t)i;
    source.raw_bytes = (int64_t)offset + (int64_t)size;
    narrow(&source, at / row, (at + size + row - 1) / row);
    if (size > 0) CT_TRY(source_add(s, &source));
    at += size;
  }
out:
  return rc;
}

/* Lists the sources of an array that is virtual or external itself, or on which source \a like
 * depends. */
static int source_list(ct__h5_sources_t *s, const ct__h5_source_t *like)
{
  int rc = CT_OK;
  size_t n = 0;
  hsize_t dims[H5S_MAX_RANK] = {0};
  hid_t creation = H5Dget_create_plist(like->of), space = H5Dget_space(like->of);
  hid_t type = H5Dget_type(like->of);
  hsize_t bytes = (hsize_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(type);
  H5D_layout_t layout = H5Pget_layout(creation);
  H5Sget_simple_extent_dims(space, dims, NULL);
  ct__h5_source_t source = *like;
  source.end = like->depth > 0 ? like->end : (int64_t)dims[0];
  if (layout == H5D_VIRTUAL) H5Pget_virtual_count(creation, &n);
  for (source.mapping = 0; source.mapping < n; source.mapping++)
    CT_TRY(add_mapping(s, &source, creation, dims));
  if (layout == H5D_CONTIGUOUS && bytes > 0)
    CT_TRY(add_raw(s, &source, creation, dims[0] > 0 ? bytes / dims[0] : bytes, bytes));
out:
  ct__h5_drop(type);
  ct__h5_drop(space);
  ct__h5_drop(creation);
  return rc;
}

int ct__h5_sources_list(ct__h5_sources_t *s, hid_t array)
{
  const ct__h5_source_t outermost = {.of = array, .raw_bytes = -1, .array = -1, .fd = -1};
  return source_list(s, &outermost);
}

/* ---- searching a file ---- */

typedef struct search {
  const char *name;
  char origin[CT_PATH_MAX]; /* directory of the file that refers to the source */
  hid_t file;               /* the file found */
  int rc;                   /* result for the last file that existed */
} search_t;

static void try_in(search_t *s, const char *dir)
{
  char path[CT_PATH_MAX];
  if (s->file >= 0 || ct_path_join(path, sizeof path, dir, s->name) != CT_OK ||
      !ct_file_exists(path))
    return;
  s->rc = ct_file_regular(path);
  if (s->rc == CT_OK) s->rc = ct__h5_open(path, &s->file);
}

/* Expands one of HDF5's prefix variables; HDF5 supports ${ORIGIN}, the file's own directory, only
 * at the beginning. */
static int expand_origin(const char *dir, const char *origin, char *buf, size_t cap)
{
  static const char word[] = "${ORIGIN}";
  int at_origin = strncmp(dir, word, strlen(word)) == 0;
  return ct_text_format(buf, cap, "%s%s", at_origin ? origin : "",
                        at_origin ? dir + strlen(word) : dir);
}

/* Tries each directory of the list, then the whole text as one directory. */
static void try_prefixes(search_t *s, const char *dirs)
{
  char dir[CT_PATH_MAX];
  if (!dirs || !*dirs) return;
  for (const char *one = dirs; *one; one += strspn(one, ":")) {
    size_t length = strcspn(one, ":");
    if (ct_text_format(dir, sizeof dir, "%.*s", (int)length, one) == CT_OK) try_in(s, dir);
    one += length;
  }
  if (expand_origin(dirs, s->origin, dir, sizeof dir) == CT_OK) try_in(s, dir);
}

static int find_origin(hid_t of, char *path, size_t cap, char *origin)
{
  if (H5Fget_name(of, path, cap) < 0) path[0] = '\0';
  return ct_path_dir(origin, CT_PATH_MAX, path);
}

static int source_open_file(hid_t of, const char *name, hid_t *file)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], real[CT_PATH_MAX], dir[CT_PATH_MAX];
  search_t s = {.name = name, .file = -1};
  CT_TRY(find_origin(of, path, sizeof path, s.origin));
  if (name[0] == '/') {
    try_in(&s, "/");
    s.name = strrchr(name, '/') + 1;
  }
  try_prefixes(&s, getenv("HDF5_VDS_PREFIX"));
  try_in(&s, s.origin);
  try_in(&s, ".");
  if (s.file < 0 && realpath(path, real) && ct_path_dir(dir, sizeof dir, real) == CT_OK)
    try_in(&s, dir);
  *file = s.file;
  if (s.file >= 0) return CT_OK;
  CT_TRY(s.rc);
  CT_TRY(ct_path_join(path, sizeof path, s.origin, name));
  int reason = access(path, R_OK) != 0 ? errno : ENOENT;
  CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(reason));
out:
  return rc;
}

/* ---- checking ---- */

/* Replaces %b by the block number. */
static int expand_number(const char *name, hsize_t block, char *buf, size_t cap)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  CT_TRY(ct_str_add(&text, "%s", ""));
  for (; *name; name++) {
    if (name[0] == '%' && name[1] == 'b')
      CT_TRY(ct_str_add(&text, "%llu", (unsigned long long)block));
    else
      CT_TRY(ct_str_add(&text, "%c", *name));
    name += name[0] == '%' && (name[1] == 'b' || name[1] == '%');
  }
  CT_TRY(ct_text_format(buf, cap, "%s", text.data));
out:
  ct_str_clear(&text);
  return rc;
}

/* Opens the array that a mapping refers to. */
static int open_array(ct__h5_source_t *s, hid_t creation)
{
  int rc = CT_OK;
  char text[CT_PATH_MAX] = "", name[CT_PATH_MAX];
  hid_t file = -1;
  H5Pget_virtual_filename(creation, s->mapping, text, sizeof text);
  CT_TRY(expand_number(text, s->block, name, sizeof name));
  if (strcmp(name, ".") == 0)
    file = H5Iget_file_id(s->of);
  else
    CT_TRY(source_open_file(s->of, name, &file));
  if (H5Fget_name(file, name, sizeof name) < 0) name[0] = '\0';
  s->path = ct_mem_strdup(name);
  if (!s->path) CT_TRY(CT_ERR_NOMEM);
  H5Pget_virtual_dsetname(creation, s->mapping, text, sizeof text);
  CT_TRY(expand_number(text, s->block, name, sizeof name));
  s->array = H5Dopen2(file, name, H5P_DEFAULT);
  if (s->array < 0) CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' not found", s->path, name);
  CT_TRY(ct__h5_stamp_take(s->array, s->path, &s->fd, &s->stamp));
out:
  ct__h5_drop(file);
  return rc;
}

/* Returns the number of elements of the virtual array that the mapping covers; -1: unlimited. */
static hssize_t count_mapped(hid_t creation, size_t mapping)
{
  hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK];
  hid_t space = H5Pget_virtual_vspace(creation, mapping);
  int ndim = H5Sget_simple_extent_ndims(space),
      along = counting_dim(space, start, stride, count, block);
  hssize_t n = along < 0 ? H5Sget_select_npoints(space) : 1;
  for (int i = 0; i < ndim && along >= 0; i++)
    n *= (hssize_t)(i == along ? block[i] : count[i] * block[i]);
  ct__h5_drop(space);
  return (hsize_t)n == H5S_UNLIMITED ? -1 : n;
}

/* Checks that the selection is within the source's extent. */
static int check_extent(const ct__h5_source_t *s, hid_t creation)
{
  int rc = CT_OK;
  hsize_t dims[H5S_MAX_RANK] = {0}, first[H5S_MAX_RANK], last[H5S_MAX_RANK];
  hid_t space = H5Dget_space(s->array);
  hid_t selected = H5Pget_virtual_srcspace(creation, s->mapping);
  int ndim = H5Sget_simple_extent_dims(space, dims, NULL);
  int all = H5Sget_select_type(selected) == H5S_SEL_ALL;
  hssize_t want = count_mapped(creation, s->mapping), have = H5Sget_simple_extent_npoints(space);
  if (all && have < want)
    CT_FAIL(CT_ERR_FORMAT, "%s: its array has %lld elements, but %lld are taken from it", s->path,
            (long long)have, (long long)want);
  if (all || H5Sget_simple_extent_ndims(selected) != ndim ||
      H5Sget_select_bounds(selected, first, last) < 0)
    goto out;
  for (int i = 0; i < ndim; i++)
    if (last[i] >= dims[i] && last[i] != H5S_UNLIMITED)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: its array has %llu elements in dim %d, but up to %llu are taken from it",
              s->path, (unsigned long long)dims[i], i, (unsigned long long)last[i] + 1);
out:
  ct__h5_drop(selected);
  ct__h5_drop(space);
  return rc;
}

/* Checks that a descriptor is free: HDF5 opens the file once more, and returns zeros if it
 * cannot. */
static int check_descriptor(const ct__h5_source_t *s)
{
  int spare = dup(s->fd);
  if (spare < 0)
    return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot open: %s", s->path,
                      strerror(errno));
  close(spare);
  return CT_OK;
}

static int need_array(ct__h5_source_t *s, hid_t creation)
{
  int rc = CT_OK;
  if (s->depth > MOST_DEPTH)
    CT_FAIL(CT_ERR_FORMAT, "virtual arrays refer to each other, more than %d levels deep",
            MOST_DEPTH);
  CT_TRY(open_array(s, creation));
  CT_TRY(check_extent(s, creation));
  CT_TRY(check_descriptor(s));
out:
  return rc;
}

static int find_raw(const ct__h5_source_t *s, hid_t creation, char *path, size_t cap)
{
  int rc = CT_OK;
  char name[CT_PATH_MAX] = "", of[CT_PATH_MAX], origin[CT_PATH_MAX], dir[CT_PATH_MAX];
  const char *prefix = getenv("HDF5_EXTFILE_PREFIX");
  off_t offset;
  hsize_t size;
  H5Pget_external(creation, (unsigned)s->mapping, sizeof name - 1, name, &offset, &size);
  CT_TRY(find_origin(s->of, of, sizeof of, origin));
  CT_TRY(expand_origin(prefix ? prefix : "", origin, dir, sizeof dir));
  CT_TRY(dir[0] ? ct_path_join(path, cap, dir, name) : ct_text_format(path, cap, "%s", name));
out:
  return rc;
}

static int need_raw(ct__h5_source_t *s, hid_t creation)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  CT_TRY(find_raw(s, creation, path, sizeof path));
  CT_TRY(ct_file_regular(path));
  s->path = ct_mem_strdup(path);
  if (!s->path) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct__h5_stamp_read(-1, s->path, &s->stamp));
  if (s->stamp.bytes < s->raw_bytes)
    CT_FAIL(CT_ERR_IO, "%s: has %lld bytes, expected at least %lld", s->path,
            (long long)s->stamp.bytes, (long long)s->raw_bytes);
out:
  return rc;
}

static void source_forget(ct__h5_source_t *s)
{
  ct__h5_drop(s->array);
  ct_mem_free(s->path);
  s->array = -1;
  s->path = NULL;
}

static int concerns(const ct__h5_source_t *s, int64_t first, int64_t rows)
{
  return s->first < first + rows && first < s->end;
}

/* Adds to an error which samples it concerns. */
static int blame(const ct__h5_source_t *s, int rc)
{
  return ct_err_prefix(rc, "source of samples %lld to %lld: ", (long long)s->first,
                       (long long)s->end - 1);
}

static void drop_creation(ct__h5_sources_t *s)
{
  if (s->creation_of) ct__h5_drop(s->creation);
  s->creation_of = 0;
}

/* Cached, since HDF5 copies all mappings at each call: querying it per source would take quadratic
 * time. */
static hid_t creation_of(ct__h5_sources_t *s, hid_t array)
{
  if (s->creation_of != array) {
    drop_creation(s);
    s->creation = H5Dget_create_plist(array);
    s->creation_of = array;
  }
  return s->creation;
}

static int need(ct__h5_sources_t *all, int i)
{
  ct__h5_source_t *s = &all->v[i];
  hid_t creation = creation_of(all, s->of);
  int rc = s->raw_bytes >= 0 ? need_raw(s, creation) : need_array(s, creation);
  ct_heartbeat_progress();
  if (rc != CT_OK) {
    source_forget(s); /* search again next time */
    return blame(s, rc);
  }
  if (s->array < 0) return CT_OK;
  ct__h5_source_t inner = {.first = s->first,
                           .end = s->end,
                           .of = s->array,
                           .depth = s->depth + 1,
                           .raw_bytes = -1,
                           .array = -1,
                           .fd = -1};
  return source_list(all, &inner);
}

int ct__h5_sources_need(ct__h5_sources_t *s, int64_t first, int64_t rows)
{
  int rc = CT_OK;
  for (int i = 0; i < s->n; i++) /* the list may grow meanwhile */
    if (!s->v[i].path && concerns(&s->v[i], first, rows)) CT_TRY(need(s, i));
out:
  return rc;
}

int ct__h5_sources_check(const ct__h5_sources_t *s, int64_t first, int64_t rows, int *changed)
{
  ct__h5_stamp_t now;
  for (int i = 0; i < s->n; i++) {
    const ct__h5_source_t *source = &s->v[i];
    if (!concerns(source, first, rows)) continue;
    int rc = ct__h5_stamp_read(source->fd, source->path, &now);
    if (rc == CT_OK) rc = ct__h5_stamp_compare(source->path, &source->stamp, &now, changed);
    if (rc != CT_OK) return blame(source, rc);
  }
  return CT_OK;
}

void ct__h5_sources_clear(ct__h5_sources_t *s)
{
  drop_creation(s);
  for (int i = 0; i < s->n; i++)
    source_forget(&s->v[i]);
  ct_mem_free(s->v);
  *s = (ct__h5_sources_t){0};
}
