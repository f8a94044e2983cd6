/** \file ct_cache.h  What was read of data files, on a disk of this node.  Layer 2.  Everything is
 * local.
 *
 * Each process of a node opens the cache; they share DIR/ctrain-cache-HASH, with the hash of the
 * user and of the files' paths, and the last that closes it removes it.  A data file has two files
 * there, named by its path, size and time of change, so that a changed one begins anew: a sparse
 * file of its size, and one 64-bit word for each piece of it.  A word is 0 until the piece is
 * written whole, and then the piece's checksum; two processes that write the same piece write the
 * same bytes.  A process compares the checksum when it uses a piece first, so what a killed run or
 * a crash has left is taken over as far as it is right. */
#ifndef CT_CACHE_H
#define CT_CACHE_H
#include <stddef.h>
#include <stdint.h>

enum { CT_CACHE_PIECE = 1 << 20 }; /**< bytes; a whole one is read of the source for any of it */

typedef struct ct_cache ct_cache_t;
typedef struct ct_cache_file ct_cache_file_t; /**< of one data file */

/** Below \a dir, which is made if need be, for these \a n data files.  What other runs left there
 * that were killed is removed, unless they were to \a keep it.  CT_ERR_IO: the directory cannot be
 * made or is not ours. */
int ct_cache_open(const char *dir, int n, const char *const paths[], int keep, ct_cache_t **out);
/** Where it lies.  Borrowed. */
const char *ct_cache_dir(const ct_cache_t *c);
/** Bytes that this process had to take from the sources, and that it found. */
void ct_cache_counts(const ct_cache_t *c, int64_t *missed, int64_t *found);
/** All files are closed.  NULL is fine. */
void ct_cache_close(ct_cache_t *c);

/** The cache of the file \a path of this size and time.  NULL, with a warning at the first: it
 * cannot be made, the file is read as if there were no cache.  Closed before the cache is. */
ct_cache_file_t *ct_cache_file_open(ct_cache_t *c, const char *path, int64_t bytes,
                                    int64_t mtime_ns);
/** Thread-safe.  As ct_file_read_at() of \a fd, the opened data file, which is read only where the
 * cache has not got it; then the whole pieces are kept.  A disk that is full or fails is no error:
 * one warning, and the file is read. */
int ct_cache_read(ct_cache_file_t *f, int fd, const char *path, int64_t at, void *to, size_t bytes);
/** 1 if all these bytes seem to be there. */
int ct_cache_has(const ct_cache_file_t *f, int64_t at, int64_t bytes);
/** NULL is fine. */
void ct_cache_file_close(ct_cache_file_t *f);

#endif
