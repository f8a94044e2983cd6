/* The HDF5 reader on a slow disk and on one that fails: all threads wait at once, and what cannot
 * be read just now is tried again. */
#include <pthread.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "tests/tools/slow_shim.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

enum { SAMPLES = 64, THREADS = 8 };

/* The disk that the reader will find from now on. */
static void disk(const char *name, const char *value)
{
  slow_shim_reset();
  setenv("SLOW_SHIM_FILE", "slow", 1);
  static const char *const all[] = {"SLOW_SHIM_MS", "SLOW_SHIM_SHORT", "SLOW_SHIM_FAIL",
                                    "SLOW_SHIM_STALE"};
  for (int i = 0; i < 4; i++)
    unsetenv(all[i]);
  if (name) setenv(name, value, 1);
}

static ct_reader_t *open_slow(const char *dir, int how, double retry_s)
{
  ct_reader_t *r = NULL;
  array_t a = {how, CT_I16, 2, {SAMPLES, 40}, 1};
  disk(NULL, NULL);
  write_shard(dir, "slow.h5", &a, 0);
  ct_reader_spec_t spec = spec_of(dir);
  spec.threads = THREADS;
  spec.cache_bytes = 0;
  spec.retry_s = retry_s;
  CT_ASSERT_OK(ops->open(&spec, &r));
  if (r) check_all(r, SAMPLES); /* what HDF5 reads of the header it has now */
  return r;
}

typedef struct job {
  ct_reader_t *r;
  int number, rc;
} job_t;

/* Its share of all samples. */
static void *read_share(void *arg)
{
  job_t *j = arg;
  int64_t index[SAMPLES / THREADS];
  for (int i = 0; i < SAMPLES / THREADS; i++)
    index[i] = i * THREADS + j->number;
  j->rc = check_samples(j->r, SAMPLES / THREADS, index);
  return NULL;
}

static void read_by_all(ct_reader_t *r)
{
  pthread_t threads[THREADS];
  job_t jobs[THREADS];
  for (int i = 0; i < THREADS; i++) {
    jobs[i] = (job_t){r, i, 0};
    pthread_create(&threads[i], NULL, read_share, &jobs[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    CT_ASSERT_INT(jobs[i].rc, 0);
  }
}

static const int ways[] = {PLAIN, CHUNKED, SHUFFLED_DEFLATED, SPLIT};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void all_threads_read_at_once(void)
{
  for (int i = 0; i < WAYS; i++) {
    ct_reader_t *r = open_slow(ct_test_dir(), ways[i], 0);
    disk("SLOW_SHIM_MS", "30");
    read_by_all(r);
    CT_ASSERT_INT(slow_shim_at_once(), THREADS);
    ops->close(r);
  }
}

static void short_reads_are_whole(void)
{
  for (int i = 0; i < WAYS; i++) {
    ct_reader_t *r = open_slow(ct_test_dir(), ways[i], 0);
    disk("SLOW_SHIM_SHORT", "7");
    check_all(r, SAMPLES);
    ops->close(r);
  }
}

/* What HDF5 itself reads too. */
static void failed_reads_are_tried_again(void)
{
  for (int i = 0; i <= WAYS; i++) {
    ct_reader_t *r = open_slow(ct_test_dir(), i < WAYS ? ways[i] : CHECKED, 20);
    disk("SLOW_SHIM_FAIL", "3");
    read_by_all(r);
    disk("SLOW_SHIM_FAIL", "2");
    check_all(r, SAMPLES);
    ops->close(r);
  }
}

static void forgotten_files_are_opened_again(void)
{
  for (int i = 0; i < WAYS; i++) {
    ct_reader_t *r = open_slow(ct_test_dir(), ways[i], 20);
    disk("SLOW_SHIM_STALE", "1");
    read_by_all(r);
    disk("SLOW_SHIM_STALE", "2");
    check_all(r, SAMPLES);
    ops->close(r);
  }
}

/* Once all is in the cache, nothing is read of the file. */
static void a_cache_spares_the_disk(void)
{
  char dir[600], path[700];
  snprintf(dir, sizeof dir, "%s", ct_test_dir());
  snprintf(path, sizeof path, "%s/slow.h5", dir);
  ct_cache_source_t file = {.path = path};
  for (int i = 0; i < WAYS; i++) {
    ct_cache_t *cache = NULL;
    ct_reader_t *r = open_slow(dir, ways[i], 0);
    CT_ASSERT_OK(ct_cache_open(dir, 0, &file, 1, 0, &cache));
    ops->keep_in(r, cache);
    read_by_all(r);
    disk(NULL, NULL);
    setenv("SLOW_SHIM_FILE", "/slow.h5", 1);
    check_all(r, SAMPLES);
    CT_ASSERT_INT(slow_shim_reads(), 0);
    ops->keep_in(r, NULL);
    check_all(r, SAMPLES);
    CU_ASSERT(slow_shim_reads() > 0);
    ops->close(r);
    ct_cache_close(cache);
  }
}

static void an_opening_is_tried_again(void)
{
  const char *dir = ct_test_dir();
  ct_reader_t *r = open_slow(dir, CHUNKED, 0), *again = NULL;
  ops->close(r);
  ct_reader_spec_t spec = spec_of(dir);
  spec.retry_s = 20;
  disk("SLOW_SHIM_FAIL", "2");
  if (CT_ASSERT_OK(ops->open(&spec, &again)) == CT_OK) check_all(again, SAMPLES);
  ops->close(again);
  disk("SLOW_SHIM_FAIL", "1000");
  spec.retry_s = 0;
  CT_ASSERT_FAILS(ops->open(&spec, &again), CT_ERR_IO, "slow.h5: cannot read: Input/output error");
}

/* After its time, by file, array and samples; the next reading is not tried for long again. */
static void the_last_failure_is_told(void)
{
  int64_t one = 17;
  int16_t x[40];
  for (int i = 0; i < WAYS; i++) {
    ct_reader_t *r = open_slow(ct_test_dir(), ways[i], 0.3);
    disk("SLOW_SHIM_FAIL", "1000000");
    double start = ct_clock();
    CT_ASSERT_FAILS(ops->read(r, 1, &one, x, NULL), CT_ERR_IO,
                    "slow.h5: cannot read: Input/output");
    CT_ASSERT_HAS(ct_err_last()->text, "of array 'images')");
    CT_ASSERT_HAS(ct_err_last()->text, " 17");
    CT_ASSERT_HAS(ct_err_last()->text, " (tried ");
    CU_ASSERT(ct_clock() - start >= 0.3);
    int reads = slow_shim_reads();
    CT_ASSERT_FAILS(ops->read(r, 1, &one, x, NULL), CT_ERR_IO, "slow.h5");
    CU_ASSERT(slow_shim_reads() <= reads + 2);
    disk(NULL, NULL);
    check_all(r, SAMPLES);
    ops->close(r);
  }
}

typedef struct moved {
  char from[700], to[700];
} moved_t;

static void *come_back(void *arg)
{
  moved_t *m = arg;
  usleep(300000);
  if (rename(m->to, m->from) != 0) abort();
  return NULL;
}

/* Gone from its name, and forgotten by the server; it comes back. */
static void a_file_that_comes_back_is_read(void)
{
  pthread_t thread;
  moved_t m;
  const char *dir = ct_test_dir();
  ct_reader_t *r = open_slow(dir, DEFLATED, 20);
  snprintf(m.from, sizeof m.from, "%s/slow.h5", dir);
  snprintf(m.to, sizeof m.to, "%s/slow.gone", dir);
  CT_ASSERT_INT(rename(m.from, m.to), 0);
  disk("SLOW_SHIM_STALE", "1");
  pthread_create(&thread, NULL, come_back, &m);
  read_by_all(r);
  pthread_join(thread, NULL);
  ops->close(r);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(all_threads_read_at_once),
                                    CT_TEST(short_reads_are_whole),
                                    CT_TEST(failed_reads_are_tried_again),
                                    CT_TEST(forgotten_files_are_opened_again),
                                    CT_TEST(a_cache_spares_the_disk),
                                    CT_TEST(an_opening_is_tried_again),
                                    CT_TEST(the_last_failure_is_told),
                                    CT_TEST(a_file_that_comes_back_is_read),
                                    CT_TEST_END};
  return ct_test_main("h5_slow", tests, argc, argv);
}
