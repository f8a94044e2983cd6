/* The cache of one data file: its blocks ("pieces"), how they are written, verified and read.  The
 * words are mapped, so that the processes of a node see each other's.  Blocks are read and written
 * with pread() and pwrite(), which report a failing disk, where a mapping would end the program. */
#include "data/local/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"

enum {
  FORMAT = 2, /* of blocks and words: versions with different ones do not share files */
  STAMP = 33  /* characters of a name that stand for the path, the size and the time */
};

typedef _Atomic uint64_t ct__word_t;

struct ct_cache_file {
  ct_cache_t *cache;
  char path[CT_PATH_MAX]; /* of the file with the blocks */
  int fd;
  int64_t bytes;    /* size of the data file */
  int64_t mtime_ns; /* modification time of the data file */
  int64_t pieces;
  ct__word_t *word;     /* [pieces], mapped */
  atomic_char *checked; /* [pieces] 1: this process has verified the block */
};

/* ---- opening ---- */

/* Maps the words. The space for the words is allocated at once: if the disk were full later, an
 * access to the mapping would end the program. */
static int map_words(ct_cache_file_t *f, const char *path)
{
  int rc = CT_OK;
  size_t bytes = (size_t)f->pieces * sizeof *f->word;
  int fd = ct_file_open(path, O_RDWR | O_CREAT, 0600);
  int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
  if (error) CT_FAIL(CT_ERR_IO, "cannot be made: %s", strerror(error));
  void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) CT_FAIL(CT_ERR_IO, "cannot be mapped: %s", strerror(errno));
  f->word = map;
out:
  if (fd >= 0) close(fd);
  return rc;
}

/* Makes the name of a copy: a hash of its path, a hash of its size and time, and its own name for
 * messages. */
static void name_copy(const char *path, int64_t bytes, int64_t mtime_ns, char *out, size_t cap)
{
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t long_by = strlen(name) > 200 ? strlen(name) - 200 : 0;
  snprintf(out, cap, "%016" PRIx64 "-%016" PRIx64 "-%s", ct_hash_text(path, 0),
           ct_hash_int(mtime_ns, ct_hash_int(bytes, FORMAT)), name + long_by);
}

int ct_cache_copy(const ct_cache_t *c, const ct_cache_source_t *file, char *out, size_t cap)
{
  char name[256];
  name_copy(file->path, file->bytes, file->mtime_ns, name, sizeof name);
  return ct_text_format(out, cap, "%s/%s", c->at.dir, name);
}

/* Removes the files of the same data file before it changed. */
static void remove_older(const char *dir, const char *name)
{
  enum { OF_PATH = 17 };
  DIR *all = opendir(dir);
  const struct dirent *e;
  while (all && (e = readdir(all)))
    if (strncmp(e->d_name, name, OF_PATH) == 0 && strncmp(e->d_name, name, STAMP) != 0)
      unlinkat(dirfd(all), e->d_name, 0);
  if (all) closedir(all);
}

static int open_pieces(ct_cache_file_t *f, const char *path)
{
  int rc = CT_OK;
  const ct_cache_source_t source = {path, f->bytes, f->mtime_ns};
  CT_TRY(ct_cache_copy(f->cache, &source, f->path, sizeof f->path));
  f->fd = ct_file_open(f->path, O_RDWR, 0);
  if (f->fd >= 0) goto out;
  /* a staged file that changes has another directory */
  if (!f->cache->staged) remove_older(f->cache->at.dir, f->path + strlen(f->cache->at.dir) + 1);
  f->fd = ct_file_open(f->path, O_RDWR | O_CREAT, 0600);
  if (f->fd < 0) CT_FAIL(CT_ERR_IO, "cannot be made: %s", strerror(errno));
out:
  return rc;
}

static int open_files(ct_cache_file_t *f, const char *path)
{
  int rc = CT_OK;
  char words[CT_PATH_MAX];
  CT_TRY(ct_fault("cache.open"));
  CT_TRY(open_pieces(f, path));
  CT_TRY(ct_text_format(words, sizeof words, "%.*s.have", (int)strlen(f->cache->at.dir) + 1 + STAMP,
                        f->path));
  CT_TRY(map_words(f, words));
  f->checked = ct_mem_array(f->pieces, sizeof *f->checked, "what is known of a cached file");
  if (!f->checked) rc = CT_ERR_NOMEM;
out:
  return rc;
}

int ct__cache_file_open(ct_cache_t *c, const char *path, int64_t bytes, int64_t mtime_ns,
                        ct_cache_file_t **out)
{
  int rc = CT_OK;
  ct_cache_file_t *f = ct_mem_alloc(sizeof *f, "a cached file");
  *out = NULL;
  if (!f) return CT_ERR_NOMEM;
  f->cache = c;
  f->fd = -1;
  f->bytes = bytes;
  f->mtime_ns = mtime_ns;
  f->pieces = (bytes + CT_CACHE_PIECE - 1) / CT_CACHE_PIECE;
  CT_TRY(open_files(f, path));
  *out = f;
  f = NULL;
out:
  ct_cache_file_close(f);
  return rc;
}

ct_cache_file_t *ct_cache_file_open(ct_cache_t *c, const char *path, int64_t bytes,
                                    int64_t mtime_ns)
{
  ct_cache_file_t *f = NULL;
  if (bytes > 0 && ct__cache_file_open(c, path, bytes, mtime_ns, &f) != CT_OK)
    ct__cache_warn(c, c->at.dir, ct_err_last()->text);
  return f;
}

void ct_cache_file_close(ct_cache_file_t *f)
{
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  if (f->word) munmap((void *)f->word, (size_t)f->pieces * sizeof *f->word);
  ct_mem_free(f->checked);
  ct_mem_free(f);
}

/* ---- a piece ---- */

static size_t piece_bytes(const ct_cache_file_t *f, int64_t piece)
{
  int64_t left = f->bytes - piece * CT_CACHE_PIECE;
  return left < CT_CACHE_PIECE ? (size_t)left : CT_CACHE_PIECE;
}

/* Returns the checksum of a block; never 0. */
static uint64_t cache_word_of(const char *piece, size_t bytes)
{
  return ct_hash(piece, bytes, 0) | 1;
}

/* Returns 1 if the data file still has the size and time for which the cache was opened. */
static int cache_is_same(const ct_cache_file_t *f, int fd)
{
  struct stat st;
  return fstat(fd, &st) == 0 && st.st_size == f->bytes &&
         (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == f->mtime_ns;
}

static int write_piece(const ct_cache_file_t *f, int64_t piece, const char *from, size_t bytes)
{
  int rc = CT_OK;
  int64_t space = ct_file_free(f->path);
  CT_TRY(ct_fault("cache.write"));
  if (space >= 0 && space < f->cache->spare + (int64_t)bytes)
    CT_FAIL(CT_ERR_IO, "the disk is full except for %" PRId64 " MiB", f->cache->spare >> 20);
  CT_TRY(ct_file_write_at(f->fd, f->path, piece * CT_CACHE_PIECE, from, bytes));
out:
  return rc;
}

/* Writes a block to the cache that was read from the data file. */
static void cache_keep(ct_cache_file_t *f, int64_t piece, int fd, const char *from, size_t bytes)
{
  ct_cache_t *c = f->cache;
  if (atomic_load(&c->full) || !cache_is_same(f, fd)) return;
  if (write_piece(f, piece, from, bytes) != CT_OK) {
    atomic_store(&c->full, 1);
    ct__cache_warn(c, f->path, ct_err_last()->text);
    return;
  }
  atomic_store_explicit(&f->word[piece], cache_word_of(from, bytes), memory_order_release);
  atomic_store(&f->checked[piece], 1);
}

static int read_cached(const ct_cache_file_t *f, int64_t at, void *to, size_t bytes)
{
  int rc = CT_OK;
  CT_TRY(ct_fault("cache.read"));
  rc = ct_file_read_at(f->fd, f->path, at, to, bytes);
out:
  return rc;
}

/* Discards a block that is damaged or cannot be read. */
static void cache_forget(ct_cache_file_t *f, int64_t piece, uint64_t word, const char *why)
{
  atomic_store(&f->checked[piece], 0);
  atomic_compare_exchange_strong(&f->word[piece], &word, 0);
  ct__cache_warn(f->cache, f->path, why);
}

/* Returns 1 if the stored block matches its checksum; it is then in p. */
static int is_valid(ct_cache_file_t *f, int64_t piece, uint64_t word, ct__piece_t *p)
{
  size_t all = piece_bytes(f, piece);
  int rc = read_cached(f, piece * CT_CACHE_PIECE, p->bytes, all);
  int valid = rc == CT_OK && cache_word_of(p->bytes, all) == word;
  if (!valid)
    cache_forget(f, piece, word,
                 rc != CT_OK ? ct_err_last()->text : "differs from what was written there");
  atomic_store(&f->checked[piece], (char)valid);
  return valid;
}

/* Reads bytes of a block from the cache; 0 if they are not there. */
static int cache_find(ct_cache_file_t *f, int64_t piece, size_t skip, void *to, size_t bytes)
{
  uint64_t word = atomic_load_explicit(&f->word[piece], memory_order_acquire);
  if (!word) return 0;
  if (atomic_load(&f->checked[piece])) {
    if (read_cached(f, piece * CT_CACHE_PIECE + (int64_t)skip, to, bytes) == CT_OK) return 1;
    cache_forget(f, piece, word, ct_err_last()->text);
    return 0;
  }
  ct__piece_t *p = ct__cache_take(f->cache);
  int valid = p && is_valid(f, piece, word, p);
  if (valid) memcpy(to, p->bytes + skip, bytes);
  ct__cache_give(f->cache, p);
  return valid;
}

/* Reads the whole block from the data file and keeps it.  If that fails, reads only the wanted
 * bytes, whose error is reported. */
static int fetch(ct_cache_file_t *f, int64_t piece, int fd, const char *path, size_t skip, void *to,
                 size_t bytes)
{
  int64_t at = piece * CT_CACHE_PIECE;
  size_t all = piece_bytes(f, piece);
  ct__piece_t *p = atomic_load(&f->cache->full) ? NULL : ct__cache_take(f->cache);
  int whole = p && ct_file_read_at(fd, path, at, p->bytes, all) == CT_OK;
  if (whole) {
    memcpy(to, p->bytes + skip, bytes);
    cache_keep(f, piece, fd, p->bytes, all);
  }
  ct__cache_give(f->cache, p);
  atomic_fetch_add(&f->cache->missed, (int64_t)(whole ? all : bytes));
  return whole ? CT_OK : ct_file_read_at(fd, path, at + (int64_t)skip, to, bytes);
}

/* ---- any bytes ---- */

int ct_cache_read(ct_cache_file_t *f, int fd, const char *path, int64_t at, void *to, size_t bytes)
{
  int rc = CT_OK;
  char *out = to;
  if (at < 0 || at > f->bytes || bytes > (size_t)(f->bytes - at)) /* the file has grown */
    return ct_file_read_at(fd, path, at, to, bytes);
  for (size_t n; bytes > 0; at += (int64_t)n, out += n, bytes -= n) {
    int64_t piece = at / CT_CACHE_PIECE;
    size_t skip = (size_t)(at % CT_CACHE_PIECE), left = piece_bytes(f, piece) - skip;
    n = bytes < left ? bytes : left;
    if (cache_find(f, piece, skip, out, n))
      atomic_fetch_add(&f->cache->found, (int64_t)n);
    else
      CT_TRY(fetch(f, piece, fd, path, skip, out, n));
  }
out:
  return rc;
}

int ct_cache_has(const ct_cache_file_t *f, int64_t at, int64_t bytes)
{
  for (int64_t i = at / CT_CACHE_PIECE; i < f->pieces && i * CT_CACHE_PIECE < at + bytes; i++)
    if (!atomic_load_explicit(&f->word[i], memory_order_relaxed)) return 0;
  return 1;
}

/* ---- staging ---- */

int ct__cache_fill(ct_cache_file_t *f, int64_t piece, int fd, const char *path, int64_t *copied)
{
  int rc = CT_OK;
  size_t bytes = piece_bytes(f, piece);
  uint64_t word = atomic_load_explicit(&f->word[piece], memory_order_acquire);
  ct__piece_t *p = ct__cache_take(f->cache);
  if (!p) return CT_ERR_NOMEM;
  if (word && is_valid(f, piece, word, p)) goto out;
  rc = ct_file_read_at(fd, path, piece * CT_CACHE_PIECE, p->bytes, bytes);
  if (!cache_is_same(f, fd))
    CT_FAIL(CT_ERR_IO, "%s: its size or time has changed since the run began", path);
  CT_TRY(rc);
  *copied += (int64_t)bytes;
  word = cache_word_of(p->bytes, bytes);
  rc = write_piece(f, piece, p->bytes, bytes);
  if (rc != CT_OK)
    CT_TRY(ct_err_prefix(rc, "%s: cannot be filled (" CT__CACHE_CURE "): ", f->path));
  CT_TRY(read_cached(f, piece * CT_CACHE_PIECE, p->bytes, bytes));
  if (cache_word_of(p->bytes, bytes) != word)
    CT_FAIL(
        CT_ERR_IO,
        "%s: data read back differ from what was written: the disk may be faulty; " CT__CACHE_CURE,
        f->path);
  atomic_store_explicit(&f->word[piece], word, memory_order_release);
out:
  ct__cache_give(f->cache, p);
  return rc;
}
