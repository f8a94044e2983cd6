/* Accounts of made-up steps: they add up, and what is put into one term comes out in it. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "telemetry/ct_time_breakdown.h"
#include "tests/harness/ct_test_mpi.h"

#define topo (&ct_test_topo)

/* What this rank does in a step; all steps are as long as the slowest rank and 1 ms of transfer. */
typedef ct_step_times_t times_fn(int step);

static ct_step_times_t usual(int step)
{
  (void)step;
  return (ct_step_times_t){{[CT_TIME_DATA] = 1e-3,
                            [CT_TIME_COMPUTE] = 20e-3,
                            [CT_TIME_MOVE] = 2e-3,
                            [CT_TIME_UPDATE] = 3e-3,
                            [CT_TIME_SAVE] = 0.5e-3,
                            [CT_TIME_OTHER] = 0.25e-3,
                            [CT_TIME_BATCHNORM] = 0.125e-3}};
}

static int is_last(void)
{
  return topo->rank == topo->size - 1;
}

/* As the trainer makes it: the word is what is left when the slowest rank, and the wire, are done.
 */
static void make_step(ct_breakdown_t *a, const ct_step_times_t *mine, double transfer)
{
  ct_step_report_t r = {.times = *mine, .samples = 8};
  ct_step_status_t w = {.time_sum = *mine, .time_max = *mine, .busy_max = ct_step_times_busy(mine)};
  CT_ASSERT_OK(ct_step_agree(topo, &w));
  r.times.s[CT_TIME_WORD] = w.busy_max + transfer - ct_step_times_all(mine);
  ct_breakdown_step(a, &w, &r);
}

static void make_steps(ct_breakdown_t *a, int n, times_fn *of)
{
  for (int i = 0; i < n; i++) {
    ct_step_times_t t = of(i);
    make_step(a, &t, 1e-3);
  }
}

static void adds_up(const ct_breakdown_sum_t *s)
{
  CT_ASSERT_NEAR(s->busy_s + s->imbalance_s + s->transfer_s, s->step_s, 1e-12);
  CT_ASSERT_NEAR(s->steady_s + s->random_s, s->imbalance_s, 1e-12);
  CT_ASSERT_NEAR(ct_step_times_all(&s->mean), s->step_s, 1e-12);
  CT_ASSERT_NEAR(ct_step_times_busy(&s->mean), s->busy_s, 1e-12);
}

static void breakdown_of(int n, times_fn *of, ct_breakdown_sum_t *s)
{
  ct_breakdown_t *a;
  CT_ASSERT_OK(ct_breakdown_open(topo, 0, &a));
  make_steps(a, n, of);
  ct_breakdown_collect(a, s);
  adds_up(s);
  ct_breakdown_close(a);
}

static void equal_ranks_only_wait_for_the_wire(void)
{
  ct_breakdown_sum_t s;
  breakdown_of(10, usual, &s);
  CT_ASSERT_INT(s.steps, 10);
  CT_ASSERT_INT(s.samples, 80);
  CT_ASSERT_INT(s.ranks, topo->size);
  CT_ASSERT_NEAR(s.busy_s, 26.75e-3, 1e-12);
  CT_ASSERT_NEAR(s.transfer_s, 1e-3, 1e-12);
  CT_ASSERT_NEAR(s.imbalance_s, 0, 1e-12);
  CT_ASSERT_NEAR(s.mean.s[CT_TIME_BATCHNORM], 0.125e-3, 1e-12);
  CT_ASSERT_NEAR(s.mean.s[CT_TIME_WORD], 0.875e-3, 1e-12);
  CT_ASSERT_NEAR(s.busy_sd_s, 0, 1e-9);
}

static ct_step_times_t last_reads(int step)
{
  ct_step_times_t t = usual(step);
  if (is_last()) t.s[CT_TIME_DATA] += 8e-3;
  return t;
}

static void a_slow_rank_is_steady(void)
{
  ct_breakdown_sum_t s;
  breakdown_of(10, last_reads, &s);
  double n = topo->size, more = 8e-3 * (1 - 1 / n);
  CT_ASSERT_NEAR(s.imbalance_s, more, 1e-12);
  CT_ASSERT_NEAR(s.random_s, topo->rank ? more : 0, 1e-12); /* only rank 0 knows who it was */
  CT_ASSERT_NEAR(s.max.s[CT_TIME_DATA], 9e-3, 1e-12);
  CT_ASSERT_NEAR(s.mean.s[CT_TIME_DATA], 1e-3 + 8e-3 / n, 1e-12);
  CT_ASSERT_INT(s.slowest, topo->rank ? -1 : topo->size - 1);
  if (topo->rank == 0 && topo->size > 1) CT_ASSERT_INT(s.slowest_kind, CT_TIME_DATA);
}

static ct_step_times_t each_in_turn(int step)
{
  ct_step_times_t t = usual(step);
  if (step % topo->size == topo->rank) t.s[CT_TIME_COMPUTE] += 8e-3;
  return t;
}

static void noise_is_random(void)
{
  ct_breakdown_sum_t s;
  breakdown_of(4 * topo->size, each_in_turn, &s);
  double n = topo->size, more = 8e-3 * (1 - 1 / n);
  CT_ASSERT_NEAR(s.steady_s, 0, 1e-12);
  CT_ASSERT_NEAR(s.random_s, more, 1e-12);
  if (topo->rank == 0) CT_ASSERT_NEAR(s.busy_sd_s, 8e-3 * sqrt((n - 1) / n / n), 1e-9);
}

/* Windows of different lengths are one account; the steady part is that of the whole. */
static void windows_add_up(void)
{
  ct_breakdown_t *a;
  ct_breakdown_sum_t s, whole;
  CT_ASSERT_OK(ct_breakdown_open(topo, 0, &a));
  make_steps(a, 30, usual);
  ct_breakdown_collect(a, &s);
  make_steps(a, 10, last_reads);
  ct_breakdown_collect(a, &s);
  CT_ASSERT_INT(s.steps, 10);
  ct_breakdown_collect(a, &s); /* an empty one */
  CT_ASSERT_INT(s.steps, 0);
  ct_breakdown_total(a, &whole);
  adds_up(&whole);
  CT_ASSERT_INT(whole.steps, 40);
  CT_ASSERT_NEAR(whole.imbalance_s, 2e-3 * (1 - 1.0 / topo->size), 1e-12);
  if (topo->rank == 0) {
    ct_breakdown_rank_t r = ct_breakdown_of_rank(a, topo->size - 1);
    CT_ASSERT_NEAR(whole.random_s, 0, 1e-12);
    CT_ASSERT_NEAR(r.busy_s, 28.75e-3, 1e-12);
    CT_ASSERT_NEAR(r.busy_max_s, 34.75e-3, 1e-12);
    CT_ASSERT_NEAR(r.mean.s[CT_TIME_DATA], 3e-3, 1e-12);
    CT_ASSERT_NEAR(r.step_s, whole.step_s, 1e-12);
  }
  ct_breakdown_close(a);
}

static ct_step_times_t seldom_long(int step)
{
  return (ct_step_times_t){{[CT_TIME_COMPUTE] = step % 10 == 9 ? 0.4 : 0.1 - 1e-3}};
}

static void lengths_are_binned(void)
{
  ct_breakdown_sum_t s;
  breakdown_of(100, seldom_long, &s);
  CT_ASSERT_NEAR(s.step_min_s, 0.1, 1e-9);
  CT_ASSERT_NEAR(s.step_max_s, 0.401, 1e-9);
  CT_ASSERT_NEAR(ct_breakdown_quantile(&s, 0.5), 0.1, 0.009);
  CT_ASSERT_NEAR(ct_breakdown_quantile(&s, 0.89), 0.1, 0.009);
  CT_ASSERT_NEAR(ct_breakdown_quantile(&s, 0.95), 0.4, 0.036);
  CT_ASSERT_NEAR(ct_breakdown_quantile(&s, 1), 0.401, 1e-9);
}

static double number(const json_t *o, const char *in, const char *key)
{
  return json_number_value(json_object_get(in ? json_object_get(o, in) : o, key));
}

static void the_json_adds_up(void)
{
  ct_breakdown_sum_t s;
  breakdown_of(10, last_reads, &s);
  json_t *o = ct_breakdown_json(&s);
  double sum = 0;
  for (int k = 0; k < CT_TIME_KINDS; k++)
    sum += number(o, "kinds_s", ct_step_time_name(k));
  CT_ASSERT_NEAR(sum, number(o, NULL, "step_s"), 1e-12);
  CT_ASSERT_NEAR(number(o, NULL, "load_balance") * number(o, NULL, "communication_efficiency"),
                 number(o, NULL, "parallel_efficiency"), 1e-12);
  CT_ASSERT_NEAR(number(o, NULL, "parallel_efficiency"), s.busy_s / s.step_s, 1e-12);
  json_t *bins = json_object_get(o, "bins"), *bin = json_array_get(bins, 0);
  CT_ASSERT_INT(json_array_size(bins), 1);
  CT_ASSERT_INT(json_integer_value(json_array_get(bin, 1)), 10);
  double from = json_number_value(json_array_get(bin, 0));
  CU_ASSERT(from <= s.step_s && s.step_s < 1.1 * from);
  if (topo->rank == 0) {
    CT_ASSERT_TEXT(json_string_value(json_object_get(o, "slowest_host")), topo->host);
    CT_ASSERT_INT(number(o, NULL, "slowest_rank"), topo->size - 1);
  } else {
    CU_ASSERT_PTR_NULL(json_object_get(o, "slowest_rank"));
  }
  json_decref(o);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(equal_ranks_only_wait_for_the_wire),
                                    CT_TEST(a_slow_rank_is_steady),
                                    CT_TEST(noise_is_random),
                                    CT_TEST(windows_add_up),
                                    CT_TEST(lengths_are_binned),
                                    CT_TEST(the_json_adds_up),
                                    CT_TEST_END};
  return ct_test_mpi_main("account", tests, argc, argv);
}
