/* Who is named, and what is said of it: times are made up, and so are the hosts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test_mpi.h"
#include "telemetry/ct_time_breakdown_lines.h"
#include "telemetry/ct_stragglers.h"

enum { EVERY = 10 };

static ct_topo_t topo; /* with the hosts of a case */
static const ct_sampler_t sampler = {.samples = 100, .batch = 48};
static char *said, *metrics; /* of the last run; rank 0 */

/* This rank's seconds in a step. */
typedef struct times {
  double compute_s, data_s;
} times_t;
typedef times_t times_fn(int64_t step);

static times_t usual(int64_t step)
{
  (void)step;
  return (times_t){0.020, 0.001};
}

static void set_hosts(int per_host)
{
  topo = ct_test_topo;
  memset(topo.host, 0, sizeof topo.host);
  snprintf(topo.host, sizeof topo.host, "node%d.cluster.example", topo.rank / per_host + 1);
}

/* The 4th and 9th step of each 10 are on a small batch, where rank 1 is slow: they do not count. */
static void make_steps(ct_breakdown_lines_t *a, int64_t from, int64_t to, times_fn *of)
{
  ct_step_status_t word = {0};
  for (int64_t step = from; step <= to; step++) {
    int whole = step % 5 != 4;
    times_t t = of(step);
    if (!whole) t = (times_t){0.3 * (topo.rank == 1), 0};
    ct_step_report_t r = {.data_s = t.data_s,
                          .times.s = {[CT_TIME_DATA] = t.data_s, [CT_TIME_COMPUTE] = t.compute_s}};
    CT_ASSERT_OK(ct_breakdown_lines_step(a, step, whole ? 48 : 4, &word, &r));
  }
}

static int redirect_stderr(const char *path)
{
  int saved = dup(STDERR_FILENO), file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  CU_ASSERT_FATAL(saved >= 0 && file >= 0);
  dup2(file, STDERR_FILENO);
  close(file);
  return saved;
}

static void restore_stderr(int saved)
{
  dup2(saved, STDERR_FILENO);
  close(saved);
}

/* Steps 1 to n. */
static void run(int64_t n, int per_host, times_fn *of)
{
  char log[600], lines[600];
  size_t bytes;
  ct_breakdown_lines_t *a;
  ct_metrics_t *m = NULL;
  const char *dir = ct_test_dir();
  snprintf(log, sizeof log, "%s/said", dir);
  snprintf(lines, sizeof lines, "%s/metrics.jsonl", dir);
  set_hosts(per_host);
  CT_ASSERT_OK(ct_metrics_open(dir, &m));
  CT_ASSERT_OK(ct_breakdown_lines_open(&topo, EVERY, &sampler, m, &a));
  int saved = redirect_stderr(log);
  make_steps(a, 1, n, of);
  CT_ASSERT_OK(ct_breakdown_lines_end(a, dir));
  restore_stderr(saved);
  ct_breakdown_lines_close(a);
  CT_ASSERT_OK(ct_metrics_close(m));
  ct_mem_free(said);
  ct_mem_free(metrics);
  CT_ASSERT_OK(ct_file_read(log, &said, &bytes));
  CT_ASSERT_OK(ct_file_read(lines, &metrics, &bytes));
}

static int count(const char *text, const char *word)
{
  int n = 0;
  for (const char *p = text; (p = strstr(p, word)); p++)
    n++;
  return n;
}

/* Rank 0 alone says something. */
static void said_has(const char *word, int times)
{
  CT_ASSERT_INT(count(said, word), topo.rank == 0 ? times : 0);
  if (topo.rank == 0 && times) CT_ASSERT_HAS(said, word);
}

/* ---- cases ---- */

static void too_few_samples_for_all_ranks(void)
{
  static const ct_sampler_t small = {.samples = 3, .batch = 48};
  ct_topo_t four = {.world = MPI_COMM_NULL, .size = 4};
  ct_stragglers_t *s;
  int64_t calls = ct_mem_calls();
  CT_ASSERT_OK(ct_stragglers_open(&four, NULL, EVERY, &small, &s));
  CU_ASSERT_PTR_NULL(s);
  CT_ASSERT_OK(ct_stragglers_window(s, 1, EVERY, NULL));
  ct_stragglers_summary(s);
  ct_stragglers_close(s);
  CT_ASSERT_INT(ct_mem_calls(), calls);
}

static void equal_ranks_are_not_named(void)
{
  run(50, 2, usual);
  said_has(" W ", 0);
  CT_ASSERT_INT(count(metrics, "straggler"), 0);
  if (topo.size <= 2) {
    said_has("busy in a step", 0); /* one host */
  } else {
    said_has("busy in a step: 21.0 ms (median of the ranks)\n", 1);
    said_has("  node2                21.0 ms, 1.00 of the median\n", 1);
  }
}

static times_t last_computes(int64_t step)
{
  times_t t = usual(step);
  if (topo.rank == topo.size - 1) t.compute_s += 0.015;
  return t;
}

static void a_rank_is_named_by_compute(void)
{
  char word[200];
  if (ct_test_topo.size == 1) return;
  run(40, ct_test_topo.size, last_computes);
  snprintf(word, sizeof word,
           " W slow ranks in steps 11-20: rank %d (node1) by compute, busy for 36.0 ms per step "
           "(compute 35.0, data 1.0); the others 21.0 ms (compute 20.0, data 1.0)\n",
           topo.size - 1);
  said_has(word, 1);
  said_has(" W ", 1);
  snprintf(word, sizeof word, " slow ranks: rank %d in 3 of 4 windows of 10 steps\n",
           topo.size - 1);
  said_has(word, 1);
  said_has("node1 ", 0); /* no table of one host */
  CT_ASSERT_INT(count(metrics, "\"event\":\"straggler\""), topo.rank == 0 ? 3 : 0);
  snprintf(word, sizeof word, "\"step\":20,\"rank\":%d,\"host\":\"node1\",\"busy_s\":0.03",
           topo.size - 1);
  if (topo.rank == 0) CT_ASSERT_HAS(metrics, word);
}

static times_t last_waits(int64_t step)
{
  times_t t = usual(step);
  if (topo.rank == topo.size - 1) t.data_s += 0.015;
  return t;
}

static void a_rank_is_named_by_data(void)
{
  if (ct_test_topo.size == 1) return;
  run(20, ct_test_topo.size, last_waits);
  said_has("by data, busy for 36.0 ms per step (compute 20.0, data 16.0); the others", 1);
}

static times_t second_host_computes(int64_t step)
{
  times_t t = usual(step);
  if (topo.rank >= 2) t.compute_s *= 2;
  return t;
}

static void a_host_is_named_as_one(void)
{
  if (ct_test_topo.size < 4) return;
  ct_test_topo.job.system.exclude = "sbatch --exclude=";
  run(40, 2, second_host_computes);
  said_has(" W slow ranks in steps 11-20: node2 by compute, busy for 41.0 ms per step (compute "
           "40.0, data 1.0); the others 21.0 ms",
           1);
  said_has("  node2                41.0 ms, 1.95 of the median, slow in 3 of 4 windows\n", 1);
  said_has("  node1                21.0 ms, 1.00 of the median\n", 1);
  said_has(" W node2: slow at least half of the time; to run without: sbatch --exclude=node2 ...\n",
           1);
  if (topo.rank == 0) CU_ASSERT(strstr(said, "  node2 ") < strstr(said, "  node1 "));
  CT_ASSERT_INT(count(metrics, "\"host\":\"node2\""), topo.rank == 0 ? 6 : 0);
  ct_test_topo.job.system.exclude = NULL;
  run(40, 2, second_host_computes);
  said_has("--exclude", 0);
  said_has(" W node2: slow at least half of the time; to run without, name the other hosts", 1);
}

static void several_hosts_are_named(void)
{
  if (ct_test_topo.size < 4) return;
  run(40, 1, second_host_computes); /* nodes 3 and 4 */
  said_has(" W slow ranks in steps 11-20: rank 2 (node3) by compute, busy for 41.0 ms", 1);
  said_has("data 1.0); rank 3 (node4) by compute, busy for 41.0 ms", 1);
  said_has(" W node3,node4: slow at least half", 1);
}

static times_t second_window(int64_t step)
{
  return step > 10 && step <= 20 ? last_computes(step) : usual(step);
}

static void one_window_is_not_enough(void)
{
  run(60, 2, second_window);
  said_has(" W ", 0);
  CT_ASSERT_INT(count(metrics, "straggler"), 0);
}

static void a_line_is_said_again_much_later(void)
{
  if (ct_test_topo.size == 1) return;
  run(250, 1, last_computes);
  said_has(" W slow ranks in steps ", 3);
  said_has(" W slow ranks in steps 11-20", 1);
  said_has(" W slow ranks in steps 111-120", 1);
  said_has(" W slow ranks in steps 211-220", 1);
  CT_ASSERT_INT(count(metrics, "straggler"), topo.rank == 0 ? 24 : 0);
}

/* A run that resumes at a step within a window. */
static void windows_end_alike_after_a_resume(void)
{
  ct_breakdown_lines_t *a;
  if (ct_test_topo.size == 1) return;
  set_hosts(1);
  CT_ASSERT_OK(ct_breakdown_lines_open(&topo, EVERY, &sampler, NULL, &a));
  int64_t calls = ct_mem_calls();
  make_steps(a, 7, 40, usual);
  CT_ASSERT_INT(ct_mem_calls(), calls); /* nothing is allocated in a step */
  ct_breakdown_lines_close(a);
}

static void out_of_memory(void)
{
  int64_t live = ct_mem_live();
  ct_breakdown_lines_t *a;
  if (ct_test_topo.size == 1) return;
  set_hosts(1);
  for (int64_t n = 1; n <= 10; n++) {
    if (topo.rank == 0) ct_mem_fail_at(n);
    CT_ASSERT_FAILS(ct_breakdown_lines_open(&topo, EVERY, &sampler, NULL, &a), CT_ERR_NOMEM, "");
    ct_mem_fail_at(0);
    CU_ASSERT_PTR_NULL(a);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(too_few_samples_for_all_ranks),
                                    CT_TEST(equal_ranks_are_not_named),
                                    CT_TEST(a_rank_is_named_by_compute),
                                    CT_TEST(a_rank_is_named_by_data),
                                    CT_TEST(a_host_is_named_as_one),
                                    CT_TEST(several_hosts_are_named),
                                    CT_TEST(one_window_is_not_enough),
                                    CT_TEST(a_line_is_said_again_much_later),
                                    CT_TEST(windows_end_alike_after_a_resume),
                                    CT_TEST(out_of_memory),
                                    CT_TEST_END};
  return ct_test_mpi_main("stragglers", tests, argc, argv);
}
