/* Small files: read, renamed durably, found by pattern.  Each wait for the file system is recorded
 * for the watchdog (ct_heartbeat_file()), since a dead file server blocks forever. */
#include "base/ct_file.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_temporary.h"
#include "base/ct_text.h"

static ssize_t read_some(int fd, char *to, size_t bytes)
{
  ssize_t n;
  do
    n = read(fd, to, bytes);
  while (n < 0 && errno == EINTR);
  return n;
}

static int cannot_open(const char *path, int why)
{
  char hint[2 * CT_PATH_MAX];
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot open: %s%s", path, strerror(why),
                    why == ENOENT ? ct_file_missing(path, hint, sizeof hint) : "");
}

int ct_file_read(const char *path, char **data, size_t *bytes)
{
  int rc = CT_OK;
  struct stat st;
  char *buf = NULL;
  int64_t cap = 0, len = 0;
  ct_heartbeat_file(path);
  int fd = ct_file_open(path, O_RDONLY, 0);
  if (fd < 0 || fstat(fd, &st) != 0) CT_TRY(cannot_open(path, errno));
  /* the size is only a hint: that of a pipe is 0, and a file may grow */
  CT_TRY(ct_mem_grow((void **)&buf, &cap, (S_ISREG(st.st_mode) ? st.st_size : 0) + 2, 1));
  for (;;) {
    ssize_t n = read_some(fd, buf + len, (size_t)(cap - len - 1));
    if (n < 0) CT_FAIL(CT_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    if (n == 0) break;
    len += n;
    if (len + 1 == cap) CT_TRY(ct_mem_grow((void **)&buf, &cap, cap + 1, 1));
  }
  buf[len] = '\0';
  *data = buf;
  *bytes = (size_t)len;
  buf = NULL;
out:
  ct_heartbeat_file(NULL);
  ct_mem_free(buf);
  if (fd >= 0) close(fd);
  return rc;
}

int ct_file_read_at(int fd, const char *path, int64_t at, void *to, size_t bytes)
{
  int rc = CT_OK;
  ct_heartbeat_file(path);
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pread(fd, (char *)to + done, bytes - done, at + (int64_t)done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) CT_FAIL(CT_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    if (n == 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: ends at byte %lld, expected %lld bytes more", path,
              (long long)(at + (int64_t)done), (long long)(bytes - done));
    done += (size_t)n;
  }
out:
  ct_heartbeat_file(NULL);
  return rc;
}

int ct_file_write_at(int fd, const char *path, int64_t at, const void *from, size_t bytes)
{
  int rc = CT_OK;
  ct_heartbeat_file(path);
  for (size_t done = 0; done < bytes;) {
    ssize_t n = pwrite(fd, (const char *)from + done, bytes - done, at + (int64_t)done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) CT_FAIL(CT_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    done += (size_t)n;
  }
out:
  ct_heartbeat_file(NULL);
  return rc;
}

/* Writes a large file to the disk in parts and records progress for the watchdog.  The system
 * reports an error only once, either here or in the following fsync(). */
static int write_back(int fd)
{
  const off_t piece = 16 << 20;
  const unsigned all =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  struct stat st;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return 0;
  for (off_t at = 0; at < st.st_size; at += piece) {
    if (sync_file_range(fd, at, piece, all) != 0)
      return errno == EIO || errno == ENOSPC || errno == EDQUOT ? -1 : 0; /* else: not supported
                                                                             by this file system */
    ct_heartbeat_progress();
  }
  return 0;
}

/* Calls fsync() by name.  A file system that cannot sync a directory fails with EINVAL, which is
 * ignored. */
static int sync_path(const char *path, int flags)
{
  int rc = CT_OK;
  int fd = ct_file_open(path, flags, 0);
  if (fd < 0 || write_back(fd) != 0 || (fsync(fd) != 0 && errno != EINVAL))
    CT_FAIL(CT_ERR_IO, "%s: cannot write to the disk: %s", path, strerror(errno));
out:
  if (fd >= 0) close(fd);
  return rc;
}

int ct_file_commit(const char *temporary, const char *path)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  CT_TRY(ct_path_dir(dir, sizeof dir, path));
  CT_TRY(sync_path(temporary, O_RDONLY));
  int why = ct_file_rename(temporary, path);
  if (why) CT_FAIL(CT_ERR_IO, "%s: cannot rename to '%s': %s", temporary, path, strerror(why));
  ct_temporary_end(temporary);
  CT_TRY(sync_path(dir, O_RDONLY | O_DIRECTORY));
out:
  return rc;
}

size_t ct_file_peek(const char *path, char *buf, size_t cap)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC), why = errno;
  ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);
  if (fd >= 0) why = errno, close(fd);
  buf[n > 0 ? n : 0] = '\0';
  errno = why;
  return n > 0 ? (size_t)n : 0;
}

static int make_dir(const char *path)
{
  int why = ct_dir_make(path, 0777);
  if (!why) return CT_OK;
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot create the directory: %s", path,
                    strerror(why));
}

int ct_file_mkdirs(const char *path)
{
  int rc = CT_OK;
  char part[CT_PATH_MAX];
  CT_TRY(ct_text_format(part, sizeof part, "%s", path));
  for (char *p = part + 1; part[0] && *p; p++) {
    if (*p != '/') continue;
    *p = '\0';
    CT_TRY(make_dir(part));
    *p = '/';
  }
  CT_TRY(make_dir(part));
out:
  return rc;
}

int ct_file_exists(const char *path)
{
  return access(path, F_OK) == 0;
}

int ct_file_is_dir(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static const char *file_kind_of(mode_t mode)
{
  switch (mode & S_IFMT) {
  case S_IFDIR:
    return "a directory";
  case S_IFIFO:
    return "a FIFO";
  case S_IFSOCK:
    return "a socket";
  default:
    return "a device";
  }
}

int ct_file_regular(const char *path)
{
  int rc = CT_OK;
  struct stat st;
  ct_heartbeat_file(path); /* stat() may hang, too */
  if (stat(path, &st) != 0) CT_TRY(cannot_open(path, errno));
  if (!S_ISREG(st.st_mode))
    CT_FAIL(CT_ERR_IO, "%s: is %s, expected a regular file", path, file_kind_of(st.st_mode));
out:
  ct_heartbeat_file(NULL);
  return rc;
}

static int same_inode(const struct stat *a, const struct stat *b)
{
  return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

int ct_file_same(const char *a, const char *b)
{
  struct stat sa, sb;
  return stat(a, &sa) == 0 && stat(b, &sb) == 0 && same_inode(&sa, &sb);
}

ct_name_t ct_file_name(int fd, const char *path)
{
  struct stat named, open;
  if (stat(path, &named) != 0)
    return errno == ENOENT || errno == ENOTDIR || errno == ESTALE ? CT_NAME_GONE : CT_NAME_UNKNOWN;
  if (fstat(fd, &open) != 0) return CT_NAME_GONE;
  return same_inode(&named, &open) ? CT_NAME_SAME : CT_NAME_OTHER;
}

int64_t ct_file_free(const char *path)
{
  struct statvfs fs;
  if (statvfs(path, &fs) != 0 || fs.f_blocks == 0) return -1;
  return (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

static const char magic[] = "*?[";

/* Appends text to a pattern with its wildcards escaped. */
static int quote(ct_str_t *out, const char *text, size_t n)
{
  int rc = CT_OK;
  for (size_t i = 0; i < n && rc == CT_OK; i++)
    rc = ct_str_add(out, strchr("*?[\\", text[i]) ? "\\%c" : "%c", text[i]);
  return rc;
}

/* Removes the backslashes of a pattern, in place. */
static void unquote(char *text)
{
  char *to = text;
  for (const char *p = text; *p; p++) {
    if (*p == '\\' && p[1]) p++;
    *to++ = *p;
  }
  *to = '\0';
}

/* If the next component of the pattern exists below `real`, literally or without its backslashes,
 * appends it to `real` and sets *taken; else leaves `real` unchanged. */
static int take_literal(ct_str_t *real, const char *name, size_t n, int *taken)
{
  int rc = CT_OK;
  char plain[CT_PATH_MAX];
  size_t before = real->len;
  *taken = 0;
  for (int k = 0; k < 2 && !*taken && n < sizeof plain; k++) {
    ct_text_fit(plain, sizeof plain, "%.*s", (int)n, name);
    if (k) unquote(plain);
    CT_TRY(ct_str_add(real, "%s%s", before && real->data[before - 1] != '/' ? "/" : "", plain));
    *taken = ct_file_exists(real->data);
    if (*taken) break;
    real->data[real->len = before] = '\0';
  }
out:
  return rc;
}

/* Builds the pattern below dir.  Leading components that exist are taken literally: a directory
 * `run[2]` does not match `run2`. *whole: 1 if all components exist; then `real` is the path. */
static int full_pattern(ct_str_t *out, ct_str_t *real, const char *dir, const char *pattern,
                        int *whole)
{
  int rc = CT_OK, taken = 1;
  if (*pattern == '/') {
    CT_TRY(ct_str_add(real, "/"));
  } else {
    CT_TRY(ct_str_add(real, "%s", dir));
  }
  pattern += strspn(pattern, "/");
  while (*pattern && taken) {
    size_t n = strcspn(pattern, "/");
    CT_TRY(take_literal(real, pattern, n, &taken));
    if (taken) pattern += n + strspn(pattern + n, "/");
  }
  *whole = taken;
  CT_TRY(quote(out, real->data ? real->data : "", real->len));
  if (*pattern)
    CT_TRY(ct_str_add(out, "%s%s", out->len && out->data[out->len - 1] != '/' ? "/" : "", pattern));
out:
  return rc;
}

static int no_match(const char *pattern, char *path)
{
  char hint[2 * CT_PATH_MAX];
  unquote(path); /* the directory is not a pattern */
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "no file matches '%s'%s", pattern,
                    ct_file_missing(path, hint, sizeof hint));
}

static int by_bytes(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static int copy_list(char *const *paths, int n, char ***list)
{
  char **copy = ct_mem_array(n, sizeof *copy, "a list of files");
  if (!copy) return CT_ERR_NOMEM;
  for (int i = 0; i < n; i++) {
    copy[i] = ct_mem_strdup(paths[i]);
    if (!copy[i]) {
      ct_file_list_free(copy, n);
      return CT_ERR_NOMEM;
    }
  }
  *list = copy;
  return CT_OK;
}

static _Thread_local int unread; /* unreadable directories; glob() passes no argument to its
                                    error function */

/* Skips directories of other users with a warning.  Any other failure ends the search, since the
 * list would look complete. */
static int cannot_list(const char *dir, int why)
{
  if (why == ENOENT || why == ENOTDIR) return 0; /* missing: no match */
  if (!unread++)
    ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "the directory '%s' cannot be read: %s", dir,
               strerror(why));
  return why != EACCES && why != EPERM;
}

static int copy_one(char *path, char ***list, int *n)
{
  int rc = copy_list(&path, 1, list);
  *n = rc == CT_OK;
  return rc;
}

/* Runs glob(). */
static int find_all(const char *pattern, ct_str_t *path, char ***list, int *n)
{
  int rc = CT_OK;
  glob_t found = {0};
  unread = 0;
  int status = glob(path->data, GLOB_NOSORT, cannot_list, &found), none = found.gl_pathc == 0;
  if (status == GLOB_NOSPACE) CT_FAIL(CT_ERR_NOMEM, "no memory to list '%s'", path->data);
  if (status == GLOB_ABORTED || (none && unread))
    CT_TRY(ct_err_prefix(CT_ERR_IO, "pattern '%s': ", pattern));
  if (none) CT_TRY(no_match(pattern, path->data));
  if (unread) ct_log(CT_LOG_WARN, "pattern '%s': left out: %s", pattern, ct_err_last()->text);
  /* glob() sorts by locale: every rank must see the same order */
  qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
  CT_TRY(copy_list(found.gl_pathv, (int)found.gl_pathc, list));
  *n = (int)found.gl_pathc;
out:
  globfree(&found);
  return rc;
}

int ct_file_glob(const char *dir, const char *pattern, char ***list, int *n)
{
  int rc = CT_OK, whole;
  char path[CT_PATH_MAX];
  ct_str_t full = {0}, real = {0};
  *list = NULL;
  *n = 0;
  if (!strpbrk(pattern, magic)) {
    CT_TRY(ct_path_join(path, sizeof path, dir, pattern));
    CT_TRY(copy_one(path, list, n));
    goto out;
  }
  CT_TRY(full_pattern(&full, &real, dir, pattern, &whole));
  CT_TRY(whole ? copy_one(real.data, list, n) : find_all(pattern, &full, list, n));
out:
  ct_str_clear(&full);
  ct_str_clear(&real);
  return rc;
}

void ct_file_list_free(char **list, int n)
{
  for (int i = 0; list && i < n; i++)
    ct_mem_free(list[i]);
  ct_mem_free(list);
}

int ct_file_cwd(char *out, size_t cap)
{
  int rc = CT_OK;
  if (getcwd(out, cap)) return CT_OK;
  if (errno == ENOENT) CT_FAIL(CT_ERR_IO, "the working directory was removed: go to another one");
  CT_FAIL(CT_ERR_IO, "the working directory cannot be found: %s", strerror(errno));
out:
  return rc;
}

int ct_file_program_dir(char *out, size_t cap)
{
  int rc = CT_OK;
  char exe[CT_PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (n <= 0) CT_FAIL(CT_ERR_IO, "/proc/self/exe: %s", strerror(errno));
  exe[n] = '\0';
  CT_TRY(ct_path_dir(out, cap, exe));
out:
  return rc;
}
