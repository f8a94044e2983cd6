/* What one reader tells another, and files that are opened late, elsewhere, or have changed by
 * then. */
#include <unistd.h>

#include "base/ct_mem.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

/* Two shards of 20 and 7 samples, and what a reader of them shares. */
static ct_reader_spec_t known_of(const char *dir, void **bytes)
{
  ct_reader_t *r;
  array_t a = {SHUFFLED_DEFLATED, CT_U8, 4, {20, 1, 3, 5}, 8},
          b = {PLAIN, CT_U8, 4, {7, 1, 3, 5}, 1};
  ct_reader_spec_t spec = spec_of(dir);
  write_shard(dir, "a.h5", &a, 0);
  write_shard(dir, "b.h5", &b, 20);
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_OK(ops->share(r, bytes, &spec.known_bytes));
  ops->close(r);
  spec.known = *bytes;
  return spec;
}

static const char *path_of(const char *dir, const char *name)
{
  static char path[2][700];
  static int next;
  next = !next;
  snprintf(path[next], sizeof path[next], "%s/%s", dir, name);
  return path[next];
}

static void what_is_shared_opens_the_same(void)
{
  const char *dir = ct_test_dir();
  void *bytes;
  ct_reader_t *first, *second;
  ct_reader_spec_t spec = known_of(dir, &bytes), fresh = spec_of(dir);
  if (CT_ASSERT_OK(ops->open(&fresh, &first)) != CT_OK) return;
  if (CT_ASSERT_OK(ops->open(&spec, &second)) != CT_OK) return;
  const ct_reader_info_t *a = ops->info(first), *b = ops->info(second);
  CU_ASSERT(a->fingerprint == b->fingerprint);
  CU_ASSERT(ct_shape_same(&a->x, &b->x));
  CT_ASSERT_INT(b->samples, 27);
  CT_ASSERT_TEXT(ops->file(second, 1), path_of(dir, "b.h5"));
  CU_ASSERT(ops->file(second, 2) == NULL);
  check_all(second, 27);
  ops->close(first);
  ops->close(second);
  ct_mem_free(bytes);
}

/* Nothing is read at the opening: the files may be anywhere, and be gone. */
static void a_file_is_opened_when_it_is_read(void)
{
  const char *dir = ct_test_dir();
  void *bytes;
  char x[15], location[64];
  int64_t y[1];
  ct_reader_t *r;
  ct_reader_spec_t spec = known_of(dir, &bytes);
  unlink(path_of(dir, "b.h5"));
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_INT(check_samples(r, 2, (int64_t[]){3, 19}), 0);
  CT_ASSERT_FAILS(ops->read(r, 1, (int64_t[]){20}, x, NULL), CT_ERR_IO,
                  "b.h5: cannot open: No such");
  CT_ASSERT_FAILS(ops->read(r, 1, (int64_t[]){20}, NULL, y), CT_ERR_IO,
                  "b.h5: cannot open: No such");
  unlink(path_of(dir, "a.h5")); /* it is open */
  CT_ASSERT_INT(check_samples(r, 2, (int64_t[]){1, 12}), 0);
  ops->location(r, 22, location, sizeof location);
  CT_ASSERT_TEXT(location, "b.h5, sample 2");
  ops->close(r);
  ct_mem_free(bytes);
}

static void a_copy_is_read_instead(void)
{
  const char *dir = ct_test_dir(), *other = ct_test_dir();
  void *bytes;
  char location[64], x[15];
  ct_reader_t *r;
  ct_reader_spec_t spec = known_of(dir, &bytes);
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_INT(check_samples(r, 1, (int64_t[]){21}), 0); /* b.h5 is open now */
  CT_ASSERT_INT(rename(path_of(dir, "b.h5"), path_of(other, "1-b.h5")), 0);
  CT_ASSERT_OK(ops->move(r, 1, path_of(other, "1-b.h5")));
  CT_ASSERT_TEXT(ops->file(r, 1), path_of(other, "1-b.h5"));
  check_all(r, 27);
  ops->location(r, 22, location, sizeof location);
  CT_ASSERT_TEXT(location, "b.h5, sample 2");
  ops->close(r);
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_OK(ops->move(r, 1, path_of(other, "none.h5")));
  CT_ASSERT_FAILS(ops->read(r, 1, (int64_t[]){20}, x, NULL), CT_ERR_IO, "none.h5: cannot open");
  ops->close(r);
  ct_mem_free(bytes);
}

/* Other dims, another type, other chunks, other labels: never read as if they were what was
 * described. */
static void a_replaced_file_is_told(void)
{
  static const array_t others[] = {
      {PLAIN, CT_U8, 4, {7, 1, 3, 6}, 1}, {PLAIN, CT_U8, 4, {8, 1, 3, 5}, 1},
      {PLAIN, CT_U8, 4, {7, 1, 5, 3}, 1}, {PLAIN, CT_I32, 4, {7, 1, 3, 5}, 1},
      {PLAIN, CT_I8, 4, {7, 1, 3, 5}, 1}, {CHUNKED, CT_U8, 4, {7, 1, 3, 5}, 7}};
  const char *dir = ct_test_dir();
  void *bytes;
  char x[15];
  int64_t y[1];
  ct_reader_t *r;
  ct_reader_spec_t spec = known_of(dir, &bytes);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    write_shard(dir, "b.h5", &others[i], 20);
    if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
    CT_ASSERT_FAILS(ops->read(r, 1, (int64_t[]){20}, x, NULL), CT_ERR_FORMAT,
                    "b.h5: the layout of its samples has changed since the run began");
    if (i == 1)
      CT_ASSERT_FAILS(ops->read(r, 1, (int64_t[]){20}, NULL, y), CT_ERR_FORMAT,
                      "b.h5: array 'labels' no longer has 7 values");
    ops->close(r);
  }
  ct_mem_free(bytes);
}

static void what_is_cut_off_is_refused(void)
{
  void *bytes;
  ct_reader_t *r;
  int64_t live = ct_mem_live();
  ct_reader_spec_t spec = known_of(ct_test_dir(), &bytes);
  size_t all = spec.known_bytes;
  for (spec.known_bytes = 0; spec.known_bytes < all; spec.known_bytes++) {
    CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_ARG, "the list of shards from another rank");
    if (r) return;
  }
  ct_mem_free(bytes);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void no_memory_at_any_point(void)
{
  void *bytes = NULL;
  int rc = CT_ERR_NOMEM;
  ct_reader_spec_t spec = known_of(ct_test_dir(), &bytes);
  int64_t live = ct_mem_live();
  for (int64_t nth = 1; rc != CT_OK && nth < 100; nth++) {
    ct_reader_t *r = NULL;
    void *again = NULL;
    size_t n;
    ct_mem_fail_at(nth);
    rc = ops->open(&spec, &r);
    if (rc == CT_OK) rc = ops->move(r, 0, "x");
    if (rc == CT_OK) rc = ops->share(r, &again, &n);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    ops->close(r);
    ct_mem_free(again);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
  ct_mem_free(bytes);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(what_is_shared_opens_the_same),
                                    CT_TEST(a_file_is_opened_when_it_is_read),
                                    CT_TEST(a_copy_is_read_instead),
                                    CT_TEST(a_replaced_file_is_told),
                                    CT_TEST(what_is_cut_off_is_refused),
                                    CT_TEST(no_memory_at_any_point),
                                    CT_TEST_END};
  return ct_test_main("h5_share", tests, argc, argv);
}
