/* Small files: whole or not at all; directories; patterns. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_out.h"
#include "base/ct_temporary.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"

/* ---- what is asked of the disk: these stand in for the C library's ---- */

static char asked[1000];  /* "sync NAME, rename NAME, ...", in order */
static int sync_error[2]; /* errno of fsync() on a file, on a directory; 0: it is done */
static int range_error;   /* likewise of sync_file_range() */

static void note(const char *what, const char *path)
{
  const char *slash = strrchr(path, '/');
  size_t n = strlen(asked);
  snprintf(asked + n, sizeof asked - n, "%s%s %s", n ? ", " : "", what, slash ? slash + 1 : path);
}

int fsync(int fd)
{
  char link[64], path[CT_PATH_MAX];
  struct stat st;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = '\0';
  note("sync", path);
  errno = fstat(fd, &st) == 0 ? sync_error[S_ISDIR(st.st_mode)] : 0;
  return errno ? -1 : (int)syscall(SYS_fsync, fd);
}

int sync_file_range(int fd, off_t from, off_t bytes, unsigned how)
{
  errno = range_error;
  return errno ? -1 : (int)syscall(SYS_sync_file_range, fd, from, bytes, how);
}

int rename(const char *from, const char *to)
{
  note("rename", from);
  return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* ---- helpers ---- */

static char path_buf[4][CT_PATH_MAX];

/* dir/name in one of a few static buffers. */
static const char *in(const char *dir, const char *name)
{
  static int next;
  char *buf = path_buf[next++ % 4];
  CT_ASSERT_OK(ct_path_join(buf, CT_PATH_MAX, dir, name));
  return buf;
}

static void expect_content(const char *path, const char *text, size_t bytes)
{
  char *data = NULL;
  size_t n = 0;
  if (CT_ASSERT_OK(ct_file_read(path, &data, &n)) != CT_OK) return;
  CT_ASSERT_INT(n, bytes);
  CU_ASSERT(n == bytes && memcmp(data, text, n) == 0);
  CT_ASSERT_INT(data[n], 0);
  ct_mem_free(data);
}

static void write_and_read(void)
{
  int64_t live = ct_mem_live();
  const char *path = in(ct_test_dir(), "a.txt");
  CT_ASSERT_OK(ct_file_write(path, "one\0two", 7));
  expect_content(path, "one\0two", 7);
  CT_ASSERT_OK(ct_file_write(path, "", 0));
  expect_content(path, "", 0);
  char temporary[CT_PATH_MAX];
  CT_ASSERT_OK(ct_text_format(temporary, sizeof temporary, "%s.tmp", path));
  CU_ASSERT_FALSE(ct_file_exists(temporary));
  CU_ASSERT_TRUE(ct_file_exists(path));
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void read_at_a_place(void)
{
  const char *path = in(ct_test_dir(), "places");
  char got[4] = "";
  CT_ASSERT_OK(ct_file_write(path, "0123456", 7));
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  CT_ASSERT_OK(ct_file_read_at(fd, path, 3, got, 3));
  CT_ASSERT_TEXT(got, "345");
  CT_ASSERT_OK(ct_file_read_at(fd, path, 100, got, 0));
  CT_ASSERT_FAILS(ct_file_read_at(fd, path, 5, got, 3), CT_ERR_FORMAT,
                  "places: ends at byte 7, expected 1 bytes more");
  close(fd);
  CT_ASSERT_FAILS(ct_file_read_at(fd, path, 0, got, 1), CT_ERR_IO, "Bad file descriptor");
}

static void read_what_has_no_size(void)
{
  enum { N = 300000 };
  int ends[2];
  char name[64], *data = NULL;
  size_t n = 0;
  expect_content("/dev/null", "", 0);
  CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < N; i += 3)
      if (write(ends[1], "abc", 3) != 3) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
  CT_ASSERT_OK(ct_file_read(name, &data, &n));
  CT_ASSERT_INT(n, N);
  CU_ASSERT(data && strlen(data) == N && strcmp(data + N - 3, "abc") == 0);
  ct_mem_free(data);
  close(ends[0]);
}

static void only_files_are_regular(void)
{
  const char *dir = ct_test_dir(), *fifo = in(dir, "fifo"), *link = in(dir, "link");
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int sock = socket(AF_UNIX, SOCK_STREAM, 0);
  CT_ASSERT_OK(ct_file_write(in(dir, "file"), "x", 1));
  CU_ASSERT_EQUAL(symlink("file", link), 0);
  CT_ASSERT_OK(ct_file_regular(in(dir, "file")));
  CT_ASSERT_OK(ct_file_regular(link));
  CU_ASSERT_EQUAL(unlink(link), 0);
  CU_ASSERT_EQUAL(mkfifo(fifo, 0600), 0);
  CU_ASSERT_EQUAL(symlink("fifo", link), 0);
  CT_ASSERT_FAILS(ct_file_regular(fifo), CT_ERR_IO, "/fifo: is a FIFO, expected a regular file");
  CT_ASSERT_FAILS(ct_file_regular(link), CT_ERR_IO, "/link: is a FIFO, expected a regular file");
  CT_ASSERT_FAILS(ct_file_regular(dir), CT_ERR_IO, ": is a directory, expected");
  CT_ASSERT_FAILS(ct_file_regular("/dev/null"), CT_ERR_IO, "/dev/null: is a device, expected");
  snprintf(at.sun_path, sizeof at.sun_path, "%s/socket", dir);
  CU_ASSERT_EQUAL(bind(sock, (struct sockaddr *)&at, sizeof at), 0);
  CT_ASSERT_FAILS(ct_file_regular(at.sun_path), CT_ERR_IO, "/socket: is a socket, expected");
  close(sock);
  CT_ASSERT_FAILS(ct_file_regular(in(dir, "none")), CT_ERR_IO, "/none: cannot open: No such file");
}

static void read_errors(void)
{
  char *data = NULL;
  size_t n;
  const char *dir = ct_test_dir();
  int64_t live = ct_mem_live();
  CT_ASSERT_FAILS(ct_file_read(in(dir, "none"), &data, &n), CT_ERR_IO, "No such file");
  CT_ASSERT_HAS(ct_err_last()->text, "none: cannot open");
  CT_ASSERT_FAILS(ct_file_read(dir, &data, &n), CT_ERR_IO, "directory");
  ct_mem_fail_at(1);
  CT_ASSERT_FAILS(ct_file_read("/dev/null", &data, &n), CT_ERR_NOMEM, "");
  CU_ASSERT_PTR_NULL(data);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void failed_write_leaves_the_old_file(void)
{
  const char *dir = ct_test_dir(), *path = in(dir, "a.txt");
  CT_ASSERT_OK(ct_file_write(path, "old", 3));
  /* a directory stands where the temporary would be */
  CT_ASSERT_OK(ct_file_mkdirs(in(dir, "a.txt.tmp")));
  CT_ASSERT_FAILS(ct_file_write(path, "new", 3), CT_ERR_IO, "a.txt.tmp: cannot create");
  expect_content(path, "old", 3);
  CT_ASSERT_FAILS(ct_file_write(in(dir, "no/b.txt"), "b", 1), CT_ERR_IO, "No such file");
  CT_ASSERT_OK(ct_file_mkdirs(in(dir, "d/e")));
  CT_ASSERT_FAILS(ct_file_write(in(dir, "d"), "b", 1), CT_ERR_IO, "cannot rename");
  CU_ASSERT_FALSE(ct_file_exists(in(dir, "d.tmp")));
}

/* ---- files written in several calls ---- */

static void a_file_appears_with_its_commit(void)
{
  const char *path = in(ct_test_dir(), "out"), *temporary = in(ct_test_dir(), "out.tmp");
  ct_out_t o = {0};
  CT_ASSERT_OK(ct_out_commit(&o)); /* not begun */
  CT_ASSERT_OK(ct_out_begin(&o, path));
  CT_ASSERT_OK(ct_out_put(&o, "abc", 3));
  CT_ASSERT_OK(ct_out_put_at(&o, 5, "f", 1));
  CT_ASSERT_OK(ct_out_put(&o, "", 0));
  CT_ASSERT_INT(o.at, 3);
  CT_ASSERT_OK(ct_out_put(&o, "de", 2));
  CU_ASSERT_FALSE(ct_file_exists(path));
  CT_ASSERT_OK(ct_out_commit(&o));
  ct_out_drop(&o);
  expect_content(path, "abcdef", 6);
  CT_ASSERT_OK(ct_out_begin(&o, path));
  CT_ASSERT_OK(ct_out_put(&o, "new", 3));
  ct_out_drop(&o);
  expect_content(path, "abcdef", 6);
  CU_ASSERT_FALSE(ct_file_exists(temporary));
}

static void the_first_error_of_a_file_stays(void)
{
  const char *path = in(ct_test_dir(), "full"), *temporary = in(ct_test_dir(), "full.tmp");
  ct_out_t o;
  CT_ASSERT_FAILS(ct_out_begin(&o, in(ct_test_dir(), "none/x")), CT_ERR_IO, "x.tmp: cannot create");
  CT_ASSERT_INT(ct_out_put(&o, "a", 1), CT_ERR_IO);
  CT_ASSERT_INT(ct_out_commit(&o), CT_ERR_IO);
  CT_ASSERT_OK(ct_out_begin(&o, path));
  int fd = o.fd;
  o.fd = open("/dev/full", O_WRONLY);
  CT_ASSERT_FAILS(ct_out_put(&o, "a", 1), CT_ERR_IO, "full.tmp: cannot write: No space");
  close(o.fd);
  o.fd = fd;
  CT_ASSERT_INT(ct_out_put(&o, "b", 1), CT_ERR_IO);
  CT_ASSERT_INT(o.at, 0);
  CT_ASSERT_INT(ct_out_commit(&o), CT_ERR_IO);
  CU_ASSERT_FALSE(ct_file_exists(path) || ct_file_exists(temporary));
}

static void commit_renames(void)
{
  const char *dir = ct_test_dir(), *from = in(dir, "x.partial"), *to = in(dir, "x.h5");
  CT_ASSERT_OK(ct_file_write(from, "data", 4));
  CT_ASSERT_OK(ct_file_commit(from, to));
  CU_ASSERT_FALSE(ct_file_exists(from));
  expect_content(to, "data", 4);
  CT_ASSERT_FAILS(ct_file_commit(from, to), CT_ERR_IO, "x.partial");
  expect_content(to, "data", 4);
}

/* After a power failure a name may be lost whose directory was not written, or be that of an empty
 * file whose data was not. */
static void commit_is_durable(void)
{
  char dir[CT_PATH_MAX], from[CT_PATH_MAX], to[CT_PATH_MAX];
  CT_ASSERT_OK(ct_path_join(dir, sizeof dir, ct_test_dir(), "run"));
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  CT_ASSERT_OK(ct_path_join(from, sizeof from, dir, "x.partial"));
  CT_ASSERT_OK(ct_path_join(to, sizeof to, dir, "x.h5"));
  asked[0] = '\0';
  CT_ASSERT_OK(ct_file_write(from, "data", 4));
  CT_ASSERT_TEXT(asked, "sync x.partial.tmp, rename x.partial.tmp, sync run");
  asked[0] = '\0';
  CT_ASSERT_OK(ct_file_commit(from, to));
  CT_ASSERT_TEXT(asked, "sync x.partial, rename x.partial, sync run");
}

/* EINVAL: not a thing that this file system can sync.  A file whose data may be lost gets no
 * name. */
static void what_cannot_be_synced_is_told(void)
{
  char dir[CT_PATH_MAX];
  CT_ASSERT_OK(ct_path_join(dir, sizeof dir, ct_test_dir(), "run"));
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  const char *path = in(dir, "a.txt");
  sync_error[0] = sync_error[1] = EINVAL;
  CT_ASSERT_OK(ct_file_write(path, "old", 3));
  sync_error[0] = EIO;
  CT_ASSERT_FAILS(ct_file_write(path, "new", 3), CT_ERR_IO,
                  "run/a.txt.tmp: cannot write to the disk: Input/output error");
  expect_content(path, "old", 3);
  CU_ASSERT_FALSE(ct_file_exists(in(dir, "a.txt.tmp")));
  sync_error[0] = 0;
  range_error = EIO; /* told only once: fsync() would say that all is well */
  CT_ASSERT_FAILS(ct_file_write(path, "new", 3), CT_ERR_IO,
                  "run/a.txt.tmp: cannot write to the disk: Input/output error");
  expect_content(path, "old", 3);
  range_error = ENOSYS;
  CT_ASSERT_OK(ct_file_write(path, "old", 3));
  range_error = 0;
  sync_error[1] = EIO;
  CT_ASSERT_FAILS(ct_file_write(path, "new", 3), CT_ERR_IO,
                  "run: cannot write to the disk: Input/output error");
  sync_error[1] = 0;
}

static void commit_of_a_large_file_is_progress(void)
{
  const char *dir = ct_test_dir(), *from = in(dir, "large.partial"), *to = in(dir, "large.h5");
  ct_heartbeat_t before, after;
  CT_ASSERT_OK(ct_file_write(from, "data", 4));
  CT_ASSERT_INT(truncate(from, 40 << 20), 0);
  ct_heartbeat_read(&before);
  CT_ASSERT_OK(ct_file_commit(from, to));
  ct_heartbeat_read(&after);
  CU_ASSERT_TRUE(after.progress_s > before.progress_s);
}

static void a_long_name_is_told_by_its_end(void)
{
  char path[400], told[64], whole[300];
  memset(path, 'a', sizeof path);
  snprintf(path + 350, sizeof path - 350, "/b.h5");
  ct_heartbeat_file(path);
  ct_heartbeat_file_read(told, sizeof told);
  ct_heartbeat_file_read(whole, sizeof whole);
  CT_ASSERT_INT(strlen(told), sizeof told - 1);
  CT_ASSERT_INT(strncmp(whole, "...aaa", 6), 0);
  CT_ASSERT_TEXT(strchr(whole, '/'), "/b.h5");
  ct_heartbeat_file("/c.h5");
  ct_heartbeat_file_read(told, sizeof told);
  CT_ASSERT_TEXT(told, "/c.h5");
  ct_heartbeat_file(NULL);
  ct_heartbeat_file_read(told, sizeof told);
  CT_ASSERT_TEXT(told, "");
}

static void *wait_for_a_file(void *path)
{
  ct_heartbeat_file(path);
  return NULL; /* and never says that it is over */
}

static void the_file_of_another_thread_stays(void)
{
  char told[64];
  pthread_t other;
  CT_ASSERT_INT(pthread_create(&other, NULL, wait_for_a_file, "/stuck.h5"), 0);
  pthread_join(other, NULL);
  ct_heartbeat_file("/later.h5");
  ct_heartbeat_file_read(told, sizeof told);
  CT_ASSERT_TEXT(told, "/stuck.h5"); /* it waits longer */
  ct_heartbeat_file(NULL);
  ct_heartbeat_file_read(told, sizeof told);
  CT_ASSERT_TEXT(told, "/stuck.h5");
}

/* In a child, which leaves its directory for ever. */
static int child_without_a_directory(const char *gone)
{
  char dir[CT_PATH_MAX], expected[CT_PATH_MAX];
  if (mkdir(gone, 0700) != 0 || chdir(gone) != 0 || !getcwd(expected, sizeof expected)) return 1;
  if (ct_file_cwd(dir, sizeof dir) != CT_OK || strcmp(dir, expected) != 0) return 2;
  if (rmdir(gone) != 0 || ct_file_cwd(dir, sizeof dir) != CT_ERR_IO) return 3;
  return !strstr(ct_err_last()->text, "the working directory was removed");
}

static void a_removed_working_directory_is_told(void)
{
  int status = -1;
  const char *gone = in(ct_test_dir(), "gone");
  pid_t child = fork();
  if (child == 0) _exit(child_without_a_directory(gone));
  waitpid(child, &status, 0);
  CT_ASSERT_INT(status, 0);
}

static void make_directories(void)
{
  struct stat st;
  const char *dir = ct_test_dir();
  CT_ASSERT_OK(ct_file_mkdirs(in(dir, "a/b//c/")));
  CT_ASSERT_INT(stat(in(dir, "a/b/c"), &st), 0);
  CU_ASSERT_TRUE(S_ISDIR(st.st_mode));
  CT_ASSERT_OK(ct_file_mkdirs(in(dir, "a/b/c")));
  CT_ASSERT_OK(ct_file_write(in(dir, "f"), "", 0));
  CT_ASSERT_FAILS(ct_file_mkdirs(in(dir, "f/g")), CT_ERR_IO, "Not a directory");
  CT_ASSERT_FAILS(ct_file_mkdirs(in(dir, "f")), CT_ERR_IO, "Not a directory");
  CT_ASSERT_FAILS(ct_file_mkdirs(""), CT_ERR_IO, "cannot create");
}

static void glob_in_byte_order(void)
{
  static const char *const names[] = {"t-2.h5", "t-10.h5", "T-1.h5", "t-1.h5", "v-1.h5"};
  char dir[CT_PATH_MAX], **list;
  int n = 0;
  int64_t live = ct_mem_live();
  /* the directory's own name is no pattern */
  CT_ASSERT_OK(ct_path_join(dir, sizeof dir, ct_test_dir(), "run[1]*"));
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  for (int i = 0; i < 5; i++)
    CT_ASSERT_OK(ct_file_write(in(dir, names[i]), "", 0));
  CT_ASSERT_OK(ct_file_glob(dir, "[tT]-*.h5", &list, &n));
  CU_ASSERT_EQUAL_FATAL(n, 4);
  CT_ASSERT_TEXT(list[0], in(dir, "T-1.h5"));
  CT_ASSERT_TEXT(list[1], in(dir, "t-1.h5"));
  CT_ASSERT_TEXT(list[2], in(dir, "t-10.h5"));
  CT_ASSERT_TEXT(list[3], in(dir, "t-2.h5"));
  ct_file_list_free(list, n);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void glob_is(const char *dir, const char *pattern, const char *only)
{
  char **list;
  int n = 0;
  if (CT_ASSERT_OK(ct_file_glob(dir, pattern, &list, &n)) != CT_OK) return;
  CT_ASSERT_INT(n, 1);
  CT_ASSERT_TEXT(n ? list[0] : "", only);
  ct_file_list_free(list, n);
}

/* Whatever characters a name has. */
static void names_that_exist_are_no_patterns(void)
{
  static const char *const names[] = {"val[1].h5", "val1.h5", "a*.h5", "ab.h5", "q?", "qq"};
  char root[CT_PATH_MAX], dir[CT_PATH_MAX], other[CT_PATH_MAX], text[CT_PATH_MAX];
  CT_ASSERT_OK(ct_text_format(root, sizeof root, "%s", ct_test_dir()));
  CT_ASSERT_OK(ct_path_join(dir, sizeof dir, root, "run[2]"));
  CT_ASSERT_OK(ct_path_join(other, sizeof other, root, "run2"));
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  CT_ASSERT_OK(ct_file_mkdirs(other));
  for (int i = 0; i < 6; i++)
    CT_ASSERT_OK(ct_file_write(in(dir, names[i]), "", 0));
  CT_ASSERT_OK(ct_file_write(in(other, "val1.h5"), "", 0));
  for (int i = 0; i < 6; i++) {
    glob_is(dir, names[i], in(dir, names[i]));
    snprintf(text, sizeof text, "run[2]/%s", names[i]);
    glob_is(root, text, in(dir, names[i]));
    glob_is("elsewhere", in(dir, names[i]), in(dir, names[i]));
  }
  CT_ASSERT_OK(remove(in(dir, "val[1].h5")) == 0 ? CT_OK : CT_ERR_IO);
  glob_is(dir, "val[1].h5", in(dir, "val1.h5")); /* a pattern again */
  glob_is(root, "run[2]/v*.h5", in(dir, "val1.h5"));
  glob_is(root, "run\\[2]/v*.h5", in(dir, "val1.h5")); /* as a configuration has it */
  CT_ASSERT_OK(remove(in(dir, "val1.h5")) == 0 ? CT_OK : CT_ERR_IO);
}

/* Others may match; where none does, it may be the reason. */
static void glob_of_a_directory_that_cannot_be_read(void)
{
  const char *root = ct_test_dir();
  char **list, dir[CT_PATH_MAX];
  int n = 0, is_root = geteuid() == 0; /* who may read everything */
  CU_ASSERT_EQUAL_FATAL(symlink("loop", in(root, "loop")), 0);
  CT_ASSERT_FAILS(ct_file_glob(root, "loop/*.h5", &list, &n), CT_ERR_IO,
                  "pattern 'loop/*.h5': the directory '");
  CT_ASSERT_HAS(ct_err_last()->text, "/loop' cannot be read: Too many levels of symbolic links");
  CT_ASSERT_OK(ct_path_join(dir, sizeof dir, root, "b"));
  CT_ASSERT_OK(ct_file_mkdirs(dir));
  CT_ASSERT_OK(ct_file_mkdirs(in(root, "a")));
  CT_ASSERT_OK(ct_file_write(in(root, "a/1.h5"), "", 0));
  chmod(in(root, ".."), 0755);
  chmod(root, 0755);
  chmod(dir, 0);
  if (!is_root || seteuid(65534) == 0) {
    CT_ASSERT_FAILS(ct_file_glob(root, "*/2*.h5", &list, &n), CT_ERR_IO,
                    "cannot be read: Permission denied");
    CT_ASSERT_OK(ct_file_glob(root, "*/*.h5", &list, &n));
    CT_ASSERT_INT(n, 1);
    ct_file_list_free(list, n);
  }
  if (is_root) CT_ASSERT_INT(seteuid(0), 0);
  chmod(dir, 0700);
  CT_ASSERT_OK(ct_file_glob(root, "*/*.h5", &list, &n));
  CT_ASSERT_INT(n, 1);
  ct_file_list_free(list, n);
}

static void glob_single_and_none(void)
{
  char **list;
  int n = 0;
  int64_t live = ct_mem_live();
  CT_ASSERT_OK(ct_file_glob("some/dir", "not-there.h5", &list, &n));
  CT_ASSERT_INT(n, 1);
  CT_ASSERT_TEXT(list[0], "some/dir/not-there.h5");
  ct_file_list_free(list, n);
  CT_ASSERT_FAILS(ct_file_glob("some/dir", "x-*.h5", &list, &n), CT_ERR_USAGE, "'x-*.h5'");
  CT_ASSERT_HAS(ct_err_last()->text, "' has no 'some'");
  CT_ASSERT_INT(n, 0);
  CT_ASSERT_FAILS(ct_file_glob("/", "/some/dir/x-*.h5", &list, &n), CT_ERR_USAGE,
                  "no file matches '/some/dir/x-*.h5'");
  for (int i = 1; i <= 2; i++) {
    ct_mem_fail_at(i);
    CT_ASSERT_FAILS(ct_file_glob(".", "x", &list, &n), CT_ERR_NOMEM, "");
  }
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void free_bytes(void)
{
  CU_ASSERT(ct_file_free(ct_test_dir()) > 0);
  CT_ASSERT_INT(ct_file_free("/nowhere/at/all"), -1);
  CT_ASSERT_INT(ct_file_free("/proc"), -1); /* no blocks */
}

/* ---- files that are not finished ---- */

static void what_is_not_finished_is_removed(void)
{
  const char *dir = ct_test_dir(), *kept = in(dir, "kept"), *half = in(dir, "half.tmp");
  CT_ASSERT_OK(ct_file_write(kept, "x", 1));
  CT_ASSERT_OK(ct_file_write(half, "x", 1));
  ct_temporary_begin(kept);
  ct_temporary_begin(half);
  ct_temporary_end(kept);
  ct_temporary_end("never begun");
  ct_temporary_remove();
  CT_ASSERT_INT(ct_file_exists(kept), 1);
  CT_ASSERT_INT(ct_file_exists(half), 0);
  for (int i = 0; i < 40; i++) { /* more than there is room for */
    char name[32];
    snprintf(name, sizeof name, "%d.tmp", i);
    CT_ASSERT_OK(ct_file_write(in(dir, name), "x", 1));
    ct_temporary_begin(in(dir, name));
  }
  ct_temporary_remove();
  CT_ASSERT_INT(ct_file_exists(in(dir, "39.tmp")), 0);
  CT_ASSERT_INT(ct_file_exists(in(dir, "24.tmp")), 0);
  ct_temporary_remove();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(free_bytes),
                                    CT_TEST(write_and_read),
                                    CT_TEST(read_what_has_no_size),
                                    CT_TEST(read_at_a_place),
                                    CT_TEST(only_files_are_regular),
                                    CT_TEST(read_errors),
                                    CT_TEST(failed_write_leaves_the_old_file),
                                    CT_TEST(a_file_appears_with_its_commit),
                                    CT_TEST(the_first_error_of_a_file_stays),
                                    CT_TEST(commit_renames),
                                    CT_TEST(commit_is_durable),
                                    CT_TEST(what_cannot_be_synced_is_told),
                                    CT_TEST(commit_of_a_large_file_is_progress),
                                    CT_TEST(a_long_name_is_told_by_its_end),
                                    CT_TEST(the_file_of_another_thread_stays),
                                    CT_TEST(a_removed_working_directory_is_told),
                                    CT_TEST(make_directories),
                                    CT_TEST(glob_in_byte_order),
                                    CT_TEST(names_that_exist_are_no_patterns),
                                    CT_TEST(glob_of_a_directory_that_cannot_be_read),
                                    CT_TEST(glob_single_and_none),
                                    CT_TEST(what_is_not_finished_is_removed),
                                    CT_TEST_END};
  return ct_test_main("file", tests, argc, argv);
}
