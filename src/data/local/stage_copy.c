/* Copies one file, and says whether a copy is whole: its checksum, taken while it was read, is
 * written beside it, and the copy is read back against it.  A node's disk may be full, or
 * broken. */
#include "data/local/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_temporary.h"
#include "base/ct_text.h"

/* A checksum is that of blocks, each with the one before as its seed. */
enum { BLOCK = 8 << 20, TELL_EVERY_S = 30 };

/* ---- how far it is ---- */

static void moved(ct__stage_pace_t *p, size_t bytes)
{
  char done[32], all[32];
  p->done += (int64_t)bytes;
  ct_beat_progress();
  if (p->copying >= 0) (void)!pwrite(p->copying, &p->done, sizeof p->done, 0);
  if (ct_clock() - p->told_s < TELL_EVERY_S) return;
  p->told_s = ct_clock();
  ct_log(CT_LOG_INFO, "data.stage: %s of %s are copied and checked",
         ct_text_bytes((double)p->done / 2, done, sizeof done),
         ct_text_bytes((double)p->all / 2, all, sizeof all));
}

/* ---- blocks ---- */

/* Up to \a want bytes, less only at the end of the file; -1: errno. */
static ssize_t read_block(int fd, char *to, size_t want)
{
  size_t done = 0;
  while (done < want) {
    ssize_t n = read(fd, to + done, want - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += (size_t)n;
  }
  return (ssize_t)done;
}

static int write_block(int fd, const char *path, const char *from, size_t bytes)
{
  for (size_t done = 0; done < bytes;) {
    ssize_t n = write(fd, from + done, bytes - done);
    if (n < 0 && errno != EINTR)
      return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write: %s; " CT__STAGE_CURE,
                        path, strerror(errno));
    if (n > 0) done += (size_t)n;
  }
  return CT_OK;
}

/* The whole of an opened file: its length and checksum, and if to >= 0 a copy of it. */
static int pass(int from, const char *path, int to, const char *copy, char *block,
                ct__stage_pace_t *pace, int64_t *bytes, uint64_t *sum)
{
  int rc = CT_OK;
  ssize_t n;
  *bytes = 0;
  *sum = 0;
  posix_fadvise(from, 0, 0, POSIX_FADV_SEQUENTIAL);
  while ((n = read_block(from, block, BLOCK)) > 0) {
    *sum = ct_hash(block, (size_t)n, *sum);
    *bytes += n;
    if (to >= 0) CT_TRY(write_block(to, copy, block, (size_t)n));
    moved(pace, (size_t)n);
  }
  if (n < 0) CT_FAIL(CT_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
out:
  return rc;
}

static int hash_file(const char *path, ct__stage_pace_t *pace, int64_t *bytes, uint64_t *sum)
{
  int rc = CT_OK;
  char *block = ct_mem_alloc(BLOCK, "a block of a file");
  int fd = ct_file_open(path, O_RDONLY, 0);
  if (!block) CT_TRY(CT_ERR_NOMEM);
  if (fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  CT_TRY(pass(fd, path, -1, NULL, block, pace, bytes, sum));
out:
  if (fd >= 0) close(fd);
  ct_mem_free(block);
  return rc;
}

/* ---- the record: "BYTES CHECKSUM" ---- */

static int read_record(const char *copy, int64_t *bytes, uint64_t *sum)
{
  char path[CT_PATH_MAX];
  int found = 0;
  if (snprintf(path, sizeof path, "%s.sum", copy) >= (int)sizeof path) return 0;
  FILE *f = fopen(path, "re");
  if (f) found = fscanf(f, "%" SCNd64 " %" SCNx64, bytes, sum) == 2;
  if (f) fclose(f);
  return found;
}

static int move(const char *temporary, const char *path)
{
  int why = ct_file_rename(temporary, path);
  if (!why) return CT_OK;
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot rename to '%s': %s", temporary, path,
                    strerror(why));
}

static int write_record(const char *copy, const char *temporary, int64_t bytes, uint64_t sum)
{
  int rc = CT_OK, fd;
  char path[CT_PATH_MAX], text[64];
  CT_TRY(ct_text_format(path, sizeof path, "%s.sum", copy));
  snprintf(text, sizeof text, "%" PRId64 " %016" PRIx64 "\n", bytes, sum);
  fd = ct_file_new(temporary, 0600);
  if (fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot create: %s", temporary, strerror(errno));
  rc = write_block(fd, temporary, text, strlen(text));
  close(fd);
  if (rc == CT_OK) rc = move(temporary, path);
out:
  return rc;
}

int ct__stage_has(const ct_stage_file_t *f, const char *copy)
{
  struct stat st;
  int64_t bytes;
  uint64_t sum;
  return stat(copy, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == f->bytes &&
         read_record(copy, &bytes, &sum) && bytes == f->bytes;
}

int ct__stage_check(const ct_stage_file_t *f, const char *copy, ct__stage_pace_t *pace)
{
  int rc = CT_OK;
  int64_t bytes, want_bytes;
  uint64_t sum, want;
  CT_TRY(hash_file(copy, pace, &bytes, &sum));
  if (!read_record(copy, &want_bytes, &want) || bytes != f->bytes || bytes != want_bytes ||
      sum != want)
    CT_FAIL(CT_ERR_IO, "%s: is not what was copied from %s", copy, f->path);
out:
  return rc;
}

/* ---- a copy ---- */

/* From the source to a new file. */
static int fill(const ct_stage_file_t *f, int from, const char *temporary, ct__stage_pace_t *pace,
                uint64_t *sum)
{
  int rc = CT_OK;
  int64_t bytes;
  char *block = ct_mem_alloc(BLOCK, "a block of a file");
  int to = ct_file_new(temporary, 0600);
  if (!block) CT_TRY(CT_ERR_NOMEM);
  if (to < 0) CT_FAIL(CT_ERR_IO, "%s: cannot create: %s", temporary, strerror(errno));
  CT_TRY(pass(from, f->path, to, temporary, block, pace, &bytes, sum));
  if (bytes != f->bytes)
    CT_FAIL(CT_ERR_IO,
            "%s: %" PRId64 " bytes could be read, but it had %" PRId64
            " when the run began: it was changed or cut off",
            f->path, bytes, f->bytes);
out:
  if (to >= 0 && close(to) != 0 && rc == CT_OK)
    rc = ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot write: %s", temporary,
                    strerror(errno));
  ct_mem_free(block);
  return rc;
}

static int fill_and_check(const ct_stage_file_t *f, const char *temporary, ct__stage_pace_t *pace,
                          uint64_t *sum)
{
  int rc = CT_OK;
  int64_t bytes;
  uint64_t again;
  ct_beat_file(f->path);
  int from = ct_file_open(f->path, O_RDONLY, 0);
  if (from < 0) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", f->path, strerror(errno));
  CT_TRY(fill(f, from, temporary, pace, sum));
  CT_TRY(hash_file(temporary, pace, &bytes, &again));
  if (bytes != f->bytes || again != *sum)
    CT_FAIL(CT_ERR_IO,
            "%s: other bytes are read than were written: the disk is not to be "
            "trusted; " CT__STAGE_CURE,
            temporary);
out:
  ct_beat_file(NULL);
  if (from >= 0) close(from);
  return rc;
}

int ct__stage_copy(const ct_stage_file_t *f, const char *copy, ct__stage_pace_t *pace)
{
  int rc = CT_OK;
  uint64_t sum;
  char host[64] = "", temporary[CT_PATH_MAX] = "";
  gethostname(host, sizeof host - 1);
  CT_TRY(ct_fault("stage.copy"));
  CT_TRY(ct_text_format(temporary, sizeof temporary, "%s.%s-%d" CT__STAGE_PART, copy, host,
                        (int)getpid()));
  ct_temporary_begin(temporary);
  CT_TRY(fill_and_check(f, temporary, pace, &sum));
  CT_TRY(move(temporary, copy));
  CT_TRY(write_record(copy, temporary, f->bytes, sum));
out:
  if (rc != CT_OK && temporary[0]) ct_file_remove(temporary);
  ct_temporary_end(temporary);
  return rc;
}
