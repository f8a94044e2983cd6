/* Copies of files on a disk of the node: made, checked, taken over, shared, removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "data/local/stage.h"
#include "tests/harness/ct_test.h"

/* Stands in for the C library's: a disk that keeps another byte of a copy than was written. */
static int disk_spoils;

ssize_t write(int fd, const void *data, size_t bytes)
{
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = disk_spoils ? readlink(link, path, sizeof path - 1) : -1;
  path[n > 0 ? n : 0] = '\0';
  if (!strstr(path, CT__STAGE_PART) || bytes < 1000) return syscall(SYS_write, fd, data, bytes);
  char *other = malloc(bytes);
  memcpy(other, data, bytes);
  other[bytes / 2] ^= 1;
  n = syscall(SYS_write, fd, other, bytes);
  free(other);
  return n;
}

enum { FILES = 3, PATH = 700 };

/* Sources: the second is larger than a block, the third is empty. */
typedef struct sources {
  char path[FILES][PATH];
  ct_stage_file_t f[FILES];
  int64_t bytes;
} sources_t;

static void make_sources(sources_t *s)
{
  static const int64_t bytes[FILES] = {1000, (9 << 20) + 17, 0};
  const char *dir = ct_test_dir();
  s->bytes = 0;
  for (int i = 0; i < FILES; i++) {
    char *data = malloc((size_t)bytes[i] + 1);
    for (int64_t k = 0; k < bytes[i]; k++)
      data[k] = (char)(k * 7 + k / 251 + i);
    snprintf(s->path[i], PATH, "%s/%d.h5", dir, i);
    CT_ASSERT_OK(ct_file_write(s->path[i], data, (size_t)bytes[i]));
    free(data);
    s->f[i] = (ct_stage_file_t){.path = s->path[i]};
    CT_ASSERT_OK(ct_stage_look(&s->f[i]));
    s->bytes += bytes[i];
  }
}

static const char *copy_of(const char *stage_dir, const char *path)
{
  static char copy[2 * PATH];
  CT_ASSERT_OK(ct_stage_path(stage_dir, path, copy, sizeof copy));
  return copy;
}

static int same_content(const char *a, const char *b)
{
  char *x = NULL, *y = NULL;
  size_t n = 0, m = 1;
  CT_ASSERT_OK(ct_file_read(a, &x, &n));
  CT_ASSERT_OK(ct_file_read(b, &y, &m));
  int same = x && y && n == m && memcmp(x, y, n) == 0;
  ct_mem_free(x);
  ct_mem_free(y);
  return same;
}

static int count_entries(const char *dir)
{
  int n = 0;
  DIR *d = opendir(dir);
  const struct dirent *e;
  while (d && (e = readdir(d)))
    n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* A stage that stays behind; its directory into \a dir. */
static void leave_kept(const char *in, const sources_t *s, char dir[2 * PATH])
{
  ct_stage_t *stage;
  if (CT_ASSERT_OK(ct_stage_open(in, s->f, FILES, &stage)) != CT_OK) return;
  snprintf(dir, 2 * PATH, "%s", ct_stage_dir(stage));
  ct_stage_close(stage, 1);
}

/* Another byte in the middle of the first \a bytes of a file. */
static void spoil(const char *path, int64_t bytes)
{
  char byte = 0;
  int fd = open(path, O_RDWR);
  CT_ASSERT_INT(pread(fd, &byte, 1, bytes / 2), 1);
  byte ^= 1;
  CT_ASSERT_INT(pwrite(fd, &byte, 1, bytes / 2), 1);
  close(fd);
}

/* What the next stage of the same files has to copy. */
static int64_t copied_again(const char *in, const sources_t *s)
{
  ct_stage_t *stage;
  int64_t copied = -1;
  if (CT_ASSERT_OK(ct_stage_open(in, s->f, FILES, &stage)) != CT_OK) return copied;
  for (int i = 0; i < FILES; i++)
    CU_ASSERT(same_content(s->path[i], copy_of(ct_stage_dir(stage), s->path[i])));
  copied = ct_stage_copied(stage);
  ct_stage_close(stage, 1);
  return copied;
}

/* ---- names ---- */

static void variables_are_expanded(void)
{
  char out[100];
  setenv("CT_A", "/scratch/x", 1);
  setenv("CT_B1", "job7", 1);
  setenv("CT_EMPTY", "", 1);
  setenv("HOME", "/home/u", 1);
  unsetenv("CT_NONE");
  CT_ASSERT_OK(ct_stage_expand("$CT_A", out, sizeof out));
  CT_ASSERT_TEXT(out, "/scratch/x");
  CT_ASSERT_OK(ct_stage_expand("${CT_A}/y-$CT_B1.d", out, sizeof out));
  CT_ASSERT_TEXT(out, "/scratch/x/y-job7.d");
  CT_ASSERT_OK(ct_stage_expand("~/s", out, sizeof out));
  CT_ASSERT_TEXT(out, "/home/u/s");
  CT_ASSERT_OK(ct_stage_expand("/tmp/a~b", out, sizeof out));
  CT_ASSERT_TEXT(out, "/tmp/a~b");
  CT_ASSERT_FAILS(ct_stage_expand("/x/${CT_NONE}", out, sizeof out), CT_ERR_USAGE,
                  "the variable CT_NONE is not set");
  CT_ASSERT_FAILS(ct_stage_expand("$CT_EMPTY/x", out, sizeof out), CT_ERR_USAGE, "CT_EMPTY");
  CT_ASSERT_FAILS(ct_stage_expand("$CT_B1", out, sizeof out), CT_ERR_USAGE, "an absolute path");
  CT_ASSERT_OK(ct_stage_expand("/x/$$CT_A", out, sizeof out));
  CT_ASSERT_TEXT(out, "/x/$CT_A");
  static const char *const odd[] = {"/x/$", "/x/${CT_A", "/x/${}", "/x/${CT A}"};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    CT_ASSERT_FAILS(ct_stage_expand(odd[i], out, sizeof out), CT_ERR_USAGE, "expected $NAME");
  CT_ASSERT_FAILS(ct_stage_expand("/a/long/name", out, 5), CT_ERR_USAGE, "too long");
}

/* ---- copies ---- */

static void files_are_copied_and_removed(void)
{
  sources_t s;
  ct_stage_t *stage;
  char in[PATH + 20], dir[2 * PATH];
  make_sources(&s);
  snprintf(in, sizeof in, "%s/a/b", ct_test_dir());
  int64_t live = ct_mem_live();
  if (CT_ASSERT_OK(ct_stage_open(in, s.f, FILES, &stage)) != CT_OK) return;
  snprintf(dir, sizeof dir, "%s", ct_stage_dir(stage));
  CT_ASSERT_HAS(dir, "/a/b/ctrain-stage-");
  CT_ASSERT_INT(ct_stage_copied(stage), s.bytes);
  for (int i = 0; i < FILES; i++) {
    CU_ASSERT(same_content(s.path[i], copy_of(dir, s.path[i])));
    CT_ASSERT_HAS(copy_of(dir, s.path[i]), strrchr(s.path[i], '/') + 1);
  }
  ct_stage_close(stage, 0);
  CT_ASSERT_INT(ct_mem_live(), live);
  CU_ASSERT(!ct_file_exists(dir));
  CT_ASSERT_INT(count_entries(in), 0);
}

static void what_is_whole_is_taken_over(void)
{
  sources_t s;
  char dir[2 * PATH], other[2 * PATH], sum[2 * PATH + 40];
  const char *in = ct_test_dir();
  make_sources(&s);
  leave_kept(in, &s, dir);
  CT_ASSERT_INT(copied_again(in, &s), 0);
  /* a byte of a copy is another, as after a crash of the node: of its only block, or of the first
   * of two */
  spoil(copy_of(dir, s.path[0]), 1000);
  CT_ASSERT_INT(copied_again(in, &s), 1000);
  spoil(copy_of(dir, s.path[1]), 1 << 20);
  CT_ASSERT_INT(copied_again(in, &s), s.f[1].bytes);
  CT_ASSERT_INT(truncate(copy_of(dir, s.path[0]), 999), 0);
  CT_ASSERT_INT(copied_again(in, &s), 1000);
  snprintf(sum, sizeof sum, "%s.sum", copy_of(dir, s.path[1]));
  CT_ASSERT_INT(unlink(sum), 0);
  CT_ASSERT_INT(copied_again(in, &s), s.f[1].bytes);
  CT_ASSERT_INT(copied_again(in, &s), 0);
  /* what a killed run has left is removed */
  snprintf(sum, sizeof sum, "%s/x.h5.host-1" CT__STAGE_PART, dir);
  CT_ASSERT_OK(ct_file_write(sum, "x", 1));
  CT_ASSERT_INT(copied_again(in, &s), 0);
  CU_ASSERT(!ct_file_exists(sum));
  /* a source that was changed has copies of its own */
  s.f[2].mtime_ns++;
  leave_kept(in, &s, other);
  CU_ASSERT(strcmp(dir, other) != 0);
}

/* Its time is as before: on some file systems it has whole seconds. */
static void what_has_grown_is_another_file(void)
{
  sources_t s;
  char dir[2 * PATH], other[2 * PATH];
  const char *in = ct_test_dir();
  make_sources(&s);
  leave_kept(in, &s, dir);
  int fd = open(s.path[0], O_WRONLY | O_APPEND);
  CT_ASSERT_INT(syscall(SYS_write, fd, "x", 1), 1);
  close(fd);
  s.f[0].bytes++;
  leave_kept(in, &s, other);
  CU_ASSERT(strcmp(dir, other) != 0);
}

static void files_of_one_name_have_copies_each(void)
{
  static const char *const content[] = {"one", "two"};
  char path[2][PATH], copy[2 * PATH];
  ct_stage_file_t f[2];
  ct_stage_t *stage;
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], PATH, "%s/a.h5", ct_test_dir());
    CT_ASSERT_OK(ct_file_write(path[i], content[i], 3));
    f[i] = (ct_stage_file_t){.path = path[i]};
    CT_ASSERT_OK(ct_stage_look(&f[i]));
  }
  if (CT_ASSERT_OK(ct_stage_open(ct_test_dir(), f, 2, &stage)) != CT_OK) return;
  for (int i = 0; i < 2; i++) {
    snprintf(copy, sizeof copy, "%s", copy_of(ct_stage_dir(stage), path[i]));
    CU_ASSERT(same_content(path[i], copy));
  }
  ct_stage_close(stage, 0);
}

static void one_that_ends_leaves_them_to_the_other(void)
{
  sources_t s;
  ct_stage_t *a, *b;
  const char *in = ct_test_dir();
  make_sources(&s);
  if (CT_ASSERT_OK(ct_stage_open(in, s.f, FILES, &a)) != CT_OK) return;
  if (CT_ASSERT_OK(ct_stage_open(in, s.f, FILES, &b)) != CT_OK) return;
  CT_ASSERT_TEXT(ct_stage_dir(a), ct_stage_dir(b));
  CT_ASSERT_INT(ct_stage_copied(b), 0);
  ct_stage_close(a, 0);
  for (int i = 0; i < FILES; i++)
    CU_ASSERT(same_content(s.path[i], copy_of(ct_stage_dir(b), s.path[i])));
  ct_stage_close(b, 0);
  CT_ASSERT_INT(count_entries(in), 0);
}

/* Many at once, all slow: every file is copied once, and the last one removes them. */
static void many_at_once_copy_once(void)
{
  enum { RUNS = 5 };
  sources_t s;
  ct_stage_t *stage;
  const char *in = ct_test_dir();
  int64_t copied = 0;
  pid_t child[RUNS];
  make_sources(&s);
  setenv("CTRAIN_FAULTS", "stage.copy@0:1:slow", 1);
  ct_fault_setup(0);
  for (int i = 0; i < RUNS; i++) {
    child[i] = fork();
    if (child[i] == 0) {
      int ok = ct_stage_open(in, s.f, FILES, &stage) == CT_OK;
      int copies = !ok ? 99 : ct_stage_copied(stage) > 1000 ? 1 : 0;
      ct_stage_close(stage, 1);
      _exit(copies);
    }
  }
  for (int i = 0; i < RUNS; i++) {
    int status = -1;
    CT_ASSERT_INT(waitpid(child[i], &status, 0), child[i]);
    CU_ASSERT(WIFEXITED(status));
    copied += WEXITSTATUS(status);
  }
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
  CT_ASSERT_INT(copied, 1);
}

/* Whoever comes while the last user removes them makes them anew. */
static void coming_and_going(void)
{
  enum { RUNS = 4, TIMES = 25 };
  sources_t s;
  ct_stage_t *stage;
  const char *in = ct_test_dir();
  pid_t child[RUNS];
  make_sources(&s);
  for (int i = 0; i < RUNS; i++) {
    child[i] = fork();
    if (child[i] == 0) {
      int bad = 0;
      for (int k = 0; k < TIMES; k++) {
        stage = NULL;
        bad += ct_stage_open(in, s.f, 1, &stage) != CT_OK ||
               !same_content(s.path[0], copy_of(ct_stage_dir(stage), s.path[0]));
        ct_stage_close(stage, 0);
      }
      _exit(bad);
    }
  }
  for (int i = 0; i < RUNS; i++) {
    int status = -1;
    CT_ASSERT_INT(waitpid(child[i], &status, 0), child[i]);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  CT_ASSERT_INT(count_entries(in), 0);
}

/* ---- what goes wrong ---- */

static void bad_sources_are_told(void)
{
  sources_t s;
  ct_stage_t *stage;
  const char *in = ct_test_dir();
  make_sources(&s);
  CT_ASSERT_INT(truncate(s.path[1], 5 << 20), 0);
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_IO,
                  "/1.h5: 5242880 bytes could be read, but it had 9437201 when the run began");
  CT_ASSERT_INT(count_entries(in), 0);
  unlink(s.path[1]);
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_IO,
                  "/1.h5: cannot open: No such file");
  CT_ASSERT_INT(count_entries(in), 0);
  CT_ASSERT_FAILS(ct_stage_look(&s.f[1]), CT_ERR_IO, "/1.h5: cannot open: No such file");
  CU_ASSERT(stage == NULL);
}

static void directories_that_will_not_do(void)
{
  sources_t s;
  ct_stage_t *stage;
  const char *in = ct_test_dir();
  char path[2 * PATH], dir[2 * PATH];
  make_sources(&s);
  CT_ASSERT_FAILS(ct_stage_open(s.path[0], s.f, FILES, &stage), CT_ERR_IO,
                  "/0.h5: cannot create the directory: Not a directory");
  /* somebody has put something else where the copies belong */
  leave_kept(in, &s, dir);
  snprintf(path, sizeof path, "%s/elsewhere", in);
  CT_ASSERT_INT(rename(dir, path), 0);
  CT_ASSERT_INT(symlink(path, dir), 0);
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_IO,
                  "is not a directory of this user");
  unlink(dir);
  CT_ASSERT_OK(ct_file_write(dir, "x", 1));
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_IO,
                  "is not a directory of this user");
  CU_ASSERT(ct_file_exists(path));
}

/* In a directory for all, anybody can make one of that name first. */
static void the_directory_of_another_user_will_not_do(void)
{
  enum { SOMEBODY = 65534 };
  sources_t s;
  ct_stage_t *stage;
  char dir[2 * PATH];
  const char *in = ct_test_dir();
  make_sources(&s);
  leave_kept(in, &s, dir);
  if (chown(dir, SOMEBODY, SOMEBODY) != 0) {
    ct_test_skip("a directory cannot be given away");
    return;
  }
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_IO,
                  "is not a directory of this user");
}

static void a_disk_that_keeps_something_else(void)
{
  sources_t s;
  ct_stage_t *stage;
  const char *in = ct_test_dir();
  make_sources(&s);
  disk_spoils = 1;
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_IO,
                  "other bytes are read than were written: the disk is not to be trusted");
  disk_spoils = 0;
  CT_ASSERT_INT(count_entries(in), 0);
}

static void no_room_is_told_before_copying(void)
{
  sources_t s;
  ct_stage_t *stage = NULL;
  const char *in = ct_test_dir();
  make_sources(&s);
  if (mount("none", in, "tmpfs", 0, "size=12m") != 0) {
    ct_test_skip("a tmpfs cannot be mounted");
    return;
  }
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_IO,
                  "the copies need 25 MiB there, and 12 MiB are free");
  CT_ASSERT_HAS(ct_err_last()->text, "unset it");
  CT_ASSERT_INT(count_entries(in), 0);
  CT_ASSERT_OK(mount("none", in, "tmpfs", MS_REMOUNT, "size=40m") == 0 ? CT_OK : CT_ERR_IO);
  if (CT_ASSERT_OK(ct_stage_open(in, s.f, FILES, &stage)) == CT_OK) ct_stage_close(stage, 1);
  /* what is there already needs no more room */
  CT_ASSERT_OK(mount("none", in, "tmpfs", MS_REMOUNT, "size=12m") == 0 ? CT_OK : CT_ERR_IO);
  if (CT_ASSERT_OK(ct_stage_open(in, s.f, FILES, &stage)) == CT_OK) ct_stage_close(stage, 0);
  CT_ASSERT_INT(umount(in), 0);
}

static void faults_and_no_memory(void)
{
  sources_t s;
  ct_stage_t *stage;
  const char *in = ct_test_dir();
  int rc = CT_ERR_NOMEM;
  make_sources(&s);
  setenv("CTRAIN_FAULTS", "stage.copy@0:2", 1);
  ct_fault_setup(0);
  CT_ASSERT_FAILS(ct_stage_open(in, s.f, FILES, &stage), CT_ERR_FAULT, "stage.copy");
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
  CT_ASSERT_INT(count_entries(in), 0);
  int64_t live = ct_mem_live();
  for (int64_t nth = 1; rc != CT_OK && nth < 50; nth++) {
    ct_mem_fail_at(nth);
    rc = ct_stage_open(in, s.f, FILES, &stage);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    ct_stage_close(stage, 0);
    CT_ASSERT_INT(ct_mem_live(), live);
    CT_ASSERT_INT(count_entries(in), 0);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(variables_are_expanded),
                                    CT_TEST(files_are_copied_and_removed),
                                    CT_TEST(what_is_whole_is_taken_over),
                                    CT_TEST(what_has_grown_is_another_file),
                                    CT_TEST(files_of_one_name_have_copies_each),
                                    CT_TEST(one_that_ends_leaves_them_to_the_other),
                                    CT_TEST(many_at_once_copy_once),
                                    CT_TEST(coming_and_going),
                                    CT_TEST(bad_sources_are_told),
                                    CT_TEST(directories_that_will_not_do),
                                    CT_TEST(the_directory_of_another_user_will_not_do),
                                    CT_TEST(a_disk_that_keeps_something_else),
                                    CT_TEST(no_room_is_told_before_copying),
                                    CT_TEST(faults_and_no_memory),
                                    CT_TEST_END};
  return ct_test_main("stage", tests, argc, argv);
}
