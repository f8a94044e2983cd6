/* Staging: the cache filled with whole files: made, verified, taken over, shared, removed. */
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
#include "data/local/ct_cache.h"
#include "tests/harness/ct_test.h"

/* Replaces the C library's: a disk that stores another byte of a copy than was written. */
static int disk_spoils;

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
  if (!disk_spoils || bytes < 1000) return syscall(SYS_pwrite64, fd, data, bytes, at);
  char *other = malloc(bytes);
  memcpy(other, data, bytes);
  other[bytes / 2] ^= 1;
  ssize_t n = syscall(SYS_pwrite64, fd, other, bytes, at);
  free(other);
  return n;
}

enum { FILES = 3, PATH = 700 };

/* Sources: the second is of several blocks, the third has one byte. */
typedef struct sources {
  char path[FILES][PATH];
  ct_cache_source_t f[FILES];
  int64_t bytes;
} sources_t;

static void make_sources(sources_t *s)
{
  static const int64_t bytes[FILES] = {1000, (9 << 20) + 17, 1};
  const char *dir = ct_test_dir();
  s->bytes = 0;
  for (int i = 0; i < FILES; i++) {
    char *data = malloc((size_t)bytes[i] + 1);
    for (int64_t k = 0; k < bytes[i]; k++)
      data[k] = (char)(k * 7 + k / 251 + i);
    snprintf(s->path[i], PATH, "%s/%d.h5", dir, i);
    CT_ASSERT_OK(ct_file_write(s->path[i], data, (size_t)bytes[i]));
    free(data);
    s->f[i] = (ct_cache_source_t){.path = s->path[i]};
    CT_ASSERT_OK(ct_cache_stat(&s->f[i]));
    s->bytes += bytes[i];
  }
}

/* Opens a cache and fills it by as many processes as parts. */
static int stage_parts(const char *in, const ct_cache_source_t *f, int n, int keep, int parts,
                       ct_cache_t **out, int64_t *copied)
{
  int rc = CT_OK;
  ct_cache_t *c = NULL;
  int64_t of_part;
  *copied = 0;
  CT_TRY(ct_cache_open(in, 1, f, n, keep, &c));
  CT_TRY(ct_cache_check_space(c, f, n));
  for (int i = 0; i < parts; i++) {
    CT_TRY(ct_cache_fill(c, f, n, i, parts, &of_part));
    *copied += of_part;
  }
out:
  if (rc != CT_OK) {
    ct_cache_close(c);
    c = NULL;
  }
  *out = c;
  return rc;
}

static int stage_open(const char *in, const ct_cache_source_t *f, int n, int keep, ct_cache_t **out)
{
  int64_t copied;
  return stage_parts(in, f, n, keep, 1, out, &copied);
}

static const char *copy_of(const ct_cache_t *c, const ct_cache_source_t *f)
{
  static char copy[2 * PATH];
  CT_ASSERT_OK(ct_cache_copy(c, f, copy, sizeof copy));
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

/* A cache that stays behind; its directory into \a dir, the first two copies into \a copy. */
static void leave_kept(const char *in, const sources_t *s, char dir[2 * PATH],
                       char copy[2][2 * PATH])
{
  ct_cache_t *stage;
  if (CT_ASSERT_OK(stage_open(in, s->f, FILES, 1, &stage)) != CT_OK) return;
  snprintf(dir, 2 * PATH, "%s", ct_cache_dir(stage));
  for (int i = 0; copy && i < 2; i++)
    snprintf(copy[i], 2 * PATH, "%s", copy_of(stage, &s->f[i]));
  ct_cache_close(stage);
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

/* Bytes that the next stage of the same files has to copy. */
static int64_t copied_again(const char *in, const sources_t *s)
{
  ct_cache_t *stage;
  int64_t copied = -1;
  if (CT_ASSERT_OK(stage_parts(in, s->f, FILES, 1, 1, &stage, &copied)) != CT_OK) return copied;
  for (int i = 0; i < FILES; i++)
    CU_ASSERT(same_content(s->path[i], copy_of(stage, &s->f[i])));
  ct_cache_close(stage);
  return copied;
}

/* ---- copies ---- */

static void files_are_copied_and_removed(void)
{
  sources_t s;
  ct_cache_t *stage;
  char in[PATH + 20], dir[2 * PATH];
  int64_t copied;
  make_sources(&s);
  snprintf(in, sizeof in, "%s/a/b", ct_test_dir());
  int64_t live = ct_mem_live();
  for (int parts = 1; parts < 17; parts += 5) { /* of 12 blocks */
    if (CT_ASSERT_OK(stage_parts(in, s.f, FILES, 0, parts, &stage, &copied)) != CT_OK) return;
    snprintf(dir, sizeof dir, "%s", ct_cache_dir(stage));
    CT_ASSERT_HAS(dir, "/a/b/ctrain-cache-");
    CT_ASSERT_INT(copied, s.bytes);
    for (int i = 0; i < FILES; i++) {
      CU_ASSERT(same_content(s.path[i], copy_of(stage, &s.f[i])));
      CT_ASSERT_HAS(copy_of(stage, &s.f[i]), strrchr(s.path[i], '/') + 1);
    }
    ct_cache_close(stage);
    CT_ASSERT_INT(ct_mem_live(), live);
    CU_ASSERT(!ct_file_exists(dir));
    CT_ASSERT_INT(count_entries(in), 0);
  }
}

static void valid_blocks_are_taken_over(void)
{
  sources_t s;
  char dir[2 * PATH], other[2 * PATH], copy[2][2 * PATH];
  const char *in = ct_test_dir();
  make_sources(&s);
  leave_kept(in, &s, dir, copy);
  CT_ASSERT_INT(copied_again(in, &s), 0);
  /* a byte of a copy is another, as after a crash of the node: of its only block, or of the first
   * of several */
  spoil(copy[0], 1000);
  CT_ASSERT_INT(copied_again(in, &s), 1000);
  spoil(copy[1], 1 << 20);
  CT_ASSERT_INT(copied_again(in, &s), 1 << 20);
  CT_ASSERT_INT(truncate(copy[0], 999), 0);
  CT_ASSERT_INT(copied_again(in, &s), 1000);
  CT_ASSERT_INT(unlink(copy[1]), 0);
  CT_ASSERT_INT(copied_again(in, &s), s.f[1].bytes);
  CT_ASSERT_INT(copied_again(in, &s), 0);
  /* a source that was changed has copies of its own */
  struct timespec t[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  CT_ASSERT_INT(utimensat(AT_FDCWD, s.path[1], t, 0), 0);
  CT_ASSERT_OK(ct_cache_stat(&s.f[1]));
  leave_kept(in, &s, other, NULL);
  CU_ASSERT(strcmp(dir, other) != 0);
  CT_ASSERT_INT(truncate(s.path[1], 9 << 20), 0);
  CT_ASSERT_INT(utimensat(AT_FDCWD, s.path[1], t, 0), 0); /* the size alone tells */
  CT_ASSERT_OK(ct_cache_stat(&s.f[1]));
  leave_kept(in, &s, dir, NULL);
  CU_ASSERT(strcmp(dir, other) != 0);
}

static void files_of_one_name_have_copies_each(void)
{
  static const char *const content[] = {"one", "two"};
  char path[2][PATH];
  ct_cache_source_t f[2];
  ct_cache_t *stage;
  for (int i = 0; i < 2; i++) {
    snprintf(path[i], PATH, "%s/a.h5", ct_test_dir());
    CT_ASSERT_OK(ct_file_write(path[i], content[i], 3));
    f[i] = (ct_cache_source_t){.path = path[i]};
    CT_ASSERT_OK(ct_cache_stat(&f[i]));
  }
  if (CT_ASSERT_OK(stage_open(ct_test_dir(), f, 2, 0, &stage)) != CT_OK) return;
  for (int i = 0; i < 2; i++)
    CU_ASSERT(same_content(path[i], copy_of(stage, &f[i])));
  ct_cache_close(stage);
}

/* The name of a copy must fit into a directory entry. */
static void a_long_name(void)
{
  char path[PATH];
  ct_cache_source_t f = {.path = path};
  ct_cache_t *stage;
  snprintf(path, sizeof path, "%s/%0240d.h5", ct_test_dir(), 1);
  CT_ASSERT_OK(ct_file_write(path, "one", 3));
  CT_ASSERT_OK(ct_cache_stat(&f));
  if (CT_ASSERT_OK(stage_open(ct_test_dir(), &f, 1, 0, &stage)) != CT_OK) return;
  CU_ASSERT(same_content(path, copy_of(stage, &f)));
  ct_cache_close(stage);
}

static void one_that_ends_leaves_them_to_the_other(void)
{
  sources_t s;
  ct_cache_t *a, *b;
  int64_t copied;
  const char *in = ct_test_dir();
  make_sources(&s);
  if (CT_ASSERT_OK(stage_open(in, s.f, FILES, 0, &a)) != CT_OK) return;
  if (CT_ASSERT_OK(stage_parts(in, s.f, FILES, 0, 2, &b, &copied)) != CT_OK) return;
  CT_ASSERT_TEXT(ct_cache_dir(a), ct_cache_dir(b));
  CT_ASSERT_INT(copied, 0);
  ct_cache_close(a);
  for (int i = 0; i < FILES; i++)
    CU_ASSERT(same_content(s.path[i], copy_of(b, &s.f[i])));
  ct_cache_close(b);
  CT_ASSERT_INT(count_entries(in), 0);
}

/* Many processes that fill the same cache, or come while the last user removes it. */
static void coming_and_going(void)
{
  enum { RUNS = 4, TIMES = 25 };
  sources_t s;
  ct_cache_t *stage;
  const char *in = ct_test_dir();
  pid_t child[RUNS];
  make_sources(&s);
  for (int i = 0; i < RUNS; i++) {
    child[i] = fork();
    if (child[i] == 0) {
      int bad = 0;
      for (int k = 0; k < TIMES; k++) {
        int n = k == 0 ? 2 : 1;
        bad += stage_open(in, s.f, n, 0, &stage) != CT_OK ||
               !same_content(s.path[n - 1], copy_of(stage, &s.f[n - 1]));
        ct_cache_close(stage);
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
  ct_cache_t *stage;
  const char *in = ct_test_dir();
  make_sources(&s);
  CT_ASSERT_INT(truncate(s.path[1], 5 << 20), 0);
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_IO,
                  "/1.h5: its size or time has changed since the run began");
  CT_ASSERT_INT(count_entries(in), 0);
  unlink(s.path[1]);
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_IO,
                  "/1.h5: cannot open: No such file");
  CT_ASSERT_INT(count_entries(in), 0);
  CT_ASSERT_FAILS(ct_cache_stat(&s.f[1]), CT_ERR_IO, "/1.h5: cannot open: No such file");
  CU_ASSERT(stage == NULL);
}

static void directories_that_will_not_do(void)
{
  sources_t s;
  ct_cache_t *stage;
  const char *in = ct_test_dir();
  char path[2 * PATH], dir[2 * PATH];
  make_sources(&s);
  CT_ASSERT_FAILS(stage_open(s.path[0], s.f, FILES, 0, &stage), CT_ERR_IO,
                  "/0.h5: cannot create the directory: Not a directory");
  /* somebody has put something else where the copies belong */
  leave_kept(in, &s, dir, NULL);
  snprintf(path, sizeof path, "%s/elsewhere", in);
  CT_ASSERT_INT(rename(dir, path), 0);
  CT_ASSERT_INT(symlink(path, dir), 0);
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_IO,
                  "is not a directory of this user");
  unlink(dir);
  CT_ASSERT_OK(ct_file_write(dir, "x", 1));
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_IO,
                  "is not a directory of this user");
  CU_ASSERT(ct_file_exists(path));
}

/* In a directory for all, anybody can make one of that name first. */
static void the_directory_of_another_user_will_not_do(void)
{
  enum { SOMEBODY = 65534 };
  sources_t s;
  ct_cache_t *stage;
  char dir[2 * PATH];
  const char *in = ct_test_dir();
  make_sources(&s);
  leave_kept(in, &s, dir, NULL);
  if (chown(dir, SOMEBODY, SOMEBODY) != 0) {
    ct_test_skip("a directory cannot be given away");
    return;
  }
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_IO,
                  "is not a directory of this user");
}

static void a_disk_that_keeps_something_else(void)
{
  sources_t s;
  ct_cache_t *stage;
  const char *in = ct_test_dir();
  make_sources(&s);
  disk_spoils = 1;
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_IO,
                  "data read back differ from what was written: the disk may be faulty");
  disk_spoils = 0;
  CT_ASSERT_INT(count_entries(in), 0);
}

static void no_room_is_told_before_copying(void)
{
  sources_t s;
  ct_cache_t *stage = NULL;
  const char *in = ct_test_dir();
  make_sources(&s);
  if (mount("none", in, "tmpfs", 0, "size=12m") != 0) {
    ct_test_skip("a tmpfs cannot be mounted");
    return;
  }
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_IO,
                  "the copies need 25 MiB there, and 12 MiB are free");
  CT_ASSERT_HAS(ct_err_last()->text, "unset it");
  CT_ASSERT_INT(count_entries(in), 0);
  CT_ASSERT_OK(mount("none", in, "tmpfs", MS_REMOUNT, "size=40m") == 0 ? CT_OK : CT_ERR_IO);
  if (CT_ASSERT_OK(stage_open(in, s.f, FILES, 1, &stage)) == CT_OK) ct_cache_close(stage);
  /* what is there already needs no more room */
  CT_ASSERT_OK(mount("none", in, "tmpfs", MS_REMOUNT, "size=12m") == 0 ? CT_OK : CT_ERR_IO);
  if (CT_ASSERT_OK(stage_open(in, s.f, FILES, 0, &stage)) == CT_OK) ct_cache_close(stage);
  CT_ASSERT_INT(umount(in), 0);
}

static void faults_and_no_memory(void)
{
  sources_t s;
  ct_cache_t *stage;
  const char *in = ct_test_dir();
  int rc = CT_ERR_NOMEM;
  make_sources(&s);
  setenv("CTRAIN_FAULTS", "stage.copy@0:2", 1);
  ct_fault_setup(0);
  CT_ASSERT_FAILS(stage_open(in, s.f, FILES, 0, &stage), CT_ERR_FAULT, "stage.copy");
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
  CT_ASSERT_INT(count_entries(in), 0);
  int64_t live = ct_mem_live();
  for (int64_t nth = 1; rc != CT_OK && nth < 50; nth++) {
    ct_mem_fail_at(nth);
    rc = stage_open(in, s.f, FILES, 0, &stage);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    ct_cache_close(stage);
    CT_ASSERT_INT(ct_mem_live(), live);
    CT_ASSERT_INT(count_entries(in), 0);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(files_are_copied_and_removed),
                                    CT_TEST(valid_blocks_are_taken_over),
                                    CT_TEST(files_of_one_name_have_copies_each),
                                    CT_TEST(a_long_name),
                                    CT_TEST(one_that_ends_leaves_them_to_the_other),
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
