/* Files and directories that somebody else has had a hand in: links are not written through, other
 * users' directories are refused unless they are shared, a lock's file is nobody else's. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "host/ct_lock.h"
#include "base/ct_mem.h"
#include "base/ct_owner.h"
#include "telemetry/ct_metrics.h"
#include "tests/harness/ct_test.h"

static const char precious[] = "months of work\nand half a line";

/* A directory with a file of value, and a link to it. */
static char dir[600], value[640], link_[640];

static void lay_trap(const char *name)
{
  snprintf(dir, sizeof dir, "%s", ct_test_dir());
  snprintf(value, sizeof value, "%s/value", dir);
  snprintf(link_, sizeof link_, "%s/%s", dir, name);
  FILE *f = fopen(value, "w");
  fputs(precious, f);
  fclose(f);
  CT_ASSERT_INT(symlink(value, link_), 0);
}

static void nothing_is_lost(void)
{
  char *text = NULL;
  size_t bytes;
  if (CT_ASSERT_OK(ct_file_read(value, &text, &bytes)) == CT_OK) CT_ASSERT_TEXT(text, precious);
  ct_mem_free(text);
}

static int is_link(const char *path)
{
  struct stat st;
  return lstat(path, &st) == 0 && S_ISLNK(st.st_mode);
}

static unsigned mode_of(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 ? st.st_mode & 07777 : 0;
}

/* ---- links ---- */

static void links_are_read_and_not_written_through(void)
{
  static const int flags[] = {O_WRONLY, O_RDWR, O_WRONLY | O_CREAT | O_TRUNC, O_RDONLY | O_CREAT,
                              O_RDWR | O_CREAT | O_APPEND};
  lay_trap("there");
  int fd = ct_file_open(link_, O_RDONLY, 0);
  CU_ASSERT(fd >= 0);
  close(fd);
  for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
    errno = 0;
    CT_ASSERT_INT(ct_file_open(link_, flags[i], 0666), -1);
    CT_ASSERT_INT(errno, ELOOP);
    CT_ASSERT_HAS(ct_file_why(errno), "symbolic link");
  }
  nothing_is_lost();
  CT_ASSERT_TEXT(ct_file_why(ENOSPC), strerror(ENOSPC));
}

static void a_new_file_takes_the_place_of_a_link(void)
{
  lay_trap("new");
  int fd = ct_file_new(link_, 0600);
  CT_ASSERT_INT(write(fd, "x", 1), 1);
  close(fd);
  CU_ASSERT(!is_link(link_));
  nothing_is_lost();
  unlink(link_);
  CT_ASSERT_INT(link(value, link_), 0); /* the other kind */
  FILE *f = ct_file_new_stream(link_);
  CU_ASSERT_FATAL(f != NULL);
  fputs("x", f);
  fclose(f);
  nothing_is_lost();
}

static void a_temporary_that_is_a_link_is_replaced(void)
{
  char path[640];
  lay_trap("file.tmp");
  snprintf(path, sizeof path, "%s/file", dir);
  CT_ASSERT_OK(ct_file_write(path, "new", 3));
  CU_ASSERT(!is_link(path));
  nothing_is_lost();
}

static void lines_are_not_appended_through_a_link(void)
{
  lay_trap("lines.jsonl");
  CT_ASSERT_FAILS(ct_json_append(link_, json_object()), CT_ERR_IO, "symbolic link");
  CT_ASSERT_FAILS(ct_json_heal(link_), CT_ERR_IO, "symbolic link");
  nothing_is_lost();
}

static void metrics_are_not_written_through_a_link(void)
{
  ct_metrics_t *m = NULL;
  lay_trap("metrics.jsonl");
  CT_ASSERT_FAILS(ct_metrics_open(dir, &m), CT_ERR_IO, "metrics.jsonl: cannot be opened: it is a");
  nothing_is_lost();
}

/* ---- the lock ---- */

static int take(ct_lock_t **out)
{
  ct_lock_owner_t me;
  ct_lock_self("", 0, &me);
  return ct_lock_take(link_, &me, 0, out);
}

static void a_lock_that_is_a_link_is_refused(void)
{
  ct_lock_t *l = NULL;
  lay_trap("lock");
  CT_ASSERT_FAILS(take(&l), CT_ERR_IO, "lock: cannot be made: it is a symbolic link");
  nothing_is_lost();
}

static void others_have_no_rights_to_a_lock(void)
{
  ct_lock_t *l = NULL;
  lay_trap("link");
  snprintf(link_, sizeof link_, "%s/lock", dir);
  mode_t before = umask(0);
  chmod(dir, 0755);
  CT_ASSERT_OK(take(&l));
  CT_ASSERT_INT(mode_of(link_), 0600);
  ct_lock_release(l);
  chmod(link_, 0664); /* as programs made it */
  CT_ASSERT_OK(take(&l));
  CT_ASSERT_INT(mode_of(link_), 0600);
  ct_lock_release(l);
  chmod(dir, 0775); /* a group's */
  CT_ASSERT_OK(take(&l));
  CT_ASSERT_INT(mode_of(link_), 0660);
  ct_lock_release(l);
  umask(before);
}

/* A process that only reads, and keeps a run away. */
static void who_reads_a_lock_is_named(void)
{
  int ready[2];
  char byte, who[64];
  ct_lock_t *l = NULL;
  lay_trap("link");
  snprintf(link_, sizeof link_, "%s/lock", dir);
  CT_ASSERT_OK(take(&l));
  ct_lock_release(l);
  CT_ASSERT_INT(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    int fd = open(link_, O_RDONLY);
    (void)!write(ready[1], fcntl(fd, F_SETLK, &whole) == 0 ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  CT_ASSERT_INT(read(ready[0], &byte, 1), 1);
  CT_ASSERT_INT(byte, 'y');
  snprintf(who, sizeof who, "process %d (t_owner, user ", (int)child);
  CT_ASSERT_FAILS(take(&l), CT_ERR_IO, who);
  CT_ASSERT_HAS(ct_err_last()->text, "not a run");
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  CT_ASSERT_OK(take(&l));
  ct_lock_release(l);
  close(ready[0]);
  close(ready[1]);
}

/* ---- directories ---- */

enum { ANNA = 54321, BEN = 54322, GROUP = 54400, ALL = 54401 };

static int can_give_away(void)
{
  return geteuid() == 0 && chown(ct_test_dir(), ANNA, ANNA) == 0;
}

/* What this user, in GROUP and ALL, is told of such a directory: CT_OK or the error. */
static int told(uid_t user, uid_t owner, gid_t group, mode_t mode)
{
  static const gid_t groups[] = {GROUP, ALL};
  char path[700];
  int status = -1;
  snprintf(path, sizeof path, "%s/of", dir);
  mkdir(path, 0700);
  CT_ASSERT_INT(chown(path, owner, group), 0);
  chmod(path, mode);
  pid_t child = fork();
  if (child == 0) {
    if (chdir(dir) != 0 || setgroups(user ? 2 : 0, groups) != 0 ||
        (user && setresgid(user, user, user) != 0) || setresuid(user, user, user) != 0)
      _exit(99);
    _exit(-ct_dir_check_own("of")); /* the way here may be closed to that user */
  }
  waitpid(child, &status, 0);
  return -WEXITSTATUS(status);
}

static void others_directories_are_refused(void)
{
  if (!can_give_away()) {
    ct_test_skip("not root, who can be others");
    return;
  }
  lay_trap("link");
  chmod(dir, 0755);
  CT_ASSERT_INT(told(ANNA, ANNA, ANNA, 0755), CT_OK);
  CT_ASSERT_INT(told(ANNA, ANNA, ANNA, 0777), CT_OK);
  CT_ASSERT_INT(told(ANNA, 0, 0, 01777), CT_OK);
  CT_ASSERT_INT(told(ANNA, BEN, GROUP, 02775), CT_OK); /* umask 002, and a group */
  CT_ASSERT_INT(told(ANNA, BEN, GROUP, 0770), CT_OK);
  CT_ASSERT_INT(told(ANNA, BEN, GROUP, 0777), CT_ERR_IO); /* anybody's */
  CT_ASSERT_INT(told(ANNA, BEN, BEN, 0777), CT_ERR_IO);
  CT_ASSERT_INT(told(ANNA, BEN, GROUP, 0755), CT_ERR_IO);
  CT_ASSERT_INT(told(0, ANNA, ANNA, 0755), CT_ERR_IO); /* root loses most */
  CT_ASSERT_INT(told(0, ANNA, ANNA, 0775), CT_ERR_IO);
  CT_ASSERT_INT(told(0, ANNA, 0, 0775), CT_OK);
  CT_ASSERT_INT(told(0, 0, 0, 0755), CT_OK);
}

static void the_refusal_says_whose_it_is(void)
{
  if (!can_give_away()) {
    ct_test_skip("not root, who can be others");
    return;
  }
  lay_trap("link");
  CT_ASSERT_INT(chown(dir, ANNA, ANNA), 0);
  CT_ASSERT_FAILS(ct_dir_check_own(dir), CT_ERR_IO, "belongs to user 54321");
  snprintf(link_, sizeof link_, "%s/lock", dir);
  ct_lock_t *l = NULL;
  CT_ASSERT_FAILS(take(&l), CT_ERR_IO, "belongs to user 54321");
  CT_ASSERT_INT(chown(dir, 0, 0), 0);
}

/* It leads this user's run into another directory of this user. */
static void a_strangers_link_is_refused(void)
{
  char path[700], slash[710];
  if (!can_give_away()) {
    ct_test_skip("not root, who can be others");
    return;
  }
  lay_trap("link");
  snprintf(path, sizeof path, "%s/run", dir);
  snprintf(slash, sizeof slash, "%s//", path);
  CT_ASSERT_INT(symlink(dir, path), 0);
  CT_ASSERT_OK(ct_dir_check_own(path)); /* one's own */
  CT_ASSERT_INT(lchown(path, ANNA, ANNA), 0);
  CT_ASSERT_FAILS(ct_dir_check_own(path), CT_ERR_IO, "is a symbolic link that another user made");
  CT_ASSERT_FAILS(ct_dir_check_own(slash), CT_ERR_IO, "is a symbolic link that another user made");
  CT_ASSERT_INT(chown(dir, ANNA, 0), 0); /* it leads to a directory of hers, which is shared */
  chmod(dir, 02775);
  CT_ASSERT_OK(ct_dir_check_own(path));
  CT_ASSERT_INT(chown(dir, 0, 0), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(links_are_read_and_not_written_through),
                                    CT_TEST(a_new_file_takes_the_place_of_a_link),
                                    CT_TEST(a_temporary_that_is_a_link_is_replaced),
                                    CT_TEST(lines_are_not_appended_through_a_link),
                                    CT_TEST(metrics_are_not_written_through_a_link),
                                    CT_TEST(a_lock_that_is_a_link_is_refused),
                                    CT_TEST(others_have_no_rights_to_a_lock),
                                    CT_TEST(who_reads_a_lock_is_named),
                                    CT_TEST(others_directories_are_refused),
                                    CT_TEST(the_refusal_says_whose_it_is),
                                    CT_TEST(a_strangers_link_is_refused),
                                    CT_TEST_END};
  return ct_test_main("owner", tests, argc, argv);
}
