/* Writes the seal of a complete checkpoint file, and checks it before HDF5 opens the file: length
 * and hash, read in parts, so that damage never reaches a library that could crash on it. */
#include "hdf5io/store/h5_seal.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_format.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"

enum { HASH_BYTES = 4 << 20 }; /* hashed per step; part of the format */

typedef struct seal {
  char mark[16];
  uint64_t length, hash; /* little-endian */
} seal_t;

static const char mark[16] = "ctrain-hpc seal1";

/* Returns 1 for a seal of this program, of this or a newer format version. */
static int is_seal(const seal_t *s)
{
  return memcmp(s->mark, mark, sizeof mark - 1) == 0 && s->mark[15] >= '1' && s->mark[15] <= '9';
}

/* Reads all bytes: CT_OK, or CT_ERR_IO with \a what in its text. */
static int read_at(int fd, const char *path, void *to, size_t bytes, int64_t offset)
{
  int rc = CT_OK;
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(fd, (char *)to + done, bytes - done, offset + (int64_t)done);
    if (n == 0) CT_FAIL(CT_ERR_IO, "%s: cannot read: it became shorter", path);
    if (n < 0 && errno != EINTR) CT_FAIL(CT_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    if (n > 0) done += (size_t)n;
  }
out:
  return rc;
}

/* Computes the hash of the first \a length bytes in successive parts, each seeded with the previous
 * hash. */
static int hash_file(int fd, const char *path, int64_t length, uint64_t *hash)
{
  int rc = CT_OK;
  void *piece = ct_mem_alloc(HASH_BYTES, "a checksum");
  if (!piece) return CT_ERR_NOMEM;
  *hash = 0;
  for (int64_t at = 0; at < length; at += HASH_BYTES) {
    size_t bytes = length - at < HASH_BYTES ? (size_t)(length - at) : HASH_BYTES;
    CT_TRY(read_at(fd, path, piece, bytes, at));
    *hash = ct_hash(piece, bytes, *hash);
    ct_heartbeat_progress(); /* large files take long */
  }
out:
  ct_mem_free(piece);
  return rc;
}

int ct__h5_seal_write(const char *path)
{
  int rc = CT_OK;
  struct stat st;
  uint64_t hash;
  seal_t seal;
  int fd = ct_file_open(path, O_RDWR, 0);
  if (fd < 0 || fstat(fd, &st) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  CT_TRY(hash_file(fd, path, st.st_size, &hash));
  memcpy(seal.mark, mark, sizeof mark);
  seal.length = htole64((uint64_t)st.st_size);
  seal.hash = htole64(hash);
  ssize_t n = pwrite(fd, &seal, sizeof seal, st.st_size);
  if (n != sizeof seal)
    CT_FAIL(CT_ERR_IO, "%s: cannot write: %s", path, n < 0 ? strerror(errno) : strerror(ENOSPC));
out:
  if (fd >= 0 && close(fd) != 0 && rc == CT_OK)
    rc = ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write: %s", path, strerror(errno));
  return rc;
}

/* Opens a regular file for reading; the caller closes *fd unless it is -1. */
static int seal_open(const char *path, int *fd, struct stat *st)
{
  int rc = CT_OK;
  CT_TRY(ct_file_regular(path));
  ct_heartbeat_file(path);
  *fd = ct_file_open(path, O_RDONLY, 0);
  if (*fd < 0 || fstat(*fd, st) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
out:
  return rc;
}

int ct__h5_seal_check(const char *path)
{
  int rc = CT_OK;
  char format[24];
  struct stat st;
  uint64_t hash;
  seal_t seal;
  int fd = -1;
  CT_TRY(seal_open(path, &fd, &st));
  int64_t length = st.st_size - (int64_t)sizeof seal;
  if (length > 0) CT_TRY(read_at(fd, path, &seal, sizeof seal, length));
  if (length <= 0 || !is_seal(&seal))
    CT_FAIL(CT_ERR_FORMAT, "%s: is not a ctrain-hpc checkpoint, or is truncated", path);
  snprintf(format, sizeof format, "ctrain-hpc seal %c", seal.mark[15]);
  CT_TRY(ct_format_number(path, format, "ctrain-hpc seal", mark[15] - '0', NULL));
  if (le64toh(seal.length) != (uint64_t)length)
    CT_FAIL(CT_ERR_FORMAT, "%s: is damaged: it holds %lld bytes, expected %llu", path,
            (long long)length, (unsigned long long)le64toh(seal.length));
  CT_TRY(hash_file(fd, path, length, &hash));
  if (le64toh(seal.hash) != hash)
    CT_FAIL(CT_ERR_FORMAT, "%s: is damaged: its checksum is %016llx, expected %016llx", path,
            (unsigned long long)hash, (unsigned long long)le64toh(seal.hash));
out:
  ct_heartbeat_file(NULL);
  if (fd >= 0) close(fd);
  return rc;
}

int ct_h5_is_checkpoint(const char *path, int *out)
{
  int rc = CT_OK;
  struct stat st;
  seal_t seal;
  int fd = -1;
  CT_TRY(seal_open(path, &fd, &st));
  *out = st.st_size > (off_t)sizeof seal;
  if (*out) CT_TRY(read_at(fd, path, &seal, sizeof seal, st.st_size - (off_t)sizeof seal));
  *out = *out && is_seal(&seal);
out:
  ct_heartbeat_file(NULL);
  if (fd >= 0) close(fd);
  return rc;
}
