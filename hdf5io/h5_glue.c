/* HDF5 helpers: one lock around all calls, error messages with the operating system's reason,
 * opening files by one request and without file locks, closing files without a final write, and
 * types and attributes. */
#include "hdf5io/h5_glue.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/read/h5_offset_vfd.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char locking[16]; /* HDF5_USE_FILE_LOCKING */

/* HDF5 itself treats every unknown word as a request for locks. */
static int asks_for_locks(const char *word)
{
  static const char *const words[] = {"TRUE", "1", "BEST_EFFORT"};
  for (int i = 0; i < 3; i++)
    if (strcmp(word, words[i]) == 0) return 1;
  return 0;
}

/* File locks fail or hang on many parallel file systems, and our files have a single writer, which
 * renames them when they are complete. So locks are off unless the environment asks for them. This
 * is done by the environment variable because HDF5 does not pass a file access property on to the
 * sources of virtual arrays; it would then refuse a source that is already open here without locks,
 * and return zeros. */
static void glue_prepare(void)
{
  const char *asked = getenv("HDF5_USE_FILE_LOCKING");
  snprintf(locking, sizeof locking, "%s", asked ? asked : "");
  if (!asks_for_locks(locking)) setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
}

void ct_h5_setup(void)
{
  pthread_once(&once, glue_prepare);
}

void ct__h5_lock(void)
{
  static _Thread_local int silenced; /* HDF5's error stack and error printing are per thread */
  ct_h5_setup();
  pthread_mutex_lock(&lock);
  if (silenced) return;
  /* At exit HDF5 would retry writes that failed before (disk full), and crash. */
  H5dont_atexit();
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  silenced = 1;
}

void ct__h5_unlock(void)
{
  ct_heartbeat_file(NULL);
  pthread_mutex_unlock(&lock);
}

void ct__h5_drop(hid_t id)
{
  if (id < 0) return;
  hid_t errors = H5Eget_current_stack(); /* any other HDF5 call clears the error stack */
  H5Idec_ref(id);
  H5Eset_current_stack(errors);
}

const char *ct_h5_locking(void)
{
  ct_h5_setup();
  return locking;
}

const char *ct_h5_version(void)
{
  static char text[32];
  unsigned major = 0, minor = 0, release = 0;
  ct__h5_lock();
  H5get_libversion(&major, &minor, &release);
  snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
  ct__h5_unlock();
  return text;
}

/* ---- errors ---- */

typedef struct words {
  char *buf;
  size_t cap;
} words_t;

/* Keeps HDF5's message. The first entry visited is the innermost; a failed system call appears in
 * it as "…, error message = 'No space left on device', …". */
static herr_t take_words(unsigned n, const H5E_error2_t *e, void *to)
{
  static const char key[] = "error message = '";
  words_t *w = to;
  if (n > 0) return 0;
  const char *says = e->desc ? e->desc : "no reason given";
  const char *system = strstr(says, key);
  if (system) says = system + strlen(key);
  snprintf(w->buf, w->cap, "%.*s", (int)strcspn(says, system ? "'\n" : "\n"), says);
  return 0;
}

const char *ct__h5_why(char *buf, size_t cap)
{
  words_t w = {buf, cap};
  snprintf(buf, cap, "HDF5 gives no reason");
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_words, &w);
  size_t length = strlen(buf);
  if (strstr(buf, "version number")) /* format version of an object in the file */
    snprintf(buf + length, cap - length,
             "; a newer HDF5 than the %d.%d.%d of this program wrote it: its h5repack IN OUT makes "
             "a file that can be read",
             H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
  return buf;
}

/* Checks if any of the errors is a failed file lock. */
static herr_t find_lock(unsigned n, const H5E_error2_t *e, void *found)
{
  (void)n;
  if (e->min_num == H5E_CANTLOCKFILE) *(int *)found = 1;
  return 0;
}

/* Advice for lock errors: locks are only taken if the user's environment asks for them, so that is
 * what to change. */
static const char *lock_cure(void)
{
  int at_lock = 0;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_lock, &at_lock);
  return at_lock ? "; HDF5_USE_FILE_LOCKING requests file locks, which this file system lacks or "
                   "another process holds: unset it"
                 : "";
}

/* ---- files ---- */

/* File access properties: uses descriptors, so that a file's state can be checked with fstat(). */
static hid_t file_access(H5F_close_degree_t degree)
{
  hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_sec2(list);
  H5Pset_fclose_degree(list, degree);
  return list;
}

/* Determines the reason only after a failure, so that opening takes a single request to the file
 * system. */
static int cannot_open(const char *path)
{
  int rc = CT_OK;
  char why[200];
  const char *cure = lock_cure();
  int error = ct__h5_note_error();
  ct__h5_why(why, sizeof why);
  if (*cure) CT_FAIL(CT_ERR_IO, "%s: cannot be locked: %s%s", path, why, cure);
  if (access(path, R_OK) != 0) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  if (error)
    CT_FAIL(error == ENOMEM ? CT_ERR_NOMEM : CT_ERR_IO, "%s: cannot read: %s", path,
            strerror(error));
  CT_FAIL(CT_ERR_FORMAT, "%s: cannot be read as an HDF5 file: %s%s", path, why,
          ct_format_cure(path));
out:
  return rc;
}

int ct__h5_open(const char *path, hid_t *file)
{
  int rc = CT_OK;
  /* The file may also be a source of a virtual array, which HDF5 opens with this close degree and
   * rejects if it is open with another one. */
  hid_t access_list = file_access(H5F_CLOSE_WEAK);
  ct__h5_note_no_error();
  *file = ct__h5_note_driver(access_list) ? H5Fopen(path, H5F_ACC_RDONLY, access_list) : -1;
  if (*file < 0) rc = cannot_open(path);
  ct__h5_drop(access_list);
  return rc;
}

int ct__h5_create(const char *path, int compact, hid_t *file)
{
  int rc = CT_OK;
  char why[200];
  ct__h5_lock();
  hid_t access_list = file_access(H5F_CLOSE_STRONG), creation = H5Pcreate(H5P_FILE_CREATE);
  if (compact) {
    /* smaller groups (a kilobyte otherwise); no timestamps on the root group */
    H5Pset_libver_bounds(access_list, H5F_LIBVER_V18, H5F_LIBVER_V18);
    /* frees 4 KiB of metadata with each array; HDF5 built for MPI refuses it, which does no harm */
    H5Pset_evict_on_close(access_list, 1);
    H5Pset_meta_block_size(access_list, 0); /* do not reserve space that stays unused */
    H5Pset_small_data_block_size(access_list, 0);
    H5Pset_obj_track_times(creation, 0);
  }
  ct_file_remove(path); /* if it is a symbolic link, its target is left alone */
  *file = H5Fcreate(path, H5F_ACC_EXCL, creation, access_list);
  if (*file < 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot create: %s%s", path, ct__h5_why(why, sizeof why), lock_cure());
out:
  ct__h5_drop(creation);
  ct__h5_drop(access_list);
  ct__h5_unlock();
  if (rc != CT_OK) ct_file_remove(path); /* a full disk may still have created the name */
  return rc;
}

void ct__h5_create_groups(hid_t file, const char *name)
{
  hid_t links = H5Pcreate(H5P_LINK_CREATE), creation = H5Pcreate(H5P_GROUP_CREATE);
  H5Pset_char_encoding(links, H5T_CSET_UTF8);
  H5Pset_obj_track_times(creation, 0);
  for (const char *end = strchr(name + 1, '/'); end; end = strchr(end + 1, '/')) {
    char group[CT_PATH_MAX];
    if (ct_text_format(group, sizeof group, "%.*s", (int)(end - name), name) == CT_OK &&
        H5Lexists(file, group, H5P_DEFAULT) == 0)
      ct__h5_drop(H5Gcreate2(file, group, links, creation, H5P_DEFAULT));
  }
  ct__h5_drop(creation);
  ct__h5_drop(links);
}

/* HDF5 cannot close a file without writing its cached data, which would fail again after an error.
 * So its descriptor is redirected to a file in memory. */
static void close_unwritten(hid_t file)
{
  int *descriptor = NULL;
  int nowhere = memfd_create("unwritten", MFD_CLOEXEC);
  if (nowhere >= 0 && H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&descriptor) >= 0)
    dup2(nowhere, *descriptor);
  if (nowhere >= 0) close(nowhere);
  H5Fclose(file);
}

int ct__h5_finish(const char *path, hid_t file)
{
  int rc = CT_OK;
  char why[200];
  ct__h5_lock();
  if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) {
    ct__h5_why(why, sizeof why);
    close_unwritten(file);
    CT_FAIL(CT_ERR_IO, "%s: cannot write: %s", path, why);
  }
  if (H5Fclose(file) < 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot write: %s", path, ct__h5_why(why, sizeof why));
out:
  ct__h5_unlock();
  if (rc != CT_OK) ct_file_remove(path);
  return rc;
}

void ct__h5_abandon(const char *path, hid_t file)
{
  if (file < 0) return;
  ct__h5_lock();
  close_unwritten(file);
  ct__h5_unlock();
  ct_file_remove(path);
}

/* ---- types ---- */

/* IEEE half and bfloat16 are not predefined in HDF5: float32 with other bit fields. */
static hid_t small_float(hid_t from, size_t exponent_bits, size_t mantissa_bits, size_t bias)
{
  hid_t type = H5Tcopy(from);
  H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, bias);
  return type;
}

hid_t ct__h5_type_stored(ct_dtype_t type)
{
  switch (type) {
  case CT_F32:
    return H5Tcopy(H5T_IEEE_F32LE);
  case CT_BF16:
    return small_float(H5T_IEEE_F32LE, 8, 7, 127);
  case CT_F16:
    return small_float(H5T_IEEE_F32LE, 5, 10, 15);
  case CT_F64:
    return H5Tcopy(H5T_IEEE_F64LE);
  case CT_U8:
    return H5Tcopy(H5T_STD_U8LE);
  case CT_I8:
    return H5Tcopy(H5T_STD_I8LE);
  case CT_I16:
    return H5Tcopy(H5T_STD_I16LE);
  case CT_I32:
    return H5Tcopy(H5T_STD_I32LE);
  case CT_I64:
    return H5Tcopy(H5T_STD_I64LE);
  }
  return -1;
}

hid_t ct__h5_type_native(ct_dtype_t type)
{
  hid_t id = ct__h5_type_stored(type);
  H5Tset_order(id, H5Tget_order(H5T_NATIVE_INT));
  return id;
}

int ct__h5_type_find(hid_t type, ct_dtype_t *out)
{
  H5T_class_t class = H5Tget_class(type);
  if (class != H5T_INTEGER && class != H5T_FLOAT) return 0;
  hid_t order_free = H5Tcopy(type);
  H5Tset_order(order_free, H5T_ORDER_LE);
  int found = 0;
  for (int t = CT_F32; t <= CT_I64 && !found; t++) {
    hid_t candidate = ct__h5_type_stored((ct_dtype_t)t);
    found = H5Tequal(order_free, candidate) > 0;
    if (found) *out = (ct_dtype_t)t;
    ct__h5_drop(candidate);
  }
  ct__h5_drop(order_free);
  return found;
}

const char *ct__h5_type_text(hid_t type, char *buf, size_t cap)
{
  static const char *const classes[] = {[H5T_INTEGER] = "an integer",
                                        [H5T_FLOAT] = "a float",
                                        [H5T_TIME] = "a time",
                                        [H5T_STRING] = "a string",
                                        [H5T_BITFIELD] = "a bit field",
                                        [H5T_OPAQUE] = "an opaque type",
                                        [H5T_COMPOUND] = "a compound",
                                        [H5T_REFERENCE] = "a reference",
                                        [H5T_ENUM] = "an enumeration (a bool?)",
                                        [H5T_VLEN] = "a variable-length type",
                                        [H5T_ARRAY] = "an array"};
  ct_dtype_t known;
  H5T_class_t class = H5Tget_class(type);
  if (ct__h5_type_find(type, &known))
    snprintf(buf, cap, "%s", ct_dtype_name(known));
  else if (class == H5T_INTEGER || class == H5T_FLOAT)
    snprintf(buf, cap, "%s%s%zu", H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "",
             class == H5T_FLOAT ? "float" : "int", 8 * H5Tget_size(type));
  else
    snprintf(buf, cap, "%s", class >= 0 && class <= H5T_ARRAY ? classes[class] : "no type");
  return buf;
}

/* ---- rows ---- */

typedef struct rows {
  hid_t type;   /* element type in memory */
  hid_t memory; /* selection in memory */
  hid_t space;  /* selection in the file */
  int ok;
} rows_t;

/* end_rows() closes \a type */
static rows_t select_rows(hid_t array, hid_t type, ct__h5_rows_at_t at, int64_t first, int64_t rows)
{
  hsize_t start[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK];
  rows_t r = {type, -1, H5Dget_space(array), 1};
  int ndim = H5Sget_simple_extent_dims(r.space, count, NULL), dim = at.lead > 0;
  if (at.lead < 0) {
    r.memory = H5Scopy(r.space);
  } else if (ndim > dim) {
    start[0] = (hsize_t)at.index;
    count[0] = 1;
    start[dim] = (hsize_t)first;
    count[dim] = (hsize_t)rows;
    r.memory = H5Screate_simple(ndim, count, NULL);
    r.ok = H5Sselect_hyperslab(r.space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0;
  } else {
    r.memory = H5Screate(H5S_SCALAR);
    r.ok = ndim == 0;
  }
  return r;
}

static int end_rows(rows_t *r)
{
  ct__h5_drop(r->memory);
  ct__h5_drop(r->space);
  ct__h5_drop(r->type);
  return r->ok;
}

static int glue_read_rows(hid_t array, hid_t type, ct__h5_rows_at_t at, int64_t first, int64_t rows,
                          void *to)
{
  rows_t r = select_rows(array, type, at, first, rows);
  r.ok = r.ok && H5Dread(array, r.type, r.memory, r.space, H5P_DEFAULT, to) >= 0;
  return end_rows(&r);
}

int ct__h5_read_rows(hid_t array, ct_dtype_t type, int64_t first, int64_t rows, void *to)
{
  return ct__h5_read_rows_at(array, type, (ct__h5_rows_at_t){0}, first, rows, to);
}

int ct__h5_read_rows_at(hid_t array, ct_dtype_t type, ct__h5_rows_at_t at, int64_t first,
                        int64_t rows, void *to)
{
  return glue_read_rows(array, ct__h5_type_native(type), at, first, rows, to);
}

int ct__h5_read_rows_stored(hid_t array, ct__h5_rows_at_t at, int64_t first, int64_t rows, void *to)
{
  return glue_read_rows(array, H5Dget_type(array), at, first, rows, to);
}

int ct__h5_write_rows(hid_t array, ct_dtype_t type, int64_t first, int64_t rows, const void *from)
{
  rows_t r = select_rows(array, ct__h5_type_native(type), (ct__h5_rows_at_t){0}, first, rows);
  r.ok = r.ok && H5Dwrite(array, r.type, r.memory, r.space, H5P_DEFAULT, from) >= 0;
  return end_rows(&r);
}

/* ---- attributes ---- */

int ct__h5_has_attr(hid_t object, const char *name)
{
  return H5Aexists(object, name) > 0;
}

static hid_t open_attr(hid_t object, const char *name)
{
  return ct__h5_has_attr(object, name) ? H5Aopen(object, name, H5P_DEFAULT) : -1;
}

static int64_t count_values(hid_t attr)
{
  hid_t space = H5Aget_space(attr);
  int64_t n = H5Sget_simple_extent_npoints(space);
  ct__h5_drop(space);
  return n;
}

/* Returns 1 if the attribute has exactly one element, as this program's attributes have. */
static int is_single(hid_t attr)
{
  return count_values(attr) == 1;
}

int ct__h5_attr_int(hid_t object, const char *name, int64_t *out)
{
  hid_t attr = open_attr(object, name);
  if (attr < 0) return 0;
  hid_t type = H5Aget_type(attr);
  int found = H5Tget_class(type) == H5T_INTEGER && is_single(attr) &&
              H5Aread(attr, H5T_NATIVE_INT64, out) >= 0;
  ct__h5_drop(type);
  ct__h5_drop(attr);
  return found;
}

static int read_variable_text(hid_t attr, hid_t type, char *buf, size_t cap)
{
  char *text = NULL;
  if (H5Aread(attr, type, &text) < 0 || !text) return 0;
  snprintf(buf, cap, "%s", text);
  H5free_memory(text);
  return 1;
}

static int read_fixed_text(hid_t attr, hid_t type, char *buf, size_t cap)
{
  char text[1024] = "";
  size_t size = H5Tget_size(type);
  if (size >= sizeof text || H5Aread(attr, type, text) < 0) return 0;
  snprintf(buf, cap, "%s", text);
  return 1;
}

int ct__h5_attr_text(hid_t object, const char *name, char *buf, size_t cap)
{
  hid_t attr = open_attr(object, name);
  if (attr < 0) return 0;
  hid_t type = H5Aget_type(attr);
  int found = H5Tget_class(type) == H5T_STRING && is_single(attr);
  if (found && H5Tis_variable_str(type) > 0)
    found = read_variable_text(attr, type, buf, cap);
  else if (found)
    found = read_fixed_text(attr, type, buf, cap);
  ct__h5_drop(type);
  ct__h5_drop(attr);
  return found;
}

const char *ct__h5_attr_kind(hid_t object, const char *name, char *buf, size_t cap)
{
  char type_text[40];
  hid_t attr = open_attr(object, name), type = attr < 0 ? -1 : H5Aget_type(attr);
  ct__h5_type_text(type, type_text, sizeof type_text);
  if (attr >= 0 && !is_single(attr))
    snprintf(buf, cap, "%lld values of %s", (long long)count_values(attr), type_text);
  else
    snprintf(buf, cap, "%s", type_text);
  ct__h5_drop(type);
  ct__h5_drop(attr);
  return buf;
}

static int put_attr(hid_t object, const char *name, hid_t stored, hid_t native, const void *value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t attr = H5Acreate2(object, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
  int written = attr >= 0 && H5Awrite(attr, native, value) >= 0;
  ct__h5_drop(attr);
  ct__h5_drop(space);
  return written;
}

int ct__h5_put_attr_int(hid_t object, const char *name, int64_t value)
{
  return put_attr(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

int ct__h5_put_attr_text(hid_t object, const char *name, const char *value)
{
  hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, strlen(value) + 1);
  H5Tset_cset(type, H5T_CSET_UTF8);
  int written = put_attr(object, name, type, type, value);
  ct__h5_drop(type);
  return written;
}

int ct__h5_put_attr_texts(hid_t object, const char *name, const char *const *value, int64_t n)
{
  size_t longest = 0;
  hsize_t dim = (hsize_t)n;
  for (int64_t i = 0; i < n; i++)
    if (strlen(value[i]) > longest) longest = strlen(value[i]);
  char *all = ct_mem_array(n, longest + 1, "texts of an attribute");
  if (!all) return 0;
  for (int64_t i = 0; i < n; i++)
    memcpy(all + (size_t)i * (longest + 1), value[i], strlen(value[i]));
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate_simple(1, &dim, NULL);
  H5Tset_size(type, longest + 1);
  H5Tset_cset(type, H5T_CSET_UTF8);
  hid_t attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  int written = attr >= 0 && H5Awrite(attr, type, all) >= 0;
  ct__h5_drop(attr);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct_mem_free(all);
  return written;
}

/* Recognizes HDF5 files. The file may start with a user block, of 512 bytes or a larger power of
 * two; HDF5 searches these offsets too, up to the file's end. */
int ct__h5_probe(FILE *f)
{
  static const char signature[8] = "\211HDF\r\n\032\n";
  char bytes[sizeof signature];
  for (off_t at = 0; fseeko(f, at, SEEK_SET) == 0; at = at ? 2 * at : 512) {
    if (fread(bytes, 1, sizeof bytes, f) < sizeof bytes) return 0;
    if (memcmp(bytes, signature, sizeof bytes) == 0) return 1;
  }
  return 0;
}
