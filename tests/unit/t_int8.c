/* Which of the 256 numbers stands for a number, and that weights of eight bits stay the same. */
#include "backend/ct_int8.h"

#include <math.h>
#include <string.h>

#include "base/ct_rng.h"
#include "tests/harness/ct_test.h"

static void a_range_of_positive_numbers_begins_at_zero(void)
{
  ct_quant_params_t p = ct_quant_params_of(0.5, 51);
  CU_ASSERT_EQUAL(p.zero, 0);
  CU_ASSERT(fabs(p.scale - 0.2) < 1e-7);
  CU_ASSERT_EQUAL(ct_quant_to_u8(&p, 51), 255);
  CU_ASSERT_EQUAL(ct_quant_to_u8(&p, 99), 255);
  CU_ASSERT_EQUAL(ct_quant_to_u8(&p, -1), 0);
  CU_ASSERT_EQUAL(ct_quant_to_u8(&p, 1), 5);
}

static void zero_is_a_number_of_every_pair(void)
{
  const double range[][2] = {{-1, 1}, {-3, 0.1}, {-0.001, 7}, {0, 0}, {-5, -2}, {3, 3}};
  for (int i = 0; i < 6; i++) {
    ct_quant_params_t p = ct_quant_params_of(range[i][0], range[i][1]);
    CU_ASSERT(p.scale > 0 && p.zero >= 0 && p.zero <= 255);
    CU_ASSERT(ct_quant_from_u8(&p, ct_quant_to_u8(&p, 0)) == 0);
    for (int q = 0; q < 256; q++)
      CU_ASSERT_EQUAL(ct_quant_to_u8(&p, ct_quant_from_u8(&p, (uint8_t)q)), q);
  }
}

static void weights_of_eight_bits_come_back_the_same(void)
{
  enum { CHANNELS = 64, EACH = 90 };
  float w[CHANNELS * EACH], scale[CHANNELS], again[CHANNELS];
  int8_t q[CHANNELS * EACH], p[CHANNELS * EACH];
  for (int i = 0; i < CHANNELS * EACH; i++) {
    int c = i / EACH;
    w[i] = c == 5 ? 0 : ct_rng_normal(1, CT_RNG_TEST, 0, (uint64_t)i) * expf((float)c - 40);
  }
  ct_quant_weights(CHANNELS, EACH, w, q, scale);
  CU_ASSERT(scale[5] == 1);
  ct_quant_weights_back(CHANNELS, EACH, q, scale, w);
  ct_quant_weights(CHANNELS, EACH, w, p, again);
  CU_ASSERT_EQUAL(memcmp(q, p, sizeof q), 0);
  for (int c = 0; c < CHANNELS; c++)
    CU_ASSERT(fabsf(again[c] / scale[c] - 1) < 1e-6F);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(a_range_of_positive_numbers_begins_at_zero),
      CT_TEST(zero_is_a_number_of_every_pair),
      CT_TEST(weights_of_eight_bits_come_back_the_same),
      CT_TEST_END,
  };
  return ct_test_main("int8", tests, argc, argv);
}
