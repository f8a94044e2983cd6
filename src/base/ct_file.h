/** \file ct_file.h  Small files, durable renames and file patterns.  Layer 0.  All functions are
 * local. */
#ifndef CT_FILE_H
#define CT_FILE_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Reads a whole file into a new NUL-terminated buffer (free with ct_mem_free()).  CT_ERR_IO,
 * CT_ERR_NOMEM. */
int ct_file_read(const char *path, char **data, size_t *bytes);
/** Reads exactly \a bytes bytes from offset \a at of an open file.  CT_ERR_IO: cannot be read;
 * CT_ERR_FORMAT: the file is too short. */
int ct_file_read_at(int fd, const char *path, int64_t at, void *to, size_t bytes);
/** Writes \a bytes bytes at offset \a at of an open file.  CT_ERR_IO. */
int ct_file_write_at(int fd, const char *path, int64_t at, const void *from, size_t bytes);
/** Writes a file that appears complete at its path or not at all: ct_out.h in one call.  CT_ERR_IO.
 */
int ct_file_write(const char *path, const void *data, size_t bytes);
/** Calls fsync on the temporary, renames it to \a path and calls fsync on the directory.
 * CT_ERR_IO. */
int ct_file_commit(const char *temporary, const char *path);
/** Reads the beginning of a small file, such as a file of /proc or /sys, as text into buf.  Returns
 * the length of the text; 0: the file is empty, or it cannot be read (errno is set). */
size_t ct_file_peek(const char *path, char *buf, size_t cap);
/** Calls open(2), and retries if the file server has dropped the file since its name was looked up
 * (ESTALE).  A file that is opened for writing must not be a symbolic link: another user may have
 * made a link that points to a file of this user.  Returns a descriptor, or -1 with errno set. */
int ct_file_open(const char *path, int flags, unsigned mode);
/** Create a file for writing; an existing file of that name is replaced.  They return a descriptor
 * or a stream; -1 or NULL: errno is set. */
int ct_file_new(const char *path, unsigned mode);
FILE *ct_file_new_stream(const char *path);
/** Pure.  Returns strerror(3), or a text of its own for a symbolic link that was refused. */
const char *ct_file_why(int error);
/** Call rename(2), unlink(2), rmdir(2) and mkdir(2).  They also succeed if a file server did the
 * operation, lost its reply, and refused the client's retry.  They return 0 or the error number.
 * Removing a missing file and making an existing directory are successes. */
int ct_file_rename(const char *from, const char *to);
int ct_file_remove(const char *path);
int ct_dir_remove(const char *path);
int ct_dir_make(const char *path, unsigned mode);
/** Creates a directory and its missing parents, as mkdir -p.  CT_ERR_IO. */
int ct_file_mkdirs(const char *path);
/** Returns 1 if the file exists. */
int ct_file_exists(const char *path);
/** Returns 1 if \a path is a directory. */
int ct_file_is_dir(const char *path);
/** Checks that \a path is a regular file or a link to one.  CT_ERR_IO names the reason or the type
 * of the file.  Call it before a file is opened: opening a FIFO would wait for its other end. */
int ct_file_regular(const char *path);
/** Returns 1 if both paths name the same existing file. */
int ct_file_same(const char *a, const char *b);
/** Result of ct_file_name(). */
typedef enum {
  CT_NAME_SAME,
  CT_NAME_OTHER,  /**< another file has the name now */
  CT_NAME_GONE,   /**< no file has the name, or the file server has dropped the open file */
  CT_NAME_UNKNOWN /**< the file system does not say */
} ct_name_t;
/** Returns whether \a path still names the open file \a fd. */
ct_name_t ct_file_name(int fd, const char *path);
/** Returns the bytes that are free for ordinary users on the file system of \a path; -1: not known.
 */
int64_t ct_file_free(const char *path);
/** Expands one shell pattern (glob(3)) relative to \a dir, sorted by bytes; a path without
 * wildcards expands to itself.  A leading component that exists as it is written is not a pattern:
 * `val[1].h5` is that file if it exists, and `run[2]/x-*.h5` searches that directory.  *list: n
 * strings, freed by ct_file_list_free().  CT_ERR_USAGE: no match; the message names the pattern and
 * the nearest existing name.  CT_ERR_IO: a directory cannot be listed.  A directory that this user
 * may not read is skipped with a warning, unless nothing else matches. */
int ct_file_glob(const char *dir, const char *pattern, char ***list, int *n);
void ct_file_list_free(char **list, int n);
/** Writes the end of an error message for a path or pattern that does not exist to buf (returned):
 * the longest existing directory of the path and the most similar name in that directory,
 * "; '/data' has 'train-0.h5'". */
const char *ct_file_missing(const char *path, char *buf, size_t cap);

/** Writes the path of the working directory.  CT_ERR_IO, for example if it was removed. */
int ct_file_cwd(char *out, size_t cap);
/** Writes the directory of this program's executable.  CT_ERR_IO if it is not known. */
int ct_file_program_dir(char *out, size_t cap);

#endif
