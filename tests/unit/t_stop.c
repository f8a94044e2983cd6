/* When a run stops before its end: requests to stop, and the time that is left of a job. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "job/ct_stop.h"
#include "job/ct_walltime.h"
#include "tests/harness/ct_test.h"

/* ---- requests ---- */

static int64_t by_signal(int rank, int sig)
{
  return ct_stop_pack((ct_stop_t){CT_STOP_SIGNAL, rank, sig});
}

static int64_t by_walltime(int rank)
{
  return ct_stop_pack((ct_stop_t){.reason = CT_STOP_WALLTIME, .rank = rank});
}

static void a_request_is_a_number(void)
{
  static const int ranks[] = {0, 1, 4095, INT32_MAX};
  CT_ASSERT_INT(ct_stop_pack((ct_stop_t){0}), 0);
  CT_ASSERT_INT(ct_stop_unpack(0).reason, CT_STOP_NO);
  for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
    ct_stop_t s = ct_stop_unpack(by_signal(ranks[i], SIGUSR2));
    CT_ASSERT_INT(s.reason, CT_STOP_SIGNAL);
    CT_ASSERT_INT(s.rank, ranks[i]);
    CT_ASSERT_INT(s.signal, SIGUSR2);
    s = ct_stop_unpack(by_walltime(ranks[i]));
    CT_ASSERT_INT(s.reason, CT_STOP_WALLTIME);
    CT_ASSERT_INT(s.rank, ranks[i]);
  }
}

static void the_graver_request_is_larger(void)
{
  CU_ASSERT(by_walltime(INT32_MAX) > 0);
  CU_ASSERT(by_signal(INT32_MAX, SIGTERM) > by_walltime(0));
  CU_ASSERT(by_signal(1, SIGTERM) > by_signal(2, SIGTERM));
  CU_ASSERT(by_signal(1, SIGUSR1) > by_signal(2, SIGTERM));
  CU_ASSERT(by_signal(2, SIGUSR1) < by_signal(1, SIGTERM));
}

static void without_a_signal_a_request_stays(void)
{
  CT_ASSERT_INT(ct_stop_with_signal(0, 3), 0);
  CT_ASSERT_INT(ct_stop_with_signal(by_walltime(0), 3), by_walltime(0));
}

static void nothing(int sig)
{
  (void)sig;
}

/* What is left of a child's stop signals after a library has put its own handler in the place of
 * that of SIGUSR1. */
static int child_with_a_library(int stops)
{
  ct_stop_held_t held;
  if (stops) ct_stop_setup();
  ct_stop_hold(&held);
  signal(SIGUSR1, nothing);
  raise(SIGUSR1);
  if (ct_stop_asked() != 0) return 1;
  ct_stop_release(&held);
  if (ct_stop_asked() != SIGUSR1) return 2;
  return 0;
}

static void a_library_does_not_get_the_signals(void)
{
  for (int stops = 0; stops < 2; stops++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(child_with_a_library(stops));
    waitpid(child, &status, 0);
    CT_ASSERT_INT(WIFEXITED(status), stops);
    if (stops)
      CT_ASSERT_INT(WEXITSTATUS(status), 0);
    else
      CT_ASSERT_INT(WTERMSIG(status), SIGUSR1); /* what it does where nobody handles it */
  }
}

static void requests_have_words(void)
{
  char text[64];
  CT_ASSERT_TEXT(ct_stop_name(CT_STOP_NO), "done");
  CT_ASSERT_TEXT(ct_stop_name(CT_STOP_WALLTIME), "walltime");
  CT_ASSERT_TEXT(ct_stop_name(CT_STOP_SIGNAL), "signal");
  CT_ASSERT_TEXT(ct_stop_text(ct_stop_unpack(by_signal(2, SIGUSR1)), text, sizeof text),
                 "rank 2 got SIGUSR1");
  CT_ASSERT_TEXT(ct_stop_text(ct_stop_unpack(by_signal(0, SIGTERM)), text, sizeof text),
                 "rank 0 got SIGTERM");
}

/* ---- durations ---- */

static void durations_are_read(void)
{
  static const struct {
    const char *text;
    double seconds;
  } good[] = {
      {"90", 90},           {"1.5", 1.5},           {"90s", 90},           {"90m", 5400},
      {"1.5h", 5400},       {"2d", 172800},         {"0:00:01", 1},        {"11:30:00", 41400},
      {"100:00:00", 3.6e5}, {"1-12:00:00", 129600}, {"7-0:00:00", 604800}, {"0-23:59:59", 86399}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    double seconds = 0;
    CT_ASSERT_INT(ct_walltime_duration(good[i].text, &seconds), CT_OK);
    CT_ASSERT_NEAR(seconds, good[i].seconds, 1e-9);
    CT_ASSERT_OK(ct_walltime_check(good[i].text));
  }
}

static void what_is_no_duration_is_refused(void)
{
  static const char *const bad[] = {
      "",          "0",        "-5",      "inf",     "nan",       "10:30",    "h",
      "5w",        "1 h",      "0:00:00", "1:60:00", "1:00:60",   "1-24:0:0", "1-12",
      "1-12:00",   "-1:00:00", "1:-2:03", "1:2:3:4", "1-1-1:0:0", "1:2:3x",   "1-12:00:00d",
      "12:00:00 ", "auto ",    "Off",     "1e999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    double seconds;
    CT_ASSERT_INT(ct_walltime_duration(bad[i], &seconds), CT_ERR_ARG);
    CT_ASSERT_FAILS(ct_walltime_check(bad[i]), CT_ERR_USAGE, "job.walltime is '");
  }
  CT_ASSERT_OK(ct_walltime_check("auto"));
  CT_ASSERT_OK(ct_walltime_check("off"));
}

/* ---- the end of the job ---- */

static const ct_job_t no_job;
static ct_walltime_t found; /* by expect_end() */

static void clear_environment(void)
{
  unsetenv("CTRAIN_END_TIME");
  unsetenv("SLURM_JOB_END_TIME");
  unsetenv("COBALT_ENDTIME");
}

static void expect_end(const char *source)
{
  ct_job_t job;
  ct_job_read(getenv, &job);
  CT_ASSERT_OK(ct_walltime_open("auto", &job, &found));
  CU_ASSERT(!source == !found.source);
  if (source && found.source) CT_ASSERT_TEXT(found.source, source);
}

static void set_end(const char *name, double seconds_from_now)
{
  char text[32];
  snprintf(text, sizeof text, "%.0f", (double)time(NULL) + seconds_from_now);
  setenv(name, text, 1);
}

static void the_environment_says_the_end(void)
{
  clear_environment();
  expect_end(NULL);
  set_end("SLURM_JOB_END_TIME", 1000);
  expect_end("SLURM_JOB_END_TIME");
  CT_ASSERT_NEAR(ct_walltime_left_now(&found), 1000, 60);
  set_end("CTRAIN_END_TIME", 500);
  expect_end("CTRAIN_END_TIME");
  CT_ASSERT_NEAR(ct_walltime_left_now(&found), 500, 60);
  CT_ASSERT_OK(ct_walltime_open("off", &no_job, &found));
  CU_ASSERT_PTR_NULL(found.source);
  clear_environment();
}

static void ends_that_cannot_be_are_passed_over(void)
{
  static const char *const bad[] = {"", "soon", "0", "-1", "inf", "1700000000"};
  clear_environment();
  set_end("SLURM_JOB_END_TIME", 1000);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv("CTRAIN_END_TIME", bad[i], 1);
    expect_end("SLURM_JOB_END_TIME");
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv("SLURM_JOB_END_TIME", bad[i], 1);
    expect_end(NULL);
    set_end("COBALT_ENDTIME", 1000);
    expect_end("COBALT_ENDTIME");
    unsetenv("COBALT_ENDTIME");
  }
  set_end("SLURM_JOB_END_TIME", -10);
  expect_end(NULL);
  clear_environment();
}

static void a_duration_counts_from_the_start_of_the_program(void)
{
  ct_walltime_t w;
  CT_ASSERT_OK(ct_walltime_open("1:00:00", &no_job, &w));
  CT_ASSERT_TEXT(w.source, "job.walltime");
  double before = ct_clock_since_exec(), left = ct_walltime_left_now(&w);
  double ticks = 0.1; /* of which the kernel tells the start of a program */
  CU_ASSERT(left <= 3600 - before + ticks && left >= 3600 - ct_clock_since_exec() - ticks);
  CU_ASSERT(w.by_clock);
}

/* ---- whether there is time left ---- */

static void the_sooner_of_two_clocks_counts(void)
{
  ct_walltime_t none = {0}, w = {.source = "test", .end_s = 10000, .end_clock_s = 600};
  CU_ASSERT(isinf(ct_walltime_left(&none, 1e10, 1e10)));
  CT_ASSERT_NEAR(ct_walltime_left(&w, 9900, 500), 100, 1e-9);
  CT_ASSERT_NEAR(ct_walltime_left(&w, 9950, 500), 50, 1e-9); /* set 50 s ahead */
  CT_ASSERT_NEAR(ct_walltime_left(&w, 9800, 500), 100, 1e-9);
  w.by_clock = 1;
  CT_ASSERT_NEAR(ct_walltime_left(&w, 9950, 500), 100, 1e-9);
}

static void a_step_and_a_checkpoint_must_fit(void)
{
  ct_walltime_need_t need = {.step_s = 10, .save_s = 5, .margin_s = 30};
  CU_ASSERT(!ct_walltime_is_last(INFINITY, &need));
  CU_ASSERT(!ct_walltime_is_last(55.1, &need)); /* this step, another one, the checkpoint */
  CU_ASSERT(ct_walltime_is_last(54.9, &need));
  CU_ASSERT(ct_walltime_is_last(-1, &need));
  need.writing = 1;
  CU_ASSERT(ct_walltime_is_last(59.9, &need));
  CU_ASSERT(!ct_walltime_is_last(60.1, &need));
}

static void the_slowest_fades(void)
{
  double slow = 0;
  CT_ASSERT_NEAR(slow = ct_walltime_slowest(slow, 2), 2, 0);
  CT_ASSERT_NEAR(slow = ct_walltime_slowest(slow, 60), 60, 0); /* the first step prepares much */
  CU_ASSERT(ct_walltime_slowest(slow, 2) > 50);
  for (int i = 0; i < 200; i++)
    slow = ct_walltime_slowest(slow, 2);
  CT_ASSERT_NEAR(slow, 2, 0.1);
  CT_ASSERT_NEAR(ct_walltime_guess_save(500e6), 11, 1e-9);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_request_is_a_number),
                                    CT_TEST(the_graver_request_is_larger),
                                    CT_TEST(without_a_signal_a_request_stays),
                                    CT_TEST(a_library_does_not_get_the_signals),
                                    CT_TEST(requests_have_words),
                                    CT_TEST(durations_are_read),
                                    CT_TEST(what_is_no_duration_is_refused),
                                    CT_TEST(the_environment_says_the_end),
                                    CT_TEST(ends_that_cannot_be_are_passed_over),
                                    CT_TEST(a_duration_counts_from_the_start_of_the_program),
                                    CT_TEST(the_sooner_of_two_clocks_counts),
                                    CT_TEST(a_step_and_a_checkpoint_must_fit),
                                    CT_TEST(the_slowest_fades),
                                    CT_TEST_END};
  return ct_test_main("stop", tests, argc, argv);
}
