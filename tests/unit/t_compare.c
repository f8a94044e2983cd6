/* The harness's comparison of arrays, on which the other tests rely. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/ct_test.h"

static void finite_numbers(void)
{
  static const float want[] = {1, -2, 100, 0}, got[] = {1.5f, -2, 99, -0.0f};
  static const double far[] = {1e300, 2}, near[] = {1e300, 2.25};
  ct_test_off_t off = ct_test_off(got, want, 4);
  CT_ASSERT_INT(off.at, 2);
  CU_ASSERT(off.most == 1);
  off = ct_test_off_rel(got, want, 4);
  CT_ASSERT_INT(off.at, 0);
  CU_ASSERT(off.most == 0.5);
  off = ct_test_off_double(near, far, 2);
  CT_ASSERT_INT(off.at, 1);
  CU_ASSERT(off.most == 0.25);
}

static void the_first_of_equal_differences_is_named(void)
{
  static const float want[] = {0, 0, 0, 0}, got[] = {0, -3, 3, 1};
  CT_ASSERT_INT(ct_test_off(got, want, 4).at, 1);
}

static void equal_and_empty_arrays(void)
{
  static const float a[] = {1, INFINITY, -INFINITY, -0.0f}, b[] = {1, INFINITY, -INFINITY, 0};
  ct_test_off_t off = ct_test_off(a, b, 4);
  CT_ASSERT_INT(off.at, -1);
  CU_ASSERT(off.most == 0);
  off = ct_test_off_rel(a, b, 4);
  CT_ASSERT_INT(off.at, -1);
  CU_ASSERT(off.most == 0);
  off = ct_test_off(NULL, NULL, 0);
  CT_ASSERT_INT(off.at, -1);
  CU_ASSERT(off.most == 0);
}

/* First, in the middle, last; among numbers that differ by less, before and behind it. */
static void what_is_not_finite_differs_wherever_it_stands(void)
{
  enum { N = 5 };
  static const float pairs[][2] = {
      {NAN, 1},          {1, NAN},       {NAN, NAN},     {INFINITY, 1},
      {3e38f, INFINITY}, {-INFINITY, 0}, {1, -INFINITY}, {INFINITY, -INFINITY},
      {NAN, INFINITY},   {INFINITY, NAN}};
  for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
    for (int at = 0; at < N; at++) {
      float got[N] = {1, 2, 3, 4, 5}, want[N] = {1.5f, 2.5f, 3, 3.5f, 4.5f};
      double wide_got[N], wide_want[N];
      got[at] = pairs[k][0];
      want[at] = pairs[k][1];
      for (int i = 0; i < N; i++) {
        wide_got[i] = got[i];
        wide_want[i] = want[i];
      }
      ct_test_off_t off[] = {ct_test_off(got, want, N), ct_test_off_rel(got, want, N),
                             ct_test_off_double(wide_got, wide_want, N)};
      for (int i = 0; i < 3; i++) {
        CT_ASSERT_INT(off[i].at, at);
        CU_ASSERT(off[i].most == INFINITY);
      }
    }
  }
}

/* ---- the assertions ---- */

static const float two[] = {1, 2}, nearly[] = {1.25f, 2}, not_all[] = {NAN, 2};
static const double two_wide[] = {1, 2}, not_all_wide[] = {1, NAN};

static void near_enough(void)
{
  CT_ASSERT_ARRAY(nearly, two, 2, 0.25);
  CT_ASSERT_ARRAY_REL(nearly, two, 2, 0.25);
  CT_ASSERT_DOUBLES(two_wide, two_wide, 2, 0);
  CT_ASSERT_NEAR(INFINITY, INFINITY, 0);
}

static void array(void)
{
  CT_ASSERT_ARRAY(nearly, two, 2, 0.24);
}

static void array_nan(void)
{
  CT_ASSERT_ARRAY(not_all, two, 2, 1e30);
}

static void array_rel(void)
{
  CT_ASSERT_ARRAY_REL(not_all, two, 2, INFINITY);
}

static void doubles(void)
{
  CT_ASSERT_DOUBLES(not_all_wide, two_wide, 2, 0);
}

static void near_nan(void)
{
  CT_ASSERT_NEAR(NAN, 1, INFINITY);
}

static void near_infinity(void)
{
  CT_ASSERT_NEAR(1, INFINITY, INFINITY);
}

static void tolerance_nan(void)
{
  CT_ASSERT_NEAR(1, 2, NAN);
}

/* In a process of its own, whose failed assertions are not this program's. */
static int fails(void (*assertion)(void))
{
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    unsigned before = CU_get_number_of_failures();
    assertion();
    _exit(CU_get_number_of_failures() != before);
  }
  CT_ASSERT_INT(waitpid(child, &status, 0), child);
  CU_ASSERT(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void assertions_fail_where_they_should(void)
{
  static void (*const failing[])(void) = {array,    array_nan,     array_rel,    doubles,
                                          near_nan, near_infinity, tolerance_nan};
  near_enough();
  CT_ASSERT_INT(fails(near_enough), 0);
  for (size_t i = 0; i < sizeof failing / sizeof *failing; i++)
    CT_ASSERT_INT(fails(failing[i]), 1);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(finite_numbers),
                                    CT_TEST(the_first_of_equal_differences_is_named),
                                    CT_TEST(equal_and_empty_arrays),
                                    CT_TEST(what_is_not_finite_differs_wherever_it_stands),
                                    CT_TEST(assertions_fail_where_they_should),
                                    CT_TEST_END};
  return ct_test_main("comparison of arrays", tests, argc, argv);
}
