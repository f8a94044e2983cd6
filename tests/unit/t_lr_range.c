/* The range test on curves whose answers can be worked out. */
#include <math.h>

#include "bench/ct_lr_range.h"
#include "tests/harness/ct_test.h"

static ct_lr_range_t r;

static void rates_grow_by_the_same_factor(void)
{
  CT_ASSERT_NEAR(ct_lr_rate(1e-4, 1, 0, 5), 1e-4, 1e-12);
  CT_ASSERT_NEAR(ct_lr_rate(1e-4, 1, 1, 5), 1e-3, 1e-9);
  CT_ASSERT_NEAR(ct_lr_rate(1e-4, 1, 4, 5), 1, 1e-9);
}

/* A mean of equal losses is that loss, from the first on. */
static void smoothing_begins_unbiased(void)
{
  r = (ct_lr_range_t){0};
  for (int i = 0; i < 5; i++)
    CT_ASSERT_INT(ct_lr_add(&r, 1e-3 * (i + 1), 2), 0);
  for (int i = 0; i < 5; i++)
    CT_ASSERT_NEAR(r.smooth[i], 2, 1e-12);
}

static void a_loss_that_only_rises_suggests_nothing(void)
{
  r = (ct_lr_range_t){0};
  for (int i = 0; i < 5; i++)
    CT_ASSERT_INT(ct_lr_add(&r, 1e-3 * (i + 1), 2 + i), 0);
  CT_ASSERT_NEAR(ct_lr_steepest(&r), 0, 0);
  CT_ASSERT_NEAR(ct_lr_tenth(&r), 0, 0);
}

/* A valley: smooth[] is set by hand, so that slopes are known. */
static void steepest_and_tenth(void)
{
  static const double curve[] = {4, 3.9, 3.5, 2, 1.5, 1.4, 3};
  r = (ct_lr_range_t){.n = 7, .least = 5};
  for (int i = 0; i < 7; i++) {
    r.rate[i] = ct_lr_rate(1e-6, 1, i, 7);
    r.smooth[i] = curve[i];
  }
  CT_ASSERT_NEAR(ct_lr_steepest(&r), 1e-3, 1e-9); /* 3.5 … 1.5 and 3.9 … 2 beside it */
  CT_ASSERT_NEAR(ct_lr_tenth(&r), 1e-2, 1e-9);
}

static void it_ends_where_the_loss_is_far(void)
{
  int i = 0, over = 0;
  r = (ct_lr_range_t){0};
  while (!over && i < 100)
    i++, over = ct_lr_add(&r, i, i < 20 ? 1 : 10); /* 10 - 9 * 0.9^k > 4 from k = 4 on */
  CT_ASSERT_INT(r.diverged, 1);
  CT_ASSERT_INT(i >= 23 && i <= 25, 1);
  r = (ct_lr_range_t){0};
  CT_ASSERT_INT(ct_lr_add(&r, 1, NAN), 1);
  CT_ASSERT_INT(r.diverged, 1);
  CT_ASSERT_INT(r.n, 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(rates_grow_by_the_same_factor),           CT_TEST(smoothing_begins_unbiased),
      CT_TEST(a_loss_that_only_rises_suggests_nothing), CT_TEST(steepest_and_tenth),
      CT_TEST(it_ends_where_the_loss_is_far),           CT_TEST_END};
  return ct_test_main("lr_range", tests, argc, argv);
}
