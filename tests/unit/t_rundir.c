/* The run directory and the lock that keeps a second run away. */
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "host/ct_lock.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"
#include "run/ct_rundir.h"

/* Stands in for the C library's: removes the file lost_at_lock[] just before it would be locked, as
 * one may who takes the directory over. */
static char lost_at_lock[600];

static int control(int fd, int what, va_list args)
{
  void *argument = va_arg(args, void *); /* an int comes in the same register, or not at all */
  if (what == F_OFD_SETLK && lost_at_lock[0]) {
    unlink(lost_at_lock);
    lost_at_lock[0] = '\0';
  }
  return (int)syscall(SYS_fcntl, fd, what, argument);
}

#define CONTROLS(name)                    \
  int name(int fd, int what, ...)         \
  {                                       \
    va_list args;                         \
    va_start(args, what);                 \
    int status = control(fd, what, args); \
    va_end(args);                         \
    return status;                        \
  }
CONTROLS(fcntl)
CONTROLS(fcntl64)

static const char *file_in(const char *dir, const char *name)
{
  static char path[4][600];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[0], "%s/%s", dir, name);
  return path[turn];
}

static ct_lock_owner_t owner(const char *job, int64_t restart)
{
  ct_lock_owner_t o = {.host = "node7", .pid = 42, .restart = restart, .since = "2026-01-31"};
  snprintf(o.job, sizeof o.job, "%s", job);
  return o;
}

static int64_t size_of(const char *path)
{
  struct stat st;
  return stat(path, &st) == 0 ? st.st_size : -1;
}

/* ---- who ---- */

static void a_line_reads_back(void)
{
  char line[512];
  ct_lock_owner_t o = owner("4711_2", 3), back;
  CT_ASSERT_INT(ct_lock_parse(ct_lock_line(&o, line, sizeof line), &back), 1);
  CT_ASSERT_TEXT(back.host, "node7");
  CT_ASSERT_INT(back.pid, 42);
  CT_ASSERT_TEXT(back.job, "4711_2");
  CT_ASSERT_INT(back.restart, 3);
  CT_ASSERT_TEXT(back.since, "2026-01-31");
  CT_ASSERT_INT(ct_lock_parse("", &back), 0);
  CT_ASSERT_INT(ct_lock_parse("host=a pid=x", &back), 0);
}

static void this_process_knows_itself(void)
{
  ct_lock_owner_t me;
  ct_lock_self("77", 2, &me);
  CT_ASSERT_INT(me.pid, getpid());
  CT_ASSERT_TEXT(me.job, "77");
  CT_ASSERT_INT(me.restart, 2);
  CT_ASSERT_INT(strlen(me.since), 20);
  ct_lock_self("", 0, &me);
  CT_ASSERT_TEXT(me.job, "-");
  CT_ASSERT_INT(me.restart, 0);
}

static void only_a_requeued_job_inherits(void)
{
  ct_lock_owner_t none = owner("-", 0), first = owner("7", 0), again = owner("7", 1),
                  other = owner("8", 1), later_none = owner("-", 1);
  CT_ASSERT_INT(ct_lock_inherits(&again, &first), 1);
  CT_ASSERT_INT(ct_lock_inherits(&first, &first), 0); /* two steps of one job */
  CT_ASSERT_INT(ct_lock_inherits(&first, &again), 0);
  CT_ASSERT_INT(ct_lock_inherits(&other, &first), 0);
  CT_ASSERT_INT(ct_lock_inherits(&later_none, &none), 0);
}

/* ---- the lock ---- */

/* A description of its own is as good as another process. */
static void a_held_lock_names_its_holder(void)
{
  const char *path = file_in(ct_test_dir(), "lock");
  ct_lock_owner_t a = owner("7", 1), b = owner("-", 0);
  ct_lock_t *l, *second;
  if (CT_ASSERT_OK(ct_lock_take(path, &a, 0, &l)) != CT_OK) return;
  CT_ASSERT_INT(ct_lock_peek(l), CT_LOCK_HELD);
  CT_ASSERT_FAILS(ct_lock_take(path, &b, 0, &second), CT_ERR_IO,
                  "process 42 on node7, job 7, since 2026-01-31");
  CU_ASSERT_PTR_NULL(second);
  CT_ASSERT_HAS(ct_err_last()->text, "another run.dir");
  ct_lock_release(l);
  CT_ASSERT_INT(size_of(path), 0);
  CT_ASSERT_OK(ct_lock_take(path, &b, 0, &l));
  CU_ASSERT(size_of(path) > 0);
  ct_lock_release(l);
  ct_lock_release(NULL);
}

static void a_requeued_job_takes_over(void)
{
  const char *path = file_in(ct_test_dir(), "lock");
  ct_lock_owner_t first = owner("7", 0), again = owner("7", 1);
  ct_lock_t *l, *second;
  if (CT_ASSERT_OK(ct_lock_take(path, &first, 0, &l)) != CT_OK) return;
  if (CT_ASSERT_OK(ct_lock_take(path, &again, 0, &second)) != CT_OK) return;
  CT_ASSERT_INT(ct_lock_peek(l), CT_LOCK_TAKEN);
  CT_ASSERT_INT(ct_lock_peek(second), CT_LOCK_HELD);
  ct_lock_release(second); /* is over before the first one looks */
  CT_ASSERT_INT(ct_lock_peek(l), CT_LOCK_TAKEN);
  unlink(path);
  CT_ASSERT_INT(ct_lock_peek(l), CT_LOCK_GONE);
  ct_lock_release(l);
}

static void a_killed_process_holds_nothing(void)
{
  const char *path = file_in(ct_test_dir(), "lock");
  ct_lock_owner_t me = owner("-", 0);
  ct_lock_t *l;
  int ready[2];
  char c;
  CU_ASSERT_FATAL(pipe(ready) == 0);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (ct_lock_take(path, &me, 0, &l) != CT_OK || write(ready[1], "x", 1) != 1) _exit(1);
    for (;;)
      pause();
  }
  CT_ASSERT_INT(read(ready[0], &c, 1), 1);
  CT_ASSERT_FAILS(ct_lock_take(path, &me, 0, &l), CT_ERR_IO, "another run is at work");
  kill(child, SIGKILL);
  CT_ASSERT_OK(ct_lock_take(path, &me, 60, &l)); /* waits for its end */
  waitpid(child, NULL, 0);
  ct_lock_release(l);
  close(ready[0]);
  close(ready[1]);
}

/* A killed run leaves its line, which may be longer. */
static void the_file_has_one_line(void)
{
  static char old[300];
  const char *path = file_in(ct_test_dir(), "lock");
  char line[512], *data = NULL;
  size_t bytes = 0;
  ct_lock_owner_t me = owner("-", 0);
  ct_lock_t *l;
  memset(old, 'x', sizeof old);
  CT_ASSERT_OK(ct_file_write(path, old, sizeof old));
  if (CT_ASSERT_OK(ct_lock_take(path, &me, 0, &l)) != CT_OK) return;
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  CT_ASSERT_TEXT(data, ct_lock_line(&me, line, sizeof line));
  ct_mem_free(data);
  ct_lock_release(l);
}

/* Whoever comes next makes a file of that name and would hold a lock as well. */
static void a_lock_of_a_removed_file_is_none(void)
{
  const char *path = file_in(ct_test_dir(), "lock");
  ct_lock_owner_t me = owner("-", 0);
  ct_lock_t *l;
  snprintf(lost_at_lock, sizeof lost_at_lock, "%s", path);
  CT_ASSERT_OK(ct_lock_take(path, &me, 60, &l));
  CT_ASSERT_TEXT(lost_at_lock, "");
  CT_ASSERT_INT(ct_lock_peek(l), CT_LOCK_HELD);
  CU_ASSERT(size_of(path) > 0);
  ct_lock_release(l);
}

static void no_directory_is_an_error(void)
{
  ct_lock_owner_t me = owner("-", 0);
  ct_lock_t *l;
  CT_ASSERT_FAILS(ct_lock_take("/nowhere/at/all/lock", &me, 0, &l), CT_ERR_IO,
                  "/nowhere/at/all: cannot be opened: No such file");
}

/* ---- the directory ---- */

static const ct_job_t job;

static void what_was_removed_is_made_anew(void)
{
  static const char config[] = "run: {seed: 1}\n";
  char dir[500], moved[600];
  ct_rundir_t *r;
  snprintf(dir, sizeof dir, "%s/runs/one", ct_test_dir());
  if (CT_ASSERT_OK(ct_rundir_open(dir, &job, &r)) != CT_OK) return;
  CT_ASSERT_OK(ct_rundir_config(r, config, strlen(config)));
  CT_ASSERT_OK(ct_rundir_check(r));
  CT_ASSERT_OK(ct_rundir_check(NULL));
  snprintf(moved, sizeof moved, "%s.moved", dir);
  CT_ASSERT_INT(rename(dir, moved), 0);
  CT_ASSERT_OK(ct_rundir_check(r));
  CT_ASSERT_INT(ct_file_exists(file_in(dir, "config.yaml")), 1);
  CT_ASSERT_INT(ct_file_exists(file_in(dir, "lock")), 1);
  ct_rundir_close(r);
  CT_ASSERT_INT(size_of(file_in(dir, "lock")), 0);
  CT_ASSERT_INT(ct_file_exists(file_in(dir, "config.yaml")), 1);
  ct_rundir_close(NULL);
}

static void what_was_taken_over_is_left_alone(void)
{
  const char *dir = ct_test_dir();
  ct_rundir_t *first, *second;
  if (CT_ASSERT_OK(ct_rundir_open(dir, &job, &first)) != CT_OK) return;
  unlink(file_in(dir, "lock"));
  if (CT_ASSERT_OK(ct_rundir_open(dir, &job, &second)) != CT_OK) return;
  CT_ASSERT_FAILS(ct_rundir_check(first), CT_ERR_IO, "taken over this directory");
  CT_ASSERT_OK(ct_rundir_check(second));
  ct_rundir_close(first);
  CT_ASSERT_OK(ct_rundir_check(second));
  ct_rundir_close(second);
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_line_reads_back),
                                    CT_TEST(this_process_knows_itself),
                                    CT_TEST(only_a_requeued_job_inherits),
                                    CT_TEST(a_held_lock_names_its_holder),
                                    CT_TEST(a_requeued_job_takes_over),
                                    CT_TEST(a_killed_process_holds_nothing),
                                    CT_TEST(the_file_has_one_line),
                                    CT_TEST(a_lock_of_a_removed_file_is_none),
                                    CT_TEST(no_directory_is_an_error),
                                    CT_TEST(what_was_removed_is_made_anew),
                                    CT_TEST(what_was_taken_over_is_left_alone),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* the warnings are meant */
  return ct_test_main("rundir", tests, argc, argv);
}
