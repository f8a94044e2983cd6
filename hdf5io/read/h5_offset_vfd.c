/* A read-only file driver like HDF5's own for POSIX files, except that in note mode it records the
 * address of raw data and reads nothing.
 *
 * HDF5 uses the driver of a file also for the files that its links and virtual arrays refer to. */
#include "hdf5io/read/h5_offset_vfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_mem.h"

typedef struct file {
  H5FD_t head; /* HDF5's own part */
  int fd;
  int abandoned;
  haddr_t end_of_space, bytes;
  dev_t device;
  ino_t inode;
} file_t;

typedef struct note {
  int recording, reads;
  int64_t at, bytes;
} note_t;

static _Thread_local note_t note;
static _Thread_local int last_error;

static void keep_error(void)
{
  int of_name = errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == EPERM ||
                errno == ELOOP || errno == EISDIR;
  if (!of_name) last_error = errno;
}

/* Pushes an error in HDF5's format, from which ct__h5_why() extracts the operating system's
 * reason. */
static void say_why(hid_t what, const char *doing)
{
  H5Epush2(H5E_DEFAULT, __FILE__, "h5_note", __LINE__, H5E_ERR_CLS, H5E_VFL, what,
           "%s failed: errno = %d, error message = '%s'", doing, errno, strerror(errno));
}

static H5FD_t *note_open(const char *name, unsigned flags, hid_t access, haddr_t most)
{
  struct stat st;
  (void)access;
  (void)most;
  if (flags & H5F_ACC_RDWR) return NULL;
  file_t *f = ct_mem_alloc(sizeof *f, "an opened file");
  if (!f) {
    last_error = ENOMEM;
    return NULL;
  }
  f->fd = open(name, O_RDONLY | O_CLOEXEC);
  if (f->fd < 0 || fstat(f->fd, &st) != 0) {
    keep_error();
    say_why(H5E_CANTOPENFILE, "opening");
    if (f->fd >= 0) close(f->fd);
    ct_mem_free(f);
    return NULL;
  }
  f->bytes = (haddr_t)st.st_size;
  f->device = st.st_dev;
  f->inode = st.st_ino;
  return &f->head;
}

static herr_t note_close(H5FD_t *file)
{
  close(((file_t *)file)->fd);
  ct_mem_free(file);
  return 0;
}

static int order(uint64_t a, uint64_t b)
{
  return a < b ? -1 : a > b;
}

static int note_compare(const H5FD_t *one, const H5FD_t *other)
{
  const file_t *a = (const file_t *)one, *b = (const file_t *)other;
  if (a->abandoned || b->abandoned) return order((uintptr_t)a, (uintptr_t)b);
  int by_device = order(a->device, b->device);
  return by_device ? by_device : order(a->inode, b->inode);
}

static herr_t note_query(const H5FD_t *file, unsigned long *features)
{
  (void)file;
  *features = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_POSIX_COMPAT_HANDLE |
              H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

static haddr_t note_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
  (void)type;
  return ((const file_t *)file)->end_of_space;
}

static herr_t note_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t at)
{
  (void)type;
  ((file_t *)file)->end_of_space = at;
  return 0;
}

static haddr_t note_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
  (void)type;
  return ((const file_t *)file)->bytes;
}

static herr_t note_get_handle(H5FD_t *file, hid_t access, void **handle)
{
  (void)access;
  *handle = &((file_t *)file)->fd;
  return 0;
}

/* Bytes beyond the end read as zeros, as in HDF5's own driver. */
static herr_t note_read(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes,
                        void *to)
{
  (void)transfer;
  if (note.recording && type == H5FD_MEM_DRAW) {
    note.at = (int64_t)at;
    note.bytes = (int64_t)bytes;
    note.reads++;
    return 0;
  }
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(((file_t *)file)->fd, (char *)to + done, bytes - done, (off_t)(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      keep_error();
      say_why(H5E_READERROR, "reading");
      return -1;
    }
    if (n == 0) {
      memset((char *)to + done, 0, bytes - done);
      break;
    }
    done += (size_t)n;
  }
  return 0;
}

static herr_t note_write(H5FD_t *file, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t bytes,
                         const void *from)
{
  (void)file;
  (void)type;
  (void)transfer;
  (void)at;
  (void)bytes;
  (void)from;
  return -1;
}

/* Called only if the environment asks for locks. */
static herr_t note_lock(H5FD_t *file, hbool_t for_writing)
{
  if (flock(((file_t *)file)->fd, (for_writing ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return 0;
  const char *asked = getenv("HDF5_USE_FILE_LOCKING");
  if (errno == ENOSYS && asked && strcmp(asked, "BEST_EFFORT") == 0) return 0;
  say_why(H5E_CANTLOCKFILE, "locking");
  return -1;
}

static herr_t note_unlock(H5FD_t *file)
{
  return flock(((file_t *)file)->fd, LOCK_UN) == 0 ? 0 : -1;
}

static const H5FD_class_t driver = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = H5_VFD_RESERVED + 214, /* any number that HDF5 does not use */
#endif
    .name = "ctrain_note",
    .maxaddr = ((haddr_t)1 << 62) - 1,
    .fc_degree = H5F_CLOSE_WEAK,
    .open = note_open,
    .close = note_close,
    .cmp = note_compare,
    .query = note_query,
    .get_eoa = note_get_eoa,
    .set_eoa = note_set_eoa,
    .get_eof = note_get_eof,
    .get_handle = note_get_handle,
    .read = note_read,
    .write = note_write,
    .lock = note_lock,
    .unlock = note_unlock,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

int ct__h5_note_driver(hid_t access)
{
  static hid_t id = -1;
  if (id < 0) id = H5FDregister(&driver);
  return id >= 0 && H5Pset_driver(access, id, NULL) >= 0;
}

static int read_chunk(hid_t array, const hsize_t *offset, uint32_t *skipped)
{
  char nothing; /* not written to, since the driver only records the address */
#if H5_VERSION_GE(2, 0, 0)
  size_t cap = (size_t)1 << 40;
  return H5Dread_chunk2(array, H5P_DEFAULT, offset, skipped, &nothing, &cap) >= 0;
#else
  return H5Dread_chunk(array, H5P_DEFAULT, offset, skipped, &nothing) >= 0;
#endif
}

/* In HDF5 1.10 querying the size of a chunk that was never written is an error. */
static herr_t find_hole(unsigned n, const H5E_error2_t *e, void *is_hole)
{
  (void)n;
  if (e->desc && strstr(e->desc, "storage is not allocated")) *(int *)is_hole = 1;
  return 0;
}

int ct__h5_note_chunk(hid_t array, const hsize_t *offset, ct__h5_extent_t *out)
{
  hsize_t stored = 0;
  *out = (ct__h5_extent_t){0};
  note = (note_t){.recording = 1};
  int read = read_chunk(array, offset, &out->skipped);
  note.recording = 0;
  if (read && note.reads == 1 && note.bytes > 0) {
    out->at = note.at;
    out->bytes = note.bytes;
    return 1;
  }
  if (read || note.reads) return 0;
  if (H5Dget_chunk_storage_size(array, offset, &stored) >= 0) return stored == 0;
  int is_hole = 0;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, find_hole, &is_hole);
  return is_hole;
}

int ct__h5_note_error(void)
{
  return last_error;
}

void ct__h5_note_no_error(void)
{
  last_error = 0;
}

void ct__h5_note_abandon(int *descriptor)
{
  ((file_t *)(void *)((char *)descriptor - offsetof(file_t, fd)))->abandoned = 1;
}
