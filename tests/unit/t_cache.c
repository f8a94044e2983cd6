/* What was read of data files, on a disk of the node: kept, found again, checked, given up. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_text.h"
#include "data/local/ct_cache.h"
#include "tests/harness/ct_test.h"

enum { BYTES = 2 * CT_CACHE_PIECE + 1001, PATH = 700 };

static char data[BYTES], got[BYTES], source[PATH], dir[PATH];
static int fd = -1;

/* Another one at the same place. */
static void make_source(int kind)
{
  for (int i = 0; i < BYTES; i++)
    data[i] = (char)(i * 7 + i / 251 + kind);
  CT_ASSERT_OK(ct_file_write(source, data, BYTES));
  if (fd >= 0) close(fd);
  fd = open(source, O_RDONLY);
}

/* A source, and a disk with nothing on it. */
static void begin(int kind)
{
  const char *in = ct_test_dir();
  snprintf(source, PATH, "%s/source", in);
  snprintf(dir, PATH, "%s/disk", in);
  make_source(kind);
}

static ct_cache_t *open_cache(int keep)
{
  ct_cache_t *c = NULL;
  const ct_cache_source_t of = {.path = source};
  CT_ASSERT_OK(ct_cache_open(dir, 0, &of, 1, keep, &c));
  return c;
}

static ct_cache_file_t *open_file(ct_cache_t *c)
{
  struct stat st;
  CT_ASSERT_INT(stat(source, &st), 0);
  return ct_cache_file_open(c, source, st.st_size,
                            (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
}

static int reads(ct_cache_file_t *f, int from, int64_t at, size_t bytes)
{
  memset(got, 0x55, bytes);
  return ct_cache_read(f, from, source, at, got, bytes) == CT_OK &&
         memcmp(got, data + at, bytes) == 0;
}

/* Only of the cache: there is no file to read. */
static int is_there(ct_cache_file_t *f, int64_t at, size_t bytes)
{
  return reads(f, -1, at, bytes);
}

static int entries(const char *of)
{
  int n = 0;
  DIR *d = opendir(of);
  for (const struct dirent *e; d && (e = readdir(d));)
    n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

/* The file of pieces that ends with \a end. */
static void find_file(const ct_cache_t *c, const char *end, char *out, size_t cap)
{
  DIR *d = opendir(ct_cache_dir(c));
  *out = '\0';
  for (const struct dirent *e; d && (e = readdir(d));) {
    size_t n = strlen(e->d_name), m = strlen(end);
    if (n == 33 + m && strcmp(e->d_name + 33, end) == 0)
      snprintf(out, cap, "%s/%s", ct_cache_dir(c), e->d_name);
  }
  if (d) closedir(d);
}

static void spoil(const ct_cache_t *c, int64_t at)
{
  char path[PATH * 2], x = 0;
  find_file(c, "-source", path, sizeof path);
  int f = open(path, O_RDWR);
  CT_ASSERT_INT((int)pread(f, &x, 1, at), 1);
  x ^= 1;
  CT_ASSERT_INT((int)pwrite(f, &x, 1, at), 1);
  close(f);
}

static void pieces_are_kept_whole(void)
{
  int64_t missed, found;
  begin(1);
  ct_cache_t *c = open_cache(0);
  ct_cache_file_t *f = open_file(c);
  CU_ASSERT(f != NULL);
  CU_ASSERT(!ct_cache_has(f, 0, 1));
  CU_ASSERT(reads(f, fd, CT_CACHE_PIECE - 10, 5));
  CU_ASSERT(is_there(f, 0, CT_CACHE_PIECE)); /* a whole piece is kept */
  CU_ASSERT(ct_cache_has(f, 0, CT_CACHE_PIECE));
  CU_ASSERT(!ct_cache_has(f, CT_CACHE_PIECE - 1, 2));
  CU_ASSERT(!is_there(f, CT_CACHE_PIECE, 1));
  CU_ASSERT(reads(f, fd, CT_CACHE_PIECE - 3, CT_CACHE_PIECE + 6)); /* of three pieces */
  CU_ASSERT(is_there(f, 0, BYTES));
  CU_ASSERT(is_there(f, BYTES - 1, 1));
  CT_ASSERT_INT(ct_cache_read(f, fd, source, BYTES - 1, got, 2), CT_ERR_FORMAT);
  ct_cache_counts(c, &missed, &found);
  CU_ASSERT(missed >= BYTES && missed <= BYTES + 1 && found > BYTES);
  ct_cache_file_close(f);
  ct_cache_close(c);
  CT_ASSERT_INT(entries(dir), 0);
}

/* Two that have it open see each other's pieces; the last removes it. */
static void two_processes_share_it(void)
{
  begin(2);
  ct_cache_t *c = open_cache(0), *d = open_cache(0);
  ct_cache_file_t *f = open_file(c), *g = open_file(d);
  CU_ASSERT(reads(f, fd, 5, 100));
  CU_ASSERT(is_there(g, 7, 100));
  ct_cache_file_close(f);
  ct_cache_close(c);
  CT_ASSERT_INT(entries(dir), 1);
  CU_ASSERT(is_there(g, 9, 100));
  ct_cache_file_close(g);
  ct_cache_close(d);
  CT_ASSERT_INT(entries(dir), 0);
}

/* Spoiled before this process has looked, or the word itself. */
static void spoiled_pieces_are_read_again(void)
{
  char words[PATH * 2];
  uint64_t word = 12345;
  begin(3);
  ct_cache_t *c = open_cache(1);
  ct_cache_file_t *f = open_file(c);
  CU_ASSERT(reads(f, fd, 0, BYTES));
  ct_cache_file_close(f);
  spoil(c, 77);
  find_file(c, ".have", words, sizeof words);
  int w = open(words, O_RDWR);
  CT_ASSERT_INT((int)pwrite(w, &word, sizeof word, sizeof word), (int)sizeof word);
  close(w);
  f = open_file(c);
  CU_ASSERT(!is_there(f, 500, 10));
  CU_ASSERT(!is_there(f, CT_CACHE_PIECE, 10));
  CU_ASSERT(is_there(f, 2 * CT_CACHE_PIECE, 1001));
  CU_ASSERT(reads(f, fd, 0, BYTES));
  CU_ASSERT(is_there(f, 0, BYTES)); /* mended */
  ct_cache_file_close(f);
  ct_cache_close(c);
}

static void changed_files_are_other_files(void)
{
  struct timespec t[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  begin(4);
  ct_cache_t *c = open_cache(1);
  ct_cache_file_t *f = open_file(c);
  CU_ASSERT(reads(f, fd, 0, BYTES));
  ct_cache_file_close(f);
  f = open_file(c);
  CU_ASSERT(is_there(f, 0, BYTES)); /* as it was */
  ct_cache_file_close(f);
  make_source(5); /* of the same size */
  CT_ASSERT_INT(utimensat(AT_FDCWD, source, t, 0), 0);
  f = open_file(c);
  CU_ASSERT(!is_there(f, 0, 10));
  CU_ASSERT(reads(f, fd, 0, 10));
  CT_ASSERT_INT(entries(ct_cache_dir(c)), 4); /* users, kept, and two: nothing of the older */
  t[1].tv_sec = 2000;
  CT_ASSERT_INT(utimensat(AT_FDCWD, source, t, 0), 0); /* changed since it was opened */
  CU_ASSERT(reads(f, fd, CT_CACHE_PIECE, 10));
  CU_ASSERT(!is_there(f, CT_CACHE_PIECE, 10)); /* so that is not kept */
  ct_cache_file_close(f);
  ct_cache_close(c);
}

static void faults(const char *text)
{
  setenv("CTRAIN_FAULTS", text, 1);
  ct_fault_setup(0);
}

/* A disk that is full, fails, or does not take the file at all. */
static void a_disk_that_fails_or_is_full(void)
{
  begin(6);
  ct_cache_t *c = open_cache(0);
  faults("cache.open@0:1");
  CU_ASSERT(open_file(c) == NULL);
  ct_cache_file_t *f = open_file(c);
  CU_ASSERT(f != NULL);
  faults("cache.write@0:2");
  CU_ASSERT(reads(f, fd, 0, BYTES));
  CU_ASSERT(is_there(f, 0, CT_CACHE_PIECE));
  CU_ASSERT(!is_there(f, CT_CACHE_PIECE, 1));
  CU_ASSERT(!is_there(f, 2 * CT_CACHE_PIECE, 1)); /* nothing is written any more */
  CU_ASSERT(reads(f, fd, 0, BYTES));
  faults("cache.read@0:1");
  CU_ASSERT(reads(f, fd, 3, 10)); /* of the source */
  faults("");
  CU_ASSERT(reads(f, fd, 3, 10));
  ct_cache_file_close(f);
  ct_cache_close(c);
  CT_ASSERT_INT(entries(dir), 0);
}

/* What a killed process left: found by the same data, removed by others. */
static void leave_some(int keep)
{
  pid_t child = fork();
  if (child == 0) {
    ct_cache_t *c = open_cache(keep);
    ct_cache_file_t *f = open_file(c);
    _exit(!(f && reads(f, fd, 0, 10)));
  }
  int status = -1;
  waitpid(child, &status, 0);
  CT_ASSERT_INT(status, 0);
}

static void what_a_killed_run_left(void)
{
  const ct_cache_source_t other = {.path = "/other"};
  ct_cache_t *c = NULL;
  begin(7);
  for (int keep = 0; keep < 2; keep++) {
    leave_some(keep);
    CT_ASSERT_INT(entries(dir), 1);
    CT_ASSERT_OK(ct_cache_open(dir, 0, &other, 1, 0, &c));
    CT_ASSERT_INT(entries(dir), 1 + keep);
    ct_cache_close(c);
    CT_ASSERT_INT(entries(dir), keep);
  }
  leave_some(0);
  c = open_cache(0);
  ct_cache_file_t *f = open_file(c);
  CU_ASSERT(is_there(f, 0, CT_CACHE_PIECE));
  ct_cache_file_close(f);
  ct_cache_close(c);
  CT_ASSERT_INT(entries(dir), 0);
}

static void directories_that_will_not_do(void)
{
  ct_cache_t *c = NULL;
  char path[PATH * 2];
  begin(8);
  const ct_cache_source_t of = {.path = source};
  snprintf(path, sizeof path, "%s/x", source);
  CT_ASSERT_INT(ct_cache_open(path, 0, &of, 1, 0, &c), CT_ERR_IO);
  CU_ASSERT(c == NULL);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(pieces_are_kept_whole),         CT_TEST(two_processes_share_it),
      CT_TEST(spoiled_pieces_are_read_again), CT_TEST(changed_files_are_other_files),
      CT_TEST(a_disk_that_fails_or_is_full),  CT_TEST(what_a_killed_run_left),
      CT_TEST(directories_that_will_not_do),  CT_TEST_END};
  return ct_test_main("cache", tests, argc, argv);
}
