/* The next token: what may be drawn is what transformers draws from, and the draw depends on
 * nothing but seed, sequence and place. */
#include <math.h>
#include <string.h>

#include "generate/ct_sample.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/sample_gold.h"

static void distributions_are_those_of_transformers(void)
{
  ct_candidate_t c[V];
  for (size_t i = 0; i < sizeof gold / sizeof *gold; i++) {
    const ct_sample_opts_t o = {gold[i].temperature, gold[i].top_k, gold[i].top_p, 0};
    double p[V] = {0};
    int64_t n = ct_sample_filter(&o, logits, V, c), want = 0;
    for (int64_t k = 0; k < n; k++)
      p[c[k].id] += c[k].p;
    for (int k = 0; k < V; k++) {
      want += gold[i].p[k] > 0;
      CT_ASSERT_NEAR(p[k], gold[i].p[k], 1e-7);
    }
    CT_ASSERT_INT(n, want);
  }
}

static void temperature_0_takes_the_first_of_the_highest(void)
{
  const float equal[] = {1, 3, 2, 3}, nan[] = {NAN, -1, 0, NAN}, none[] = {NAN, NAN};
  const ct_sample_opts_t o = {.temperature = 0, .top_k = 2, .top_p = 0.5};
  ct_candidate_t c[4];
  CT_ASSERT_INT(ct_sample(&o, equal, 4, 0, 0, c), 1);
  CT_ASSERT_INT(ct_sample(&o, nan, 4, 0, 0, c), 2);
  CT_ASSERT_INT(ct_sample(&o, none, 2, 0, 0, c), 0);
}

/* Of many tokens, with equal ones: the k-th and those equal to it stay, in every order. */
static void top_k_of_many(void)
{
  enum { MANY = 3000 };
  static float many[MANY];
  static ct_candidate_t c[MANY];
  const ct_sample_opts_t o = {.temperature = 1, .top_k = 100, .top_p = 1};
  for (int i = 0; i < MANY; i++)
    many[i] = (float)(i * 7919 % 100); /* 30 of each value */
  int64_t n = ct_sample_filter(&o, many, MANY, c);
  CT_ASSERT_INT(n, 120);
  for (int64_t i = 0; i < n; i++)
    CU_ASSERT(many[c[i].id] >= 96);
  const ct_sample_opts_t p = {.temperature = 1e9, .top_p = 0.5};
  CT_ASSERT_INT(ct_sample_filter(&p, many, MANY, c), MANY / 2);
}

/* 20000 draws, with the frequencies of the distribution; again with the same result. */
static void draws_follow_the_distribution(void)
{
  enum { DRAWS = 20000 };
  const ct_sample_opts_t o = {.temperature = 0.7, .top_p = 1, .seed = 42};
  ct_candidate_t c[V];
  int64_t count[V] = {0};
  double chi = 0;
  for (int i = 0; i < DRAWS; i++)
    count[ct_sample(&o, logits, V, (uint32_t)(i % 4), i / 4, c)]++;
  for (int k = 0; k < V; k++) {
    double want = DRAWS * gold[1].p[k];
    chi += ((double)count[k] - want) * ((double)count[k] - want) / want;
  }
  CU_ASSERT(chi < 80); /* 39 degrees of freedom */
  const ct_sample_opts_t other = {.temperature = 0.7, .top_p = 1, .seed = 43};
  int same = 0;
  for (int i = 0; i < 200; i++) {
    int64_t id = ct_sample(&o, logits, V, 3, i, c);
    CT_ASSERT_INT(ct_sample(&o, logits, V, 3, i, c), id);
    same += ct_sample(&o, logits, V, 4, i, c) == id && ct_sample(&other, logits, V, 3, i, c) == id;
  }
  CU_ASSERT(same < 100);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(distributions_are_those_of_transformers),
                                    CT_TEST(temperature_0_takes_the_first_of_the_highest),
                                    CT_TEST(top_k_of_many), CT_TEST(draws_follow_the_distribution),
                                    CT_TEST_END};
  return ct_test_main("sample", tests, argc, argv);
}
