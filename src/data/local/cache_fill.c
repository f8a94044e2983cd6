/* Staging: fills the cache with whole files before they are read.  The ranks of a node divide the
 * blocks of all files among them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_text.h"
#include "data/local/cache.h"

typedef struct fill {
  ct_cache_t *cache;
  const ct_cache_source_t *files;
  int n;
  int64_t done; /* blocks that this process has filled */
  int64_t all;  /* blocks that this process has to fill */
  int64_t copied;
  double logged_s; /* ct_clock() of the last line in the log */
} fill_t;

static int64_t pieces_of(const ct_cache_source_t *s)
{
  return (s->bytes + CT_CACHE_PIECE - 1) / CT_CACHE_PIECE;
}

int ct_cache_stat(ct_cache_source_t *s)
{
  int rc = CT_OK;
  struct stat st;
  if (stat(s->path, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", s->path, strerror(errno));
  s->bytes = st.st_size;
  s->mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
out:
  return rc;
}

int ct_cache_check_space(const ct_cache_t *c, const ct_cache_source_t *files, int n)
{
  int rc = CT_OK;
  char copy[CT_PATH_MAX], need[32], free_text[32];
  struct stat st;
  int64_t missing = 0, space = ct_file_free(c->at.dir);
  for (int i = 0; i < n; i++) {
    CT_TRY(ct_cache_copy(c, &files[i], copy, sizeof copy));
    int64_t there = stat(copy, &st) == 0 ? (int64_t)st.st_blocks * 512 : 0; /* it is sparse */
    if (there < files[i].bytes) missing += files[i].bytes - there;
  }
  double want = (double)missing * 1.01 + (double)c->spare;
  if (missing > 0 && space >= 0 && (double)space < want)
    CT_FAIL(CT_ERR_IO, "%s: the copies need %s there, and %s are free; " CT__CACHE_CURE, c->at.dir,
            ct_text_bytes(want, need, sizeof need),
            ct_text_bytes((double)space, free_text, sizeof free_text));
out:
  return rc;
}

static void log_progress(fill_t *w)
{
  enum { EVERY_S = 30 };
  char done[32], all[32];
  w->done++;
  ct_heartbeat_progress();
  if (ct_clock() - w->logged_s < EVERY_S) return;
  w->logged_s = ct_clock();
  ct_log(CT_LOG_INFO, "data.stage: %s of the %s of this rank are copied and checked",
         ct_text_bytes((double)w->done * CT_CACHE_PIECE, done, sizeof done),
         ct_text_bytes((double)w->all * CT_CACHE_PIECE, all, sizeof all));
}

static int fill_file(fill_t *w, const ct_cache_source_t *s, int64_t from, int64_t to)
{
  int rc = CT_OK, fd = -1;
  ct_cache_file_t *f = NULL;
  ct_heartbeat_file(s->path);
  CT_TRY(ct_fault("stage.copy"));
  fd = ct_file_open(s->path, O_RDONLY, 0);
  if (fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", s->path, strerror(errno));
  posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  rc = ct__cache_file_open(w->cache, s->path, s->bytes, s->mtime_ns, &f);
  if (rc != CT_OK) CT_TRY(ct_err_prefix(rc, "%s: ", w->cache->at.dir));
  for (int64_t i = from; i < to; i++) {
    CT_TRY(ct__cache_fill(f, i, fd, s->path, &w->copied));
    log_progress(w);
  }
out:
  ct_heartbeat_file(NULL);
  ct_cache_file_close(f);
  if (fd >= 0) close(fd);
  return rc;
}

/* Fills the blocks [from, to), numbered across the files. */
static int fill_range(fill_t *w, int64_t from, int64_t to)
{
  int rc = CT_OK;
  int64_t first = 0; /* block of the file */
  for (int i = 0; i < w->n && first < to; i++) {
    int64_t n = pieces_of(&w->files[i]), begin = from > first ? from - first : 0;
    int64_t end = to - first < n ? to - first : n;
    if (begin < end) CT_TRY(fill_file(w, &w->files[i], begin, end));
    first += n;
  }
out:
  return rc;
}

/* Runs that begin at the same time with the same files each begin somewhere else, so that they find
 * each other's blocks instead of reading all of them. */
int ct_cache_fill(ct_cache_t *c, const ct_cache_source_t *files, int n, int part, int parts,
                  int64_t *copied)
{
  int rc = CT_OK;
  int64_t pieces = 0;
  fill_t w = {.cache = c, .files = files, .n = n, .logged_s = ct_clock()};
  for (int i = 0; i < n; i++)
    pieces += pieces_of(&files[i]);
  int64_t from = pieces * part / parts, to = pieces * (part + 1) / parts;
  w.all = to - from;
  int64_t begin = w.all ? from + (int64_t)getpid() * 7919 % w.all : from;
  CT_TRY(fill_range(&w, begin, to));
  CT_TRY(fill_range(&w, from, begin));
out:
  *copied = w.copied;
  return rc;
}
