/** \file h5_files.h  The open files of a data set. Internal. Called with HDF5's lock held.
 *
 * Files are opened on first use and stay open, since opening is expensive on parallel file systems.
 * Only with very many shards is the least recently used one closed. */
#ifndef CT_H5_FILES_H
#define CT_H5_FILES_H
#include <stdatomic.h>

#include "hdf5io/read/h5_array.h"

enum { CT__H5_FILES_OPEN = 256 }; /**< maximum number of open files; HDF5 needs 0.6 MB for each */

typedef struct ct__h5_file {
  int shard; /**< -1: none */
  hid_t file;
  ct__h5_array_t *array; /**< [arrays] owned: the array of samples of each reader that shares the
                            table; opened by the readers */
  uint64_t used;         /**< time of its last use */
  atomic_int held;       /**< threads that read its descriptor without the lock */
  int abandoned;         /**< 1: not used any more; closed when no thread holds it */
} ct__h5_file_t;

/** The open files, shared by the readers of several arrays of them; all zero: not initialized. */
typedef struct ct__h5_files {
  int arrays; /**< readers that the table is made for */
  int users;  /**< readers that share it */
  int next;   /**< number of the next reader */
  ct__h5_file_t *v;
  int n;    /**< entries: one per open file, plus one per thread for abandoned files still held */
  int most; /**< maximum number of open files */
  uint64_t time;
} ct__h5_files_t;

/** Allocates the table for \a files files of which \a arrays readers with \a threads threads each
 * read arrays. CT_ERR_NOMEM */
int ct__h5_files_make(int files, int arrays, int threads, ct__h5_files_t **out);
/** Adds a reader and returns its number. CT_ERR_ARG: the table was made for fewer. */
int ct__h5_files_join(ct__h5_files_t *f, int *number);
/** Removes reader \a number, which has no held file; the last one closes all files and frees the
 * table. */
void ct__h5_files_leave(ct__h5_files_t *f, int number);
/** Opens a shard's file, or returns the open one. *out is borrowed until the next call, or, if the
 * file is held before that, until it is released. Errors are those of ct__h5_open(). */
int ct__h5_files_open(ct__h5_files_t *f, int shard, const char *path, ct__h5_file_t **out);
/** Keeps the file open. A thread holds one file at a time. */
void ct__h5_file_hold(ct__h5_file_t *f);
/** Called without the lock. Ends the hold of ct__h5_file_hold(). */
void ct__h5_file_release(ct__h5_file_t *f);
/** Makes the next use of the shard open the file again, because reading it failed. */
void ct__h5_files_abandon(ct__h5_files_t *f, int shard);
/** Closes a shard's file if it is open. No thread may hold it. */
void ct__h5_files_shut(ct__h5_files_t *f, int shard);

#endif
