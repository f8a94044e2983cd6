/** \file ct_file.h  Small files and durable renames.  Layer 0.  All functions are local. */
#ifndef CT_FILE_H
#define CT_FILE_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Whole file into a new NUL-terminated buffer (ct_mem_free).  CT_ERR_IO, CT_ERR_NOMEM. */
int ct_file_read(const char *path, char **data, size_t *bytes);
/** Exactly \a bytes bytes from place \a at of an open file.  CT_ERR_IO: cannot be read;
 * CT_ERR_FORMAT: it ends before. */
int ct_file_read_at(int fd, const char *path, int64_t at, void *to, size_t bytes);
/** All of \a bytes bytes to place \a at of an open file.  CT_ERR_IO. */
int ct_file_write_at(int fd, const char *path, int64_t at, const void *from, size_t bytes);
/** Writes path.tmp, fsync, rename, fsync of the directory: the file is there whole or not at all.
 */
int ct_file_write(const char *path, const void *data, size_t bytes);
/** fsync of the temporary, rename onto path, fsync of the directory. */
int ct_file_commit(const char *temporary, const char *path);
/** Local.  Reads the beginning of a small file, as those of /proc and /sys are, as text into buf.
 * Returns its length; 0: it is empty, or cannot be read, and errno says why. */
size_t ct_file_peek(const char *path, char *buf, size_t cap);
/** open(2), again where the server has forgotten the file since its name was looked up (ESTALE).
 * What is to be written or made is not a symbolic link: somebody else may have put it there, to a
 * file of this user.  -1: errno. */
int ct_file_open(const char *path, int flags, unsigned mode);
/** A new file, open for writing, in place of whatever has its name.  -1 or NULL: errno. */
int ct_file_new(const char *path, unsigned mode);
FILE *ct_file_new_stream(const char *path);
/** Pure.  An error number in words, as strerror(3) has them, but for a link that was not followed.
 */
const char *ct_file_why(int error);
/** rename(2), unlink(2), rmdir(2) and mkdir(2), also on a file server that does what it is asked,
 * loses its answer, and says to the second try that it cannot be done.  0, or the error number.
 * What is gone already is removed; a directory that is there already is made. */
int ct_file_rename(const char *from, const char *to);
int ct_file_remove(const char *path);
int ct_dir_remove(const char *path);
int ct_dir_make(const char *path, unsigned mode);
/** mkdir -p. */
int ct_file_mkdirs(const char *path);
/** 1 if it exists. */
int ct_file_exists(const char *path);
/** 1 for a directory. */
int ct_file_is_dir(const char *path);
/** CT_OK if \a path is a regular file, through links.  CT_ERR_IO says why it cannot be opened or
 * what it is: to open a FIFO would wait for its other end. */
int ct_file_regular(const char *path);
/** 1 if both are names of one file that exists. */
int ct_file_same(const char *a, const char *b);
/** What a name means, compared with an open file. */
typedef enum {
  CT_NAME_SAME,
  CT_NAME_OTHER,  /**< another file has its name now */
  CT_NAME_GONE,   /**< nothing has the name, or a file server has forgotten the file */
  CT_NAME_UNKNOWN /**< the file system does not tell */
} ct_name_t;
/** Whether \a path is still the name of the open file \a fd. */
ct_name_t ct_file_name(int fd, const char *path);
/** Bytes that an ordinary user may still write on the file system of \a path; -1: it does not tell.
 */
int64_t ct_file_free(const char *path);
/** Expands one shell pattern in byte order (glob(3)) relative to \a dir; without a magic character
 * the path itself.  Names at its beginning that exist are no patterns: `val[1].h5` is that file if
 * there is one, and `run[2]/x-*.h5` looks into that directory.  *list: n strings in one allocation
 * each, freed by ct_file_list_free().  No match: CT_ERR_USAGE that names the pattern and what is
 * near; a directory on the way that fails: CT_ERR_IO.  A directory that this user may not read is
 * left out with a warning, unless nothing else matches. */
int ct_file_glob(const char *dir, const char *pattern, char ***list, int *n);
void ct_file_list_free(char **list, int n);
/** The end of a message on a path, or pattern, that names nothing: the directory up to which it is
 * right, and the name there that is nearest: "; '/data' has 'train-0.h5'".  In buf (returned). */
const char *ct_file_missing(const char *path, char *buf, size_t cap);

/** Local.  The working directory.  CT_ERR_IO says if it was removed. */
int ct_file_cwd(char *out, size_t cap);
/** Local.  The directory that this program's file lies in.  CT_ERR_IO where the system does not
 * tell. */
int ct_file_program_dir(char *out, size_t cap);

#endif
