/* How slow is slow: a rank's window of steps, and the judgement over the ranks. */
#include <math.h>

#include "base/ct_rng.h"
#include "tests/harness/ct_test.h"
#include "telemetry/slow_rank_stats.h"

enum { RANKS_MAX = 64 };

/* ---- a window of one rank ---- */

static void outliers_do_not_count(void)
{
  ct__slow_stats_window_t w;
  ct__slow_stats_begin(&w, 100);
  for (int i = 0; i < 100; i++)
    ct__slow_stats_add(&w, i % 20 == 7 ? 5 : 0.02, i % 20 == 7 ? 4.98 : 0.002);
  ct__slow_stats_t p = ct__slow_stats_of(&w);
  CT_ASSERT_NEAR(p.busy_s, 0.02, 1e-12);
  CT_ASSERT_NEAR(p.data_s, 0.002, 1e-12);
  CT_ASSERT_NEAR(p.error_s, 0, 1e-12);
}

/* Batches that come in twos from the workers of the feed: every other step waits. */
static void what_comes_again_and_again_does(void)
{
  ct__slow_stats_window_t w;
  ct__slow_stats_begin(&w, 100);
  for (int i = 0; i < 100; i++)
    ct__slow_stats_add(&w, i % 2 ? 0.03 : 0.01, i % 2 ? 0.02 : 0);
  ct__slow_stats_t p = ct__slow_stats_of(&w);
  CT_ASSERT_NEAR(p.busy_s, 0.02, 1e-12);
  CT_ASSERT_NEAR(p.data_s, 0.01, 1e-12);
  CT_ASSERT_NEAR(p.error_s, 0.01 * sqrt(100. / 99) * 10 / 80, 1e-12);
}

static void error_is_that_of_a_trimmed_mean(void)
{
  ct__slow_stats_window_t w;
  ct__slow_stats_begin(&w, 5);
  for (int i = 0; i < 5; i++)
    ct__slow_stats_add(&w, i == 4 ? 100 : i + 1, 0);
  ct__slow_stats_t p = ct__slow_stats_of(&w); /* of 2 2 3 4 4 */
  CT_ASSERT_NEAR(p.busy_s, 3, 1e-12);
  CT_ASSERT_NEAR(p.error_s, sqrt(4. / 4) * sqrt(5) / 3, 1e-12);
}

static void few_steps_tell_nothing(void)
{
  ct__slow_stats_window_t w;
  ct__slow_stats_begin(&w, 1);
  CU_ASSERT(isinf(ct__slow_stats_of(&w).error_s));
  CT_ASSERT_NEAR(ct__slow_stats_of(&w).busy_s, 0, 0);
  ct__slow_stats_add(&w, 0.5, 0.25);
  CU_ASSERT(isinf(ct__slow_stats_of(&w).error_s));
  CT_ASSERT_NEAR(ct__slow_stats_of(&w).busy_s, 0.5, 0);
  CT_ASSERT_NEAR(ct__slow_stats_of(&w).data_s, 0.25, 0);
}

static void long_windows_are_looked_at_from_end_to_end(void)
{
  static const int64_t steps[] = {1, 127, 128, 129, 1000, 123457};
  for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
    ct__slow_stats_window_t w;
    ct__slow_stats_begin(&w, steps[k]);
    for (int64_t i = 0; i < steps[k]; i++)
      ct__slow_stats_add(&w, (double)i, 0);
    CU_ASSERT(w.n <= CT_SLOW_STATS_STEPS && (w.n > 64 || w.n == steps[k]));
    CT_ASSERT_NEAR(ct__slow_stats_of(&w).busy_s, (double)steps[k] / 2, (double)steps[k] / 64 + 0.5);
    ct__slow_stats_begin(&w, steps[k]);
    CT_ASSERT_INT(w.n, 0);
  }
}

/* ---- the judgement ---- */

static int slow[RANKS_MAX];
static double share[RANKS_MAX];
static ct__slow_stats_t usual; /* of the last judgement */

static int judge(const ct__slow_stats_t *stats, int ranks)
{
  ct__slow_stats_rank_t rank[RANKS_MAX];
  double work[RANKS_MAX];
  int found = 0;
  for (int r = 0; r < ranks; r++)
    rank[r] = (ct__slow_stats_rank_t){.stats = stats[r], .share = share[r], .slow = -1};
  ct__slow_stats_judge(rank, ranks, work, &usual);
  for (int r = 0; r < ranks; r++)
    found += (slow[r] = rank[r].slow) == 1;
  return found;
}

/* Milliseconds of each rank. */
static int judge_ms(const double *ms, int ranks, double error_ms)
{
  ct__slow_stats_t p[RANKS_MAX] = {{0}};
  for (int r = 0; r < ranks; r++) {
    p[r] = (ct__slow_stats_t){ms[r] * 1e-3, 1e-3, error_ms * 1e-3};
    share[r] = 1;
  }
  return judge(p, ranks);
}

static void one_slow_rank_is_found(void)
{
  double ms[RANKS_MAX];
  for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
    for (int bad = 0; bad < ranks; bad++) {
      for (int r = 0; r < ranks; r++)
        ms[r] = r == bad ? 38 : 21 + 0.2 * (r % 3);
      CT_ASSERT_INT(judge_ms(ms, ranks, 0.1), 1);
      CT_ASSERT_INT(slow[bad], 1);
      CT_ASSERT_NEAR(usual.busy_s, 0.0212, 0.0002001);
    }
}

static void equal_ranks_are_not(void)
{
  double ms[RANKS_MAX];
  for (int r = 0; r < RANKS_MAX; r++)
    ms[r] = 21;
  for (int ranks = 2; ranks <= RANKS_MAX; ranks++)
    CT_ASSERT_INT(judge_ms(ms, ranks, 0), 0);
}

/* One of two nodes. */
static void half_of_the_ranks_may_be_slow(void)
{
  double ms[16];
  for (int ranks = 2; ranks <= 16; ranks += 2) {
    for (int r = 0; r < ranks; r++)
      ms[r] = r < ranks / 2 ? 38 : 21 + 0.1 * (r % 2);
    CT_ASSERT_INT(judge_ms(ms, ranks, 0.1), ranks / 2);
    CT_ASSERT_INT(slow[0], 1);
    CT_ASSERT_INT(slow[ranks - 1], 0);
  }
}

static void margins(void)
{
  CT_ASSERT_INT(judge_ms((double[]){20, 24.9}, 2, 0), 0);
  CT_ASSERT_INT(judge_ms((double[]){20, 25.1}, 2, 0), 1);
  CT_ASSERT_INT(judge_ms((double[]){20, 20, 20, 20, 20, 20, 25.1}, 7, 0), 1);
  CT_ASSERT_INT(judge_ms((double[]){20, 20, 20, 20, 20, 20, 20, 21.9}, 8, 0), 0);
  CT_ASSERT_INT(judge_ms((double[]){20, 20, 20, 20, 20, 20, 20, 22.1}, 8, 0), 1);
  CT_ASSERT_INT(judge_ms((double[]){0.2, 1.1}, 2, 0), 0); /* a millisecond nobody minds */
  CT_ASSERT_INT(judge_ms((double[]){0.2, 1.3}, 2, 0), 1);
  CT_ASSERT_INT(judge_ms((double[]){20, 30}, 2, 2.6), 0); /* not sure enough */
  CT_ASSERT_INT(judge_ms((double[]){20, 30}, 2, 2.4), 1);
  CT_ASSERT_INT(judge_ms((double[]){20, 200}, 2, INFINITY), 0);
  /* where many ranks differ, one has to differ more: deviations 0 2 2 4 4 6 6 x */
  CT_ASSERT_INT(judge_ms((double[]){40, 38, 42, 36, 44, 34, 46, 63}, 8, 0), 0);
  CT_ASSERT_INT(judge_ms((double[]){40, 38, 42, 36, 44, 34, 46, 64}, 8, 0), 1);
}

/* 7 samples take longer than 6. */
static void larger_parts_may_take_longer(void)
{
  ct__slow_stats_t p[5];
  for (int r = 0; r < 5; r++) {
    share[r] = r < 2 ? 2 : 1;
    p[r] = (ct__slow_stats_t){share[r] * 0.02, 0, 0};
  }
  CT_ASSERT_INT(judge(p, 5), 0);
  p[1].busy_s = 0.046;
  CT_ASSERT_INT(judge(p, 5), 1);
  CT_ASSERT_INT(slow[1], 1);
}

static void the_reason(void)
{
  ct__slow_stats_t others = {0.021, 0.001, 0};
  CT_ASSERT_INT(ct__slow_stats_is_data(&(ct__slow_stats_t){0.038, 0.002, 0}, &others), 0);
  CT_ASSERT_INT(ct__slow_stats_is_data(&(ct__slow_stats_t){0.038, 0.017, 0}, &others), 1);
}

/* ---- noise ---- */

typedef struct recorded {
  int before_us, error_us;
} recorded_t;

/* Equal ranks on two cores that other programs kept busy: ten windows of 25 steps each. */
static const recorded_t four[10][4] = {
    {{3849, 597}, {3426, 606}, {2799, 406}, {3686, 470}},
    {{2485, 340}, {3037, 549}, {2751, 404}, {3740, 565}},
    {{2630, 239}, {2720, 341}, {3080, 473}, {4428, 712}},
    {{3089, 391}, {3141, 436}, {3395, 618}, {2843, 405}},
    {{3710, 563}, {3024, 519}, {3841, 509}, {3998, 619}},
    {{5142, 761}, {3767, 582}, {3083, 427}, {3948, 571}},
    {{3307, 559}, {2948, 534}, {3270, 570}, {2888, 517}},
    {{2426, 417}, {3662, 554}, {3577, 685}, {3051, 684}},
    {{4323, 641}, {4721, 780}, {3224, 522}, {4029, 691}},
    {{3710, 617}, {3459, 523}, {2403, 364}, {3689, 562}},
};
static const recorded_t eight[10][8] = {
    {{1260, 116},
     {1167, 11},
     {1493, 356},
     {1838, 494},
     {1694, 448},
     {1143, 10},
     {1147, 10},
     {1148, 12}},
    {{1151, 7},
     {1304, 127},
     {1582, 348},
     {1154, 17},
     {1175, 8},
     {1386, 385},
     {1191, 27},
     {1517, 342}},
    {{1165, 20},
     {1209, 86},
     {1170, 13},
     {1825, 476},
     {1154, 9},
     {1820, 573},
     {1407, 176},
     {1463, 203}},
    {{1280, 212},
     {1153, 6},
     {2480, 566},
     {1272, 116},
     {1153, 6},
     {1140, 6},
     {1757, 384},
     {1145, 9}},
    {{1309, 115},
     {1607, 360},
     {1164, 11},
     {1332, 293},
     {1430, 355},
     {1600, 489},
     {1295, 126},
     {1512, 431}},
    {{1559, 385},
     {1222, 89},
     {1504, 191},
     {1159, 8},
     {1796, 535},
     {1639, 470},
     {1461, 295},
     {1151, 8}},
    {{1301, 239},
     {1180, 10},
     {1557, 345},
     {1537, 378},
     {1165, 5},
     {1471, 319},
     {1353, 210},
     {1326, 220}},
    {{1632, 410},
     {1699, 358},
     {1327, 203},
     {1166, 13},
     {1165, 5},
     {1891, 409},
     {1170, 20},
     {1175, 20}},
    {{1442, 345},
     {1235, 91},
     {1336, 193},
     {1413, 177},
     {1646, 556},
     {1540, 420},
     {1506, 416},
     {1412, 138}},
    {{1242, 27},
     {1291, 40},
     {1294, 205},
     {1218, 96},
     {1854, 536},
     {2091, 618},
     {1617, 341},
     {1362, 201}},
};

/* \a times: the same noise on longer steps. */
static void check_recorded(const recorded_t *all, int ranks, double times)
{
  for (int w = 0; w < 10; w++) {
    ct__slow_stats_t p[8];
    for (int r = 0; r < ranks; r++) {
      const recorded_t *one = &all[w * ranks + r];
      p[r] = (ct__slow_stats_t){times * 1e-6 * one->before_us, 0, times * 1e-6 * one->error_us};
      share[r] = 1;
    }
    CT_ASSERT_INT(judge(p, ranks), 0);
    p[1].busy_s += times * 4e-3;
    judge(p, ranks);
    CT_ASSERT_INT(slow[1], 1);
  }
}

static void recorded_noise_names_nobody(void)
{
  for (double times = 1; times <= 100; times *= 10) {
    check_recorded(four[0], 4, times);
    check_recorded(eight[0], 8, times);
  }
}

static double draw(int rank, uint64_t n)
{
  return ct_rng_uniform(1, CT_RNG_TEST, (uint32_t)rank, n);
}

/* A step of 20 ms: jitter, now and then the core is gone for a while, and there are bad times that
 * last for some steps. */
static double noisy_ms(int rank, uint64_t step)
{
  double ms = 20 + 4 * draw(rank, 4 * step);
  if (draw(rank, 4 * step + 1) < 0.15) ms += 15 * draw(rank, 4 * step + 2);
  if (draw(rank, 4 * (step / 10) + 3) < 0.1) ms += 10;
  return ms;
}

/* Windows that followed such a one, with the same rank slow in both. */
static int alarms(int ranks, double slow_ms)
{
  enum { WINDOWS = 60, STEPS = 100 };
  int in_a_row[RANKS_MAX] = {0}, n = 0;
  for (int w = 0; w < WINDOWS; w++) {
    ct__slow_stats_t p[RANKS_MAX] = {{0}};
    for (int r = 0; r < ranks; r++) {
      ct__slow_stats_window_t window;
      ct__slow_stats_begin(&window, STEPS);
      for (int i = 0; i < STEPS; i++)
        ct__slow_stats_add(&window,
                           1e-3 * (noisy_ms(r, (uint64_t)(w * STEPS + i)) + (r ? 0 : slow_ms)), 0);
      p[r] = ct__slow_stats_of(&window);
      share[r] = 1;
    }
    judge(p, ranks);
    for (int r = 0; r < ranks; r++) {
      in_a_row[r] = slow[r] ? in_a_row[r] + 1 : 0;
      n += in_a_row[r] >= 2;
    }
  }
  return n;
}

static void lasting_noise_names_nobody(void)
{
  static const int ranks[] = {2, 3, 4, 7, 8, 16, 64};
  for (size_t k = 0; k < sizeof ranks / sizeof ranks[0]; k++) {
    CT_ASSERT_INT(alarms(ranks[k], 0), 0);
    CU_ASSERT(alarms(ranks[k], 15) > 50);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(outliers_do_not_count),
                                    CT_TEST(what_comes_again_and_again_does),
                                    CT_TEST(error_is_that_of_a_trimmed_mean),
                                    CT_TEST(few_steps_tell_nothing),
                                    CT_TEST(long_windows_are_looked_at_from_end_to_end),
                                    CT_TEST(one_slow_rank_is_found),
                                    CT_TEST(equal_ranks_are_not),
                                    CT_TEST(half_of_the_ranks_may_be_slow),
                                    CT_TEST(margins),
                                    CT_TEST(larger_parts_may_take_longer),
                                    CT_TEST(the_reason),
                                    CT_TEST(recorded_noise_names_nobody),
                                    CT_TEST(lasting_noise_names_nobody),
                                    CT_TEST_END};
  return ct_test_main("pace", tests, argc, argv);
}
