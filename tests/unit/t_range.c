/* Ranges for eight bits: each method on distributions whose answer is known. */
#include "quant/ct_range.h"

#include <math.h>

#include "base/ct_rng.h"
#include "tests/harness/ct_test.h"

enum { N = 100000 };

static ct_range_t seen;
static float x[N];

/* A tenth of a thousandth of the numbers is far out. */
static void look(int positive)
{
  seen = (ct_range_t){0};
  for (int i = 0; i < N; i++) {
    x[i] = ct_rng_normal(2, CT_RNG_TEST, 0, (uint64_t)i);
    if (positive) x[i] = fabsf(x[i]);
  }
  for (int i = 0; i < N / 10000; i++)
    x[i] = positive || i % 2 ? 100 : -100;
  for (int i = 0; i < 2; i++)
    ct_range_widen(&seen, x + i * N / 2, N / 2);
  for (int i = 0; i < 2; i++)
    ct_range_count(&seen, x + i * N / 2, N / 2);
}

static void ends_are_the_extremes(void)
{
  float r[2];
  look(0);
  ct_range_choose(&seen, CT_RANGE_MINMAX, 0, r);
  CU_ASSERT(r[0] == -100 && r[1] == 100);
}

static void a_percentile_leaves_out_both_ends(void)
{
  float r[2];
  look(0);
  ct_range_choose(&seen, CT_RANGE_PERCENTILE, 99.9, r);
  CU_ASSERT(r[0] > -5 && r[0] < -2.5 && r[1] < 5 && r[1] > 2.5);
  ct_range_choose(&seen, CT_RANGE_PERCENTILE, 100, r);
  CU_ASSERT(r[0] == -100 && r[1] == 100);
  look(1);
  ct_range_choose(&seen, CT_RANGE_PERCENTILE, 99.9, r);
  CU_ASSERT(r[0] == 0 && r[1] < 6 && r[1] > 2.5);
}

static void entropy_cuts_off_what_is_far_out(void)
{
  float r[2];
  look(0);
  ct_range_choose(&seen, CT_RANGE_ENTROPY, 0, r);
  CU_ASSERT(r[0] == -r[1] && r[1] >= 3 && r[1] < 50);
  look(1);
  ct_range_choose(&seen, CT_RANGE_ENTROPY, 0, r);
  CU_ASSERT(r[0] == 0 && r[1] >= 3 && r[1] < 50);
}

/* Behind a ReLU half of the numbers are 0, and the others must not be cut off for their sake. */
static void zeros_do_not_decide_by_entropy(void)
{
  float r[2];
  for (int i = 0; i < N; i++)
    x[i] = i % 2 ? 0 : fabsf(ct_rng_normal(2, CT_RNG_TEST, 0, (uint64_t)i));
  seen = (ct_range_t){0};
  ct_range_widen(&seen, x, N);
  ct_range_count(&seen, x, N);
  ct_range_choose(&seen, CT_RANGE_ENTROPY, 0, r);
  CU_ASSERT(r[0] == 0 && r[1] > 3);
}

static void padding_does_not_count(void)
{
  float few[8] = {1, 2, 3, 4}, r[2];
  seen = (ct_range_t){0};
  ct_range_choose(&seen, CT_RANGE_PERCENTILE, 99, r);
  CU_ASSERT(r[0] == 0 && r[1] == 0);
  ct_range_widen(&seen, few, 8);
  ct_range_count(&seen, few, 8);
  ct_range_discount(&seen, 4);
  int64_t all = 0;
  for (int i = 0; i < CT_RANGE_BINS; i++)
    all += seen.bin[i];
  CT_ASSERT_INT(all, 4);
  CT_ASSERT_INT(seen.bin[0], 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(ends_are_the_extremes),
      CT_TEST(a_percentile_leaves_out_both_ends),
      CT_TEST(entropy_cuts_off_what_is_far_out),
      CT_TEST(zeros_do_not_decide_by_entropy),
      CT_TEST(padding_does_not_count),
      CT_TEST_END,
  };
  return ct_test_main("range", tests, argc, argv);
}
