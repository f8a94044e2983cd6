/* The checkpoint service while it writes: what goes in between, and how it is watched. */
#include <pthread.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/ct_fault.h"
#include "base/ct_log.h"
#include "tests/unit/ckpt_fake.h"

/* Stands in for the C library's: a file system that does not tell how much room it has. */
int statvfs(const char *path, struct statvfs *out)
{
  (void)path;
  *out = (struct statvfs){.f_bsize = 4096, .f_frsize = 4096};
  return 0;
}

static void room_that_is_not_told_is_enough(void)
{
  const char *dir = ct_test_dir();
  CT_ASSERT_INT(ct_file_free(dir), -1);
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10));
  CT_ASSERT_TEXT(names(dir), "step-00000010.txt");
}

/* dir of dir/NAME gets another name, once. */
static void move_directory(const char *path)
{
  char dir[600], moved[620];
  before_commit = NULL;
  snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
  snprintf(moved, sizeof moved, "%s.moved", dir);
  CT_ASSERT_INT(rename(dir, moved), 0);
}

static void a_directory_removed_meanwhile_is_made_anew(void)
{
  char dir[600];
  ct_ckpt_t *c;
  snprintf(dir, sizeof dir, "%s/run/checkpoints", ct_test_dir());
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  before_commit = move_directory;
  CT_ASSERT_OK(save(c, 1));
  CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
  CU_ASSERT(before_commit == NULL);
  CT_ASSERT_TEXT(names(dir), "step-00000001.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000001.txt\n");
  ct_ckpt_close(c);
}

static void remove_file(const char *path)
{
  unlink(path);
}

/* The older ones are all there is then. */
static void one_that_goes_at_once_pushes_out_no_other(void)
{
  const char *dir = ct_test_dir();
  ct_ckpt_t *c;
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10));
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  after_commit = remove_file;
  CT_ASSERT_OK(save(c, 20));
  CT_ASSERT_FAILS(ct_ckpt_wait(c, NULL), CT_ERR_IO, "step-00000020.txt: is gone: No such file");
  after_commit = NULL;
  CT_ASSERT_TEXT(names(dir), "step-00000010.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000010.txt\n");
  ct_ckpt_close(c);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void pass_the_gate(void)
{
  pthread_mutex_lock(&gate);
  pthread_mutex_unlock(&gate);
}

/* Each of them, not only the first, and no longer than it takes. */
static void one_under_way_is_seen(void)
{
  ct_ckpt_t *c;
  if (CT_ASSERT_OK(ct_ckpt_open(ct_test_dir(), &fake, 3, &c)) != CT_OK) return;
  before_put = pass_the_gate;
  for (int step = 1; step <= 2; step++) {
    CT_ASSERT_INT(ct_ckpt_busy(c), 0);
    pthread_mutex_lock(&gate);
    CT_ASSERT_OK(save(c, step));
    CT_ASSERT_INT(ct_ckpt_busy(c), 1);
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < 20000 && ct_ckpt_busy(c); i++)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    CU_ASSERT_FATAL(!ct_ckpt_busy(c));
    CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
  }
  before_put = NULL;
  ct_ckpt_close(c);
}

/* Items that are passed one by one make the same file; the caller's memory is free after each. */
static void items_may_be_passed_one_by_one(void)
{
  char same[200];
  ct_ckpt_t *c;
  const char *dir = ct_test_dir();
  float value = 1.5f;
  const ct_shape_t one = {.dtype = CT_F32, .ndim = 1, .dim = {1, 1, 1, 1, 1}};
  ct_ckpt_item_t item[] = {{.name = "/model/a", .shape = one}, {.name = "/model/b", .shape = one}};
  const ct_ckpt_text_t text[] = {{"/meta/config", "seed 1"}};
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  CT_ASSERT_OK(save(c, 1));
  CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
  snprintf(same, sizeof same, "%s", content(dir, "step-00000001.txt"));
  for (int fails = 0; fails < 2; fails++) {
    CT_ASSERT_OK(ct_ckpt_begin(c, 2 + fails, item, 2, text, 1));
    setenv("CTRAIN_FAULTS", fails ? "ckpt.write@0:2" : "", 1);
    ct_fault_setup(0);
    for (int i = 0; i < 2; i++) {
      ct_ckpt_item_t it = item[i];
      it.data = &value;
      value = 1.5f;
      ct_ckpt_put(c, &it);
      value = -1;
    }
    CT_ASSERT_OK(ct_ckpt_end(c));
    if (fails)
      CT_ASSERT_FAILS(ct_ckpt_wait(c, NULL), CT_ERR_FAULT, "'ckpt.write'");
    else
      CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
    CT_ASSERT_TEXT(names(dir), "step-00000002.txt");
  }
  CT_ASSERT_TEXT(content(dir, "step-00000002.txt"), same);
  CT_ASSERT_OK(ct_ckpt_begin(c, 9, item, 2, text, 1));
  ct_ckpt_cancel(c);
  CT_ASSERT_TEXT(names(dir), "step-00000002.txt");
  ct_ckpt_close(c);
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(room_that_is_not_told_is_enough),
                                    CT_TEST(a_directory_removed_meanwhile_is_made_anew),
                                    CT_TEST(one_that_goes_at_once_pushes_out_no_other),
                                    CT_TEST(one_under_way_is_seen),
                                    CT_TEST(items_may_be_passed_one_by_one),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* the warnings are meant */
  return ct_test_main("ckpt_write", tests, argc, argv);
}
