/* The checkpoint service: what it writes, keeps, finds and sets aside. */
#include <sys/wait.h>

#include "base/ct_fault.h"
#include "base/ct_log.h"
#include "ckpt/disk_space.h"
#include "hdf5io/ct_h5.h"
#include "tests/unit/ckpt_fake.h"

/* ---- helpers ---- */

static void faults(const char *text)
{
  setenv("CTRAIN_FAULTS", text, 1);
  ct_fault_setup(0);
}

/* ---- writing ---- */

static void a_checkpoint_is_written_and_named(void)
{
  const char *dir = ct_test_dir();
  const ct_ckpt_done_t *done;
  ct_ckpt_t *c;
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 3, &c)) != CT_OK) return;
  CT_ASSERT_OK(ct_ckpt_wait(c, &done));
  CU_ASSERT_PTR_NULL(done);
  CT_ASSERT_OK(save(c, 120));
  CT_ASSERT_OK(ct_ckpt_wait(c, &done));
  CT_ASSERT_TEXT(done ? done->name : "", "step-00000120.txt");
  CT_ASSERT_INT(ct_ckpt_busy(c), 0);
  CT_ASSERT_OK(ct_ckpt_wait(c, &done));
  CU_ASSERT_PTR_NULL(done);
  CT_ASSERT_TEXT(content(dir, "step-00000120.txt"),
                 "/model/a 1 1.5\n/model/b 1 1.5\n/meta/config seed 1\nend\n");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000120.txt\n");
  ct_ckpt_close(c);
}

static void the_directory_is_made(void)
{
  char dir[600];
  snprintf(dir, sizeof dir, "%s/run/checkpoints", ct_test_dir());
  CT_ASSERT_OK(SAVE_ALL(dir, 3, 1));
  CT_ASSERT_TEXT(newest(dir), "step-00000001.txt");
}

static void a_second_save_must_wait(void)
{
  ct_ckpt_t *c;
  if (CT_ASSERT_OK(ct_ckpt_open(ct_test_dir(), &fake, 3, &c)) != CT_OK) return;
  CT_ASSERT_OK(save(c, 1));
  CT_ASSERT_FAILS(save(c, 2), CT_ERR_ARG, "waited for");
  CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
  CT_ASSERT_OK(save(c, 2));
  ct_ckpt_close(c); /* waits */
}

static void the_newest_are_kept(void)
{
  const char *dir = ct_test_dir();
  put(dir, "step-00000001.txt.bak", "mine");
  put(dir, "step-1.txt", "mine");
  put(dir, "best.txt", "mine");
  CT_ASSERT_OK(SAVE_ALL(dir, 2, 10, 20, 30, 40));
  CT_ASSERT_TEXT(names(dir),
                 "best.txt step-00000001.txt.bak step-00000030.txt step-00000040.txt step-1.txt");
}

static void keep_nothing_means_all(void)
{
  const char *dir = ct_test_dir();
  CT_ASSERT_OK(SAVE_ALL(dir, 0, 1, 2, 3, 123456789));
  CT_ASSERT_TEXT(names(dir),
                 "step-00000001.txt step-00000002.txt step-00000003.txt step-123456789.txt");
  CT_ASSERT_TEXT(newest(dir), "step-123456789.txt");
}

/* A damaged one of a higher step must not push out the good one that was just written. */
static void later_ones_do_not_count(void)
{
  const char *dir = ct_test_dir();
  put(dir, "step-00000090.txt", "damaged");
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10, 20));
  CT_ASSERT_TEXT(names(dir), "step-00000020.txt step-00000090.txt");
}

static void temporaries_of_a_crash_are_removed(void)
{
  const char *dir = ct_test_dir();
  ct_ckpt_t *c;
  put(dir, "step-00000007.txt.tmp", "half");
  put(dir, "latest.tmp", "half");
  put(dir, "notes.tmp", "mine");
  CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 3, &c));
  CT_ASSERT_TEXT(names(dir), "notes.tmp");
  ct_ckpt_close(c);
}

static void a_failed_write_is_told_and_leaves_nothing(void)
{
  const char *dir = ct_test_dir();
  const ct_ckpt_done_t *done;
  ct_ckpt_t *c;
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10));
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  faults("ckpt.write@0:2");
  CT_ASSERT_OK(save(c, 20));
  CT_ASSERT_FAILS(ct_ckpt_wait(c, &done), CT_ERR_FAULT, "ckpt.write");
  CU_ASSERT_PTR_NULL(strstr(ct_err_last()->text, "needs")); /* room is not what was missing */
  CU_ASSERT_PTR_NULL(done);
  CT_ASSERT_TEXT(names(dir), "step-00000010.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000010.txt\n");
  faults("");
  CT_ASSERT_OK(save(c, 20)); /* and it can go on */
  CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
  CT_ASSERT_TEXT(names(dir), "step-00000020.txt");
  ct_ckpt_close(c);
}

/* The rank dies at a point: whatever is left, the newest whole one is found. */
static void check_death(const char *point, const char *expected)
{
  const char *dir = ct_test_dir();
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    faults(point);
    _exit(SAVE_ALL(dir, 1, 20) == CT_OK ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  CT_ASSERT_INT(WIFSIGNALED(status), 1);
  CT_ASSERT_TEXT(newest(dir), expected);
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 30));
  CT_ASSERT_TEXT(names(dir), "step-00000030.txt");
}

static void killed_while_it_writes(void)
{
  check_death("ckpt.write@0:1:kill", "step-00000010.txt");
  check_death("ckpt.write@0:2:kill", "step-00000010.txt");
}

static void killed_before_latest(void)
{
  check_death("ckpt.latest@0:1:kill", "step-00000020.txt");
}

static void what_was_written_is_measured(void)
{
  const ct_ckpt_done_t *done;
  ct_ckpt_t *c;
  if (CT_ASSERT_OK(ct_ckpt_open(ct_test_dir(), &fake, 3, &c)) != CT_OK) return;
  CT_ASSERT_OK(save(c, 7));
  CT_ASSERT_OK(ct_ckpt_wait(c, &done));
  CU_ASSERT_FATAL(done != NULL);
  CT_ASSERT_INT(done->step, 7);
  CT_ASSERT_INT(done->bytes, strlen("/model/a 1 1.5\n/model/b 1 1.5\n/meta/config seed 1\nend\n"));
  CU_ASSERT(done->write_s > 0);
  ct_ckpt_close(c);
}

static void a_removed_directory_is_made_anew(void)
{
  char dir[600], moved[610];
  ct_ckpt_t *c;
  snprintf(dir, sizeof dir, "%s/run/checkpoints", ct_test_dir());
  snprintf(moved, sizeof moved, "%s.moved", dir);
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  CT_ASSERT_OK(save(c, 1));
  CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
  CT_ASSERT_INT(rename(dir, moved), 0);
  CT_ASSERT_OK(save(c, 2));
  CT_ASSERT_OK(ct_ckpt_wait(c, NULL));
  CT_ASSERT_TEXT(names(dir), "step-00000002.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000002.txt\n");
  CT_ASSERT_TEXT(names(moved), "step-00000001.txt");
  ct_ckpt_close(c);
}

/* The write was whole before, and is whole now: what cannot be removed is no reason to fail. */
static void an_old_one_that_cannot_be_removed_stays(void)
{
  const char *dir = ct_test_dir();
  char path[600];
  snprintf(path, sizeof path, "%s/step-00000001.txt", dir);
  CT_ASSERT_OK(ct_file_mkdirs(path)); /* a directory of such a name */
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10, 20));
  CT_ASSERT_TEXT(names(dir), "step-00000001.txt step-00000020.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000020.txt\n");
}

/* The new one is written, but `latest` is not: the old one it names must stay. */
static void latest_names_what_is_there(void)
{
  const char *dir = ct_test_dir();
  ct_ckpt_t *c;
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10));
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  faults("ckpt.latest@0:1");
  CT_ASSERT_OK(save(c, 20));
  CT_ASSERT_FAILS(ct_ckpt_wait(c, NULL), CT_ERR_FAULT, "ckpt.latest");
  faults("");
  CT_ASSERT_TEXT(names(dir), "step-00000010.txt step-00000020.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000010.txt\n");
  ct_ckpt_close(c);
}

/* ---- room ---- */

static const ct_ckpt_item_t enormous = {
    .name = "/model/a",
    .shape = {.dtype = CT_F32, .ndim = 1, .dim = {(int64_t)1 << 55, 1, 1, 1, 1}}};

/* Nothing is written, not even begun: the data is not there to be read. */
static void too_little_room_is_told_first(void)
{
  const char *dir = ct_test_dir();
  ct_ckpt_t *c;
  CT_ASSERT_OK(SAVE_ALL(dir, 1, 10));
  if (CT_ASSERT_OK(ct_ckpt_open(dir, &fake, 1, &c)) != CT_OK) return;
  CT_ASSERT_OK(ct_ckpt_save(c, 20, &enormous, 1, NULL, 0));
  CT_ASSERT_FAILS(ct_ckpt_wait(c, NULL), CT_ERR_IO,
                  "step-00000020.txt: cannot be written: No space left on device; the checkpoint "
                  "needs 128 PiB, ");
  CT_ASSERT_HAS(ct_err_last()->text, "free; free space there, choose another run.dir, or keep");
  CT_ASSERT_TEXT(names(dir), "step-00000010.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000010.txt\n");
  ct_ckpt_close(c);
}

static void room_and_cure(void)
{
  char buf[600];
  static const ct_ckpt_text_t text = {"/meta/config", "12345"};
  int64_t one = ct__space_needed(&enormous, 1, NULL, 0), both;
  both = ct__space_needed(&enormous, 1, &text, 1);
  CU_ASSERT(one > (int64_t)1 << 57 && both > one + 5);
  CT_ASSERT_INT(ct__space_needed(NULL, 0, NULL, 0), 0);
  CT_ASSERT_HAS(ct__space_cure("x: cannot write: Disk quota exceeded"), "larger quota");
  CT_ASSERT_HAS(ct__space_cure("x: cannot write: Read-only file system"), "read-only");
  CT_ASSERT_HAS(ct__space_cure("x: Stale file handle"), "file server");
  CT_ASSERT_HAS(ct__space_cure("x: Permission denied"), "writable");
  CT_ASSERT_HAS(ct__space_cure("x: No such file or directory"), "removed");
  CT_ASSERT_TEXT(ct__space_cure("x: something else"), "");
  CT_ASSERT_TEXT(ct__space_explain("x: odd", 2048, -1, buf, sizeof buf),
                 "x: odd; the checkpoint needs 2.0 KiB");
  CT_ASSERT_TEXT(ct__space_explain("x: File too large", 2048, 1024, buf, sizeof buf),
                 "x: File too large; the checkpoint needs 2.0 KiB, 1.0 KiB are free; raise the "
                 "limit of file sizes (ulimit -f), or choose another run.dir");
  /* a disk can be full with room to spare; then the numbers alone would be a riddle */
  CT_ASSERT_HAS(ct__space_explain("x: No space left on device", 2048, 4096, buf, sizeof buf),
                "needs 2.0 KiB, 4.0 KiB are free, but the file system reserves some of it, or has "
                "no free inodes (df -i); free space there");
  CT_ASSERT_HAS(ct__space_explain("x: No space left on device", 2048, 1024, buf, sizeof buf),
                "needs 2.0 KiB, 1.0 KiB are free; free space there");
}

/* ---- finding ---- */

static void no_checkpoint_is_no_error(void)
{
  CT_ASSERT_TEXT(newest(ct_test_dir()), "none");
  CT_ASSERT_TEXT(newest("/nowhere/at/all"), "none");
  CT_ASSERT_TEXT(newest("/dev/null"), "CT_ERR_IO"); /* no directory: who knows what was there */
  CT_ASSERT_HAS(ct_err_last()->text, "/dev/null: the directory cannot be read: Not a directory");
}

static void damaged_ones_are_passed_over(void)
{
  const char *dir = ct_test_dir();
  CT_ASSERT_OK(SAVE_ALL(dir, 0, 10, 20, 30));
  put(dir, "step-00000030.txt", "/model/a 1 1.5\n");
  put(dir, "step-00000040.txt", "");
  CT_ASSERT_TEXT(newest(dir), "step-00000020.txt");
}

static void only_damaged_ones_are_an_error(void)
{
  const char *dir = ct_test_dir();
  put(dir, "step-00000001.txt", "x");
  put(dir, "step-00000002.txt", "x");
  CT_ASSERT_TEXT(newest(dir), "CT_ERR_FORMAT");
  CT_ASSERT_HAS(ct_err_last()->text, "none of the 2 checkpoints is intact");
}

/* The newest is whole: that there is no memory to read it now is no reason to go back to an older
 * one. */
static void no_memory_is_no_damage(void)
{
  const char *dir = ct_test_dir(), *found = "CT_ERR_NOMEM";
  int nth = 0;
  CT_ASSERT_OK(SAVE_ALL(dir, 0, 10, 20));
  while (nth < 100 && strcmp(found, "CT_ERR_NOMEM") == 0) {
    ct_mem_fail_at(++nth);
    found = newest(dir);
    ct_mem_fail_at(0);
  }
  CT_ASSERT_TEXT(found, "step-00000020.txt");
  CU_ASSERT(nth > 4); /* the list of the names, and what opening takes */
}

static void later_ones_are_set_aside(void)
{
  const char *dir = ct_test_dir();
  CT_ASSERT_OK(ct_ckpt_set_aside("/nowhere/at/all", &fake, 0, 0));
  CT_ASSERT_OK(SAVE_ALL(dir, 0, 10, 11, 30));
  CT_ASSERT_OK(ct_ckpt_set_aside(dir, &fake, 10, 0));
  CT_ASSERT_TEXT(names(dir), "step-00000010.txt step-00000011.txt.aside step-00000030.txt.aside");
  CT_ASSERT_TEXT(newest(dir), "step-00000010.txt");
  CT_ASSERT_TEXT(content(dir, "latest"), "step-00000010.txt\n");
  CT_ASSERT_OK(ct_ckpt_set_aside(dir, &fake, 0, 0));
  CT_ASSERT_TEXT(newest(dir), "none");
  CT_ASSERT_TEXT(content(dir, "latest"), "");
}

static void none_that_was_set_aside_is_lost(void)
{
  const char *dir = ct_test_dir();
  static const char *const lives[] = {"first", "second", "third"};
  for (int i = 0; i < 3; i++) {
    put(dir, "step-00000020.txt", lives[i]);
    CT_ASSERT_OK(ct_ckpt_set_aside(dir, &fake, 10, 0));
  }
  CT_ASSERT_TEXT(names(dir), "step-00000020.txt.aside step-00000020.txt.aside.2 "
                             "step-00000020.txt.aside.3");
  CT_ASSERT_TEXT(content(dir, "step-00000020.txt.aside"), "first");
  CT_ASSERT_TEXT(content(dir, "step-00000020.txt.aside.2"), "second");
  CT_ASSERT_TEXT(content(dir, "step-00000020.txt.aside.3"), "third");
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

/* ---- formats ---- */

static const ct_store_ops_t *const stores[] = {&ct_store_hdf5, &fake, NULL};

/* The format in which a file was opened, or the error's name. */
static const char *opened_as(const char *file, const char *dir)
{
  ct_ckpt_found_t found;
  int rc = ct_ckpt_find(stores, file, dir, &found);
  const char *name = rc == CT_OK ? found.ops->format.name : ct_err_name(rc);
  if (rc == CT_OK && !found.store) name = "none";
  ct_ckpt_found_close(&found);
  return name;
}

static void a_file_finds_its_store(void)
{
  static const char text[] = "/model/a 1 1.5\nend\n";
  const char *dir = ct_test_dir();
  char odd[600], plain[600], damaged[600], binary[600];
  ct_store_t *s;
  snprintf(odd, sizeof odd, "%s/odd", dir);
  snprintf(plain, sizeof plain, "%s/plain", dir);
  snprintf(damaged, sizeof damaged, "%s/damaged.h5", dir);
  snprintf(binary, sizeof binary, "%s/binary", dir);
  put(dir, "odd", "nothing of ours");
  put(dir, "plain", text);
  put(dir, "damaged.h5", text);
  CT_ASSERT_OK(ct_store_hdf5.create(binary, &s));
  CT_ASSERT_OK(ct_store_hdf5.commit(s));
  CT_ASSERT_TEXT(opened_as(plain, dir), "text");
  CT_ASSERT_TEXT(opened_as(binary, dir), "HDF5");
  CT_ASSERT_TEXT(opened_as(damaged, dir), ct_err_name(CT_ERR_FORMAT)); /* its name counts */
  CT_ASSERT_TEXT(opened_as(odd, dir), ct_err_name(CT_ERR_FORMAT));
  CT_ASSERT_TEXT(ct_err_last()->text + strlen(odd),
                 ": is in no format that can be read here; there are HDF5 (.h5, .hdf5), "
                 "text (.txt)");
  CT_ASSERT_TEXT(opened_as("/nowhere/at/all", dir), ct_err_name(CT_ERR_IO));
  put(dir, "step-00000030.txt", text);
  CT_ASSERT_TEXT(opened_as(NULL, dir), "none"); /* that of a run is in the first format */
  CT_ASSERT_INT(rename(binary, strcat(strcpy(odd, dir), "/step-00000020.h5")), 0);
  CT_ASSERT_TEXT(opened_as(NULL, dir), "HDF5");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_checkpoint_is_written_and_named),
                                    CT_TEST(the_directory_is_made),
                                    CT_TEST(a_second_save_must_wait),
                                    CT_TEST(the_newest_are_kept),
                                    CT_TEST(keep_nothing_means_all),
                                    CT_TEST(later_ones_do_not_count),
                                    CT_TEST(temporaries_of_a_crash_are_removed),
                                    CT_TEST(a_failed_write_is_told_and_leaves_nothing),
                                    CT_TEST(killed_while_it_writes),
                                    CT_TEST(killed_before_latest),
                                    CT_TEST(what_was_written_is_measured),
                                    CT_TEST(a_removed_directory_is_made_anew),
                                    CT_TEST(an_old_one_that_cannot_be_removed_stays),
                                    CT_TEST(latest_names_what_is_there),
                                    CT_TEST(too_little_room_is_told_first),
                                    CT_TEST(room_and_cure),
                                    CT_TEST(no_checkpoint_is_no_error),
                                    CT_TEST(damaged_ones_are_passed_over),
                                    CT_TEST(only_damaged_ones_are_an_error),
                                    CT_TEST(no_memory_is_no_damage),
                                    CT_TEST(later_ones_are_set_aside),
                                    CT_TEST(none_that_was_set_aside_is_lost),
                                    CT_TEST(a_file_finds_its_store),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* the warnings are meant */
  return ct_test_main("ckpt", tests, argc, argv);
}
