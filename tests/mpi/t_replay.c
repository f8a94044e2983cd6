/* train.replay_every: a step whose forward and backward run twice does what it does without; a bit
 * that differs in one of the two runs is found, and named, on all ranks; nobody waits for a rank
 * that fails in either run. */
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_fault.h"
#include "tests/mpi/flaky.h"
#include "tests/mpi/trainer_rig.h"

static const ct_topo_t *topo = &ct_test_topo;
static const char *const orders[] = {"inline", "late", "random:1"};
enum { ORDERS = sizeof orders / sizeof *orders, WAYS = 8 };

static rig_opts_t way(int i, int64_t every)
{
  ct_step_opts_t s = {.replay_every = every};
  rig_opts_t o = {.model = rig_norm};
  if (i == 0) o.model = rig_plain;
  if (i == 2) s.sync_bn = topo->size;
  if (i == 3) s.micro_batches = 2;
  if (i == 4) s.micro_batches = 4, o.model = rig_plain;
  if (i == 4) s.fixed_order = (topo->size & (topo->size - 1)) == 0; /* as shards of ranks */
  if (i == 5) s.zero = 1;
  if (i == 6) s.compute = CT_BF16;
  if (i == 7) s.sync_bn = topo->size, s.micro_batches = 2; /* statistics move between the two */
  o.step_opts = s;
  o.max_batch = 8;
  return o;
}

/* Runs four steps, of which the second leaves most ranks without samples. */
static uint64_t four_steps(const rig_opts_t *o, double *loss)
{
  rig_t r;
  const int global[] = {3 * topo->size, 1, 2 * topo->size + 1, 3 * topo->size};
  rig_start(&r, o);
  for (int k = 0; k < 4; k++)
    loss[k] = rig_step(&r, k, global[k]);
  uint64_t hash = rig_snapshot(&r, &(ct_position_t){0}, 1);
  rig_close(&r);
  return hash;
}

static void a_step_twice_changes_nothing(void)
{
  for (int i = 0; i < WAYS * ORDERS; i++) {
    double once[4], twice[4];
    rig_opts_t o = way(i / ORDERS, 0), replayed = way(i / ORDERS, 1 + i % 2);
    o.order = replayed.order = orders[i % ORDERS];
    CU_ASSERT(four_steps(&o, once) == four_steps(&replayed, twice));
    for (int k = 0; k < 4; k++)
      CT_ASSERT_NEAR(twice[k], once[k], 0);
  }
}

/* Sets the fault points of this rank. */
static void order_fault(const char *list)
{
  setenv("CTRAIN_FAULTS", list, 1);
  ct_fault_setup(topo->rank);
  unsetenv("CTRAIN_FAULTS");
}

/* The bit flips in run 1 or 2 of the second step, in the first or last of the micro-batches. */
static void a_flipped_bit_is_found(void)
{
  for (int i = 0; i < WAYS * ORDERS; i++) {
    for (int nth = 0; nth < 4; nth++) {
      rig_t r;
      ct_step_status_t out = {0};
      char list[64];
      int bad = nth % 2 ? 0 : rig_last_rank();
      rig_opts_t o = way(i / ORDERS, 2);
      int pieces = o.step_opts.micro_batches ? o.step_opts.micro_batches : 1;
      o.order = orders[i % ORDERS];
      (void)snprintf(list, sizeof list, "step.corrupt@%d:%d", bad, nth % 2 * pieces + nth / 2 + 1);
      if (nth / 2 >= pieces) continue;
      rig_start(&r, &o);
      rig_step(&r, 0, 4 * topo->size);
      order_fault(list);
      rig_load(&r, 1, 4 * topo->size);
      int rc = rig_run(&r, &out);
      order_fault("");
      rig_told(rc, CT_ERR_DEVICE, bad, "step 2 computed twice from the same state");
      if (pieces == 1) rig_told(rc, CT_ERR_DEVICE, bad, "): 1 of "); /* else the sum differs too */
      rig_told(rc, CT_ERR_DEVICE, bad,
               o.model == rig_plain ? "gradient of linear2." : "gradient of last.");
      rig_close(&r);
    }
  }
}

/* Any call of the step may fail, in either run. */
static void either_run_may_fail(void)
{
  static const flaky_call_t calls[] = {FLAKY_COPY, FLAKY_RUN, FLAKY_SYNC};
  for (int i = 0; i < 6; i++) {
    rig_t r;
    rig_opts_t o = way(i / 3 * 2, 1); /* alone, and with SyncBN */
    int told = 0;
    rig_start(&r, &o);
    for (int nth = 1; nth < 200; nth++) {
      ct_step_status_t out = {0};
      flaky_clear();
      if (topo->rank == rig_last_rank()) flaky_order(calls[i % 3], FLAKY_ANY, nth);
      rig_load(&r, 1, 3 * topo->size);
      int rc = rig_run(&r, &out);
      if (rc == CT_OK) break;
      rig_told(rc, CT_ERR_DEVICE, rig_last_rank(), "the device broke");
      told++;
    }
    CU_ASSERT(told > 5 && told < 199);
    if (i < 3) rig_goes_on(&r);
    flaky_clear();
    rig_close(&r);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_step_twice_changes_nothing),
                                    CT_TEST(a_flipped_bit_is_found), CT_TEST(either_run_may_fail),
                                    CT_TEST_END};
  return ct_test_mpi_main("replay", tests, argc, argv);
}
