/* What the reader keeps: blocks in memory, opened files.  The one used longest ago makes place. */
#include <stdio.h>

#include "base/ct_err.h"
#include "hdf5io/read/h5_cache.h"
#include "hdf5io/read/h5_files.h"
#include "tests/unit/h5_files.h"

/* 1 if the block had to be loaded. */
static int use(ct__h5_cache_t *c, int64_t key)
{
  ct__h5_block_t b = ct__h5_cache_hold(c, key);
  int load = b.load;
  if (load) {
    *(int64_t *)b.data = key;
    ct__h5_cache_loaded(c, &b, 1);
  }
  CT_ASSERT_INT(*(int64_t *)b.data, key);
  ct__h5_cache_release(c, &b);
  return load;
}

static void the_newest_blocks_stay(void)
{
  static const struct {
    int64_t key;
    int load;
  } uses[] = {{1, 1}, {2, 1}, {3, 1}, {1, 0}, {3, 0}, {4, 1}, /* for 2 */
              {1, 0}, {3, 0}, {2, 1},                         /* for 4 */
              {3, 0}, {4, 1},                                 /* for 1 */
              {2, 0}, {1, 1}, {3, 1}};
  ct__h5_cache_t *c;
  if (CT_ASSERT_OK(ct__h5_cache_open(sizeof(int64_t), 3, &c)) != CT_OK) return;
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
    CT_ASSERT_INT(use(c, uses[i].key), uses[i].load);
  ct__h5_cache_close(c);
}

/* A block in use is nobody's place, and one that could not be loaded is the first. */
static void held_blocks_stay(void)
{
  ct__h5_cache_t *c;
  if (CT_ASSERT_OK(ct__h5_cache_open(sizeof(int64_t), 2, &c)) != CT_OK) return;
  CT_ASSERT_INT(use(c, 1), 1);
  ct__h5_block_t held = ct__h5_cache_hold(c, 1), again = ct__h5_cache_hold(c, 1);
  CT_ASSERT_INT(held.load + again.load, 0);
  for (int64_t key = 2; key < 6; key++)
    CT_ASSERT_INT(use(c, key), 1);
  ct__h5_cache_release(c, &again);
  CT_ASSERT_INT(use(c, 6), 1);
  CT_ASSERT_INT(*(int64_t *)held.data, 1);
  ct__h5_cache_release(c, &held);
  ct__h5_block_t failed = ct__h5_cache_hold(c, 7);
  CT_ASSERT_INT(failed.load, 1);
  ct__h5_cache_loaded(c, &failed, 0);
  CT_ASSERT_INT(use(c, 1), 0);
  CT_ASSERT_INT(use(c, 7), 1);
  CT_ASSERT_INT(use(c, 1), 0);
  ct__h5_cache_close(c);
}

static int is_open(const ct__h5_files_t *f, int shard)
{
  for (int i = 0; i < f->n; i++)
    if (f->v[i].shard == shard) return 1;
  return 0;
}

static void files_used_last_stay_open(void)
{
  enum { SHARDS = CT__H5_FILES_OPEN + 2 };
  const char *dir = ct_test_dir();
  char path[700];
  int number;
  ct__h5_files_t *f = NULL;
  ct__h5_file_t *file;
  end_file(begin_file(dir, "a.h5"));
  snprintf(path, sizeof path, "%s/a.h5", dir);
  ct__h5_lock();
  CT_ASSERT_OK(ct__h5_files_make(SHARDS, 1, 2, &f));
  CT_ASSERT_OK(ct__h5_files_join(f, &number));
  for (int i = 0; i < CT__H5_FILES_OPEN; i++)
    CT_ASSERT_OK(ct__h5_files_open(f, i, path, &file));
  CT_ASSERT_OK(ct__h5_files_open(f, 0, path, &file)); /* used again */
  for (int i = CT__H5_FILES_OPEN; i < SHARDS; i++)
    CT_ASSERT_OK(ct__h5_files_open(f, i, path, &file));
  for (int i = 0; i < SHARDS; i++)
    CT_ASSERT_INT(is_open(f, i), i != 1 && i != 2);
  ct__h5_files_leave(f, number);
  ct__h5_unlock();
}

static int descriptor_of(const ct__h5_file_t *f)
{
  int *descriptor = NULL;
  CU_ASSERT(H5Fget_vfd_handle(f->file, H5P_DEFAULT, (void **)&descriptor) >= 0);
  return *descriptor;
}

/* A file that a thread reads stays open, whatever else is opened and whoever gives it up; whoever
 * wants it then gets it anew. */
static void held_files_stay_open(void)
{
  enum { SHARDS = CT__H5_FILES_OPEN + 2 };
  const char *dir = ct_test_dir();
  char path[700];
  int number;
  ct__h5_files_t *f = NULL;
  ct__h5_file_t *first, *again, *file;
  end_file(begin_file(dir, "a.h5"));
  snprintf(path, sizeof path, "%s/a.h5", dir);
  ct__h5_lock();
  CT_ASSERT_OK(ct__h5_files_make(SHARDS, 1, 2, &f));
  CT_ASSERT_OK(ct__h5_files_join(f, &number));
  CT_ASSERT_OK(ct__h5_files_open(f, 0, path, &first));
  ct__h5_file_hold(first);
  for (int i = 1; i < SHARDS; i++)
    CT_ASSERT_OK(ct__h5_files_open(f, i, path, &file));
  CT_ASSERT_OK(ct__h5_files_open(f, 0, path, &file));
  CU_ASSERT(file == first);
  ct__h5_files_abandon(f, 0);
  CT_ASSERT_INT(H5Iis_valid(first->file), 1);
  CT_ASSERT_OK(ct__h5_files_open(f, 0, path, &again));
  CU_ASSERT(again != first);
  CU_ASSERT(descriptor_of(again) != descriptor_of(first));
  hid_t abandoned = first->file;
  ct__h5_file_release(first);
  CT_ASSERT_OK(ct__h5_files_open(f, 1, path, &file));
  CT_ASSERT_INT(H5Iis_valid(abandoned), 0);
  ct__h5_files_leave(f, number);
  ct__h5_unlock();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_newest_blocks_stay), CT_TEST(held_blocks_stay),
                                    CT_TEST(files_used_last_stay_open),
                                    CT_TEST(held_files_stay_open), CT_TEST_END};
  return ct_test_main("h5_cache", tests, argc, argv);
}
