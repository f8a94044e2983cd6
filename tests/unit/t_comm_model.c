/* What collective calls cost: rounds and bytes, the line through points, the size of a bucket. */
#include <math.h>
#include <string.h>

#include "bench/comm_output.h"
#include "base/ct_err.h"
#include "comm/ct_comm_model.h"
#include "tests/harness/ct_test.h"

static void rounds_and_bytes(void)
{
  static const struct {
    ct_comm_call_t call;
    ct_comm_algorithm_t a;
    int ranks;
    double rounds, volume;
  } row[] = {{CT_COMM_ALL_REDUCE, CT_COMM_RING, 4, 6, 1.5},
             {CT_COMM_ALL_REDUCE, CT_COMM_EXCHANGE, 3, 4, 4. / 3},
             {CT_COMM_ALL_REDUCE, CT_COMM_HALVING, 8, 6, 1.75},
             {CT_COMM_ALL_REDUCE, CT_COMM_HALVING, 3, 4, 3}, /* folded to 2 */
             {CT_COMM_ALL_REDUCE, CT_COMM_HALVING, 12, 8, 3.75},
             {CT_COMM_ALL_REDUCE, CT_COMM_HALVING, 1, 0, 0},
             {CT_COMM_REDUCE_SCATTER, CT_COMM_RING, 4, 3, 0.75},
             {CT_COMM_ALL_GATHER, CT_COMM_HALVING, 4, 2, 0.75},
             {CT_COMM_BROADCAST, CT_COMM_RING, 4, 5, 1.5}};
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    ct_comm_cost_t c = ct_comm_cost(row[i].call, row[i].a, row[i].ranks);
    CT_ASSERT_NEAR(c.rounds, row[i].rounds, 0);
    CT_ASSERT_NEAR(c.volume, row[i].volume, 1e-12);
  }
  CT_ASSERT_NEAR(ct_comm_bus_factor(CT_COMM_ALL_REDUCE, 4), 1.5, 1e-12);
  CT_ASSERT_NEAR(ct_comm_bus_factor(CT_COMM_ALL_GATHER, 4), 0.75, 1e-12);
  CT_ASSERT_NEAR(ct_comm_bus_factor(CT_COMM_BROADCAST, 4), 1, 0);
}

static void folding_is_avoided(void)
{
  for (int n = 2; n <= 16; n++)
    CT_ASSERT_INT(ct_comm_algorithm(n, 1 << 20), n & (n - 1) ? CT_COMM_EXCHANGE : CT_COMM_HALVING);
  CT_ASSERT_INT(ct_comm_algorithm(3, 3 * CT_COMM_MESSAGE), CT_COMM_EXCHANGE);
  CT_ASSERT_INT(ct_comm_algorithm(3, 3 * CT_COMM_MESSAGE - 4), CT_COMM_HALVING);
  CT_ASSERT_INT(ct_comm_algorithm(1000, 1 << 20), CT_COMM_HALVING);
}

/* Points on a line give it back. */
static void a_fit_finds_the_line(void)
{
  const ct_link_t link = {20e-6, 1.25e9};
  ct_link_point_t p[12];
  ct_link_t got;
  for (int i = 0; i < 12; i++) {
    ct_comm_cost_t cost = ct_comm_cost(CT_COMM_ALL_REDUCE, CT_COMM_RING, 2 + i % 3);
    double bytes = (double)(1024 << i);
    p[i] = (ct_link_point_t){cost, bytes, ct_link_time(&link, cost, bytes)};
  }
  CT_ASSERT_NEAR(ct_link_fit(p, 12, &got), 0, 1e-9);
  CT_ASSERT_NEAR(got.alpha_s, link.alpha_s, 1e-12);
  CT_ASSERT_NEAR(got.bytes_per_s / link.bytes_per_s, 1, 1e-9);
  p[11].seconds *= 2;
  CU_ASSERT(ct_link_fit(p, 12, &got) > 0.2);
}

/* What a line through the points would make negative is nothing. */
static void a_fit_stays_possible(void)
{
  ct_link_t got;
  const ct_comm_cost_t cost = {2, 1};
  const ct_link_point_t steep[] = {{cost, 1e3, 1e-6}, {cost, 1e6, 1e-2}};
  ct_link_fit(steep, 2, &got);
  CT_ASSERT_NEAR(got.alpha_s, 0, 0);
  CU_ASSERT(got.bytes_per_s > 0 && isfinite(got.bytes_per_s));
  const ct_link_point_t falling[] = {{cost, 1e3, 2e-3}, {cost, 1e6, 1e-3}};
  ct_link_fit(falling, 2, &got);
  CU_ASSERT(got.alpha_s > 0 && isinf(got.bytes_per_s));
  ct_link_fit(steep, 1, &got); /* one point: all is bandwidth */
  CT_ASSERT_NEAR(got.bytes_per_s, 1e9, 1);
}

/* `bench comm` of busy cores, where the large message was the quick one: a link without a rate. */
static void a_rate_not_seen_is_null(void)
{
  ct_bench_comm_row_t row[] = {
      {CT_COMM_ALL_REDUCE, "mpi", "node", CT_COMM_HALVING, 2, 1, 1024, 2e-5, 0},
      {CT_COMM_ALL_REDUCE, "mpi", "node", CT_COMM_HALVING, 2, 1, 4096, 1e-5, 0}};
  ct_topo_t topo = {0};
  topo.size = topo.local_size = 2;
  topo.nodes = 1;
  ct_bench_comm_t bench = {row, 2, 2};
  ct_str_t json = {0}, text = {0};
  CT_ASSERT_INT(ct_bench_comm_json(&topo, &bench, &json), CT_OK);
  CU_ASSERT(strstr(json.data, "\"alpha_s\"") != NULL);
  CU_ASSERT(strstr(json.data, "\"bytes_per_s\": null") != NULL);
  CT_ASSERT_INT(ct_bench_comm_text(&topo, &bench, &text), CT_OK);
  CU_ASSERT(strstr(text.data, "inf") == NULL);
  ct_str_clear(&json);
  ct_str_clear(&text);
}

static void a_bucket_is_a_balance(void)
{
  CT_ASSERT_INT(ct_comm_bucket(64 << 20, 1. / 64, 1 << 20), 1 << 20);
  CT_ASSERT_INT(ct_comm_bucket(64 << 20, 1. / 4, 1 << 20), 4 << 20);
  CT_ASSERT_INT(ct_comm_bucket(64 << 20, 0, 1 << 20), 1 << 18);
  CT_ASSERT_INT(ct_comm_bucket(64 << 20, 1e9, 1e12), 1 << 26);
  CT_ASSERT_INT(ct_comm_bucket(64 << 20, 0, INFINITY), 1 << 18); /* no number */
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(rounds_and_bytes),
                                    CT_TEST(folding_is_avoided),
                                    CT_TEST(a_fit_finds_the_line),
                                    CT_TEST(a_fit_stays_possible),
                                    CT_TEST(a_rate_not_seen_is_null),
                                    CT_TEST(a_bucket_is_a_balance),
                                    CT_TEST_END};
  return ct_test_main("comm_model", tests, argc, argv);
}
