/* Compares a file with its state when it was opened, by stat() of its descriptor and its name. The
 * header explains the meaning of differences. */
#include "hdf5io/read/h5_stamp.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/ct_err.h"

enum { SECOND = 1000000000 };

static int64_t ns_of(struct timespec t)
{
  return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

static int stat_file(int fd, const char *path, struct stat *st)
{
  if ((fd >= 0 ? fstat(fd, st) : stat(path, st)) == 0) return CT_OK;
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot read: %s", path, strerror(errno));
}

int ct__h5_stamp_read(int fd, const char *path, ct__h5_stamp_t *out)
{
  int rc = CT_OK;
  struct stat st;
  struct timespec now;
  CT_TRY(stat_file(fd, path, &st));
  clock_gettime(CLOCK_REALTIME, &now);
  *out = (ct__h5_stamp_t){.bytes = st.st_size,
                          .inode = (int64_t)st.st_ino,
                          .modified_ns = ns_of(st.st_mtim),
                          .changed_ns = ns_of(st.st_ctim),
                          .taken_ns = ns_of(now)};
out:
  return rc;
}

int ct__h5_stamp_compare(const char *path, const ct__h5_stamp_t *was, const ct__h5_stamp_t *is,
                         int *changed)
{
  if (is->bytes != was->bytes)
    return ct_err_set(
        CT_ERR_IO, __FILE__, __LINE__,
        "%s: has %lld bytes, but had %lld when it was first opened: it was truncated, replaced or "
        "rewritten during the run, or this node sees a different file",
        path, (long long)is->bytes, (long long)was->bytes);
  if (was->inode == 0) return CT_OK;
  int is_other = is->inode != was->inode || is->modified_ns != was->modified_ns;
  if (is_other && is->changed_ns > was->taken_ns - SECOND) *changed = 1;
  return CT_OK;
}

/* Needs the lock. Gets the descriptor and the size that HDF5 uses. */
static int find_descriptor(hid_t object, const char *path, int *fd, hsize_t *bytes)
{
  int rc = CT_OK, *descriptor = NULL;
  char why[200];
  hid_t file = H5Iget_file_id(object);
  if (file < 0 || H5Fget_filesize(file, bytes) < 0 ||
      H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&descriptor) < 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot read: %s", path, ct__h5_why(why, sizeof why));
  *fd = *descriptor;
out:
  ct__h5_drop(file);
  return rc;
}

int ct__h5_stamp_take(hid_t object, const char *path, int *fd, ct__h5_stamp_t *out)
{
  int rc = CT_OK, changed;
  hsize_t bytes; /* the size that HDF5 saw */
  ct__h5_stamp_t opened;
  CT_TRY(find_descriptor(object, path, fd, &bytes));
  CT_TRY(ct__h5_stamp_read(*fd, path, out));
  opened = (ct__h5_stamp_t){.bytes = (int64_t)bytes};
  CT_TRY(ct__h5_stamp_compare(path, &opened, out, &changed));
out:
  return rc;
}
