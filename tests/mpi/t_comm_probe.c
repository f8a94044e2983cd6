/* What all-reduces take here: the same for all ranks, and found out soon where they are slow. */
#include <math.h>
#include <time.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "comm/ct_agree.h"
#include "comm/ct_comm_probe.h"
#include "tests/harness/ct_test_mpi.h"
#include "tests/mpi/comm_rig.h"

static int calls;
static ct_comm_ops_t slow;

/* A tenth of a second more, on the last rank. */
static int reduce_slowly(ct_comm_t *c, ct_event_t *after, float *buf, int64_t n, ct_reduce_t how,
                         int *ticket)
{
  const struct timespec while_away = {.tv_nsec = 100000000};
  calls++;
  if (t->rank == t->size - 1) nanosleep(&while_away, NULL);
  return ops->reduce(c, after, buf, n, how, ticket);
}

static void expect_alike(const ct_comm_probe_t *p)
{
  const double number[] = {p->link.alpha_s, p->link.bytes_per_s, p->seconds, p->sizes};
  CT_ASSERT_OK(ct_agree_same(t, "the probe", ct_hash(number, sizeof number, 0)));
}

static void the_same_on_all_ranks(void)
{
  static const ct_comm_opts_t with[] = {{0}, {.flat = 1}};
  for (int i = 0; i < 2; i++) {
    ct_comm_probe_t p;
    CT_ASSERT_OK(ct_comm_probe(ops, t, be, dev, &with[i], &p));
    CU_ASSERT(p.sizes >= 2 && p.sizes <= 3);
    CU_ASSERT(p.link.alpha_s >= 0 && p.link.bytes_per_s > 0 && p.seconds > 0);
    expect_alike(&p);
  }
}

static void slow_ones_are_few(void)
{
  ct_comm_probe_t p;
  slow = *ops;
  slow.reduce = reduce_slowly;
  calls = 0;
  CT_ASSERT_OK(ct_comm_probe(&slow, t, be, dev, &(ct_comm_opts_t){0}, &p));
  CT_ASSERT_INT(p.sizes, 2);
  CU_ASSERT(calls >= 3 && calls <= 9);
  CU_ASSERT(p.link.alpha_s >= 0.05); /* of the slowest rank */
  expect_alike(&p);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_same_on_all_ranks), CT_TEST(slow_ones_are_few),
                                    CT_TEST_END};
  return rig_main("comm_probe", tests, argc, argv);
}
