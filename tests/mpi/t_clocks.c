/* Clocks of nodes that are one: their difference is none, within the bound that is told; parts of
 * any size from all ranks. */
#include <math.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_clocks.h"
#include "comm/ct_mpi.h"
#include "tests/harness/ct_test_mpi.h"

#define topo (&ct_test_topo)

static void one_clock_is_one(void)
{
  ct_clock_offset_t at;
  double begin = ct_clock();
  /* Its first rank is asked for all of a node, perhaps before another one's begin. */
  ct_mpi_barrier(topo, topo->world);
  ct_clocks_measure(topo, &at);
  CU_ASSERT(at.at_s >= begin && at.at_s <= ct_clock());
  CU_ASSERT(at.bound_s >= 0 && at.bound_s < 1);
  CU_ASSERT(fabs(at.offset_s) <= at.bound_s + 1e-9);
  if (topo->node_index > 0) CU_ASSERT(at.bound_s > 0);
  if (topo->node_index == 0) CT_ASSERT_NEAR(at.offset_s, 0, 0);
}

static void between_two_measurements(void)
{
  const ct_clock_offset_t at[2] = {{100, 5, 1e-6}, {200, 6, 1e-6}};
  CT_ASSERT_NEAR(ct_clocks_convert(at, 100), 105, 1e-12);
  CT_ASSERT_NEAR(ct_clocks_convert(at, 150), 155.5, 1e-12);
  CT_ASSERT_NEAR(ct_clocks_convert(at, 200), 206, 1e-12);
  const ct_clock_offset_t once[2] = {{100, 5, 1e-6}, {100, 5, 1e-6}};
  CT_ASSERT_NEAR(ct_clocks_convert(once, 130), 135, 1e-12);
}

/* What rank 0 got so far: rank r sends 70000 r bytes of its number. */
typedef struct got {
  int rank;
  size_t bytes;
  int wrong;
} got_t;

static void take(void *ctx, int rank, const void *data, size_t bytes)
{
  got_t *g = ctx;
  const char *p = data;
  if (rank != g->rank) {
    g->wrong += rank != g->rank + 1 || g->bytes != 70000 * (size_t)g->rank;
    g->rank = rank;
    g->bytes = 0;
  }
  for (size_t i = 0; i < bytes; i++)
    g->wrong += p[i] != rank;
  g->bytes += bytes;
}

static void parts_come_in_order(void)
{
  got_t g = {0};
  size_t bytes = 70000 * (size_t)topo->rank;
  char *mine = ct_mem_alloc(bytes + 1, "what is sent");
  memset(mine, topo->rank, bytes);
  ct_agree_each(topo, mine, bytes, take, &g);
  CT_ASSERT_INT(g.wrong, 0);
  CT_ASSERT_INT(g.rank, topo->rank == 0 ? topo->size - 1 : 0);
  CT_ASSERT_INT(g.bytes, topo->rank == 0 ? 70000 * (topo->size - 1) : 0);
  ct_mem_free(mine);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(one_clock_is_one), CT_TEST(between_two_measurements),
                                    CT_TEST(parts_come_in_order), CT_TEST_END};
  return ct_test_mpi_main("clocks", tests, argc, argv);
}
