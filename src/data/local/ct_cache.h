/** \file ct_cache.h  A cache of data files on this node's disk.  Layer 2.  All functions are local.
 *
 * Each process of a node opens the cache.  All of them share DIR/ctrain-cache-HASH; the hash covers
 * the user and the files.  The last process that closes the cache removes the directory.
 *
 * A data file has two files there: a sparse file of the same size, and one 64-bit word for each
 * block of CT_CACHE_PIECE bytes.  Their names hold a hash of its path, size and modification time,
 * so a changed file starts from nothing.  A word is 0 until its block is written completely, then
 * it is the block's checksum.  Processes that write the same block write the same bytes.  A process
 * verifies a block against its checksum before it uses it for the first time, so the valid blocks
 * that a killed run or a crash has left are used again.
 *
 * There are two ways to use it.  Cached files are filled as they are read (ct_cache_read()); if the
 * disk is full or fails, the rest is read from the data files.  Staged files are filled before they
 * are read (ct_cache_fill()); then the sparse file is a complete copy, and any failure is an error.
 */
#ifndef CT_CACHE_H
#define CT_CACHE_H
#include <stddef.h>
#include <stdint.h>

enum {
  CT_CACHE_PIECE = 1 << 20
}; /**< bytes of a block, which is read from a data file as a whole */

/** A data file. */
typedef struct ct_cache_source {
  const char *path; /**< borrowed */
  int64_t bytes;    /**< its size; 0 unless the file is staged */
  int64_t mtime_ns; /**< its modification time in nanoseconds; 0 unless the file is staged */
} ct_cache_source_t;

typedef struct ct_cache ct_cache_t;
typedef struct ct_cache_file ct_cache_file_t; /**< the cache of one data file */

/** Fills in the size and the modification time of s->path.  CT_ERR_IO */
int ct_cache_stat(ct_cache_source_t *s);

/** Opens the cache of these \a n data files in \a dir, which is created if it is missing.  \a
 * staged: they will be filled by ct_cache_fill().  Removes caches of other files there that no
 * process uses, unless they were opened with \a keep.  CT_ERR_IO: the directory cannot be created
 * or belongs to another user. */
int ct_cache_open(const char *dir, int staged, const ct_cache_source_t *files, int n, int keep,
                  ct_cache_t **out);
/** Returns the directory of the cache.  Borrowed. */
const char *ct_cache_dir(const ct_cache_t *c);
/** Returns the bytes that this process has read from the data files, and from the cache. */
void ct_cache_counts(const ct_cache_t *c, int64_t *missed, int64_t *found);
/** Frees \a c, which may be NULL.  All its files must be closed before. */
void ct_cache_close(ct_cache_t *c);

/** Opens the cache of the file \a path with this size and modification time.  NULL: it cannot be
 * created, and the file is to be read without a cache; the first such failure logs a warning. */
ct_cache_file_t *ct_cache_file_open(ct_cache_t *c, const char *path, int64_t bytes,
                                    int64_t mtime_ns);
/** Thread-safe.  Reads bytes of the data file opened as \a fd, as ct_file_read_at() does.  Blocks
 * that are not in the cache are read from the data file and added to the cache.  If the disk is
 * full or fails, logs one warning and reads the data file. */
int ct_cache_read(ct_cache_file_t *f, int fd, const char *path, int64_t at, void *to, size_t bytes);
/** Returns 1 if all these bytes seem to be in the cache. */
int ct_cache_has(const ct_cache_file_t *f, int64_t at, int64_t bytes);
/** Closes the file; \a f may be NULL. */
void ct_cache_file_close(ct_cache_file_t *f);

/** Staged.  CT_ERR_IO if the disk has not enough space for the missing blocks of the files. */
int ct_cache_check_space(const ct_cache_t *c, const ct_cache_source_t *files, int n);
/** Staged.  Copies part \a part of \a parts of all blocks of the files and reads each back to
 * verify it; blocks that are there are only verified.  Calls ct_heartbeat_progress(); rank 0 logs a
 * line every 30 s.  *copied: bytes that were read from the data files.  CT_ERR_IO: a file is gone
 * or has changed since ct_cache_stat(), or the disk is full or fails. */
int ct_cache_fill(ct_cache_t *c, const ct_cache_source_t *files, int n, int part, int parts,
                  int64_t *copied);
/** Staged.  Writes the path of the copy of a file to \a out; the copy is complete after all parts
 * were filled. */
int ct_cache_copy(const ct_cache_t *c, const ct_cache_source_t *file, char *out, size_t cap);

#endif
