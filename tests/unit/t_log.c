/* What the log writes, and the fault points, whose mistakes it reports. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_log.h"
#include "tests/harness/ct_test.h"

/* ---- log ---- */

/* Text that \a act writes to stderr. */
static void captured(void (*act)(void), char *text, size_t cap)
{
  int ends[2], saved = dup(STDERR_FILENO);
  CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  act();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  ssize_t n = read(ends[0], text, cap - 1);
  text[n > 0 ? n : 0] = '\0';
  close(ends[0]);
}

static void log_as_rank_3(void)
{
  ct_log_setup(3, 4, CT_LOG_INFO);
  ct_log(CT_LOG_ERROR, "rank 0 only");
  ct_log_all(CT_LOG_WARN, "two\nlines");
  ct_log_all(CT_LOG_DEBUG, "below the threshold");
  ct_log_progress("no bar in a pipe");
}

static void log_as_rank_0(void)
{
  char longer[9000];
  memset(longer, 'y', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  ct_log_setup(0, 4, CT_LOG_INFO);
  ct_log(CT_LOG_INFO, "epoch %d", 7);
  ct_log(CT_LOG_INFO, "%s", longer);
}

static void log_lines(void)
{
  char text[20000];
  captured(log_as_rank_3, text, sizeof text);
  CU_ASSERT_PTR_NOT_NULL_FATAL(strchr(text, ' '));
  CT_ASSERT_TEXT(strchr(text, ' '), " [rank 3] W two lines\n");
  captured(log_as_rank_0, text, sizeof text);
  CT_ASSERT_HAS(text, " epoch 7\n");
  CT_ASSERT_INT(text[strlen(text) - 1], '\n');
  CU_ASSERT(strlen(text) < 5000);
  ct_log_setup(0, 1, CT_LOG_INFO);
}

/* Text that a progress bar and the log write to a terminal. */
static void progress_bar_on_a_terminal(void)
{
  static const char expected[] = "\r\033[K00 %\r\033[K00:00:00 line\r\n00:00:00 next\r\n"
                                 "\r\033[K00 %\r\033[K";
  char text[500];
  size_t n = 0;
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) {
    ct_test_skip("no pseudo-terminal");
    return;
  }
  int terminal = open(ptsname(master), O_RDWR | O_NOCTTY), saved = dup(STDERR_FILENO);
  CU_ASSERT_FATAL(terminal >= 0);
  dup2(terminal, STDERR_FILENO);
  ct_log_progress("50 %");
  ct_log(CT_LOG_INFO, "line");
  ct_log(CT_LOG_INFO, "next");
  ct_log_progress("60 %");
  ct_log_progress(NULL);
  ct_log_progress(NULL);
  dup2(saved, STDERR_FILENO);
  close(saved);
  /* a terminal hands over what was written later, and in pieces */
  struct pollfd in = {.fd = master, .events = POLLIN};
  while (poll(&in, 1, n < strlen(expected) ? 2000 : 0) > 0) {
    ssize_t got = read(master, text + n, sizeof text - 1 - n);
    if (got <= 0) break;
    n += (size_t)got;
  }
  text[n] = '\0';
  close(terminal);
  close(master);
  /* the clock's digits differ each time */
  for (char *p = text; (p = strpbrk(p, "123456789")); p++)
    *p = '0';
  CT_ASSERT_TEXT(text, expected);
}

/* ---- fault points ---- */

static void fault_hits_its_rank_and_pass(void)
{
  setenv("CTRAIN_FAULTS", "ckpt.write@1:2,reader.read@0:1,step@*:3", 1);
  ct_fault_setup(1);
  CT_ASSERT_OK(ct_fault("ckpt.write"));
  CT_ASSERT_OK(ct_fault("reader.read"));
  CT_ASSERT_FAILS(ct_fault("ckpt.write"), CT_ERR_FAULT, "'ckpt.write'");
  CT_ASSERT_OK(ct_fault("ckpt.write"));
  CT_ASSERT_OK(ct_fault("step"));
  CT_ASSERT_OK(ct_fault("step"));
  CT_ASSERT_FAILS(ct_fault("step"), CT_ERR_FAULT, "pass 3");
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(1);
  CT_ASSERT_OK(ct_fault("step"));
}

static void setup_bad_faults(void)
{
  static const char *const bad[] = {"step", "step@x:1", "step@0", "step@0:0", "step@0:1:explode",
                                    "@0:1", "step@0:1x"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    setenv("CTRAIN_FAULTS", bad[i], 1);
    ct_fault_setup(0);
    CT_ASSERT_OK(ct_fault("step"));
  }
  setenv("CTRAIN_FAULTS", "nonsense,step@0:1", 1);
  ct_fault_setup(0);
  CT_ASSERT_FAILS(ct_fault("step"), CT_ERR_FAULT, "step");
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
}

static void fault_nonsense_is_reported(void)
{
  char text[8000];
  captured(setup_bad_faults, text, sizeof text);
  CT_ASSERT_HAS(text, "W CTRAIN_FAULTS: 'step@0:1:explode' is ignored");
  CT_ASSERT_HAS(text, "'nonsense' is ignored");
}

static void fault_can_kill_and_sleep(void)
{
  static const char *const lists[] = {"step@0:1:kill", "step@0:1:sleep"};
  for (int i = 0; i < 2; i++) {
    pid_t child = fork();
    if (child == 0) {
      alarm(i); /* ends the sleep */
      setenv("CTRAIN_FAULTS", lists[i], 1);
      ct_fault_setup(0);
      ct_fault("step");
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CU_ASSERT_TRUE(WIFSIGNALED(status));
    CT_ASSERT_INT(WTERMSIG(status), i ? SIGALRM : SIGKILL);
  }
}

static void fault_can_be_slow(void)
{
  setenv("CTRAIN_FAULTS", "step@0:2:slow", 1);
  ct_fault_setup(0);
  CT_ASSERT_OK(ct_fault("step"));
  double begin = ct_clock();
  for (int i = 0; i < 3; i++)
    CT_ASSERT_OK(ct_fault("step"));
  CU_ASSERT(ct_clock() - begin >= 0.06);
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(log_lines),
                                    CT_TEST(progress_bar_on_a_terminal),
                                    CT_TEST(fault_hits_its_rank_and_pass),
                                    CT_TEST(fault_nonsense_is_reported),
                                    CT_TEST(fault_can_kill_and_sleep),
                                    CT_TEST(fault_can_be_slow),
                                    CT_TEST_END};
  return ct_test_main("log", tests, argc, argv);
}
