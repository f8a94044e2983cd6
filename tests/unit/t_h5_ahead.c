/* Samples that will be wanted: the system is asked for the places where they lie, once. */
#include <fcntl.h>

#include "base/ct_mem.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

static struct asked {
  int calls;
  int64_t bytes, last_at;
} asked;

/* In place of the system's. */
int posix_fadvise(int fd, off_t at, off_t bytes, int advice)
{
  CU_ASSERT(fd >= 0);
  CU_ASSERT(at >= 0 && bytes > 0);
  if (advice != POSIX_FADV_WILLNEED) return 0;
  asked.calls++;
  asked.bytes += bytes;
  asked.last_at = at;
  return 0;
}

static ct_reader_t *open_reader(const array_t *a, int64_t cache)
{
  ct_reader_t *r = NULL;
  const char *dir = ct_test_dir();
  ct_reader_spec_t spec = spec_of(dir);
  write_shard(dir, "a.h5", a, 0);
  spec.cache_bytes = cache;
  CT_ASSERT_OK(ops->open(&spec, &r));
  asked = (struct asked){0};
  return r;
}

/* Blocks of 8: the first, the second twice. */
static void chunks_are_asked_for_once(void)
{
  static const int64_t wanted[] = {9, 3, 15};
  array_t a = {SHUFFLED_DEFLATED, CT_U8, 4, {40, 1, 3, 5}, 8};
  ct_reader_t *r = open_reader(&a, 1);
  ops->ahead(r, 3, wanted);
  CT_ASSERT_INT(asked.calls, 2);
  CU_ASSERT(asked.bytes > 0 && asked.bytes < 2 * 8 * 15 + 100);
  ops->ahead(r, 3, wanted);
  CT_ASSERT_INT(asked.calls, 2);
  /* later it may be wanted from the disk again */
  for (int i = 0; i < 300; i++)
    ops->ahead(r, 3, wanted);
  CT_ASSERT_INT(asked.calls, 4);
  check_all(r, 40);
  ops->close(r);
}

static void what_stays_in_memory_is_asked_for_once_and_for_all(void)
{
  static const int64_t wanted[] = {9};
  array_t a = {SHUFFLED_DEFLATED, CT_U8, 4, {40, 1, 3, 5}, 8};
  ct_reader_t *r = open_reader(&a, 1000000);
  for (int i = 0; i < 600; i++)
    ops->ahead(r, 1, wanted);
  CT_ASSERT_INT(asked.calls, 1);
  ops->close(r);
}

/* Bytes that lie as they are wanted: those of the samples alone. */
static void rows_are_asked_for(void)
{
  static const int64_t wanted[] = {7, 2};
  array_t a = {PLAIN, CT_U8, 4, {40, 1, 3, 5}, 1};
  ct_reader_t *r = open_reader(&a, 1);
  ops->ahead(r, 2, wanted);
  CT_ASSERT_INT(asked.calls, 2);
  CT_ASSERT_INT(asked.bytes, 2 * 15);
  int64_t seven = asked.last_at;
  ops->ahead(r, 1, (const int64_t[]){2 + 1});
  CT_ASSERT_INT(seven - asked.last_at, (7 - 3) * 15);
  check_all(r, 40);
  ops->close(r);
}

/* A hint about files that are gone says nothing; the reading does. */
static void a_hint_does_not_fail(void)
{
  char path[700], away[700];
  const char *dir = ct_test_dir();
  array_t a = {SHUFFLED_DEFLATED, CT_U8, 4, {40, 1, 3, 5}, 8};
  ct_reader_t *first, *r;
  void *bytes;
  ct_reader_spec_t spec = spec_of(dir);
  write_shard(dir, "a.h5", &a, 0);
  CT_ASSERT_OK(ops->open(&spec, &first));
  CT_ASSERT_OK(ops->share(first, &bytes, &spec.known_bytes));
  ops->close(first);
  spec.known = bytes;
  CT_ASSERT_OK(ops->open(&spec, &r));
  snprintf(path, sizeof path, "%s/a.h5", dir);
  snprintf(away, sizeof away, "%s/elsewhere", dir);
  CT_ASSERT_INT(rename(path, away), 0);
  asked = (struct asked){0};
  ops->ahead(r, 1, (const int64_t[]){5});
  CT_ASSERT_INT(asked.calls, 0);
  CT_ASSERT_INT(rename(away, path), 0);
  check_all(r, 40);
  ops->close(r);
  ct_mem_free(bytes);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(chunks_are_asked_for_once),
                                    CT_TEST(what_stays_in_memory_is_asked_for_once_and_for_all),
                                    CT_TEST(rows_are_asked_for), CT_TEST(a_hint_does_not_fail),
                                    CT_TEST_END};
  return ct_test_main("h5_ahead", tests, argc, argv);
}
