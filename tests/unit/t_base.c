/* Base layer: types, memory, random numbers, hashes, clock. */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "base/ct_text.h"
#include "base/ct_types.h"
#include "tests/harness/ct_test.h"

/* ---- types ---- */

static void shape_counts(void)
{
  ct_shape_t s = ct_shape(4, 64, 3, 32, 30);
  char buf[64], small[6];
  CT_ASSERT_INT(s.dtype, CT_F32);
  CT_ASSERT_INT(s.dim[4], 1);
  CT_ASSERT_INT(ct_shape_count(&s), 64 * 3 * 32 * 30);
  CT_ASSERT_INT(ct_shape_sample(&s), 3 * 32 * 30);
  CT_ASSERT_INT(ct_shape_bytes(&s), 4 * 64 * 3 * 32 * 30);
  CT_ASSERT_TEXT(ct_shape_text(&s, buf, sizeof buf), "64x3x32x30");
  CT_ASSERT_TEXT(ct_shape_text(&s, small, sizeof small), "64x3x");
}

static void shape_padding(void)
{
  ct_shape_t s = ct_shape(4, 2, 17, 5, 3), features = ct_shape(2, 2, 5), vector = ct_shape(1, 7);
  s.layout = CT_NHWC;
  CT_ASSERT_INT(ct_shape_padded(&s), 2 * 17 * 15);
  s.layout = CT_C8;
  CT_ASSERT_INT(ct_shape_padded(&s), 2 * 24 * 15);
  s.layout = CT_C16;
  s.dtype = CT_BF16;
  CT_ASSERT_INT(ct_shape_padded(&s), 2 * 32 * 15);
  CT_ASSERT_INT(ct_shape_bytes(&s), 2 * 2 * 32 * 15);
  CT_ASSERT_INT(ct_shape_count(&s), 2 * 17 * 15);
  s.dim[1] = 32; /* whole blocks */
  CT_ASSERT_INT(ct_shape_padded(&s), 2 * 32 * 15);
  s.layout = CT_C8;
  CT_ASSERT_INT(ct_shape_padded(&s), 2 * 32 * 15);
  features.layout = CT_C16;
  CT_ASSERT_INT(ct_shape_padded(&features), 2 * 16);
  vector.layout = CT_C16;
  CT_ASSERT_INT(ct_shape_padded(&vector), 7);
}

static void shape_overflow_saturates(void)
{
  ct_shape_t s = ct_shape(3, INT64_C(1) << 40, INT64_C(1) << 40, 2);
  CT_ASSERT_INT(ct_shape_count(&s), INT64_MAX);
  CU_ASSERT(ct_shape_bytes(&s) == SIZE_MAX);
  s.layout = CT_C16;
  CT_ASSERT_INT(ct_shape_padded(&s), INT64_MAX);
}

static void shape_same_ignores_type_and_layout(void)
{
  ct_shape_t a = ct_shape(3, 1, 2, 3), b = a, c = ct_shape(2, 1, 2), d = ct_shape(3, 1, 2, 4);
  b.dtype = CT_U8;
  b.layout = CT_NHWC;
  CU_ASSERT_TRUE(ct_shape_same(&a, &b));
  CU_ASSERT_FALSE(ct_shape_same(&a, &c));
  CU_ASSERT_FALSE(ct_shape_same(&a, &d));
}

static void dtype_names_and_sizes(void)
{
  static const struct {
    ct_dtype_t t;
    const char *name;
    int size;
  } all[] = {{CT_F32, "float32", 4}, {CT_BF16, "bfloat16", 2}, {CT_F16, "float16", 2},
             {CT_F64, "float64", 8}, {CT_U8, "uint8", 1},      {CT_I8, "int8", 1},
             {CT_I16, "int16", 2},   {CT_I32, "int32", 4},     {CT_I64, "int64", 8}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    CT_ASSERT_TEXT(ct_dtype_name(all[i].t), all[i].name);
    CT_ASSERT_INT(ct_dtype_size(all[i].t), all[i].size);
  }
  CT_ASSERT_TEXT(ct_dtype_name((ct_dtype_t)99), "unknown");
  CT_ASSERT_TEXT(ct_layout_name(CT_C16), "c16");
}

/* ---- memory ---- */

static int all_zero(const unsigned char *p, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (p[i]) return 0;
  return 1;
}

static void mem_is_aligned_zero_and_counted(void)
{
  static const size_t sizes[] = {0, 1, 63, 64, 65, 4095, 1 << 20, (4 << 20) - 1, 4 << 20, 5000001};
  int64_t live = ct_mem_live(), calls = ct_mem_calls();
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    unsigned char *p = ct_mem_alloc(sizes[i], "test");
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CT_ASSERT_INT((uintptr_t)p % 64, 0);
    if (sizes[i] >= 4 << 20) CT_ASSERT_INT((uintptr_t)p % (2 << 20), 0);
    CU_ASSERT_TRUE(all_zero(p, sizes[i]));
    memset(p, 0xFF, sizes[i]);
    CT_ASSERT_INT(ct_mem_live(), live + 1);
    ct_mem_free(p);
    p = ct_mem_alloc(sizes[i], "the same memory again");
    CU_ASSERT_TRUE(all_zero(p, sizes[i]));
    ct_mem_free(p);
  }
  ct_mem_free(NULL);
  CT_ASSERT_INT(ct_mem_live(), live);
  CT_ASSERT_INT(ct_mem_calls(), calls + 20);
}

static void mem_large_block_is_not_touched(void)
{
  size_t before = ct_mem_peak_rss();
  CU_ASSERT(before > 0);
  void *p = ct_mem_alloc((size_t)1 << 30, "test");
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  CU_ASSERT(ct_mem_peak_rss() < before + ((size_t)64 << 20));
  ct_mem_free(p);
}

static void mem_fails_on_request_and_when_too_large(void)
{
  int64_t live = ct_mem_live();
  ct_mem_fail_at(2);
  void *p = ct_mem_alloc(10, "first");
  CU_ASSERT_PTR_NOT_NULL(p);
  CU_ASSERT_PTR_NULL(ct_mem_alloc(3072, "the second"));
  CT_ASSERT_TEXT(ct_err_last()->text, "cannot allocate 3072 bytes (3.0 KiB) for the second");
  CT_ASSERT_INT(ct_err_last()->code, CT_ERR_NOMEM);
  void *q = ct_mem_alloc(10, "third");
  CU_ASSERT_PTR_NOT_NULL(q);
  CU_ASSERT_PTR_NULL(ct_mem_array(INT64_MAX, 8, "too many"));
  CT_ASSERT_HAS(ct_err_last()->text, "for too many");
  CU_ASSERT_PTR_NULL(ct_mem_array(-1, 8, "negative"));
  CU_ASSERT_PTR_NULL(ct_mem_alloc((size_t)1 << 60, "more than there is"));
  ct_mem_free(p);
  ct_mem_free(q);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void mem_grow_keeps_and_zeroes(void)
{
  int *v = NULL;
  int64_t cap = 0, live = ct_mem_live();
  CT_ASSERT_OK(ct_mem_grow((void **)&v, &cap, 3, sizeof *v));
  CU_ASSERT(cap >= 3);
  for (int i = 0; i < cap; i++)
    v[i] = i + 1;
  int64_t old = cap;
  CT_ASSERT_OK(ct_mem_grow((void **)&v, &cap, cap, sizeof *v));
  CT_ASSERT_INT(cap, old);
  CT_ASSERT_OK(ct_mem_grow((void **)&v, &cap, old + 1, sizeof *v));
  CT_ASSERT_INT(cap, 2 * old);
  CT_ASSERT_INT(v[old - 1], old);
  CT_ASSERT_INT(v[old], 0);
  int *same = v;
  ct_mem_fail_at(1);
  CT_ASSERT_FAILS(ct_mem_grow((void **)&v, &cap, 1000, sizeof *v), CT_ERR_NOMEM, "4000 bytes");
  CU_ASSERT_PTR_EQUAL(v, same);
  CT_ASSERT_INT(v[0], 1);
  CT_ASSERT_FAILS(ct_mem_grow((void **)&v, &cap, INT64_MAX, sizeof *v), CT_ERR_NOMEM, "");
  ct_mem_free(v);
  CT_ASSERT_INT(ct_mem_live(), live);
}

/* ---- random numbers and hashes ---- */

/* philox4x32 with 10 rounds, of kat_vectors in the Random123 distribution. */
static void philox_known_answers(void)
{
  static const struct {
    uint64_t seed, index;
    uint32_t sub, use, out[4];
  } kat[] = {
      {0, 0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {UINT64_MAX,
       UINT64_MAX,
       UINT32_MAX,
       UINT32_MAX,
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {0x299f31d0a4093822,
       0x85a308d3243f6a88,
       0x13198a2e,
       0x03707344,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (int k = 0; k < 3; k++) {
    uint32_t r[4];
    ct_rng_block(kat[k].seed, (ct_rng_use_t)kat[k].use, kat[k].sub, kat[k].index, r);
    for (int i = 0; i < 4; i++)
      CT_ASSERT_INT(r[i], kat[k].out[i]);
  }
  CU_ASSERT(ct_rng_u64(0, (ct_rng_use_t)0, 0, 0) == 0xe169c58d6627e8d5);
}

static void random_numbers_are_distributed(void)
{
  enum { N = 20000 };
  double mean = 0, nmean = 0, nvar = 0;
  for (uint64_t i = 0; i < N; i++) {
    float u = ct_rng_uniform(1, CT_RNG_TEST, 2, i), z = ct_rng_normal(1, CT_RNG_TEST, 3, i);
    CU_ASSERT(u >= 0 && u < 1);
    CU_ASSERT(isfinite(z));
    mean += u / N;
    nmean += z / N;
    nvar += z * z / N;
  }
  CT_ASSERT_NEAR(mean, 0.5, 0.01);
  CT_ASSERT_NEAR(nmean, 0, 0.03);
  CT_ASSERT_NEAR(nvar, 1, 0.05);
}

/* A word of 0, which comes once in 2^32, has no logarithm. */
static void normal_numbers_are_finite(void)
{
  const uint64_t index = 6697285289;
  uint32_t r[4];
  ct_rng_block(1, CT_RNG_TEST, 0, index, r);
  CT_ASSERT_INT(r[0], 0);
  CT_ASSERT_NEAR(fabs(ct_rng_normal(1, CT_RNG_TEST, 0, index)), 0, 7);
}

static void random_streams_differ(void)
{
  uint64_t a = ct_rng_u64(1, CT_RNG_TEST, 0, 5);
  CU_ASSERT(a == ct_rng_u64(1, CT_RNG_TEST, 0, 5));
  CU_ASSERT(a != ct_rng_u64(2, CT_RNG_TEST, 0, 5));
  CU_ASSERT(a != ct_rng_u64(1, CT_RNG_DATA, 0, 5));
  CU_ASSERT(a != ct_rng_u64(1, CT_RNG_TEST, 1, 5));
  CU_ASSERT(a != ct_rng_u64(1, CT_RNG_TEST, 0, 6));
}

static void hash_known_values(void)
{
  CU_ASSERT(ct_hash("", 0, 0) == 0x2D06800538D394C2); /* XXH3_64bits, tests of xxHash */
  CU_ASSERT(ct_hash("abc", 3, 0) == 0x78AF5F94892F3950);
  CU_ASSERT(ct_hash_text("abc", 0) == ct_hash("abc", 3, 0));
  CU_ASSERT(ct_hash_text("abc", 1) != ct_hash_text("abc", 0));
  CU_ASSERT(ct_hash_int(1, 0) != ct_hash_int(2, 0));
  CU_ASSERT(ct_hash_int(1, ct_hash_int(2, 0)) != ct_hash_int(2, ct_hash_int(1, 0)));
}

/* ---- clock ---- */

static void clock_runs(void)
{
  double a = ct_clock(), b = ct_clock();
  CU_ASSERT(a > 0 && b >= a);
  double since = ct_clock_since_exec();
  CU_ASSERT(since >= 0 && since < 300);
  usleep(30000); /* more than two ticks */
  CU_ASSERT(ct_clock_since_exec() > since);
}

static void clock_median(void)
{
  double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, one[] = {7};
  CU_ASSERT_EQUAL(ct_clock_median(odd, 3), 2);
  CU_ASSERT_EQUAL(ct_clock_median(even, 4), 2.5);
  CU_ASSERT_EQUAL(ct_clock_lower_median(even, 4), 2);
  CU_ASSERT_EQUAL(even[0], 1); /* sorted: the fastest is first */
  CU_ASSERT_EQUAL(even[3], 4);
  CU_ASSERT_EQUAL(ct_clock_median(one, 1), 7);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(shape_counts),
                                    CT_TEST(shape_padding),
                                    CT_TEST(shape_overflow_saturates),
                                    CT_TEST(shape_same_ignores_type_and_layout),
                                    CT_TEST(dtype_names_and_sizes),
                                    CT_TEST(mem_is_aligned_zero_and_counted),
                                    CT_TEST(mem_large_block_is_not_touched),
                                    CT_TEST(mem_fails_on_request_and_when_too_large),
                                    CT_TEST(mem_grow_keeps_and_zeroes),
                                    CT_TEST(philox_known_answers),
                                    CT_TEST(random_numbers_are_distributed),
                                    CT_TEST(normal_numbers_are_finite),
                                    CT_TEST(random_streams_differ),
                                    CT_TEST(hash_known_values),
                                    CT_TEST(clock_runs),
                                    CT_TEST(clock_median),
                                    CT_TEST_END};
  return ct_test_main("base", tests, argc, argv);
}
